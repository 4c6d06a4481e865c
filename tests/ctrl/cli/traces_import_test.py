#!/usr/bin/env python3
"""`workload import`, and `workload stats` of host traces: what PyTorch recorded becomes execution traces that `workload
replay` carries out.

    traces_import_test.py UNDERSTUDY
"""
import json
import pathlib
import unittest

from command_line import CommandLine

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/workloads"
HOSTS = [DATA / f"pytorch113/eg_rank{rank}_of2.json" for rank in range(2)]
PROFILES = [DATA / f"pytorch113/profile_rank{rank}_of2.json" for rank in range(2)]
NCCL = DATA / "real/host_trace_1.0.2-chakra.0.0.4.json"
SYSTEM = {"endpoint-delay": 10, "preferred-dataset-splits": 4, "active-chunks-per-dimension": 1, "local-mem-bw": 1600,
          "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
          "reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["ring"],
          "collective-optimization": "localBWAware"}


def record(rank, group, size, ranks):
    """An all-reduce of 400 bytes as NCCL's back end notes it from schema 1.1.0 on."""
    first, step, count = ranks
    return {"id": 10 + group, "name": "record_param_comms", "ctrl_deps": 2,
            "inputs": {"values": [[[50, 51, 0, 100, 4, "cuda:0"]], 1, [str(group), "a group"], rank, "allreduce", [], [], first,
                                  step, count],
                       "shapes": [], "strides": [],
                       "types": ["GenericList[Tensor(float)]", "Int", "Tuple[String,String]", "Int", "String",
                                 "GenericList[]", "GenericList[]", "Int", "Int", "Int"]},
            "outputs": {"values": [], "shapes": [], "types": []},
            "attrs": [{"name": "rf_id", "type": "uint64", "value": group + 1}, {"name": "pg_size", "type": "uint64", "value": size}]}


def host(process, records):
    def root(node, parent, name):
        return {"id": node, "name": f"[pytorch|profiler|execution_trace|{name}]", "ctrl_deps": parent, "inputs": {"values": []},
                "outputs": {"values": []}, "attrs": []}
    return {"schema": "1.1.1-chakra.0.0.4", "pid": process,
            "nodes": [root(2, 1, "thread"), *records, root(1, 1, "process")], "finish_ts": 1}


