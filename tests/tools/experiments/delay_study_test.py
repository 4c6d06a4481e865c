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
    return subprocess.run([sys.executable, TOOL, "--build", BUILD, "--scale", "64", *arguments], capture_output=True, text=True, check=False)


class DelayStudy(unittest.TestCase):
    def test_the_rise_goes_from_what_ends_backward_to_all_all_reduces(self):
        done = study("--iterations", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for way in ("predict", "packets"):
            rows = [line.split() for line in done.stdout.splitlines() if line.startswith(way)]
            # D, iteration, apart; from the second row on rise, exposed (one number), error, beyond.
            self.assertEqual([row[5] for row in rows[1:-1] if len(row) == 8], ["3", "3", "38", "38", "39"])
            self.assertAlmostEqual(float(rows[0][2]), 260 + 12.6, delta=0.1)  # the last two buckets and the map: 12.6 ms
            self.assertIn("39 exposed", " ".join(rows[-1]))

    def test_links_that_are_slow_beside_the_buckets_expose_more(self):
        # All buckets take longer than backward: every all-reduce is exposed whatever the delay.
        done = study("--iterations", "1", "--delays", "1000,2000", "--ways", "packets", "--rate", "10000")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("39 exposed", done.stdout)
        row = done.stdout.splitlines()[2].split()
        self.assertEqual(row[5], "39")
        self.assertAlmostEqual(float(row[4]), 39, delta=0.1)

    def test_what_cannot_be_is_an_error(self):
        self.assertEqual(study("--ways", "guess").returncode, 2)
        self.assertEqual(study("--delays", "2,1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
