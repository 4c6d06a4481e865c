#!/usr/bin/env python3
"""`workload show`: a training job by the shape of its model; and what other commands say of one.

    workload_test.py UNDERSTUDY
"""
import json
import unittest

from command_line import QUICKSTART, CommandLine

LLAMA = QUICKSTART.parent / "training/llama2_70b.toml"
RAIL = QUICKSTART.parent / "training/llama2_70b_rail.toml"
BIG = """format = 1
[model]
preset = "gpt3-175b"
[parallel]
tp = 8
dp = 2
[gpu]
preset = "a100"
"""


class Workloads(CommandLine):
    def shown(self, path):
        done = self.run_it("workload", "show", path, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def written(self, text):
        path = self.folder / "job.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def test_llama_70b(self):
        job = self.shown(LLAMA)
        self.assertEqual((job["parameters"], job["gpus"], job["micro_batches"]), (68_976_648_192, 512, 32))
        # 80 layers of 855,654,400 parameters, of which the norms' 16,384 are on each GPU; both ends.
        layers = 20 * ((855_654_400 - 16_384) // 8 + 16_384)
        words = 32_000 * 8192 // 8
        first, last = job["stages"]
        self.assertEqual((first["stage"], first["parameters"]), (0, layers + words))
        self.assertEqual((last["stage"], last["parameters"]), (3, layers + words + 8192))
        self.assertEqual(first["memory_bytes"]["optimizer"], (layers + words) * 12 / 16)
        # 20 layers, 32 micro-batches: 6 all-gathers each, 2 forward and 4 back, and of the embedding's gradients.
        gathers = sum(message["count"] * phase["times"] for phase in first["phases"] for message in phase["messages"]
                      if (message["group"], message["operation"]) == ("TP", "all-gather"))
        self.assertEqual(gathers, (6 * 20 + 1) * 32)
        self.assertEqual(first["traffic"]["PP"], {"operations": 64, "sent_bytes": 32 * 2 * 4096 * 8192 / 8})
        self.assertTrue(job["memory"]["fits"])
        fullest = max(stage["memory_bytes"]["all"] for stage in job["stages"])
        self.assertEqual(job["memory"]["left_bytes"], 80 * 2**30 - fullest)
        time = job["compute"]
        self.assertAlmostEqual(time["all_s"], time["pipeline_s"] + time["optimizer_s"], places=9)
        # A little more than 3/35, as the last stage has the logits.
        self.assertTrue(3 / 35 < time["bubble"] < 0.12, time)

    def test_text(self):
        done = self.run_it("workload", "show", LLAMA)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("80 layers, hidden 8192, 64 heads with 8 of keys, feed-forward 28672 gated", "512 GPUs: TP 8",
                     "parameters    68976648192", "  fits: stage 0 leaves ", "forward, 32 times", "compute time  ",
                     "not here: how long messages take"):
            self.assertIn(part, done.stdout)

    def test_what_does_not_fit(self):
        path = self.written(BIG)
        job = self.shown(path)
        self.assertFalse(job["memory"]["fits"])
        self.assertEqual(job["memory"]["left_bytes"], 80 * 2**30 - job["stages"][0]["memory_bytes"]["all"])
        self.assertIn("does not fit: stage 0 needs ", self.run_it("workload", "show", path).stdout)
        without = self.written(BIG[:BIG.index("[gpu]")])
        self.assertNotIn("memory", self.shown(without))
        self.assertNotIn("compute", self.shown(without))
        self.assertIn("compute time: not known, without [gpu]", self.run_it("workload", "show", without).stdout)

    def test_bad_input(self):
        self.expect_bad(self.run_it("workload", "show", self.written(BIG.replace("tp = 8", "tp = 64"))),
                        "job.toml:5: parallel.tp: found 64: it must divide heads, 96")
        self.expect_bad(self.run_it("workload", "show", self.written(BIG.replace("tp =", "tpp ="))),
                        'job.toml:5: parallel.tpp: found an unknown key (did you mean "tp"?)')
        self.expect_bad(self.run_it("workload", "show", self.config(name="good.toml")), "there is no [model] to show")
        self.expect_bad(self.run_it("workload", "show"), "required")
        self.expect_bad(self.run_it("workload"), "subcommand")
        self.expect_bad(self.run_it("workload", "shw", LLAMA), 'unknown command "shw" (did you mean "show"?)')
        self.expect_bad(self.run_it("workload", "show", LLAMA, "--jsn"), 'unknown option "--jsn" (did you mean "--json"?)')

    def test_other_commands(self):
        """check says that it is good; no other one ignores it."""
        done = self.run_it("check", LLAMA)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("a training job on 512 GPUs without nodes, for workload show only", done.stdout)
        for command in ("predict", "simulate", "compare"):
            with self.subTest(command):
                self.expect_bad(self.run_it(command, LLAMA), "llama2_70b.toml:5: model: there is no [[node]]")
        self.expect_bad(self.run_it("topo", LLAMA), "there is no [[node]]")
        for path in (LLAMA, RAIL):
            self.expect_bad(self.run_it("schedule", path), f"{path.name}:{4 if path == RAIL else 5}: model: this command is not for training jobs")
        self.expect_bad(self.run_it("run", RAIL), "llama2_70b_rail.toml: run needs at least one [[port]]")
        self.assertIn("and a training job on 512 GPUs", self.run_it("check", RAIL).stdout)

    def test_three_answers(self):
        """Llama 2 70B on 64 nodes, by closed forms and as flows."""
        predicted = json.loads(self.run_it("predict", RAIL, "--json").stdout)["training"]
        report = self.folder / "report.json"
        done = self.run_it("simulate", RAIL, "--fidelity", "flow", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("# training: 512 GPUs on 64 nodes, TP 8, PP 4, DP 16, 32 micro-batches", "limit: computing is a roofline: matrices reach 67 % of the GPU's peak",
                     "outage: switch spine3 down"):
            self.assertIn(part, done.stdout)
        simulated = json.loads(report.read_text(encoding="utf-8"))["traffic"]["training"]
        self.assertEqual((predicted["source"], simulated["source"]), ("closed form", "flow"))
        times = [training["iterations"][0]["end_ps"] / 1e12 for training in (predicted, simulated)]
        self.assertAlmostEqual(times[0] / times[1], 1, delta=0.02)
        # The slow node is the second replica of the second stage; GPUs compute the same in both.
        for training in (predicted, simulated):
            stages = training["iterations"][0]["stages"]
            self.assertEqual(stages[1]["slowest_replica"], 1)
            self.assertGreater(stages[1]["longest_ps"], 1.15 * stages[2]["longest_ps"])
        self.assertEqual([stage["mean"]["compute_ps"] for stage in predicted["iterations"][0]["stages"]],
                         [stage["mean"]["compute_ps"] for stage in simulated["iterations"][0]["stages"]])

    def test_how_far_to_trust_it(self):
        done = self.run_it("predict", RAIL)
        for part in ("limit: computing is a roofline", "[closed-form]", "doubt: [[event]]s are not in these times", "[one-seed]"):
            self.assertIn(part, done.stdout)
        self.assertEqual(self.run_it("predict", RAIL, "--strict").returncode, 3)
        big = self.written(BIG + '[[node]]\nname = "n"\ncount = 2\ngpus = 8\nlink = { rate = "100Gbit/s", latency = "1us" }\n'
                           '[intra_node]\ngpu_link = { rate = "2400Gbit/s", latency = "1us" }\n[topology]\nkind = "single_switch"\n')
        for command in ("predict", "simulate"):
            with self.subTest(command):
                done = self.run_it(command, big, *(["--fidelity", "flow"] if command == "simulate" else []))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("doubt: the job does not fit: stage 0 needs ", done.stdout)

    def test_compare(self):
        done = self.run_it("compare", RAIL, "--no-packets", "--json", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        part, = json.loads(done.stdout)["parts"]
        self.assertEqual((part["name"], len(part["rows"])), ("model", 1))
        self.assertAlmostEqual(part["rows"][0]["predict_us"] / part["rows"][0]["flow_us"], 1, delta=0.02)


if __name__ == "__main__":
    unittest.main()
