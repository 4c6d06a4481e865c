"""SIGINT and SIGTERM end a run in the midst of an operation: capture and report are complete up to there."""

import re
import signal
import time
from pathlib import Path

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

    def test_what_it_may_do(self):
        """Once it is ready, as root, too: files of others, and the helper binds low ports."""
        emulator = self.start(self.ring(sizes='["4KiB"]', iterations=1, idle="sleep"))
        children = Path(f"/proc/{emulator.process.pid}/task/{emulator.process.pid}/children").read_text().split()
        self.assertEqual(len(children), 1)
        for process, may in ((emulator.process.pid, 1 << 1), (children[0], 1 << 10)):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with self.subTest(thread=(thread / "comm").read_text().strip(), may=may):
                    permitted, = re.findall(r"CapPrm:\t(\w+)", (thread / "status").read_text())
                    self.assertEqual(int(permitted, 16) & ~may, 0)
        self.play(self.join())
        self.assertIn(emulator.wait(60), (0, stage.NOT_FAITHFUL))
        self.valid_report(emulator)
        self.assert_holds(emulator.capture)

    @stage.only_in_full
    def test_interrupt(self):
        self.check(signal.SIGINT, "SIGINT")

    def test_terminate(self):
        self.check(signal.SIGTERM, "SIGTERM")


if __name__ == "__main__":
    stage.main()
