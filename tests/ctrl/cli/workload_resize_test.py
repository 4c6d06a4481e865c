#!/usr/bin/env python3
"""`workload resize`: replicas are repeated, and what does not repeat is named.

    workload_resize_test.py UNDERSTUDY
"""
import json
import pathlib
import unittest

from command_line import CommandLine

CASES = pathlib.Path(__file__).resolve().parents[2] / "data/workloads/et_cases"
NO_PROTOBUF = ".et files: protobuf was not there"
MODEL = """format = 1
[model]
layers = 4
hidden = 256
heads = 4
sequence = 64
vocabulary = 1024
[parallel]
pp = 2
tp = 2
dp = {dp}
zero = {zero}
global_batch = {batch}
[gpu]
preset = "a100"
[[node]]
name = "n"
count = {nodes}
gpus = 2
link = {{ rate = "100Gbit/s", latency = "1us" }}
[topology]
kind = "single_switch"
[intra_node]
gpu_link = {{ rate = "2400Gbit/s", latency = "500ns" }}
"""


def nodes_by_rank(prefix, ranks):
    """All nodes, with the ranks of their groups for the groups' names, which may be others."""
    groups = json.loads(prefix.with_name(prefix.name + ".groups.json").read_text(encoding="utf-8"))
    out = []
    for rank in range(ranks):
        nodes = json.loads(prefix.with_name(f"{prefix.name}.{rank}.json").read_text(encoding="utf-8"))["workload_graph"]
        for node in nodes:
            if "pg_name" in node:
                node["pg_name"] = groups[node["pg_name"]]
        out.append(nodes)
    return out


class Resize(CommandLine):
    def exported(self, dp, zero):
        path = self.folder / f"dp{dp}.toml"
        path.write_text(MODEL.format(dp=dp, zero=zero, batch=4 * dp, nodes=2 * dp), encoding="utf-8")
        prefix = self.folder / f"dp{dp}zero{zero}"
        self.run_right("export", path, "--format", "json", "--output", prefix)
        return prefix

    def run_right(self, *words):
        done = self.run_it("workload", *words)
        if NO_PROTOBUF in done.stderr:
            self.skipTest(NO_PROTOBUF)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def resized(self, prefix, ranks, *words):
        big = self.folder / "big"
        said = self.run_right("resize", prefix, "--ranks", ranks, "--output", big, "--comm-groups", str(prefix) + ".groups.json", *words)
        return big, said

    def test_a_model_s_replicas(self):
        for zero in (0, 1):
            small, large = self.exported(2, zero), self.exported(8, zero)
            big, said = self.resized(small, 32, "--inner", 2, "--replicas", 2)
            self.assertIn("32 ranks: ", said)
            self.assertIn("assumed: 2 replicas of 4 ranks become 8\n", said)
            self.assertEqual("all-gathers of all replicas" in said, zero == 1)
            here, there = nodes_by_rank(big, 32), nodes_by_rank(large, 32)
            if zero:  # the model divides its time over the replicas
                for nodes in here + there:
                    for node in nodes:
                        if node["Name"] == "optimizer":
                            del node["runtime"], node["duration_ns"]
            self.assertEqual(here, there)

    def test_fewer_ranks(self):
        small, large = self.exported(2, 0), self.exported(8, 0)
        big, _ = self.resized(large, 8, "--inner", 2, "--replicas", 8)
        self.assertEqual(nodes_by_rank(big, 8), nodes_by_rank(small, 8))

    def test_every_rank_a_replica(self):
        # Of a text workload all ranks are alike; ids go on from rank to rank.
        text = CASES / "text_microAllReduce_n8_p1/workload.txt"
        said = self.run_right("resize", text, "--ranks", 4, "--output", self.folder / "text")
        self.assertIn("assumed: 1 replica of 1 rank become 4\n", said)
        ids = [json.loads((self.folder / f"text.{rank}.json").read_text(encoding="utf-8"))["workload_graph"][0]["Id"] for rank in range(4)]
        self.assertEqual(ids, [0, 1, 2, 3])

    def test_attributes_of_files_stay(self):
        trace = CASES / "overlap/et"
        self.run_right("resize", trace, "--ranks", 9, "--output", self.folder / "nine")
        for rank in range(9):
            self.assertEqual((self.folder / f"nine.{rank}.et").read_bytes(), pathlib.Path(f"{trace}.0.et").read_bytes())

    def test_what_is_wrong_is_named(self):
        small = self.exported(2, 0)
        groups = str(small) + ".groups.json"

        def bad(words, *parts):
            self.expect_bad(self.run_it("workload", "resize", *words, "--output", self.folder / "out"), *parts)

        bad([small, "--ranks", 16, "--comm-groups", groups], "several layouts of replicas repeat: --inner 1 --replicas 2; --inner 2 --replicas 2")
        bad([small, "--ranks", 18, "--comm-groups", groups, "--inner", 2, "--replicas", 2], "--ranks 18 is no multiple of the 4 ranks")
        bad([small, "--ranks", 16, "--comm-groups", groups, "--inner", 3, "--replicas", 2], "--inner 3 times --replicas 2 does not divide the 8 ranks")
        bad([small, "--ranks", 16, "--inner", 2, "--replicas", 2], 'group "', '" is not given (--comm-groups)')
        # Stages are no replicas.
        bad([small, "--ranks", 16, "--comm-groups", groups, "--inner", 4, "--replicas", 2], "rank 0, node ", "in another replica")
        path = small.with_name(small.name + ".3.json")
        kept = path.read_text(encoding="utf-8")
        path.write_text(kept.replace('"duration_ns": ', '"duration_ns": 1').replace('"duration_ns":', '"duration_ns":1'), encoding="utf-8")
        bad([small, "--ranks", 16, "--comm-groups", groups, "--inner", 2, "--replicas", 2], "rank 3, node ", " (beside rank 1): duration is ")
        nodes = json.loads(kept)
        nodes["workload_graph"].pop()
        path.write_text(json.dumps(nodes), encoding="utf-8")
        bad([small, "--ranks", 16, "--comm-groups", groups, "--inner", 2, "--replicas", 2], "rank 3 has no node as rank 1, node ", "(optimizer)")


if __name__ == "__main__":
    unittest.main()
