#!/usr/bin/env python3
"""tools/experiments/bench: names become rows, turns become medians and ratios, the floor with testpmd is put together, and a benchmark that found its
packets dropped ends it. Programs stand in for those of tests/bench; testpmd is the real one, where this machine has it."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[3] / "tools/experiments/bench"
LOADER = importlib.machinery.SourceFileLoader("bench", str(TOOL))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", LOADER))
LOADER.exec_module(bench)
from bench_rows import BadResult, Name, Rows, lines, parse_name  # noqa: E402
from live_run import Failed  # noqa: E402
import bench_plot  # noqa: E402
import testpmd  # noqa: E402

# A program as Google's library makes them. Its times are those of the table, each turn's a tenth above the one before.
FAKE = """#!{python}
import json, os, re, sys
times = {times!r}
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--benchmark_list_tests" in sys.argv:
    print("\\n".join(times))
    sys.exit()
{before}
turns = os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns")
turn = os.path.getsize(turns) if os.path.exists(turns) else 0
open(turns, "a").write("x")
results = [dict(name=name, run_name=name, run_type="iteration", iterations=1, cpu_time=1e6, time_unit="ns",
                real_time=time * (1 + turn / 10), **({{"acks": 0.0625}} if name.startswith("responder") else {{}}))
           for name, time in times.items() if re.search(words["benchmark_filter"], name)]
{after}
json.dump({{"context": {{}}, "benchmarks": results}}, open(words["benchmark_out"], "w"))
"""
TIMES = {"floor_macswap/bytes:64/cold:0/manual_time": 8, "floor_macswap/bytes:1024/cold:0/manual_time": 10,
         "floor_macswap_crc/bytes:64/cold:0/manual_time": 16, "floor_macswap_crc/bytes:1024/cold:0/manual_time": 40,
         "responder/bytes:64/cold:0/manual_time": 32, "responder/bytes:1024/cold:0/manual_time": 60}

# What testpmd 22.11 prints when forwarding stops.
STOPPED = """Telling cores to stop...
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: {rx}        RX-dropped: 0             RX-total: {rx}
  TX-packets: {tx}        TX-dropped: {lost}             TX-total: {rx}
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: {rx}        RX-dropped: 0             RX-total: {rx}
  TX-packets: {tx}        TX-dropped: {lost}             TX-total: {rx}
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=31.25 (total cycles=62500 / total macswap packets={rx}) at 2600 MHz Clock

