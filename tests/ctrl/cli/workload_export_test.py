#!/usr/bin/env python3
"""`workload export`: traces and the iterations of a [model] as files of other programs, and what is refused.

    workload_export_test.py UNDERSTUDY
"""
import json
import pathlib
import unittest

from command_line import CommandLine

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/workloads"
CASES = DATA / "et_cases"
NO_PROTOBUF = ".et files: protobuf was not there"
MODEL = """format = 1
[model]
layers = 4
hidden = 256
heads = 4
sequence = 64
vocabulary = 1024
tied_embeddings = false
[parallel]
pp = 2
tp = 2
global_batch = 4
[gpu]
preset = "a100"
[[node]]
name = "n"
count = 2
gpus = 2
link = { rate = "100Gbit/s", latency = "1us" }
[topology]
kind = "single_switch"
[intra_node]
gpu_link = { rate = "2400Gbit/s", latency = "500ns" }
"""
SYSTEM = {"endpoint-delay": 10, "preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"], "local-mem-bw": 1600}


class Export(CommandLine):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model.toml"
        self.model.write_text(MODEL, encoding="utf-8")
        self.small = CASES / "feeder_json_small.json"

    def network(self, ranks, topology="FullyConnected"):
        network, system = self.folder / "network.yml", self.folder / "system.json"
        network.write_text(f"topology: [ {topology} ]\nnpus_count: [ {ranks} ]\nbandwidth: [ 400 ]\nlatency: [ 0 ]\n", encoding="utf-8")
        system.write_text(json.dumps(SYSTEM), encoding="utf-8")
        return ["--network", network, "--system", system, "--congestion", "unaware"]

    def run_right(self, *words):
        done = self.run_it("workload", *words)
        if NO_PROTOBUF in done.stderr:
            self.skipTest(NO_PROTOBUF)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def exported(self, source, form, *words, output="out"):
        return self.run_right("export", source, "--format", form, "--output", self.folder / output, *words)

    def test_traces_keep_their_content(self):
        trace = CASES / "stg_dp2tp2pp2_gpt/et"
        text = self.exported(trace, "json")
        self.assertIn("8 ranks, ", text)
        self.assertIn("out.0.json to ", text)
        self.exported(trace, "et")
        for form in ("json", "et"):
            # Both forms stand there: the one that is looked for first is .et.
            if form == "json":
                for path in self.folder.glob("out.*.et"):
                    path.rename(path.with_name(path.name.replace("out.", "moved.")))
            self.assertEqual(self.run_right("stats", self.folder / "out", "--json"), self.run_right("stats", trace, "--json"))
            if form == "json":
                for path in self.folder.glob("out.*.json"):
                    path.unlink()
                for path in self.folder.glob("moved.*"):
                    path.rename(path.with_name(path.name.replace("moved.", "out.")))

    def test_ranks_of_a_text_workload_have_their_ids(self):
        name = "text_microAllReduce_n8_p1"
        case = json.loads((CASES / name / "case.json").read_text(encoding="utf-8"))
        network = self.folder / "n.yml"
        network.write_text("".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in case["network"].items()), encoding="utf-8")
        system = self.folder / "s.json"
        system.write_text(json.dumps(case["system"]), encoding="utf-8")
        options = ["--network", network, "--system", system]
        self.exported(CASES / name / "workload.txt", "json", *options)
        direct = json.loads(self.run_right("replay", CASES / name / "workload.txt", *options, "--nodes"))
        self.assertEqual(json.loads(self.run_right("replay", self.folder / "out", *options, "--nodes")), direct)

    def test_dot(self):
        self.exported(CASES / "feeder_json_small.json", "dot", output="a.dot")
        text = (self.folder / "a.dot").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("digraph traces {"))
        self.assertEqual(text.count(" -> "), 6)
        self.exported(self.model, "dot", "--rank", "tensor-group", output="b.dot")
        text = (self.folder / "b.dot").read_text(encoding="utf-8")
        self.assertEqual(text.count("subgraph"), 2)
        self.assertEqual(text.count("[style=dotted]"), 8)  # four micro-batches there and back

    def test_perfetto(self):
        self.exported(self.model, "perfetto", *self.network(4), output="a.json")
        events = json.loads((self.folder / "a.json").read_text(encoding="utf-8"))["traceEvents"]
        slices = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
        ends = {}
        for event in events:
            if event["ph"] in "sf":
                # Every end lies on the slice that begins then.
                ends.setdefault(event["id"], {})[event["ph"]] = slices[event["pid"], event["tid"], event["ts"]]
        self.assertTrue(all(set(end) == {"s", "f"} for end in ends.values()))
        messages = [end for end in ends.values() if (end["s"]["name"], end["f"]["name"]) == ("send", "receive")]
        self.assertEqual(len(messages), 2 * 8)  # of both tensor ranks
        for end in messages:
            self.assertNotEqual(end["s"]["pid"], end["f"]["pid"])
            self.assertAlmostEqual(end["s"]["ts"] + end["s"]["dur"], end["f"]["ts"] + end["f"]["dur"])
        waits = [end for end in ends.values() if end["s"]["pid"] == end["f"]["pid"]]
        self.assertTrue(all(end["s"]["ts"] + end["s"]["dur"] <= end["f"]["ts"] + 1e-9 for end in waits))
        names = {e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertTrue({"rank 0", "rank 3", "computing", "communication", "receives 1"} <= names)

    def test_a_model_ends_when_its_own_rules_say(self):
        for rank, ranks in (("gpu", 4), ("tensor-group", 2)):
            options = self.network(ranks)
            said = json.loads(self.exported(self.model, "json", "--rank", rank, "--json", *options, output=rank))
            done = json.loads(self.run_right("replay", self.folder / rank, *options, "--json"))
            self.assertEqual(len(done["ranks"]), ranks)
            self.assertEqual(done["finish_ns"], said["own_finish_ns"])
        text = self.exported(self.model, "json", *self.network(4))
        for part in ("4 ranks, ", "A rank is a GPU. ", "By this program's own rules, with the times of that network, it ends at "):
            self.assertIn(part, text)

    def test_schedules(self):
        text, binary = DATA / "goal/example.goal", DATA / "goal/example.bin"
        self.exported(text, "goal-binary", output="a.bin")
        self.assertEqual((self.folder / "a.bin").read_bytes(), binary.read_bytes())
        self.exported(binary, "goal", output="a.goal")
        self.exported(self.folder / "a.goal", "goal-binary", output="b.bin")
        self.assertEqual((self.folder / "b.bin").read_bytes(), binary.read_bytes())
        # A model's messages and its norm, cut into messages; in both forms the same is carried out.
        self.exported(self.model, "goal", output="model.goal")
        self.exported(self.model, "goal-binary", output="model.bin")
        options = self.network(4)
        done = [json.loads(self.run_right("replay", self.folder / name, *options, "--json")) for name in ("model.goal", "model.bin")]
        self.assertEqual(done[0], done[1])
        self.assertGreater(done[0]["finish_ns"], 10_000)
        stats = json.loads(self.run_right("stats", self.folder / "model.goal", "--json"))["all"]
        self.assertEqual(stats["kinds"]["collective"], 0)
        self.assertEqual(stats["kinds"]["send"], 16 + 4 * 6)  # messages between stages, and 2 * 3 steps of the norm

    def test_what_a_replay_does_not_know_of_a_schedule_is_said(self):
        schedule = self.folder / "a.goal"
        schedule.write_text("num_ranks 2\nrank 0 {\nl1: calc 10 cpu 1\n}\nrank 1 {\nl1: calc 1\n}\n", encoding="utf-8")
        done = self.run_it("workload", "replay", schedule, *self.network(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("note: 1 operations are on a cpu other than 0; ", done.stderr)
        self.expect_bad(self.run_it("workload", "replay", schedule, *self.network(4)), "a.goal: the network has 4 ranks, and the schedule 2")
        self.expect_bad(self.run_it("workload", "stats", DATA / "goal/example.goal"),
                        'example.goal: rank 0, operation 2 (l3): "irequires" waits for the begin of an operation (1), which is not covered')
        schedule.write_text("num_ranks 1\nrank 0 {\nl1: calc\n}\n", encoding="utf-8")
        for words in (["stats", schedule], ["export", schedule, "--format", "goal", "--output", self.folder / "out"]):
            self.expect_bad(self.run_it("workload", *words), "a.goal:3: found the end of the line: expected nanoseconds")

    def test_what_is_wrong_is_named(self):
        def bad(words, *parts):
            self.expect_bad(self.run_it("workload", "export", *words), *parts)

        out = ["--output", self.folder / "out"]
        bad([self.small, "--format", "perfetto", *out], "needs times", "--network")
        bad([self.small, "--format", "json", *out, "--network", "n.yml"], "--network and --system go together")
        bad([self.model, "--format", "json", *out, *self.network(8)], "network.yml: the network has 8 ranks, and the job 4 (each a GPU)")
        bad([self.model, "--format", "json", *out, *self.network(4, "Switch")], "network.yml: the topology Switch is not covered")
        empty = self.folder / "empty.toml"
        empty.write_text('format = 1\n[[node]]\nname = "n"\nlink = { rate = "1Gbit/s", latency = "1us" }\n', encoding="utf-8")
        bad([empty, "--format", "json", *out], "empty.toml: there is no [model] to export")
        bad([self.folder / "none", "--format", "json", *out], "none: there is no such file")
        large = self.folder / "large.toml"
        large.write_text(MODEL.replace("global_batch = 4", "global_batch = 400"), encoding="utf-8")
        bad([large, "--format", "dot", *out], "large.toml: the traces have ", " nodes; at most 2000 are drawn")
        bad([self.small, "--format", "json", "--output", self.folder / "no/out"], "no/out.0.json")


if __name__ == "__main__":
    unittest.main()
