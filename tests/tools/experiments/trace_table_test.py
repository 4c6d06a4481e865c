#!/usr/bin/env python3
"""tools/experiments/trace_table: all results are equal, and one that is a nanosecond off is named first.

    trace_table_test.py UNDERSTUDY
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
TOOL = ROOT / "tools/experiments/trace_table"
CASES = ROOT / "tests/data/workloads/et_cases"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(cases, *words):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, "--cases", cases, *words], capture_output=True, text=True,
                          timeout=300, check=False)


@unittest.skipIf("this build reads no .et files" in subprocess.run(
    [UNDERSTUDY, "workload", "stats", CASES / "comp_chain/et"], capture_output=True, text=True, timeout=100, check=False).stderr,
    "this build reads no .et files")
class TraceTable(unittest.TestCase):
    def test_results_are_equal(self):
        done = table(CASES, "--only", "comp", "--only", "text_micro", "--only", "involved")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("6 cases: 18 of 18 results differ by 0 ns or less; 0 refused by name, 0 without expectation", done.stdout)

    def changed(self, change):
        """What it says of a case when `change` has been done to it."""
        with tempfile.TemporaryDirectory(prefix="traces-") as folder:
            shutil.copytree(CASES / "ctrl_dep", pathlib.Path(folder, "ctrl_dep"))
            path = pathlib.Path(folder, "ctrl_dep/case.json")
            case = json.loads(path.read_text(encoding="utf-8"))
            change(case["results"])
            path.write_text(json.dumps(case), encoding="utf-8")
            return table(folder)

    def test_a_nanosecond_is_seen(self):
        def finish(results):
            results["v3_unaware"]["finish_ns"]["1"] += 1

        def event(results):
            results["unaware"]["events"][-1][2] += 1

        def missing(results):
            results["unaware"]["events"].pop()

        for change, back_end, shown in ((finish, "v3_unaware", " 1 "), (event, "unaware", " 1 "), (missing, "unaware", "missing")):
            done = self.changed(change)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            first = done.stdout.splitlines()[1]
            self.assertEqual(first.split()[1], back_end)
            self.assertIn(shown, first)
            self.assertIn("1 cases: 1 of 2 results differ by 0 ns or less", done.stdout)

    def test_what_did_not_finish_is_no_expectation(self):
        def broken(results):
            results["unaware"].update(finished=False, finish_ns={})

        done = self.changed(broken)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ctrl_dep unaware et: did not finish there: no expectation", done.stdout)


if __name__ == "__main__":
    unittest.main()
