"""The verdict bites: a run whose packet loop stood still for 50 ms is not faithful, and the report says when."""

import os
import signal
import time

import stage

STOPPED = 0.05
PS = 10**12


class Stall(stage.Stage):
    def test_a_stopped_dataplane_is_found_and_named(self):
        emulator = self.start(self.ring(sizes='["4KiB", "1MiB"]', iterations=10))
        node = self.join()
        player = self.play(node)
        time.sleep(0.7)
        os.kill(emulator.process.pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(emulator.process.pid, signal.SIGCONT)
        self.assertEqual(emulator.wait(60), stage.NOT_FAITHFUL)
        self.assertEqual(player.wait(30), 0)
        report = self.valid_report(emulator)
        self.assert_all_right(report)
        gaps = [gap for gap in report["loop"]["longest_gaps"] if gap["length_ps"] >= 0.98 * STOPPED * PS]
        hit = [c for c in report["jobs"][0]["collectives"] for gap in gaps if not c["faithful"] and not c["warmup"]
               and c["entry_ps"] - c["lateness_ps"] < gap["from_ps"] + gap["length_ps"]
               and gap["from_ps"] < c["entry_ps"] + c["measured_ps"]]
        self.assertTrue(hit, report["verdict"])
        told = [reason for reason in report["verdict"]["reasons"] if "1 MiB" in reason and "stood still for" in reason]
        self.assertTrue(told, report["verdict"])
        self.assertIn("NOT FAITHFUL", emulator.table.read_text())


if __name__ == "__main__":
    stage.main()
