#!/usr/bin/env python3
"""tools/experiments/training_question: one row for each way, and what is wrong with its arguments.

    tools_experiments_training_question_test.py UNDERSTUDY
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

UNDERSTUDY = sys.argv.pop(1)
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/training_question"
JOB = """format = 1
[model]
layers = 4
hidden = 256
heads = 4
vocabulary = 1024
sequence = 128
[parallel]
pp = 2
dp = 2
global_batch = 8
[gpu]
preset = "a100"
[[node]]
name = "n"
count = 4
link = { rate = "100Gbit/s", latency = "1us" }
"""


class TrainingQuestion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="question-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "job.toml").write_text(JOB)

    def ask(self, *arguments):
        return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)

    def test_three_rows(self):
        page = self.folder / "page.md"
        done = self.ask("--write", page, self.folder / "job.toml")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
        self.assertEqual([row[:2] for row in rows], [["job", "predict"], ["job", "flow"], ["job", "packet"]])
        for row in rows[:2]:
            self.assertLess(abs(float(row[3].removesuffix(" %"))), 6)
        self.assertTrue(rows[2][13].endswith(" M"))
        self.assertIn(done.stdout, page.read_text())

    def test_ways_that_are_left_out(self):
        done = self.ask("--ways", "predict", self.folder / "job.toml")
        self.assertEqual(len(done.stdout.splitlines()), 3)
        done = self.ask("--ways", "guess", self.folder / "job.toml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ways: found guess", done.stderr)

    def test_what_the_program_says_of_a_bad_file(self):
        (self.folder / "job.toml").write_text(JOB.replace("dp = 2", "dp = 3"))
        done = self.ask(self.folder / "job.toml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("parallel.global_batch: found 8", done.stderr)


if __name__ == "__main__":
    unittest.main()
