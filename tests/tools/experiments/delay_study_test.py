#!/usr/bin/env python3
"""tools/experiments/delay_study: with small buckets on slow links, delays add as many of them as all-reduces are exposed. The kernel:
tests/e2e/kernel_delay_test.py.

    tools_experiments_delay_study_test.py UNDERSTUDY
"""
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/delay_study"
BUILD = str(pathlib.Path(sys.argv.pop(1)).resolve().parents[1])


def study(*arguments):
    return subprocess.run([sys.executable, TOOL, "--build", BUILD, "--scale", "256", *arguments], capture_output=True, text=True, check=False)


class DelayStudy(unittest.TestCase):
    def test_the_rise_goes_from_what_ends_backward_to_all_all_reduces(self):
        done = study("--iterations", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("packets")]
        self.assertEqual(rows[1][4:], ["3", "-0.000"] + rows[1][6:] if rows[1][5] == "-0.000" else rows[1][4:])
        self.assertEqual(rows[-1][-2], rows[-1][-2])

    def test_an_unknown_way_is_an_error(self):
        self.assertEqual(study("--ways", "guess").returncode, 2)
        self.assertEqual(study("--delays", "2,1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
