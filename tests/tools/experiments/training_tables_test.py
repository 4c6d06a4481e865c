#!/usr/bin/env python3
"""tools/experiments/training_table, calculon_table and llm_analysis_table: the efficiency that made a table is found again, and what differs is named.

    tools_experiments_training_tables_test.py UNDERSTUDY
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tools/experiments"
CALCULON = ROOT / "tests/data/workloads/calculon/cases.json"
UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())
MODEL = """format = 1
[model]
layers = 48
hidden = 6144
heads = 64
vocabulary = 51200
sequence = 2048
[parallel]
tp = 8
micro_batch = 4
global_batch = 4
recompute = "{recompute}"
{sequences}
[gpu]
preset = "a100"
efficiency = 0.42
"""


def run(tool, *arguments):
    return subprocess.run([sys.executable, TOOLS / tool, "--understudy", UNDERSTUDY, *arguments], capture_output=True, text=True, check=False)


class TrainingTables(unittest.TestCase):
    def computed(self, folder, recompute, sequences):
        path = pathlib.Path(folder, "job.toml")
        path.write_text(MODEL.format(recompute=recompute, sequences=sequences))
        done = subprocess.run([UNDERSTUDY, "workload", "show", path, "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["compute"]["all_s"]

    def test_the_efficiency_of_a_made_table_is_found(self):
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            full, selective = self.computed(folder, "full", ""), self.computed(folder, "selective", "sequence_parallel = true")
            pathlib.Path(folder, "seqsel_table5.csv").write_text(
                "model,layers,hidden,heads,tp,pp,dp,gpus,batch,microbatch,iteration_s_full_recompute,iteration_s_seq_parallel_selective\n"
                f"22B,48,6144,64,8,1,1,8,4,4,{full},{selective}\n"
                f"wrong,48,6144,64,8,1,1,8,4,4,{full},{1.25 * selective}\n")
            done = run("training_table", "--cases", folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        alone, whole = done.stdout.split("\npredict")
        self.assertIn("efficiency 0.4200 of 2 rows (each alone: 0.420 to 0.420)", alone)
        self.assertRegex(alone.splitlines()[4], r"^2205.05198 table 5: wrong selective .* -20\.0$")
        self.assertIn("all rows: 4, mean 5.0 %, most 20.0 %, 3 within 10 %", alone)
        # What messages take, matrices must make up for.
        self.assertGreater(float(re.search(r"efficiency ([\d.]+)", whole)[1]), 0.43)

    def test_no_tables_is_an_error(self):
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            self.assertEqual(run("training_table", "--cases", folder).returncode, 2)
            self.assertEqual(run("calculon_table", "--cases", pathlib.Path(folder, "none.json")).returncode, 2)

    def test_calculon(self):
        data = json.loads(CALCULON.read_text())
        case = next(case for case in data["cases"] if case["id"] == "fig7_megatron-22B_none")
        slower = json.loads(json.dumps(case)) | {"id": "slower", "system": "h100_80g_nvl8"}
        for key in ("fw_time", "bw_time", "recompute_time", "optim_step_time"):
            slower["stats"][key] *= 4
        other = json.loads(json.dumps(case)) | {"id": "offloads"}
        other["execution"]["weight_offload"] = True
        data["cases"] = [case, case | {"id": "again"}, slower, other]
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            path = pathlib.Path(folder, "cases.json")
            path.write_text(json.dumps(data))
            done = run("calculon_table", "--cases", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertTrue(lines[2].startswith("slower "), done.stdout)  # the larger difference
        calibrated = lines[3].split()
        self.assertEqual(calibrated[:2], ["fig7_megatron-22B_none", "C"])
        self.assertAlmostEqual(float(calibrated[4]), 0, delta=0.2)
        # Activations of arXiv 2205.05198, figure 1: 59.25 GiB of a GPU.
        self.assertEqual(calibrated[9:11], ["59.250", "59.438"])
        self.assertIn("2 settings: ", lines[4])
        self.assertIn("left out: 1 with offloading, 1 that are the same as another", lines[4])

    def test_whole_iterations_and_sweeps_of_calculon(self):
        data = json.loads(CALCULON.read_text())
        data["cases"] = [case for case in data["cases"] if case["id"] in ("fig7_megatron-22B_none", "zero1_interleave2")]
        sweeps = json.loads(CALCULON.with_name("sweeps.json").read_text())
        sweeps["sweeps"] = sweeps["sweeps"][:1]
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            path = pathlib.Path(folder, "cases.json")
            path.write_text(json.dumps(data))
            pathlib.Path(folder, "sweeps.json").write_text(json.dumps(sweeps))
            done = run("calculon_table", "--cases", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"fig7_megatron-22B_none +0\.9919 +0\.9919 +[-+]0\.0")
        settings = re.search(r"2 settings: with its blocks mean [\d.]+ %, most ([\d.]+) %", done.stdout)
        self.assertLess(float(settings[1]), 0.5)
        times = re.search(r"its blocks: times mean [\d.]+ %, most ([\d.]+) %; best TP 1, PP 16, DP 1, the same best; (\d+) of 105 pairs", done.stdout)
        self.assertLess(float(times[1]), 1)
        self.assertLessEqual(int(times[2]), 2)

    def test_llm_analysis(self):
        done = run("llm_analysis_table")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("28 compared: ", done.stdout)
        self.assertIn("28 within 0.1 % once accounted for; not compared: 2", done.stdout)
        text = (ROOT / "tests/data/workloads/llm_analysis/cases.csv").read_text()
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            path = pathlib.Path(folder, "cases.csv")
            path.write_text(text.replace("1311016960", "1315016960"))
            done = run("llm_analysis_table", "--cases", path)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stdout, r"parameters of opt-1.3b .* -0\.3042 +-0\.3042")
        self.assertEqual(run("llm_analysis_table", "--cases", "/none").returncode, 2)

    def test_a_layer_over_workers(self):
        layer = ROOT / "tests/data/workloads/partition/layer.csv"
        done = self.partition(layer, "--workers", "2", "--lambda", "4", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        divided = json.loads(done.stdout)["layers"][0]
        self.assertLess(divided["cheapest"]["cost"], divided["in_order"]["cost"])
        self.assertEqual(sorted(divided["worker_of_neuron"]), [0] * 4 + [1] * 4)
        self.assertIn("neurons of each worker", self.partition(layer, "--workers", "2", "--cut").stdout)
        for arguments, error in (([layer, "--workers", "3", "--cut"], "3 workers cannot have as many of 8 inputs each"),
                                 ([layer], "workers: how many there are is not said"), (["/none"], "cannot open")):
            done = self.partition(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(error, done.stderr)

    def partition(self, *arguments):
        return subprocess.run([UNDERSTUDY, "workload", "partition", *arguments], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    unittest.main()
