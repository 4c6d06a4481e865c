#!/usr/bin/env python3
"""Drills from the command line: the examples of configs/ pass; exit status, report and JUnit's file agree; what cannot
hold is refused.

    ctrl_cli_drills_test.py UNDERSTUDY
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema  # noqa: E402

UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())
SCHEMA = Schema(ROOT / "ctrl/report/report.schema.json")
RING = """format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "1Gbit/s", latency = "1us" }
[[node]]
name = "w"
count = 3
link = { rate = "1Gbit/s", latency = "1us" }
[[port]]
real = "gpu"
device = "virtual"
[[job]]
name = "ring"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w*"]
nccl = "2.22"
sizes = ["1MiB"]
iterations = 20
payload = "exact"
"""
# What each element of JUnit's may have, as Jenkins' and GitLab's schemas say: attributes, and children in order.
SHAPE = {
    "testsuites": ({"name", "tests", "failures", "errors", "time", "disabled"}, ["testsuite"]),
    "testsuite": ({"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname"},
                  ["properties", "testcase", "system-out", "system-err"]),
    "testcase": ({"classname", "name", "time"}, ["skipped", "error", "failure", "system-out", "system-err"]),
    "failure": ({"message", "type"}, []),
    "error": ({"message", "type"}, []),
    "system-out": (set(), []),
}


def drill(outcome, *events, name="d"):
    text = f'[[drill]]\nname = "{name}"\n{outcome}\n'
    return text + "".join(f"[[drill.event]]\n{event}\n" for event in events)


DOWN = 'at = "20ms"\nlink = "w0"\naction = "down"'


class Drills(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def understudy(self, *words):
        return subprocess.run([UNDERSTUDY, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)

    def write(self, text):
        path = self.folder / "c.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def expect_shape(self, element):
        attributes, children = SHAPE[element.tag]
        self.assertLessEqual(set(element.attrib), attributes, element.tag)
        places = [children.index(child.tag) for child in element]
        self.assertEqual(places, sorted(places))
        for child in element:
            self.expect_shape(child)

    def simulate(self, path):
        """Exit status, the report's drills by name, and test cases by name with what failed."""
        report, junit = self.folder / "r.json", self.folder / "j.xml"
        done = self.understudy("simulate", path, "--quiet", "--report", report, "--junit", junit)
        written = json.loads(report.read_text(encoding="utf-8"))
        self.assertEqual(SCHEMA.findings(written), [])
        suites = ElementTree.parse(junit).getroot()
        self.expect_shape(suites)
        cases = {case.get("name"): case.find("failure") for case in suites.iter("testcase")}
        failures = sum(failure is not None for failure in cases.values())
        for element in [suites, *suites]:
            self.assertEqual(int(element.get("tests")), len(cases))
            self.assertEqual(int(element.get("failures")), failures)
            self.assertEqual(int(element.get("errors")), 0)
        for made in written["drills"]:
            self.assertEqual(cases[made["name"]] is None, made["passed"])
            self.assertIn(made["text"], done.stdout)
        self.assertEqual(done.returncode, 3 if failures else 0, done.stdout + done.stderr)
        return written, cases

    def test_examples_pass(self):
        kinds = set()
        for path in sorted((ROOT / "configs").glob("drill*.toml")):
            with self.subTest(path.stem):
                report, cases = self.simulate(path)
                self.assertTrue(all(made["passed"] for made in report["drills"]), report["drills"])
                self.assertNotIn("disturbed nothing", str(report["drills"]))
                kinds |= set(cases)
        self.assertGreaterEqual(len(kinds), 9)

    def test_flap_costs_no_more_than_it_may(self):
        flap = DOWN + '\nfor = "5ms"'
        report, _ = self.simulate(self.write(RING + drill('recovers_within = "10s"', flap)))
        found = report["drills"][0]["found_ps"]
        self.assertGreaterEqual(found, 4_000_000_000)
        for within, passed in ((found, True), (found - 1, False)):
            report, _ = self.simulate(self.write(RING + drill(f'recovers_within = "{within}ps"', flap)))
            self.assertEqual(report["drills"][0]["passed"], passed)

    def test_error_is_reported_in_time_or_not(self):
        report, _ = self.simulate(self.write(RING + drill('reports_within = "20s"', DOWN)))
        found = report["drills"][0]["found_ps"]
        self.assertTrue(report["verdict"]["faithful"])
        self.assertAlmostEqual(found * 1e-12, 8 * 4.096e-6 * 2**18, delta=0.1)
        report, cases = self.simulate(self.write(RING + drill(f'reports_within = "{found - 1}ps"', DOWN)))
        self.assertFalse(report["verdict"]["faithful"])
        self.assertIsNotNone(cases["the run"])

    def test_hang_is_named(self):
        _, cases = self.simulate(self.write(RING + drill('reports_within = "20s"', DOWN.replace("w0", "w2"))))
        self.assertIn("nobody reported an error: job 'ring' hangs", cases["d"].get("message"))

    def test_names_are_escaped(self):
        flap = DOWN + '\nfor = "5ms"'
        name = 'a <b> & \\"c\\" \\u00e9'
        _, cases = self.simulate(self.write(RING + drill('recovers_within = "10s"', flap, name=name)))
        self.assertIn('a <b> & "c" é', cases)

    def test_run_that_cannot_end_has_an_error(self):
        junit = self.folder / "j.xml"
        text, found = re.subn('reconverge = "50ms"', 'reconverge = "never"', (ROOT / "configs/dead_spine.toml").read_text(encoding="utf-8"))
        self.assertEqual(found, 1)
        done = self.understudy("simulate", self.write(text), "--junit", junit)
        self.assertEqual(done.returncode, 1)
        suites = ElementTree.parse(junit).getroot()
        self.expect_shape(suites)
        self.assertEqual([len(suites.findall(".//" + tag)) for tag in ("testcase", "error")], [1, 1])

    def test_what_cannot_hold_is_refused(self):
        traffic = '[[traffic]]\npattern = "flow"\nfrom = "w0"\nto = "w1"\nsize = "1MB"\n'
        flap = DOWN + '\nfor = "5ms"'
        no_job = RING.split("[[job]]")[0].replace("real = true\n", "").split("[[port]]")[0] + traffic
        for text, said in (
                (no_job + drill('slower_by_at_most = "10%"', flap), r"c.toml:\d+: drill.slower_by_at_most: .*needs a \[\[job\]\]"),
                (RING + drill('reports_within = "20s"', flap), r"c.toml:\d+: drill.reports_within: .*5\.000 ms.*8\.590 s"),
                (RING + drill('reports_within = "8s"', DOWN), r"c.toml:\d+: drill.reports_within: .*8\.590 s"),
                (RING + drill('recovers_within = "1s"\nafter = { job = "ring", operations = 5 }', flap),
                 r"c.toml:\d+: drill.after: .*only a kernel's program"),
                (RING + drill('recovers_within = "1s"', DOWN), r"c.toml:\d+: drill.recovers_within: .*cannot do anything"),
        ):
            with self.subTest(said):
                done = self.understudy("check", self.write(text))
                said_there = done.stderr if done.returncode == 2 else done.stdout
                self.assertTrue(re.search(said, said_there), done.stdout + done.stderr)
                self.assertEqual(self.understudy("simulate", self.write(text)).returncode, 2)


if __name__ == "__main__":
    unittest.main()
