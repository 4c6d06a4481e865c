#!/usr/bin/env python3
"""tools/experiments/dimension_table: all rows are equal, and one that is a nanosecond off is named.

    tools_experiments_dimension_table_test.py UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/experiments/dimension_table"
DATA = ROOT / "tests/data/oracle/astrasim2"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(*arguments):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class DimensionTable(unittest.TestCase):
    def test_all_rows_are_equal(self):
        done = table()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("528 of 528 rows equal", done.stdout)

    def test_a_nanosecond_is_seen(self):
        with tempfile.TemporaryDirectory(prefix="dimensions-") as folder:
            case = json.loads((DATA / "astrasim2-ring-4-ring.json").read_text())
            case["results"][3]["finish_ns"] += 1
            pathlib.Path(folder, "case.json").write_text(json.dumps(case))
            done = table("--data", folder, "--most", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("23 of 24 rows equal", done.stdout)
        self.assertIn(" all-gather ", done.stdout)

    def test_no_cases_is_an_error(self):
        with tempfile.TemporaryDirectory(prefix="dimensions-") as folder:
            self.assertEqual(table("--data", folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
