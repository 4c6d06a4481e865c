#!/usr/bin/env python3
"""The doubts about each configuration of configs/, and that what they say of seeds is true: other seeds change the times
of a simulation where it says so, and nowhere else.

    ctrl_validity_configurations_test.py UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # where extent is
from extent import ALL, cases  # noqa: E402

UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())
CONFIGS = pathlib.Path(__file__).resolve().parents[3] / "configs"
# What simulate says; None: it does not take them without kernels' programs, or at all.
DOUBTS = {
    "bert_large": set(),
    "all_to_all_among_thousands": {"contention", "inner-times"},
    "collectives": {"contention"},
    "congested_node": {"one-seed"},
    "child_communicators": {"contention"},
    "drill_failover": set(),
    "drill_nic_loss": set(),
    "drill_program": None,
    "drill_rank_death": set(),
    "drills": {"one-seed"},
    "emulated_ranks": {"one-seed"},
    "incast": {"contention"},
    "jobs_in_order": {"contention"},
    "kernel_node": None,
    "dead_spine": {"contention", "one-seed"},
    "link_down": {"contention"},
    "pfc_storm": set(),
    "nccl": set(),
    "nvls": set(),
    "oversubscribed": {"one-seed"},
    "paused_node": {"one-seed"},
    "perftest": None,
    "predict": {"contention"},
    "quickstart": set(),
    "rdma_cm": None,
    "rdma_cm_clients": None,
    "real_among_many": {"contention"},
    "real_among_thousands": {"contention", "inner-times"},
    "reference": {"contention", "inner-times", "one-seed"},
    "small_messages": set(),
    "three_real_nodes": set(),
    "training": {"one-seed"},
    "two_nics": set(),
    "two_real_nodes": {"one-seed"},
}
LONG = {"all_to_all_among_thousands"}  # takes as long as ten others, three times
# What predict says; not named here: no doubt, or it does not take them.
PREDICTED = {
    "all_to_all_among_thousands": {"beyond-closed-form"},
    "collectives": {"alone", "beyond-closed-form"},
    "congested_node": {"alone"},
    "child_communicators": {"alone"},
    "drill_failover": {"alone"},
    "drill_nic_loss": {"alone"},
    "drill_rank_death": {"alone"},
    "drills": {"alone"},
    "emulated_ranks": {"alone"},
    "jobs_in_order": {"alone"},
    "link_down": {"alone"},
    "paused_node": {"alone"},
    "predict": {"alone", "extrapolation", "nics"},
    "real_among_thousands": {"alone"},
    "reference": {"alone", "extrapolation", "one-seed"},
    "training": {"one-seed"},
    "two_real_nodes": {"alone"},
}


def doubts(lines):
    return {line["id"] for line in lines if line["kind"] == "doubt"}


def times(report):
    """Of all operations and flows."""
    traffic = report["traffic"] or {"jobs": [], "groups": []}
    return ([c["measured_ps"] for job in report["jobs"] for c in job["collectives"]] +
            [o["mean_ps"] for job in traffic["jobs"] for o in job["operations"]] +
            [(group["took_ps"], group["mean_ps"]) for group in traffic["groups"]])


class Configurations(unittest.TestCase):
    def simulated(self, name, seed=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.json"
            words = [] if seed is None else ["--seed", str(seed)]
            done = subprocess.run([UNDERSTUDY, "simulate", str(CONFIGS / f"{name}.toml"), "--report", str(path), *words],
                                  capture_output=True, text=True, timeout=300, check=False)
            self.assertIn(done.returncode, (0, 3), done.stderr)
            return json.loads(path.read_text(encoding="utf-8"))

    def test_all_are_named(self):
        self.assertEqual({path.stem for path in CONFIGS.glob("*.toml")}, set(DOUBTS))

    def test_simulate(self):
        for name, expected in DOUBTS.items():
            if expected is None or (name in LONG and not ALL):
                continue
            with self.subTest(name):
                report = self.simulated(name)
                self.assertEqual(doubts(report["validity"]), expected)
                changed = any(times(self.simulated(name, report["seed"] + more)) != times(report) for more in cases((1,), (2,)))
                self.assertEqual(changed, "one-seed" in expected)

    def test_predict(self):
        for name in DOUBTS:
            with self.subTest(name):
                done = subprocess.run([UNDERSTUDY, "predict", str(CONFIGS / f"{name}.toml"), "--json"],
                                      capture_output=True, text=True, timeout=100, check=False)
                if done.returncode == 2:
                    self.assertIn("no [[job]] to predict", done.stderr)
                    continue
                self.assertEqual(doubts(json.loads(done.stdout)["validity"]), PREDICTED.get(name, set()))


if __name__ == "__main__":
    unittest.main()
