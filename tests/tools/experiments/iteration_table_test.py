#!/usr/bin/env python3
"""tools/experiments/iteration_table: a small iteration's slopes are the numbers of exposed all-reduces.

    tools_experiments_iteration_table_test.py UNDERSTUDY
"""
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/iteration_table"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(*arguments):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class IterationTable(unittest.TestCase):
    def test_slopes_are_the_exposed_operations(self):
        done = table("--nodes", "4", "--operations", "6", "--size", "64KiB", "--iterations", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = done.stdout.splitlines()[1:-1]
        exposed = {line[:14].strip(): line.split()[-2] for line in rows[::2]}
        self.assertEqual(exposed, {"all": "6", "environment": "6", "one node": "6", "hidden": "1", "part": "3", "beside": "0"})
        self.assertEqual([line.split()[-3] for line in rows[1::2]], list(exposed.values()))

    def test_an_all_reduce_that_is_not_always_hidden_is_seen(self):
        # Computing hides it for d = 0, 1 and 2 ms.
        done = table("--nodes", "2", "--operations", "4", "--size", "64KiB", "--iterations", "1", "--compute", "3ms")
        self.assertEqual(done.returncode, 1)
        self.assertIn("beyond the limit", done.stdout)

    def test_too_few_operations_are_an_error(self):
        self.assertEqual(table("--operations", "3").returncode, 2)


if __name__ == "__main__":
    unittest.main()
