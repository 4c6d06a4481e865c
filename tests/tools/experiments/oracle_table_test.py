#!/usr/bin/env python3
"""tools/experiments/oracle_table bites: a run that is 2 % late, that pauses where nobody should, or whose shares, queues or pauses are others is
named, and the status says so. The table itself, over all cases, is a test of its own.

    tools_experiments_oracle_table_test.py UNDERSTUDY
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/oracle_table"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())
LOADER = importlib.machinery.SourceFileLoader("oracle_table", str(TOOL))
table = importlib.util.module_from_spec(importlib.util.spec_from_loader("oracle_table", LOADER))
LOADER.exec_module(table)

# Runs the program and changes its report by what stands between.
FAKE = """#!/usr/bin/env python3
import json, subprocess, sys
status = subprocess.run([{program!r}] + sys.argv[1:]).returncode
path = sys.argv[sys.argv.index("--report") + 1]
report = json.load(open(path))
flows, links = report["traffic"]["flows"], report["traffic"]["links"]
{change}
json.dump(report, open(path, "w"))
sys.exit(status)
"""
CASE = "incast-k2-25g-none-2000kB"


class OracleTable(unittest.TestCase):
    def run_with(self, change, only=CASE):
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            program = pathlib.Path(folder, "fake")
            program.write_text(FAKE.format(program=UNDERSTUDY, change=change), encoding="utf-8")
            program.chmod(0o755)
            return subprocess.run([sys.executable, TOOL, "--understudy", program, "--only", only, "--most", "0"],
                                  capture_output=True, text=True, check=False)

    def names(self, change, *figures):
        """Exactly these are outside, and come first."""
        ran = self.run_with(change)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        lines = ran.stdout.splitlines()[1:-2]
        outside = [line for line in lines if line.endswith("NOT EXPLAINED")]
        self.assertEqual(lines[: len(outside)], outside)
        self.assertEqual({line[49:63].strip() for line in outside}, set(figures))

    def test_as_it_is(self):
        ran = self.run_with("")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertNotIn("outside:", ran.stdout)

    def test_a_program_of_this_folder(self):
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            pathlib.Path(folder, "x").symlink_to(UNDERSTUDY)
            pathlib.Path(folder, "text").touch()
            for name, status, words in (("./x", 0, "1 cases"), ("./nosuch", 2, "no program ./nosuch"), (".", 2, "no program"),
                                        ("text", 2, "no program text")):
                ran = subprocess.run([sys.executable, TOOL, "--understudy", name, "--only", CASE, "--most", "0"],
                                     capture_output=True, text=True, check=False, cwd=folder)
                self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
                self.assertIn(words, ran.stdout + ran.stderr)
                self.assertNotIn("Traceback", ran.stderr)

    def test_late(self):
        self.names("for f in flows: f['received_ps'] = f['received_ps'] * 102 // 100", "completion")
        self.names("for f in flows: f['acknowledged_ps'] = f['acknowledged_ps'] * 102 // 100", "mean flow")

    def test_shares(self):
        self.names("flows[0]['acknowledged_ps'] = flows[0]['acknowledged_ps'] * 3 // 2", "mean flow", "share 0", "share 1")

    def test_queues_and_losses(self):
        self.names("for l in links: l['counters']['queue_peak_bytes'] = l['counters']['queue_peak_bytes'] * 3 // 2", "largest queue")
        self.names("links[0]['counters']['lost_on_link'] = 1", "lost")

    def test_pauses(self):
        case = json.loads((table.DATA / "ns3_incast/ns3-incast-k2-25g-none-2000kB.json").read_text())
        if case["results"]["pfc"]["pause_frames_received"] == 0:
            self.names("links[0]['counters']['pauses'] += 1", "pauses")
        else:
            self.names("for l in links: l['paused_ps'] = l['paused_ps'] * 3 // 2", "paused")
        quiet = self.run_with("links[0]['counters']['pauses'] += 1", "incast-k1-25g-none")
        self.assertEqual(quiet.returncode, 1, quiet.stdout)
        self.assertIn("outside: NOT EXPLAINED", quiet.stdout)

    def test_flows_that_could_change_places(self):
        path = table.DATA / "ns3_victim/ns3-victim-k4-25g-up100g-none.json"
        case = json.loads(path.read_text())
        self.assertEqual(table.interchangeable(case), [[0, 1, 2, 3], [4]])
        for key, value in (("bytes", 1), ("start_ns", 1), ("dst", 4), ("after", [4])):
            other = json.loads(path.read_text())
            other["flows"][1][key] = value
            self.assertEqual(table.interchangeable(other), [[0, 2, 3], [1], [4]], key)
        other = json.loads(path.read_text())
        other["topology"]["links"][[link["a"] for link in other["topology"]["links"]].index(2)]["delay_ns"] += 1
        self.assertEqual(table.interchangeable(other), [[0, 1, 3], [2], [4]])
        self.assertEqual(table.as_sets([5, 3, 4, 1, 2], [[0, 1, 3], [2], [4]]), [1, 3, 4, 5, 2])

        victim = "ns3-victim-k4-25g-up100g-dcqcnB"
        exchanged = "a, b = {}; flows[a]['acknowledged_ps'], flows[b]['acknowledged_ps'] = flows[b]['acknowledged_ps'], flows[a]['acknowledged_ps']"
        plain = self.run_with("", victim)
        self.assertEqual(plain.returncode, 0, plain.stdout + plain.stderr)
        self.assertIn("1 group of flows that could change places (4 flows)", plain.stdout)
        self.assertEqual(self.run_with(exchanged.format("0, 3"), victim).stdout, plain.stdout)
        other = self.run_with(exchanged.format("0, 4"), victim)  # the victim is not one of them
        self.assertEqual(other.returncode, 1, other.stdout)
        self.assertIn("share 4", [line[49:63].strip() for line in other.stdout.splitlines() if line.endswith("NOT EXPLAINED")])

    def test_limits(self):
        row = table.Row("c", "completion", 1.06, 1, 0.06, 0.05)
        self.assertEqual(table.verdict(row)[0], 0)
        self.assertEqual(table.verdict(row._replace(draws=(0.9, 1.1, 1.06)))[0], 2)
        self.assertEqual(table.verdict(row._replace(draws=(0.9, 1.05, 1.06)))[0], 0)
        self.assertEqual(table.verdict(row._replace(limit=0.07))[0], 3)

    def test_every_explained_case_is_there(self):
        ids = {path.stem for path in table.case_files(table.DATA)}
        for case, _ in table.EXPLAINED:
            self.assertIn(case, ids)
        self.assertEqual(len(ids), 127)


if __name__ == "__main__":
    unittest.main()
