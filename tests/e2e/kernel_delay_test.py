"""A real kernel that trains BERT-large with an emulated node that delays every all-reduce, in virtual time: times and rises within the limits
of tools/experiments/delay_study, with buckets and links a thousandth of the true ones."""

import subprocess
import sys
import unittest
from pathlib import Path

import stage


class KernelDelay(unittest.TestCase):
    def test_a_kernel_that_computes_takes_what_packets_say(self):
        delays = ("--delays", "0,1000,4000,16000") if stage.ALL else ("--delays", "0,8000,16000")
        done = subprocess.run([stage.ROOT / "tools/experiments/delay_study", "--build", BUILD, "--ways", "kernel", "--scale", "1000",
                               "--iterations", "1", *delays], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("39 exposed", done.stdout)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    stage.skip_without_guests()
    unittest.main()
