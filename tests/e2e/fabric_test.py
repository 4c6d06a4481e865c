"""tools/experiments/fabric_report in short: one link rate in both directions and one latency, as perftest and ping measure them."""

import subprocess
import sys

import stage


class Fabric(stage.Stage):
    def test_rate_and_latency_are_as_configured(self):
        done = subprocess.run(
            [sys.executable, str(stage.ROOT / "tools/experiments/fabric_report"), "--understudy", str(self.understudy), "--roce-check",
             str(self.build / "tools/roce_check/roce-check"), "--out", str(self.folder / "out"), "--repeat", "3", "--rates",
             "100", "--latencies", "20"], capture_output=True, text=True, check=False)
        print(done.stdout)
        if done.returncode == stage.NOT_FAITHFUL:
            self.skipTest("too much else runs here: the runs were not faithful")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    stage.main()
