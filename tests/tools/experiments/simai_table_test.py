#!/usr/bin/env python3
"""tools/experiments/simai_table: all components are near, and one that is not is named.

    tools_experiments_simai_table_test.py UNDERSTUDY
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/experiments/simai_table"
DATA = ROOT / "tests/data/workloads/simai"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(*arguments):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class SimaiTable(unittest.TestCase):
    def test_all_components_are_near(self):
        done = table()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("36 components of 4 lists: 36 within 1 us", done.stdout)
        self.assertIn("shipped_old_header_llama7b_zero3.txt: without a result of SimAI; status 2: ", done.stdout)

    def of_one_list(self, name, component, us):
        """What it says when `us` has been added to this component of SimAI's."""
        with tempfile.TemporaryDirectory(prefix="simai-") as folder:
            shutil.copytree(DATA, folder, dirs_exist_ok=True)
            results = pathlib.Path(folder, "results.json")
            all_of_them = json.loads(results.read_text())
            case = next(case for case in all_of_them["cases"] if case["workload"] == name)
            case["summary"][component] += us
            all_of_them["cases"] = [case]
            results.write_text(json.dumps(all_of_them))
            return table("--cases", folder, "--most", "1")

    def test_what_is_further_is_named(self):
        done = self.of_one_list("gpt13b_tp4_nosp_aiob.txt", "Expose TP comm", 3)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Expose TP comm", done.stdout)
        self.assertIn("9 components of 1 lists: 8 within 1 us", done.stdout)

    def test_a_thousandth_where_ratios_count(self):
        self.assertEqual(self.of_one_list("gpt7b_tp2_sp.txt", "Expose TP comm", 50).returncode, 0)
        self.assertEqual(self.of_one_list("gpt7b_tp2_sp.txt", "Expose TP comm", 80).returncode, 1)

    def test_no_results_is_an_error(self):
        with tempfile.TemporaryDirectory(prefix="simai-") as folder:
            self.assertEqual(table("--cases", folder).returncode, 2)


if __name__ == "__main__":
    unittest.main()
