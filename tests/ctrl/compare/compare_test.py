#!/usr/bin/env python3
"""`understudy compare`: closed forms, flows and packets of the same question, with reasons where they differ, and the schema of its
JSON.

usage: ctrl_compare_test.py UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the checkout may belong to another user

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema, expect_every_key_counts  # noqa: E402

UNDERSTUDY = sys.argv.pop(1)
SCHEMA = Schema(ROOT / "ctrl/report/comparison.schema.json")


def nodes(count, gpus=1, rate="400Gbit/s", latency="1us"):
    return (f'format = 1\n[[node]]\nname = "w"\ncount = {count}\ngpus = {gpus}\nnics = {gpus}\n'
            f'link = {{ rate = "{rate}", latency = "{latency}" }}\n')


def job(size, *keys):
    return "\n".join(['[[job]]', 'name = "j"', 'collective = "all_reduce"', 'algorithm = "ring"', 'ranks = ["w*"]',
                      f'sizes = ["{size}"]', *keys]) + "\n"


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "both.toml"

    def ask(self, text, *options, command="compare"):
        self.path.write_text(text, encoding="utf-8")
        return subprocess.run([UNDERSTUDY, command, str(self.path), *options], capture_output=True, text=True)

    def compared(self, text, *options):
        done = self.ask(text, "--json", "--quiet", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        comparison = json.loads(done.stdout)
        self.assertEqual(SCHEMA.findings(comparison), [])
        return comparison

    def row(self, text, *options):
        return self.compared(text, *options)["parts"][0]["rows"][0]

    def expect_near(self, a, b, most):
        self.assertLess(abs(a / b - 1) * 100, most, (a, b))

    def test_what_contradicted_itself(self):
        """Several GPUs a node, whose credits hold rings up; rails; links inside a node."""
        cases = (nodes(8, 8) + job("16MiB", "channels = 8"),
                 nodes(8, 8) + '[topology]\nkind = "rail"\nhosts_per_leaf = 4\nspines = 4\n'
                 'uplink = { rate = "400Gbit/s", latency = "500ns" }\n' + job("4MiB", "channels = 8"),
                 nodes(1, 8) + '[topology]\nkind = "single_switch"\n[intra_node]\ngpu_link = { rate = "2400Gbit/s", latency = "500ns" }\n' + job("16MiB", "channels = 8"))
        for text in cases:
            with self.subTest(text):
                row = self.row(text)
                self.assertGreater(row["predict_us"], 10)
                self.expect_near(row["predict_us"], row["packets_us"], row["within"] * 100)
                self.expect_near(row["closed_form_us"], row["packets_us"], 3)

    def test_predict_says_what_compare_says(self):
        text = nodes(8, 8) + job("16MiB", "channels = 8")
        row = self.row(text, "--no-packets", "--no-flow")
        predicted = json.loads(self.ask(text, "--json", command="predict").stdout)["jobs"][0]["rows"][0]
        self.assertEqual(predicted["time_us"], row["predict_us"])
        self.assertEqual(predicted["source"], row["source"])
        self.assertIsNone(row["packets_us"])

    def test_fidelity_is_that_of_simulate(self):
        text = nodes(8) + job("1MiB", "channels = 2")
        row = self.row(text)
        for fidelity in ("flow", "packet"):
            done = self.ask(text, "--fidelity", fidelity, command="simulate")
            line = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["1048576"])
            self.assertEqual(f"{row['flow_us' if fidelity == 'flow' else 'packets_us']:.2f}", line.split()[3])

    def test_collisions_are_named(self):
        text = nodes(16, latency="500ns") + ('[topology]\nkind = "leaf_spine"\nhosts_per_leaf = 2\nspines = 2\n'
                                             'uplink = { rate = "100Gbit/s", latency = "500ns" }\n')
        row = self.row(text + job("8MiB"))
        self.assertTrue(any("collisions" in reason or "closed form" in reason for reason in row["reasons"])
                        or abs(row["closed_form_us"] / row["packets_us"] - 1) < 0.01, row)
        self.assertFalse(row["unexplained"])

    def test_contention_is_named(self):
        row = self.row(nodes(16, rate="25Gbit/s", latency="5us") +
                       job("2MB", "channels = 8").replace("all_reduce", "broadcast"))
        self.assertGreater(abs(row["flow_us"] / row["packets_us"] - 1), 0.01)
        self.assertTrue(any(reason.startswith("contention: 8 connections") for reason in row["reasons"]), row)

    def test_traffic_has_no_closed_form(self):
        comparison = self.compared(nodes(4) + '[[traffic]]\nname = "x"\npattern = "incast"\nfrom = ["w1", "w2"]\nto = "w0"\nsize = "1MB"\n')
        self.assertIn("no [[job]]", comparison["refused"]["closed_form"])
        row = comparison["parts"][0]["rows"][0]
        self.expect_near(row["flow_us"], row["packets_us"], 1)

    def test_spraying_has_no_flows(self):
        comparison = self.compared(nodes(8) + '[topology]\nkind = "leaf_spine"\nhosts_per_leaf = 4\nspines = 4\nrouting = "spray"\n'
                                   'uplink = { rate = "400Gbit/s", latency = "500ns" }\n' + job("1MiB"))
        self.assertIn("spray", comparison["refused"]["flow"])
        row = comparison["parts"][0]["rows"][0]
        self.expect_near(row["closed_form_us"], row["packets_us"], 1)

    def test_errors(self):
        done = self.ask(nodes(4))
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no [[job]], [[traffic]], [model] or [workload] to compare", done.stderr)
        done = subprocess.run([UNDERSTUDY, "compare", str(ROOT / "configs/kernel_node.toml")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("use simulate", done.stderr)

    def test_text(self):
        done = self.ask(nodes(8) + job("1MiB"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("closed form", done.stdout)
        self.assertIn("# limit:", done.stdout)

    def test_every_key_of_the_schema(self):
        sample = self.compared(nodes(16, rate="25Gbit/s", latency="5us") + job("2MB", "channels = 8").replace("all_reduce", "broadcast"))
        sample["validity"] = sample["validity"][:1]
        expect_every_key_counts(self, SCHEMA, sample)


if __name__ == "__main__":
    unittest.main()