Done.
"""


def result(name, time, **more):
    return {"name": name, "run_type": "iteration", "real_time": time, "cpu_time": time, "time_unit": "ns", **more}


class Arithmetic(unittest.TestCase):
    def test_names(self):
        self.assertEqual(parse_name("p", "responder/bytes:4096/cold:1/manual_time"), Name("p", "responder", 4096, True))
        self.assertEqual(parse_name("p", "queue_pairs/queue_pairs:65536/cold:0/iterations:5/real_time"),
                         Name("p", "queue_pairs", None, False, (("queue_pairs", 65536),)))
        self.assertEqual(parse_name("p", "calendar/100"), Name("p", "calendar", None, None, (("", 100),)))
        self.assertEqual(parse_name("p", "messages/write/8").argument, "write 8")
        self.assertEqual(parse_name("p", "hops/bytes:64/hops:6").argument, "hops=6")

    def test_units_and_items(self):
        rows = Rows()
        rows.add_results("p", {"benchmarks": [result("a", 2, time_unit="us"), result("b", 7, items_per_second=4e6),
                                              result("a_mean", 9, run_type="aggregate")]})
        rows.add_results("q", {"benchmarks": [result("c/manual_time", 7, cpu_time=8, items_per_second=4e6), result("d", 7, cpu_time=8),
                                              result("e/manual_time", 7, ns=9)]})
        self.assertEqual({name.stage: row.ns for name, row in rows.all.items()}, {"a": 2000, "b": 250, "c": 7, "d": 8, "e": 9})

    def test_size_and_cores_from_counters(self):
        rows = Rows()
        rows.add_results("p", {"benchmarks": [result("small/cold:1/manual_time", 7, bytes=64.0),
                                              result("rails/bytes:64/manual_time", 9e6, ns=10.0, two_threads=1.6, in_turn=1.1)]})
        self.assertEqual({name: row.ns for name, row in rows.all.items()},
                         {Name("p", "small", 64, True): 7, Name("p", "rails", 64, None, (("cores", 1),)): 10,
                          Name("p", "rails", 64, None, (("cores", 2),)): 6.25})
        self.assertEqual(rows.find("small", 64, True).counters, {})

    def test_bad_results(self):
        for bad in (result("a", 1, error_occurred=True, error_message="no"), result("a", 0), result("a", float("nan"))):
            with self.assertRaises(BadResult):
                Rows().add_results("p", {"benchmarks": [bad]})

    def three_turns(self):
        """The machine is slower in the second turn, and testpmd alone in the third."""
        rows = Rows()
        for slow, alone in ((1, 1), (3, 1), (1, 2)):
            rows.add_results("path_bench", {"benchmarks": [
                result("floor_macswap/bytes:1024/cold:1/manual_time", 10 * slow),
                result("floor_macswap_crc/bytes:1024/cold:1/manual_time", 50 * slow),
                result("responder/bytes:1024/cold:1/manual_time", 90 * slow, acks=0.0625)]})
            rows.add(Name(testpmd.PROGRAM, bench.TESTPMD, 1024, True), 20 * slow * alone)
            rows.add(Name(testpmd.PROGRAM, bench.TESTPMD, 1024, True, (("port", "vhost-user"),)), 200 * slow)
        rows.derive()
        return rows

    def test_medians_and_ratios(self):
        rows = self.three_turns()
        both = rows.find("floor_testpmd_crc", 1024, True)
        self.assertEqual(both.values, [60, 180, 80])  # forwarding, and what the CRC adds
        ours = rows.find("responder", 1024, True)
        self.assertEqual((ours.ns, ours.spread), (90, 2))
        self.assertEqual(rows.ratio(ours, "macswap"), 9)
        self.assertEqual(rows.ratio(ours, "macswap+CRC"), 1.8)
        self.assertEqual(rows.ratio(ours, "testpmd"), 4.5)  # the median of 4.5, 4.5 and 2.25
        self.assertEqual(rows.ratio(ours, "testpmd+CRC"), 1.5)
        self.assertIsNone(rows.find("responder", 1024, False))

    def test_stages(self):
        rows = Rows()
        for slow in (1, 2):
            rows.add_results("path_bench", {"benchmarks": [
                result(f"{stage}/bytes:{size}/cold:{cold}/manual_time", slow * (ns + cold))
                for stage, ns in (("stage_parse", 20), ("stage_parse_icrc", 70), ("stage_transport", 25), ("responder", 150))
                for size in (64, 1024) for cold in (0, 1)]})
            rows.add_results("responder_bench", {"benchmarks": [
                result(f"between/bytes:{size}/between:{between}/cold:0/manual_time", slow * (150 + 40 * between))
                for size in (64, 1024) for between in (0, 1)]})
        rows.derive()
        self.assertEqual(rows.find("stage_icrc", 1024, True).values, [50, 100])
        self.assertEqual(rows.find("stage_lookup", 64, False).values, [55, 110])
        self.assertIsNone(rows.find("stage_lookup", 1024, False), "packets of long messages go together")
        self.assertIsNone(rows.find("stage_fabric_two_links", 1024, True), "a part is missing")
        self.assertEqual(rows.find("stage_fabric_two_links", 64, False).values, [40, 80])
        self.assertIsNone(rows.find("stage_fabric_six_links", 64, False))

    def test_no_ratio_to_another_size_or_state(self):
        rows = self.three_turns()
        rows.add_results("p", {"benchmarks": [result("x/bytes:64/cold:1", 1), result("x/bytes:1024/cold:0", 1), result("x/64", 1)]})
        for name, row in rows.all.items():
            if name.program == "p":
                self.assertIsNone(rows.ratio(row, "macswap"))

    def test_read_again_it_is_the_same(self):
        rows = self.three_turns()
        again = Rows.from_json(json.loads(json.dumps(rows.to_json(2e9))))
        self.assertEqual(list(lines(again, 2e9)), list(lines(rows, 2e9)))
        responder = next(row for row in again.to_json(2e9) if row["stage"] == "responder")
        self.assertEqual((responder["cycles"], responder["counters"]), (180, {"acks": 0.0625}))

    def test_order(self):
        listed = [(row.name.stage, row.name.argument) for row in self.three_turns().ordered()]
        self.assertEqual(listed, [("floor_macswap", ""), ("floor_macswap_crc", ""), (bench.TESTPMD, ""),
                                  (bench.TESTPMD, "port=vhost-user"), ("floor_testpmd_crc", ""), ("responder", "")])

    def test_panels(self):
        rows = Rows()
        rows.add_results("path_bench", {"benchmarks": [*(result(f"responder/bytes:{size}/cold:{cold}/manual_time", size + cold)
                                                         for size in (1024, 64) for cold in (0, 1))]})
        rows.add_results("p", {"benchmarks": [*(result(f"pairs/bytes:64/pairs:{number}", number) for number in (64, 4096, 1)),
                                              *(result(f"two/bytes:64/choice:{number}", 1) for number in (1, 2)),
                                              *(result(f"three/bytes:{size}/choice:1/cold:1", size) for size in (64, 256, 1024)),
                                              result("rails/bytes:64/manual_time", 1, two_threads=2), result("once/hops:6", 1)]})
        self.assertEqual(bench_plot.panels(rows), {
            "frames in the caches": ("bytes of payload", {"responder": [(64, 64), (1024, 1024)]}),
            "frames beyond the caches": ("bytes of payload", {"responder": [(64, 65), (1024, 1025)]}),
            "p": ("bytes of payload", {"three choice=1 cold": [(64, 64), (256, 256), (1024, 1024)]}),
            "over pairs": ("pairs", {"p pairs 64 B": [(1, 1), (64, 64), (4096, 4096)]}),
            "over cores": ("cores", {"p rails 64 B": [(1, 1), (2, 0.5)]})})

    def test_forwarded(self):
        self.assertEqual(testpmd.forwarded(STOPPED.format(rx=2000, tx=2000, lost=0)), (2000, 31.25))
        for rx, tx, lost in ((2000, 1999, 1), (2000, 1968, 0), (0, 0, 0)):
            with self.assertRaises(Failed):
                testpmd.forwarded(STOPPED.format(rx=rx, tx=tx, lost=lost))


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bench-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, before="", after=""):
        program = self.folder / "tests/bench/path_bench"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(FAKE.format(python=sys.executable, times=TIMES, before=before, after=after), encoding="utf-8")
        program.chmod(0o755)

    def run_tool(self, *words, path=None):
        environment = dict(os.environ, **({"PATH": path} if path else {}))
        return subprocess.run([sys.executable, TOOL, "--build", self.folder, *words], capture_output=True, text=True, check=False,
                              env=environment)

    def test_table_and_json(self):
        self.build()
        file = self.folder / "bench.json"
        ran = self.run_tool("--no-testpmd", "--repeats", "3", "--json", file)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual((report["format"], report["repeats"]), ("understudy-bench/1", 3))
        row = next(row for row in report["rows"] if (row["stage"], row["bytes"]) == ("responder", 1024))
        self.assertEqual((row["ns"], len(row["values_ns"])), (66, 3))
        self.assertAlmostEqual(row["ratios"]["macswap+CRC"], 1.5)
        self.assertNotIn("testpmd+CRC", row["ratios"])
        self.assertIn("responder", ran.stdout)
        self.assertIn("no DPDK", ran.stdout)
        self.assertIn("acks=0.0625", ran.stdout)
        again = self.run_tool("--read", file)
        self.assertEqual((again.returncode, again.stdout), (0, ran.stdout), again.stderr)

    def test_only(self):
        self.build()
        ran = self.run_tool("--no-testpmd", "--repeats", "1", "--only", "^responder/bytes:64")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("floor", ran.stdout)

    def test_only_what_there_is_not(self):
        self.build()
        ran = self.run_tool("--only", "nothing")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (1, "", "bench: no benchmark's name matches 'nothing'\n"))

    def test_a_program_that_aborts(self):
        self.build(before='print("path_bench: 64 packets, 63 received, 1 dropped", file=sys.stderr, flush=True); os.abort()')
        ran = self.run_tool("--no-testpmd")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stdout, "")
        self.assertIn("path_bench ended with SIGABRT", ran.stderr)
        self.assertIn("63 received, 1 dropped", ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)

    def test_a_program_that_measures_less(self):
        self.build(after="results.pop()")
        ran = self.run_tool("--no-testpmd")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("measured 5 benchmarks where 6 were asked for", ran.stderr)

    def test_refused(self):
        for words in (["--repeats", "0"], ["--only", "("], ["--programs", "path_bench"], ["--plot", "x.pdf"], []):
            ran = self.run_tool(*words)
            self.assertEqual(ran.returncode, 2, (words, ran.stdout, ran.stderr))
        bad = self.folder / "bad.json"
        bad.write_text('{"format": "other"}', encoding="utf-8")
        self.assertEqual(self.run_tool("--read", bad).returncode, 1)
        self.assertEqual(self.run_tool("--read", self.folder / "none").returncode, 1)

    def test_without_testpmd_it_says_so(self):
        self.build()
        ran = self.run_tool("--repeats", "1", path=str(self.folder))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("dpdk-testpmd left out, it needs dpdk-testpmd (Debian package dpdk-dev", ran.stdout)

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_plot(self):
        self.build()
        ran = self.run_tool("--no-testpmd", "--repeats", "1", "--plot", self.folder / "it's.svg")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        picture = (self.folder / "it's.svg").read_text(encoding="utf-8")
        for word in ("responder", "floor_macswap_crc", "bytes of payload"):
            self.assertIn(word, picture)


@unittest.skipIf(testpmd.missing(), "no dpdk-testpmd")
class RealTestpmd(unittest.TestCase):
    def setUp(self):
        cpus = sorted(os.sched_getaffinity(0))
        self.cpu, self.other = cpus[-1], cpus[0]

    def test_null_port(self):
        ns, version = testpmd.null_port(138, False, self.cpu, self.other, 0.05)
        self.assertGreater(ns, 0)
        self.assertIn("DPDK", version)

    def test_vhost_port(self):
        if self.cpu == self.other:
            self.skipTest("one CPU")
        self.assertGreater(testpmd.vhost_port(4170, self.cpu, self.other, 1, 2e9)[0], 0)

    def test_no_such_port(self):
        with self.assertRaises(Failed) as caught:
            testpmd.Testpmd("net_none0", "macswap", self.cpu, self.other, 64, "--total-num-mbufs=2047")
        self.assertIn("dpdk-testpmd", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