class Import(CommandLine):
    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    def imported(self, *words, prefix="job"):
        done = self.run_it("workload", "import", *words, "--output", self.folder / prefix)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def replayed(self, trace, ranks, *words):
        network = self.write("network.yml", f"topology: [ Ring ]\nnpus_count: [ {ranks} ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n")
        done = self.run_it("workload", "replay", trace, "--network", network, "--system", self.write("system.json", SYSTEM),
                           "--congestion", "unaware", "--nodes", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def stats(self, path):
        done = self.run_it("workload", "stats", path, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_stats_of_host_traces(self):
        stats = self.stats(NCCL)
        self.assertEqual((stats["nodes"], stats["calls"]), (263, 262))
        self.assertEqual(stats["collectives"], {"all-gather": {"count": 10, "bytes": 40}})
        self.assertEqual(stats["groups"], [{"name": "0", "ranks": [], "size": 2}])
        stats = self.stats(HOSTS[0])
        self.assertEqual(stats["buckets"], [38440])
        self.assertEqual(sum(stats["kinds"].values()), 176)
        self.assertEqual(sum(stats["names"].values()), 176)
        done = self.run_it("workload", "stats", HOSTS[1])
        self.assertEqual(done.returncode, 0)
        self.assertIn("buckets of gradients, bytes in order: 38440", done.stdout)

    def test_ranks_with_times(self):
        text = self.imported(*HOSTS, "--device", *PROFILES)
        self.assertIn("durations: of 174 operations, from ", text)
        self.assertIn(" by name and order in their threads", text)
        stats = self.stats(self.folder / "job")["ranks"]
        self.assertEqual([rank["nodes"] for rank in stats], [178, 178])
        self.assertEqual(stats[0]["collectives"], {"all-reduce": {"count": 1, "bytes": 38440}, "broadcast": {"count": 2, "bytes": 24}})
        events = json.loads(PROFILES[0].read_text(encoding="utf-8"))
        graph = json.loads((self.folder / "job.0.json").read_text(encoding="utf-8"))["workload_graph"]
        mark = next(node for node in graph if node["Name"] == "gloo:all_reduce" and not node["is_cpu_op"])
        self.assertEqual(mark["runtime"], next(event["dur"] for event in events if event["name"] == mark["Name"]))
        for rules in ("feeder1", "feeder3"):
            result = self.replayed(self.folder / "job", 2, "--rules", rules)
            # All computing is the CPU's, one operation after the other, and covers what the network does.
            own = sum(node["runtime"] for node in graph if node["is_cpu_op"])
            self.assertGreaterEqual(result["ranks"][0]["finish_ns"], own * 1000)
            self.assertLess(result["ranks"][0]["finish_ns"], own * 1100)
            self.assertEqual(len(result["ranks"][1]["nodes"]), 178)

    def test_ranks_without_times(self):
        self.assertIn("durations: none; a host trace has no times", self.imported(*HOSTS))
        for rules in ("feeder1", "feeder3"):
            result = self.replayed(self.folder / "job", 2, "--rules", rules)
            self.assertEqual(len(result["ranks"]), 2)
            self.assertLess(result["finish_ns"], 100_000)

    def test_one_trace_is_every_rank_s(self):
        self.assertIn("one rank of a job of 2: as one file, it is every rank's", self.imported(NCCL))
        result = self.replayed(self.folder / "job.0.json", 2)
        self.assertEqual(len(result["ranks"]), 2)
        self.assertEqual(len(result["ranks"][0]["nodes"]), 271)

    def test_ranks_are_put_in_order_and_groups_written(self):
        hosts = [self.write(f"{rank}.json", host(rank + 50, [record(rank, 0, 4, (0, 1, 4)),
                                                             record(rank // 2, 1 + rank % 2, 2, (rank % 2, 2, 2))]))
                 for rank in range(4)]
        text = self.imported(*reversed(hosts))
        self.assertIn(f"rank 3: {hosts[3]}", text)
        groups = self.folder / "job.groups.json"
        self.assertEqual(json.loads(groups.read_text(encoding="utf-8")), {"1": [0, 2], "2": [1, 3]})
        graph = json.loads((self.folder / "job.3.json").read_text(encoding="utf-8"))["workload_graph"]
        self.assertEqual([node.get("pg_name") for node in graph if node["NodeType"] == 7], [None, "2"])
        result = self.replayed(self.folder / "job", 4, "--comm-groups", groups)
        self.assertEqual(len(result["ranks"]), 4)
        done = self.run_it("workload", "import", *hosts, "--output", self.folder / "chakra", "--format", "et")
        if "this build writes no" not in done.stderr:
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            again = self.replayed(self.folder / "chakra", 4, "--comm-groups", self.folder / "chakra.groups.json")
            self.assertEqual(again["ranks"], result["ranks"])
            self.expect_bad(self.run_it("workload", "import", *hosts, "--output", self.folder / "chakra"), "chakra.0.et: it would be read")
        self.expect_bad(self.run_it("workload", "import", *hosts[:3], "--output", self.folder / "x"),
                        "0.json: it is of a job of 4 ranks, and 3 host traces are given: that of rank 3 is missing")
        self.expect_bad(self.run_it("workload", "import", *hosts[:2], hosts[3], "--output", self.folder / "x"),
                        "that of rank 2 is missing")
        self.expect_bad(self.run_it("workload", "import", hosts[0], hosts[0], "--output", self.folder / "x"),
                        "0.json: it is of rank 0, as ", "0.json is")

    def test_what_is_wrong_is_named(self):
        def bad(words, *parts, command="import"):
            output = ["--output", self.folder / "bad"] if command == "import" else []
            self.expect_bad(self.run_it("workload", command, *words, *output), *parts)
            self.assertFalse((self.folder / "bad.0.json").exists())

        text = HOSTS[0].read_text(encoding="utf-8")
        trace = json.loads(text)
        for command in ("import", "stats"):
            bad([self.write("cut.json", text[:5000])], "cut.json: at byte 5000: the file ends early", command=command)
            bad([self.write("schema.json", text.replace("1.0.1", "0.9.9", 1))], "schema.json: at byte ", "the schema '0.9.9' is not covered",
                command=command)
            twice = dict(trace, nodes=trace["nodes"] + trace["nodes"][5:6])
            bad([self.write("twice.json", twice)], "twice.json: node ", "another node has the same id", command=command)
            without = dict(trace, nodes=[node for node in trace["nodes"] if node["id"] != 3])
            bad([self.write("without.json", without)], "without.json: node 4 (aten::empty): its caller is node 3, which is not there",
                command=command)
        circle = json.loads(text)
        for node in circle["nodes"]:
            if node["id"] == 3:
                node["parent"] = 4
        bad([self.write("circle.json", circle)], "nodes call one another in a circle: node 3 (aten::zeros)")
        bad([self.write("other.json", {"a": 1})], "other.json: this is no host trace of PyTorch")
        bad([PROFILES[0]], "this is an event of a device trace")
        bad([self.folder / "none.json"], "none.json: cannot be read")
        bad([self.folder], "this is a folder")
        bad([*HOSTS, "--device", PROFILES[0]], "2 host traces are given, and 1 device traces")
        bad([HOSTS[0], "--device", HOSTS[1]], "eg_rank1_of2.json: at byte ", "this is a host trace")
        bad([HOSTS[0], "--device", DATA / "pytorch113/profile_rank0_of1.json"], "profile_rank0_of1.json: joined to ",
            " nodes of the host trace are found in it by name and order")
        bad([PROFILES[0]], "`understudy workload import` reads it beside the host trace", command="stats")
        self.write("bad.0.et", "")
        bad([HOSTS[0]], "bad.0.et: it would be read in place of what is to be written")


if __name__ == "__main__":
    unittest.main()
