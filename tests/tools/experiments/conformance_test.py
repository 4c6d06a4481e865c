#!/usr/bin/env python3
"""tools/experiments/conformance on trees made up here: what is covered, what state it has, and which tags are refused."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONFORMANCE = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/conformance"
RULES = """[A1]
1 = "first"
2 = "second"
3 = "third"
[out_of_scope]
"A1.3" = "not built"
"""
TAG = "rules:"  # not beside its sign below, where it would be a tag of this file's
GTEST = f"""// The subject.
#include <gtest/gtest.h>

// {TAG} A1.1
TEST(Suite, One) {{}}
TEST(Suite, Two) {{}}
"""
PYTHON = f'''"""The subject."""
# {TAG} A1.2
class Case:
    # {TAG} A1.1
    def test_it(self): pass
'''
XML = """<testsuites><testsuite name="Suite">
<testcase name="One" result="completed" classname="Suite">{one}</testcase>
<testcase name="Two" result="completed" classname="Suite"><failure/></testcase>
</testsuite></testsuites>"""


class Conformance(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="conformance-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("tests/conformance/rules.toml", RULES)
        self.write("tests/wire_test.cc", GTEST)
        self.write("tests/cli_test.py", PYTHON)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def results(self, one="", cli="OK"):
        self.write("build/wire_test.xml", XML.format(one=one))
        entries = [{"name": "understudy / wire_test", "result": "FAIL"}, {"name": "understudy / cli", "result": cli}]
        self.write("build/meson-logs/testlog.json", "\n".join(json.dumps(entry) for entry in entries))

    def run_it(self, *words):
        return subprocess.run([sys.executable, str(CONFORMANCE), "--root", str(self.root), *words], text=True,
                              capture_output=True, check=False)

    def states(self, done):
        rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| A")]
        return {row[0].removeprefix("| "): row[-1].removesuffix(" |") for row in rows}

    def test_every_rule_covered_and_passed(self):
        self.results()
        done = self.run_it("--results", str(self.root / "build"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.states(done), {"A1.1": "passed", "A1.2": "passed", "A1.3": "out of scope: not built"})

    def test_a_failing_test_fails_its_rule_alone(self):
        self.results(one="<failure/>")
        done = self.run_it("--results", str(self.root / "build"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.states(done)["A1.1"], "failed")
        self.assertEqual(self.states(done)["A1.2"], "passed")

    def test_skipped_and_missing_results_are_no_passes(self):
        self.results(cli="SKIP")
        self.assertEqual(self.states(self.run_it("--results", str(self.root / "build")))["A1.2"], "skipped")
        (self.root / "build/wire_test.xml").unlink()
        self.write("build/meson-logs/testlog.json", json.dumps({"name": "understudy / cli", "result": "OK"}))
        self.assertEqual(self.states(self.run_it("--results", str(self.root / "build")))["A1.1"], "not run")

    def test_a_rule_without_a_test_is_named(self):
        self.write("tests/cli_test.py", PYTHON.replace("A1.2", "A1.1"))
        done = self.run_it("--summary")
        self.assertEqual(done.returncode, 1)
        self.assertIn("A1.2 NOT COVERED", done.stdout)

    def test_a_script_is_found_by_its_path(self):
        self.write("tests/data/rc/responder/one.rc", "# Why.\n# rules: A1.2\n")
        self.write("tests/cli_test.py", "")
        self.results()
        self.write("build/rc_script_test.xml", XML.format(one="").replace('name="One"', 'name="Run/responder_one"'))
        done = self.run_it("--results", str(self.root / "build"))
        self.assertEqual(self.states(done)["A1.2"], "passed", done.stdout)
        self.assertIn("responder_one", done.stdout)

    def test_wrong_tags_are_refused_with_file_and_line(self):
        for tag, text in (("A1.7", "no rule A1.7"), ("A1.2", "no test follows")):
            self.write("tests/wire_test.cc", GTEST + f"// rules: {tag}\n" + ("TEST(A, B)" if tag == "A1.7" else "int x;"))
            done = self.run_it()
            self.assertEqual(done.returncode, 2)
            self.assertIn("wire_test.cc:7", done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
