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
from math import prod

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/experiments/dimension_table"
DATA = ROOT / "tests/data/oracle"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(*arguments):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class DimensionTable(unittest.TestCase):
    def test_all_rows_are_equal(self):
        done = table()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("594 of 594 rows equal", done.stdout)

    def of_one_case(self, kind, name, change):
        """What it says of this case when `change` has been done to it."""
        with tempfile.TemporaryDirectory(prefix="dimensions-") as folder:
            case = json.loads((DATA / kind / name).read_text())
            change(case)
            pathlib.Path(folder, kind).mkdir()
            pathlib.Path(folder, kind, "case.json").write_text(json.dumps(case))
            return table("--data", folder, "--most", "1")

    def test_a_nanosecond_is_seen(self):
        def later(case):
            case["results"][3]["finish_ns"] += 1

        done = self.of_one_case("astrasim2", "astrasim2-ring-4-ring.json", later)
        self.assertEqual(done.returncode, 1)
        self.assertIn("23 of 24 rows equal", done.stdout)
        self.assertIn(" all-gather ", done.stdout)

    def test_rows_whose_sizes_are_not_divided_count(self):
        def only_odd(case):
            case["results"] = [row for row in case["results"] if row["size_bytes"] % (row["chunks"] * prod(row["npus"]))]
            case["results"][0]["time_ns"] += 1

        done = self.of_one_case("themis", "themis-baseline.json", only_odd)
        self.assertEqual(done.returncode, 1)
        self.assertIn("34 of 35 rows equal", done.stdout)

    def test_no_cases_is_an_error(self):
        with tempfile.TemporaryDirectory(prefix="dimensions-") as folder:
            self.assertEqual(table("--data", folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
