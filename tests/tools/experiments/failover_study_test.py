#!/usr/bin/env python3
"""tools/experiments/failover_study: some seeds, each cut of an end right, each without an error, and the same again.

    tools_experiments_failover_study_test.py UNDERSTUDY
"""
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/failover_study"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def study(*arguments):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class FailoverStudy(unittest.TestCase):
    def test_cuts_are_survived_or_reported(self):
        done = study("--seeds", "36")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {line[:14].strip(): [int(word) for word in line[14:].split()] for line in done.stdout.splitlines()[1:]
                if line.startswith(("step", "cut", "all"))}
        self.assertEqual([rows[f"step {step}"][0] for step in range(1, 7)], 6 * [6])
        self.assertEqual(rows["cut for 5ms"], [12, 12, 0, 0, 0])
        self.assertEqual(rows["cut for 3s"], [12, 12, 0, 0, 0])
        self.assertEqual(rows["cut for ever"], [12, 0, 12, 0, 0])
        self.assertEqual(rows["all"], [36, 24, 12, 0, 0])
        self.assertEqual(study("--seeds", "36", "--jobs", "1").stdout, done.stdout)

    def test_failover_survives_cuts_for_ever(self):
        done = study("--seeds", "48", "--failover")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {line[:14].strip(): [int(word) for word in line[14:].split()] for line in done.stdout.splitlines()[1:]
                if line.startswith(("step", "cut", "all"))}
        self.assertEqual([rows[f"step {step}"][0] for step in range(1, 7)], 6 * [8])
        self.assertEqual(rows["cut for ever"], [12, 12, 0, 0, 0])
        self.assertEqual(rows["all"], [48, 48, 0, 0, 0])


if __name__ == "__main__":
    unittest.main()
