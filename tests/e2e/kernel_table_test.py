"""Rings of two and four real kernels in virtual time against one real kernel with emulated nodes: results right, times within the limits
of tools/experiments/kernel_table; and the same times when they run again."""

import subprocess
import sys
import unittest
from pathlib import Path

import stage


class KernelTable(unittest.TestCase):
    def table(self, *arguments):
        done = subprocess.run([stage.ROOT / "tools/experiments/kernel_table", "--build", BUILD, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines()[1:-1]]

    def test_errors_are_within_the_limits(self):
        if stage.ALL:
            self.assertEqual(len(self.table("--quick")), 10)  # five cases of two sizes
            return
        arguments = ("--quick", "--nodes", "2", "--case", "skew", "--iterations", "1")
        rows = self.table(*arguments)
        self.assertEqual(len(rows), 2)
        self.assertEqual(self.table(*arguments), rows, "two runs differ")

    @stage.only_in_full
    def test_a_limit_can_be_missed(self):
        done = subprocess.run([stage.ROOT / "tools/experiments/kernel_table", "--build", BUILD, "--quick", "--nodes", "2", "--case", "plain",
                               "--iterations", "1", "--slack", "0"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("beyond the limit", done.stdout)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    stage.skip_without_guests()
    unittest.main()
