"""tools/fabric_report in short: one link rate in both directions and one latency, as perftest and ping measure them."""

import subprocess
import sys

import stage


class Fabric(stage.Stage):
    def test_measures_and_every_capture_holds(self):
        done = subprocess.run(
            [sys.executable, str(stage.ROOT / "tools/fabric_report"), "--understudy", str(self.understudy), "--roce-check",
             str(self.build / "tools/roce_check/roce-check"), "--out", str(self.folder / "out"), "--repeat", "3", "--rates",
             "100", "--latencies", "20"], capture_output=True, text=True, check=False)
        print(done.stdout)
        # How near the figures come is a matter of the machine's other work; that the program measured all of them, and
        # that every capture of every run holds, is not.
        judged = [line for line in done.stdout.splitlines() if "| emulator |" in line or "| virtual node |" in line]
        self.assertEqual(len(judged), 6, done.stdout + done.stderr)
        for line in judged:
            self.assertTrue(line.endswith("| yes |"), line + "\n" + done.stderr)


if __name__ == "__main__":
    stage.main()
