#!/usr/bin/env python3
"""Commands that compute: `predict`, `calibrate`, `schedule` and `fct`.

    predictions_test.py UNDERSTUDY
"""
import json
import shutil
import unittest
from command_line import GOOD, QUICKSTART, CommandLine


class Predictions(CommandLine):
    def schedule(self, *arguments):
        done = self.run_it("schedule", QUICKSTART.with_name("collectives.toml"), *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_predict(self):
        done = self.run_it("predict", QUICKSTART.with_name("predict.toml"), "--why")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("16 ranks, 2 nodes, 16 NICs a node of 100 Gbit/s", "tree ll128, 32 ch", "<- least",
                     "PAT came with NCCL 2.23", "(trees of this size)", "point to point"):
            self.assertIn(part, done.stdout)
        jobs = json.loads(self.run_it("predict", self.config(), "--json").stdout)["jobs"]
        self.assertEqual((jobs[0]["ranks"], jobs[0]["rows"][0]["size"]), (4, 4096))
        bad = self.config(('algorithm = "ring"', 'algorithm = "pat"'))
        for command in ("check", "predict"):
            self.expect_bad(self.run_it(command, bad), "bad.toml:16: job", "PAT is for all-gather")

    def test_predict_beside_packets(self):
        """Predictions against all ranks packet by packet, in per cent of the latter: means of the ranks."""
        for collective, algorithm, protocol, size, most in (
                ("all_reduce", "ring", "simple", "16MiB", 0.5), ("all_reduce", "ring", "ll128", "16MiB", 0.5),
                ("all_reduce", "tree", "simple", "16MiB", 6), ("all_reduce", "tree", "simple", "1MiB", 2),
                ("all_gather", "ring", "simple", "16MiB", 0.5), ("all_gather", "pat", "simple", "16MiB", 0.5),
                ("broadcast", "ring", "simple", "16MiB", 0.5), ("all_to_all", "ring", "simple", "16MiB", 0.5),
                ("send_recv", "ring", "simple", "64KiB", 0.5), ("send_recv", "ring", "simple", "16MiB", 0.5)):
            path = self.folder / "both.toml"
            path.write_text(f"""format = 1
[[node]]
name = "w"
count = 8
link = {{ rate = "100Gbit/s", latency = "1us" }}
[[job]]
name = "j"
collective = "{collective}"
algorithm = "{algorithm}"
protocol = "{protocol}"
channels = 2
ranks = ["w*"]
sizes = ["{size}"]
step_cost = "1us"
""", encoding="utf-8")
            with self.subTest(collective, algorithm=algorithm, protocol=protocol, size=size):
                row = json.loads(self.run_it("predict", path, "--json").stdout)["jobs"][0]["rows"][0]
                simulated = self.run_it("simulate", path)
                self.assertEqual(simulated.returncode, 0, simulated.stderr)
                times = [line.split()[3] for line in simulated.stdout.splitlines()
                         if line.split()[:1] == [str(row["size"])]]
                self.assertEqual(len(times), 1, simulated.stdout)
                self.assertLess(abs(row["time_us"] / float(times[0]) - 1) * 100, most)

    def test_strict_predictions(self):
        plain, exceeding = self.config(), self.config(name="calibrated.toml")
        exceeding.write_text(exceeding.read_text(encoding="utf-8") + '[calibration]\nlaunch = "1us"\n', encoding="utf-8")
        for words in ((), ("--json",)):
            self.assertEqual(self.run_it("predict", plain, "--strict", *words).returncode, 0)
            self.assertEqual(self.run_it("predict", exceeding, *words).returncode, 0)
            done = self.run_it("predict", exceeding, "--strict", *words)
            self.assertEqual((done.returncode, done.stderr), (3, "strict: 1 doubt\n"))
            if words:
                doubts = [line["id"] for line in json.loads(done.stdout)["validity"] if line["kind"] == "doubt"]
                self.assertEqual(doubts, ["unknown-origin"])

    def test_calibrate(self):
        table = QUICKSTART.parent.parent / "tests/data/oracle/measured/vtrain_a100_8gpu_allreduce.csv"
        done = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("other rows: 504, mean error", "ring 12 x 20 GB/s", "[nccl]", "[calibration]", "ll128 = {"):
            self.assertIn(part, done.stdout)
        # What it prints is a configuration's section.
        sections = done.stdout[done.stdout.index("[nccl]"):]
        path = self.folder / "calibrated.toml"
        path.write_text("""format = 1
[[node]]
name = "a"
gpus = 8
link = { rate = "100Gbit/s", latency = "1us" }
[[job]]
name = "one node"
collective = "all_reduce"
algorithm = "auto"
protocol = "auto"
nccl = "2.18"
ranks = ["a"]
sizes = ["22MiB", "24MiB", "1GiB"]
""" + sections, encoding="utf-8")
        done = self.run_it("predict", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["jobs"][0]["rows"]
        self.assertEqual([r["protocol"] for r in rows], ["ll128", "simple", "simple"])
        for row, measured in zip(rows, (303.1, 265.3, 8193.0)):
            self.assertAlmostEqual(row["time_us"] / measured, 1, delta=0.05)
        judged = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--use", path)
        self.assertIn("other rows: 512", judged.stdout)
        # The output by itself is what --use takes, too.
        own = self.folder / "own.toml"
        own.write_text(self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18").stdout, encoding="utf-8")
        again = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--use", own)
        self.assertEqual((again.returncode, again.stdout), (0, judged.stdout), again.stderr)
        own.write_text("[nccl]\ngpu = \"ampere\"\n", encoding="utf-8")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--use", own), "own.toml", "no [calibration]")
        own.write_text("[calibration]\ntail = 0.5\n[[node]]\nname = \"a\"\n", encoding="utf-8")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--use", own), "own.toml", "format")
        self.expect_bad(self.run_it("calibrate", table), "does not tell its ranks")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--gpu", "pascal"), "--gpu", "hopper")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--nccl", "3.1"), "--nccl 3.1")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "9", "--nodes", "2"), "9 ranks on 2 nodes")
        self.expect_bad(self.run_it("calibrate", QUICKSTART, "--ranks", "8"), "found no row")

    def test_flow_completion(self):
        path = self.folder / "poisson.toml"
        path.write_text("""format = 1
[[control]]
name = "slow"
law = "dcqcn"
[[node]]
name = "w"
count = 4
link = { rate = "100Gbit/s", latency = "1us" }
[[traffic]]
pattern = "poisson"
from = "w*"
load = 0.5
sizes = "sizes.csv"
flows = 40
""", encoding="utf-8")
        (self.folder / "sizes.csv").write_text("bytes,share\n1000,0\n50000,100\n", encoding="utf-8")
        rows, table = self.folder / "rows.csv", self.folder / "table.csv"
        done = self.run_it("fct", path, "--control", "slow", "--control", "none", "--seeds", "2", "--flows", rows,
                           "--csv", table, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(" +- ", done.stdout)
        self.assertEqual(done.stdout, self.run_it("fct", path, "--control", "slow", "--control", "none", "--seeds",
                                                  "2", "--quiet").stdout)
        lines = [line.split(",") for line in rows.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(lines[0][6:], ["started_at_us", "ended_at_us", "duration_us", "ideal_duration_us", "slowdown"])
        self.assertEqual(len(lines), 1 + 2 * 2 * 40)
        for line in lines[1:]:
            started, ended, duration, ideal, slowdown = map(float, line[6:])
            self.assertAlmostEqual(ended - started, duration, delta=1e-5)
            self.assertAlmostEqual(duration / ideal, slowdown, delta=1e-4)
            self.assertGreaterEqual(slowdown, 0.999999)
        self.assertIn("p99_9_half_width_95", table.read_text(encoding="utf-8"))
        self.expect_bad(self.run_it("fct", path, "--control", "fast"), 'no [[control]] "fast"')
        self.expect_bad(self.run_it("fct", path, "--control", "slow", "--fidelity", "flow"), "--control", "fidelity")
        self.expect_bad(self.run_it("fct", path, "--control", "slow", "--control", "slow"), 'two curves', '"slow"')
        self.expect_bad(self.run_it("fct", path, path), "two curves", str(path))
        other = self.folder / "other"
        other.mkdir()
        for name in ("poisson.toml", "sizes.csv"):
            shutil.copy(self.folder / name, other / name)
        done = self.run_it("fct", path, other / "poisson.toml", "--csv", table, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        curves = {line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]}
        self.assertEqual(curves, {str(path), str(other / "poisson.toml")})
        self.expect_bad(self.run_it("fct", path, "--plot", "x.pdf"), ".svg or .png")
        path.write_text(path.read_text(encoding="utf-8").replace("load = 0.5", "load = 1e-9")
                        .replace("flows = 40", 'until = "1us"'), encoding="utf-8")
        done = self.run_it("fct", path, "--flows", rows, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(rows.read_text(encoding="utf-8").splitlines()), 1)
        self.expect_bad(self.run_it("fct", QUICKSTART), "quickstart.toml", "no [[traffic]]")

    def test_schedule_of_every_job(self):
        text = self.schedule()
        for job in ("gradients", "buckets", "experts", "parameters", "weights", "uneven"):
            self.assertIn("job " + job + ": ", text)
        self.assertIn("all_reduce, bfloat16; 32 ranks on 4 nodes, up to 8 channels, NCCL 2.28", text)
        self.assertIn("256 MiB (268435456 B): tree, ll128, 8 channels", text)

    def test_schedule_of_one_rank(self):
        job = json.loads(self.schedule("--job", "parameters", "--rank", "1", "--messages", "--json"))["jobs"][0]
        self.assertEqual((job["rank"], job["ranks"]), (1, 4))
        operation = job["operations"][0]
        self.assertEqual((operation["algorithm"], operation["protocol"]), ("pat", "simple"))
        self.assertEqual(operation["channels"], [{"channel": 0, "offset": 0, "bytes": 16384}])
        send = operation["connections"][0]
        self.assertEqual((send["from"], send["to"], send["direction"]), (1, 0, "send"))
        self.assertEqual(send["sizes"], [{"count": 1, "bytes": [32768]}])
        self.assertEqual(send["list"][0]["after"], [{"connection": 3, "message": 0, "moment": "arrival"}])

    def test_operations_of_a_group_share_channels(self):
        job = json.loads(self.schedule("--job", "buckets", "--json"))["jobs"][0]
        first, second, third = (operation["channels"] for operation in job["operations"])
        self.assertEqual(first, [{"channel": 0, "offset": 0, "bytes": 4096}])
        self.assertEqual(second[0]["channel"], 0)
        self.assertEqual(third[0]["channel"], second[-1]["channel"])
        self.assertEqual(third[-1]["channel"], 7)

    def test_schedule_refuses(self):
        self.expect_bad(self.run_it("schedule", QUICKSTART, "--rank", "9"), "--rank 9", "are 0 to 3")
        self.expect_bad(self.run_it("schedule", QUICKSTART, "--job", "x"), "--job x", "no job of this name")
        self.expect_bad(self.run_it("schedule", self.topology("")), "at least one [[job]]")
        path = self.topology("", "wrong.toml")
        path.write_text(GOOD.replace("algorithm = \"ring\"", "algorithm = \"pat\""))
        self.expect_bad(self.run_it("schedule", path), "wrong.toml:16", "job: found \"all_reduce\" by algorithm \"pat\"")

    def test_schedule_of_what_nccl_chooses(self):
        path = self.topology("", "auto.toml")
        path.write_text(GOOD.replace("algorithm = \"ring\"", "algorithm = \"auto\"\nprotocol = \"auto\"\nchannels = 8")
                        .replace("[\"4KiB\"]", "[\"4KiB\", \"256MiB\"]"))
        done = self.run_it("schedule", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        small, large = json.loads(done.stdout)["jobs"][0]["operations"]
        self.assertIn(small["protocol"], ("ll", "ll128"))
        self.assertEqual(len(small["channels"]), 1)
        self.assertEqual(len(large["channels"]), 8)


if __name__ == "__main__":
    unittest.main()
