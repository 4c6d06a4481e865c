#!/usr/bin/env python3
"""`workload simai`: SimAI's own files and numbers by the command line.

    workload_simai_test.py UNDERSTUDY
"""
import json
import pathlib
import unittest

from command_line import CommandLine

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/workloads/simai"


class Simai(CommandLine):
    def test_the_shipped_example(self):
        done = self.run_it("workload", "simai", DATA / "workload_analytical.txt", "--nvlink", "360", "--nic", "48.5",
                           "--ratios", DATA, "--json", "--layers")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        got = json.loads(done.stdout)
        for key, us in {"total_us": 7545619, "compute_us": 4542795, "exposed_dp_us": 40332, "exposed_dp_ep_us": 1067010,
                        "exposed_tp_us": 326686, "exposed_ep_us": 1222811, "bubble_us": 345984, "exposed_pp_us": 0,
                        "exposed_us": 2656839}.items():
            self.assertAlmostEqual(got[key], us, delta=1, msg=key)
        self.assertEqual((got["gpus"], got["tp"], got["dp"], got["layers"], len(got["layer_times"])), (9216, 2, 384, 1789, 1789))
        self.assertEqual(got["notes"], [])

    def test_text(self):
        done = self.run_it("workload", "simai", DATA / "gpt13b_tp4_nosp_aiob.txt", "--nvlink", "200", "--nic", "24.5", "--layers")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("662 layers, 64 GPUs: TP 4, EP 1, PP 1", "data parallelism                   365183",
                     "total                             4709266", "attention_layer ", "note: without --ratios"):
            self.assertIn(part, done.stdout)

    def test_options(self):
        base = ("workload", "simai", DATA / "gpt7b_tp2_sp.txt", "--nvlink", "200", "--nic", "24.5", "--json")

        def total(*options):
            done = self.run_it(*base, *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return json.loads(done.stdout)

        plain = total()
        self.assertEqual(total("--gpus", "64")["dp"], 2 * plain["dp"])
        self.assertAlmostEqual(total("--tp-overlap", "0.5")["exposed_tp_us"], plain["exposed_tp_us"] / 2, delta=1)
        self.assertEqual(total("--dp-overlap", "1")["exposed_dp_us"], 0)
        self.assertGreater(total("--nics-per-node", "4")["exposed_dp_us"], 1.9 * plain["exposed_dp_us"])
        self.assertGreater(total("--compute-times", DATA / "aiob_compute_table.txt")["compute_us"], 1e6)

    def test_bad_input(self):
        old = DATA / "shipped_old_header_gpt13b_tp8_sp.txt"
        rates = ("--nvlink", "200", "--nic", "24.5")
        self.expect_bad(self.run_it("workload", "simai", old, *rates), "old_header_gpt13b_tp8_sp.txt:1: all_gpus: ", "SimAI's result of it is empty")
        done = self.run_it("workload", "simai", old, *rates, "--gpus", "64")
        self.assertEqual(done.returncode, 0)
        self.assertIn("note: the header lacks ep, pp, vpp, ga, all_gpus", done.stdout)
        self.assertIn("note: no time for 1 broadcast, as in SimAI", done.stdout)
        path = self.folder / "short.txt"
        path.write_text(old.read_text(encoding="utf-8").replace("20971520", "20971520x", 1), encoding="utf-8")
        self.expect_bad(self.run_it("workload", "simai", path, *rates, "--gpus", "64"), "short.txt:6: fwd_bytes: ")
        good = DATA / "gpt7b_tp2_sp.txt"
        self.expect_bad(self.run_it("workload", "simai", good, *rates, "--nics-per-node", "1"), "layer 1 (grad_norm): ")
        self.expect_bad(self.run_it("workload", "simai", good, *rates, "--ratios", self.folder), "nic_ratio.csv: cannot open")
        self.expect_bad(self.run_it("workload", "simai", good, "--nvlink", "0", "--nic", "1"), "--nvlink")
        self.expect_bad(self.run_it("workload", "simai", good, "--nvlink", "1"), "--nic")
        self.expect_bad(self.run_it("workload", "simai", good, *rates, "--pp-overlap", "0"), "--pp-overlap")


if __name__ == "__main__":
    unittest.main()
