#!/usr/bin/env python3
"""`workload stats` and `workload replay`: execution traces by ASTRA-sim's rules and files.

    traces_test.py UNDERSTUDY
"""
import json
import pathlib
import unittest

from command_line import QUICKSTART, CommandLine

CASES = pathlib.Path(__file__).resolve().parents[2] / "data/workloads/et_cases"
NO_PROTOBUF = "this build reads no .et files"


class Traces(CommandLine):
    def files_of(self, name):
        """ASTRA-sim's files of a case, as options, and the case."""
        case = json.loads((CASES / name / "case.json").read_text(encoding="utf-8"))
        network, system = self.folder / "network.yml", self.folder / "system.json"
        network.write_text("".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in case["network"].items()),
                           encoding="utf-8")
        system.write_text(json.dumps(case["system"]), encoding="utf-8")
        options = ["--network", network, "--system", system]
        for key, option in (("remote_memory", "--remote-memory"), ("comm_groups", "--comm-groups")):
            if case[key]:
                path = self.folder / f"{key}.json"
                path.write_text(json.dumps(case[key]), encoding="utf-8")
                options += [option, path]
        return options, case

    def replayed(self, name, trace, *words):
        options, case = self.files_of(name)
        done = self.run_it("workload", "replay", trace, *options, *words)
        if NO_PROTOBUF in done.stderr:
            self.skipTest(NO_PROTOBUF)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, case

    def test_finish_by_rank(self):
        text, case = self.replayed("coll_skewed_entry", CASES / "coll_skewed_entry/et", "--json")
        ranks = json.loads(text)["ranks"]
        expected = case["results"]["v3_aware"]["finish_ns"]
        self.assertEqual({str(rank["rank"]): rank["finish_ns"] for rank in ranks}, expected)
        text, _ = self.replayed("coll_skewed_entry", CASES / "coll_skewed_entry/et", "--congestion", "unaware")
        for part in ("4 ranks, rules of feeder3, congestion unaware", "         0                51840                        46840"):
            self.assertIn(part, text)

    def test_rules_differ(self):
        for rules, finish in (("feeder1", 16_000), ("feeder3", 19_000)):
            text, _ = self.replayed("ctrl_dep", CASES / "ctrl_dep/et", "--rules", rules, "--congestion", "unaware", "--json")
            self.assertEqual(json.loads(text)["finish_ns"], finish)

    def test_groups_memory_and_nodes(self):
        text, case = self.replayed("comm_group_file", CASES / "comm_group_file/et", "--json")
        self.assertEqual(json.loads(text)["finish_ns"], max(case["results"]["v3_aware"]["finish_ns"].values()))
        text, _ = self.replayed("mem_memory_pool", CASES / "mem_memory_pool/et", "--nodes")
        self.assertEqual(json.loads(text)["ranks"][1]["nodes"], [[0, 0, 32_000], [1, 32_000, 42_000], [2, 42_000, 116_000]])

    def test_text_workload_needs_no_protobuf(self):
        name = "text_MLP_ModelParallel_n8_p2"
        text, case = self.replayed(name, CASES / name / "workload.txt", "--passes", 2, "--json")
        self.assertEqual(json.loads(text)["finish_ns"], max(case["results"]["v3_aware"]["finish_ns"].values()))

    def test_one_file_is_every_rank_s(self):
        text, _ = self.replayed("coll_free_serial", CASES / "coll_free_serial/et.0.et", "--json")
        self.assertEqual({rank["finish_ns"] for rank in json.loads(text)["ranks"]}, {112_960})

    def test_stats(self):
        done = self.run_it("workload", "stats", CASES / "feeder_json_small.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("6 data dependencies, 7 control dependencies (7 of nodes that are not there)", done.stdout)
        done = self.run_it("workload", "stats", CASES / "stg_dp2tp2pp2_gpt/et", "--json")
        if NO_PROTOBUF in done.stderr:
            self.skipTest(NO_PROTOBUF)
        stats = json.loads(done.stdout)
        self.assertEqual(len(stats["ranks"]), 8)
        self.assertEqual(stats["all"]["nodes"], sum(rank["nodes"] for rank in stats["ranks"]))
        self.assertEqual(stats["all"]["collectives"]["all-reduce"], {"count": 48, "bytes": 332_398_592})

    def test_on_a_network(self):
        config = QUICKSTART.parent / "workload/mlp.toml"
        report, timeline = self.folder / "report.json", self.folder / "timeline.json"
        done = self.run_it("simulate", config, "--fidelity", "flow", "--report", report, "--timeline", timeline)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# traces: 16 ranks on 4 nodes, 1 communicator, rules streams; operations between nodes as max-min fair rates", done.stdout)
        traces = json.loads(report.read_text())["traffic"]["traces"]
        self.assertEqual([rank["node"] for rank in traces["ranks"][6:10]], ["n1", "n1", "n2", "n2"])
        # 3 layers of 20 % more on the slow node.
        self.assertEqual(traces["ranks"][8]["computed_ps"] * 5, traces["ranks"][0]["computed_ps"] * 6)
        named = {event["args"]["name"] for event in json.loads(timeline.read_text())["traceEvents"]
                 if event["name"] == "process_name"}
        self.assertIn("rank 15 (n3, GPU 3)", named)
        predicted = json.loads(self.run_it("predict", config, "--json").stdout)
        self.assertEqual(predicted["schema"], "understudy-trace-prediction/1")
        self.assertAlmostEqual(predicted["traces"]["finish_ps"] / traces["finish_ps"], 1, delta=0.03)
        self.assertEqual(predicted["traces"]["ranks"][8]["computed_ps"], traces["ranks"][8]["computed_ps"])
        self.assertIn("recorded", [line["id"] for line in predicted["validity"]])
        self.assertIn("and a [workload] of traces", self.run_it("check", config).stdout)
        compared = self.run_it("compare", config)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertIn("until all of 16 ranks have finished", compared.stdout)
        self.expect_bad(self.run_it("run", config), "mlp.toml: run needs at least one [[port]]")
        self.expect_bad(self.run_it("schedule", config), "mlp.toml:5: workload: this command is not for traces")

    def test_what_is_wrong_is_named(self):
        options, _ = self.files_of("coll_skewed_entry")
        trace = CASES / "coll_skewed_entry/et"
        if NO_PROTOBUF in self.run_it("workload", "stats", trace).stderr:
            self.skipTest(NO_PROTOBUF)

        def bad(words, *parts):
            self.expect_bad(self.run_it("workload", "replay", *words), *parts)

        bad([self.folder / "none", *options], "none: there is no such file, no ", "none.0.et")
        bad([CASES / "p2p_chain/et.0.et", *options], "rank 1, node 1", "a message of a rank to itself")
        cut = self.folder / "cut.et"
        cut.write_bytes((CASES / "coll_skewed_entry/et.0.et").read_bytes()[:-3])
        bad([cut, *options], "cut.et: at byte ", "the file ends within a message of ")
        (self.folder / "network.yml").write_text("topology: [ Switch ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n",
                                                 encoding="utf-8")
        bad([trace, *options], "network.yml: the topology Switch is not covered")
        (self.folder / "network.yml").write_text("topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n",
                                                 encoding="utf-8")
        bad([trace, *options], "et.4.et: there is no such file, and the network has 8 ranks")
        (self.folder / "network.yml").write_text("topology: [ Ring ]\nnpus_count: [ 3 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n",
                                                 encoding="utf-8")
        bad([trace, *options], "et.3.et: the network has 3 ranks, and there is a file of one more")
        options, _ = self.files_of("involved_dim_2d")
        bad([CASES / "involved_dim_2d/et", *options], "several dimensions with congestion are not covered")


if __name__ == "__main__":
    unittest.main()
