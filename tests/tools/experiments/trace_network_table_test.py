#!/usr/bin/env python3
"""tools/experiments/trace_network_table: flow is near packets, and what cannot be carried out is named.

    trace_network_table_test.py UNDERSTUDY
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
TOOL = ROOT / "tools/experiments/trace_network_table"
CASES = ROOT / "tests/data/workloads/et_cases"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())


def table(cases, *words):
    return subprocess.run([sys.executable, TOOL, "--understudy", UNDERSTUDY, "--cases", cases, *words], capture_output=True, text=True,
                          timeout=300, check=False)


@unittest.skipIf("this build reads no .et files" in subprocess.run(
    [UNDERSTUDY, "workload", "stats", CASES / "comp_chain/et"], capture_output=True, text=True, timeout=100, check=False).stderr,
    "this build reads no .et files")
class TraceNetworkTable(unittest.TestCase):
    def test_flow_is_near_packets(self):
        done = table(CASES, "--only", "iter_tp2", "--only", "recv_beside", "--only", "comp_chain")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("comp_chain: nothing crosses a network", done.stdout)
        self.assertIn("3 cases, 2 on a network: flow is within 5 % of packets in 2", done.stdout)
        done = table(CASES, "--only", "iter_tp2", "--allowed", "0")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_what_cannot_be_carried_out_is_named(self):
        with tempfile.TemporaryDirectory(prefix="traces-") as folder:
            shutil.copytree(CASES / "comm_group_file", pathlib.Path(folder, "one"))
            path = pathlib.Path(folder, "one/case.json")
            case = json.loads(path.read_text(encoding="utf-8"))
            case["comm_groups"] = None
            path.write_text(json.dumps(case), encoding="utf-8")
            done = table(folder)
            self.assertIn("is in no file of groups", done.stdout)
            self.assertIn("1 cases, 0 on a network", done.stdout)


if __name__ == "__main__":
    unittest.main()
