#!/usr/bin/env python3
"""`understudy compare --real`: the same job with every node real and with one real among emulated nodes, in virtual time.

usage: ctrl_real_test.py UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the checkout may belong to another user

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema  # noqa: E402

UNDERSTUDY = sys.argv.pop(1)
SCHEMA = Schema(ROOT / "ctrl/report/real_comparison.schema.json")
LATE = 'skew = [ { rank = 1, delay = "30us" } ]\n'


def config(job='algorithm = "ring"\n', node="", real="real = true\n", nodes=3, head="", sizes=("64KiB", "256KiB"), port='device = "virtual"\n'):
    link = 'link = { rate = "100Gbit/s", latency = "500ns" }\n'
    return (f'format = 1\n{head}[[prefix]]\nnic = 0\nv4 = "10.9.0.0/24"\n[[node]]\nname = "gpu"\n{real}{link}'
            f'[[node]]\nname = "w"\ncount = {nodes}\n{node}{link}[[port]]\nreal = "gpu"\n{port}'
            f'[[job]]\nname = "j"\ncollective = "all_reduce"\nranks = ["gpu", "w*"]\nsizes = {json.dumps(sizes)}\n'
            f'iterations = 3\nwarmup = 1\ninner = "packets"\n{job}')


class Real(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "real.toml"

    def ask(self, text, *options):
        self.path.write_text(text, encoding="utf-8")
        return subprocess.run([UNDERSTUDY, "compare", "--real", str(self.path), *options], capture_output=True, text=True)

    def compared(self, text):
        done = self.ask(text, "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        comparison = json.loads(done.stdout)
        self.assertEqual(SCHEMA.findings(comparison), [])
        self.assertEqual(comparison["wrong"], [])
        return comparison

    def expect_within(self, text, most):
        """Per cent of each row."""
        found = self.compared(text)
        rows = found["jobs"][0]["rows"]
        for row in rows:
            self.assertLessEqual(abs(row["error"]) * 100, most, row)
            self.assertAlmostEqual(row["error"], row["emulated_us"] / row["all_real_us"] - 1)
        self.assertEqual(rows, sorted(rows, key=lambda row: -abs(row["error"])), "the worst first")
        return found

    def test_algorithms_among_emulated_ranks(self):
        for job in ('algorithm = "ring"\n', 'algorithm = "tree"\n', 'algorithm = "tree"\nchannels = 2\n', LATE + 'algorithm = "ring"\n',
                    'injected_delay = "50us"\nalgorithm = "tree"\n'):
            with self.subTest(job):
                # Credits that wait for a ring's link are acknowledged together by queue pairs, one by one among emulated ranks.
                found = self.expect_within(config(job), 0.15 if "ring" in job else 0.1)
                self.assertEqual((found["nodes"], found["real_nodes"]), (4, 1))

    def test_late_ranks_are_as_late_as_real_ones(self):
        plain = self.compared(config())["jobs"][0]["rows"]
        late = self.compared(config('injected_delay = "50us"\nalgorithm = "ring"\n'))["jobs"][0]["rows"]
        for size in (65536, 262144):
            took = [next(row for row in rows if row["size"] == size) for rows in (plain, late)]
            self.assertGreater(took[1]["all_real_us"], took[0]["all_real_us"] + 49)

    def chain(self, collective, root):
        text = config(f'algorithm = "ring"\nroot = {root}\n', nodes=7, sizes=("64KiB",))
        text = text.replace('"all_reduce"', f'"{collective}"').replace("iterations = 3\nwarmup = 1", "iterations = 40\nwarmup = 8")
        return text.replace('inner = "packets"\n', "")

    def test_ranks_of_a_chain_are_ahead_of_each_other(self):
        """Eight operations and more are in progress at a time."""
        for collective, root in (("broadcast", 7), ("reduce", 6)):  # the real rank comes second
            with self.subTest(collective):
                self.expect_within(self.chain(collective, root), 0.1)

    def test_a_rank_that_nobody_holds_up_is_named(self):
        done = self.ask(self.chain("broadcast", 0).replace("iterations = 40\nwarmup = 8", "iterations = 4\nwarmup = 0"), "--quiet")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("gpu only sends and is ahead of all others", done.stderr)

    def test_acknowledgements_behind_data_in_both(self):
        head = '[[nic]]\nname = "n"\nacks = "behind_data"\n'
        found = self.expect_within(config(head=head, node='nic = "n"\n', real='real = true\nnic = "n"\n'), 0.1)
        first = self.compared(config())["jobs"][0]["rows"]
        self.assertNotEqual([row["all_real_us"] for row in found["jobs"][0]["rows"]], [row["all_real_us"] for row in first])

    def test_an_iteration_of_all_sizes_is_one_row(self):
        rows = self.compared(config('order = "iteration"\nalgorithm = "ring"\n'))["jobs"][0]["rows"]
        self.assertEqual([(row["size"], row["whole"]) for row in rows], [(65536 + 262144, True)])

    def test_the_table(self):
        done = self.ask(config(), "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all 4 nodes real, and with 1 real among emulated ones", done.stdout)
        self.assertIn("job 'j': all_reduce, ring, simple, 4 ranks", done.stdout)

    def test_what_real_nodes_do_not_have_is_named(self):
        cases = ((config(real=""), ("ports", "real")),
                 (config(real='real = { kind = "kernel", program = "x" }\n'), ("kernel",)),
                 (config('jitter = { distribution = "normal", mean = "10us", deviation = "2us" }\n'), ("job.jitter",)),
                 (config(head='[[nic]]\nname = "n"\ncompletion = "1us"\n', node='nic = "n"\n'), ("node.nic", "emulated nodes alone")))
        for text, words in cases:
            with self.subTest(words):
                done = self.ask(text, "--quiet")
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertTrue(any(word in done.stderr for word in words), done.stderr)


if __name__ == "__main__":
    unittest.main()
