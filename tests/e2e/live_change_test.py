"""A link's rate is halved in a run, by a command and by an option: the capture's packets show it at that time."""

import re
import statistics
import subprocess
import time

import stage

PS = 10**12
FULL = 4096  # only packets longer than this carry a whole MTU
WINDOW = PS  # how much of the capture on either side of the change is looked at


class LiveChange(stage.Stage):
    def ring_of_many(self, seconds=10):
        """That is not over so long after its start."""
        return self.ring(sizes='["4KiB", "1MiB"]', iterations=30 * seconds, idle="sleep")

    def assert_halved(self, emulator, at):
        """Scheduled times are the model's, so they tell exactly, however busy the machine is."""
        self.assertEqual(emulator.stop(), stage.NOT_FAITHFUL)  # the job was not done
        report = self.valid_report(emulator)
        self.assertEqual([command["at_ps"] for command in report["commands"]], [at])
        self.assertIn("link gpu rate 50", report["commands"][0]["text"])
        times = [t for t, length in stage.scheduled_packets(emulator.capture) if length > FULL]
        gaps = {t: t - last for last, t in zip(times, times[1:])}
        before = [gap for t, gap in gaps.items() if at - WINDOW < t <= at]
        packet = statistics.median(before)
        after = [gap for t, gap in gaps.items() if at + 2 * packet < t < at + WINDOW]
        self.assertGreater(min(len(before), len(after)), 100)
        # On the wire a full packet has preamble, gap and check sequence too: about 4,200 bytes.
        self.assertAlmostEqual(packet, 4200 * 8 * PS / 100e6, delta=0.01 * packet)
        self.assertAlmostEqual(statistics.median(after), 2 * packet, delta=0.001 * packet)
        self.assertGreaterEqual(min(before), 0.99 * packet)
        self.assertGreaterEqual(min(after), 1.99 * packet)

    def test_by_command(self):
        socket = self.folder / "control"
        emulator = self.start(self.ring_of_many(), "--control", str(socket))
        self.play(self.join())
        time.sleep(1)
        command = [str(self.understudy), "command", str(socket)]
        refused = subprocess.run([*command, "link nobody rate 1Gbit/s"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("nobody", refused.stderr)
        done = subprocess.run([*command, "link gpu rate 50Mbit/s"], capture_output=True, text=True, check=True)
        time.sleep(1.5)
        self.assert_halved(emulator, int(re.match(r"ok: at (\d+) ps: link gpu rate 50", done.stdout)[1]))

    @stage.only_in_full
    def test_by_option(self):
        for seconds in (10, 30, 90):  # the first try fails where the virtual node takes long to boot
            begin = time.monotonic()
            emulator = self.start(self.ring_of_many(seconds), "--at", f"{seconds}s link gpu rate 50Mbit/s")
            node = self.join()
            self.play(node)
            left = begin + seconds - time.monotonic()
            if left > 1:
                time.sleep(left + 1.5)
                self.assert_halved(emulator, seconds * PS)
                return
            emulator.stop()
            node.stop()
        self.fail("the virtual node's ring did not begin within 90 s")


if __name__ == "__main__":
    stage.main()
