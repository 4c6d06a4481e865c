"""SIGINT and SIGTERM end a run in the midst of an operation: capture and report are complete up to there."""

import signal
import time

import stage


class Signals(stage.Stage):
    def check(self, number, name):
        emulator = self.start(self.ring(sizes='["4KiB", "4MiB"]', iterations=20, idle="sleep"))
        self.play(self.join())
        time.sleep(0.7)
        emulator.process.send_signal(number)
        self.assertEqual(emulator.wait(20), stage.NOT_FAITHFUL, emulator.log.read_text())
        report = self.valid_report(emulator)
        self.assertEqual(report["ended_by"], name)
        job = report["jobs"][0]
        self.assertLess(job["done"], job["planned"])
        self.assertTrue(any(f"ended by {name}" in reason for reason in report["verdict"]["reasons"]), report["verdict"])
        self.assertEqual(report["capture_drops"], 0)
        self.assert_holds(emulator.capture, "--open-end")

    def test_interrupt(self):
        self.check(signal.SIGINT, "SIGINT")

    def test_terminate(self):
        self.check(signal.SIGTERM, "SIGTERM")


if __name__ == "__main__":
    stage.main()
