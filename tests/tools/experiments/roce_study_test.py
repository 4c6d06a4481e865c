#!/usr/bin/env python3
"""tools/experiments/roce_study at its smallest: the table's shape, what each pattern delivers, and that CNPs come."""
import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/roce_study"
UNDERSTUDY = sys.argv.pop(1)
LOADER = importlib.machinery.SourceFileLoader("roce_study", str(TOOL))
study = importlib.util.module_from_spec(importlib.util.spec_from_loader("roce_study", LOADER))
LOADER.exec_module(study)


class RoceStudy(unittest.TestCase):
    def test_table(self):
        with tempfile.TemporaryDirectory(prefix="roce-study-") as folder:
            rows_file = pathlib.Path(folder) / "rows.json"
            ran = subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, "--nics", "16", "--mib", "1", "--seeds", "1",
                                  "--network", "2:1", "--json", rows_file], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            rows = json.loads(rows_file.read_text())["rows"]
        self.assertEqual(len(rows), 5 * len(study.CONTROLS))
        self.assertEqual(len([line for line in ran.stdout.splitlines() if line.startswith("2:1  ")]), len(rows))
        row = {(r["pattern"], r["control"]): r for r in rows}
        for (pattern, control), r in row.items():
            self.assertEqual((r["lost"], r["repeated"]), (0, 0), (pattern, control))
            if control == "PFC only":
                self.assertEqual(r["to_pfc_only"], 1)
        mib = 1 << 20
        self.assertEqual(row["tree", "hpcc"]["bytes"], 2 * 15 * mib)  # as much as a ring's
        self.assertEqual(row["tree, new QPs", "hpcc"]["bytes"], 2 * 15 * mib)
        self.assertEqual(row["ring", "hpcc"]["bytes"], 2 * 15 * mib)
        self.assertEqual(row["all-to-all", "hpcc"]["bytes"], 15 * mib)
        # Fifteen senders to one, at 100 Gbit/s and 4,096 of 4,178 bytes: no faster than its link.
        self.assertGreater(row["incast", "PFC only"]["us"], 15 * mib / 4 * 8 / 100e3 * 4178 / 4096)
        self.assertGreater(row["incast", "dcqcn nvidia"]["cnps"], 0)
        self.assertEqual(row["incast", "PFC only"]["marks"], 0)

    def test_each_tree_sums_all_and_tells_all(self):
        for nics in (16, 24, 17):
            rows = [line.split(",") for line in study.tree_flows(nics, 4, 2, 10).splitlines()[1:]]
            flows = {row[0]: row for row in rows}
            told, inner = collections.defaultdict(set), [set(), set()]

            def summed(name):
                """The nodes whose part is in what this flow carries."""
                nodes = {flows[name][1]}
                for before in filter(None, flows[name][4].split(";")):
                    if before.split(".")[1] == name.split(".")[1]:  # else: the edge's own chunk two before
                        self.assertEqual(flows[before][2], flows[name][1])
                        nodes |= summed(before)
                return nodes

            for name, sender, receiver, *_ in rows:
                if name[1] == "d":
                    self.assertEqual(len(summed(name)), nics)
                    told[name[0], name.split(".")[1]].add(receiver)
                    inner[int(name[0])].add(sender)
            self.assertEqual([len(nodes) for nodes in told.values()], [nics - 1] * 4)
            self.assertLessEqual(len(inner[0] & inner[1]), 2)

    def test_refused(self):
        for words in (["--nics", "12"], ["--only", "x"], ["--control", "x"], ["--seeds", "0"]):
            ran = subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, *words], capture_output=True, check=False)
            self.assertEqual(ran.returncode, 2)


if __name__ == "__main__":
    unittest.main()
