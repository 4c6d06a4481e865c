#!/usr/bin/env python3
"""tools/experiments/export_table: exported jobs end, by the rules of replays, when their own rules say.

    export_table_test.py UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/export_table"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


class ExportTable(unittest.TestCase):
    def test_all_jobs(self):
        with tempfile.TemporaryDirectory(prefix="exports-") as folder:
            rows = pathlib.Path(folder, "rows.json")
            done = subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, "--json", rows], capture_output=True, text=True,
                                  timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(rows.read_text(encoding="utf-8"))
        of_json = [row for row in rows if row["form"] == "json"]
        self.assertEqual(len(of_json), 31)
        self.assertEqual(sum(row["differs"] == "" and row["difference_ns"] == 0 for row in of_json), 24)
        # What makes the rules differ is there: the slot holds messages up, the norm lets late ranks go early.
        for row in of_json:
            if row["differs"] == "slot":
                self.assertGreater(row["difference_ns"], 100_000, row)
            if row["differs"] == "norm":
                self.assertLess(row["difference_ns"], 0, row)
        self.assertIn("replays (", done.stdout)


if __name__ == "__main__":
    unittest.main()
