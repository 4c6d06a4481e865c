#!/usr/bin/env python3
"""tools/experiments/hardware_flows: READs of a testbed, and recordings that are none.

    hardware_flows_test.py UNDERSTUDY
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[3]
UNDERSTUDY = str(Path(sys.argv.pop(1)).resolve())


DATA = ROOT / "tests/data/oracle/hardware_flows"
ALL = "all"


def replay(recording, size, *options):
    command = [sys.executable, ROOT / "tools/experiments/hardware_flows", recording, "--bytes", str(size), "--understudy", UNDERSTUDY, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def row(out, words):
    line = next(line for line in out.splitlines() if line.startswith(words))
    return [float(cell) for cell in line[len(words):].split()]


class HardwareFlows(unittest.TestCase):
    def test_reads_of_a_server_that_is_always_busy(self):
        for fidelity in ("packet", "flow"):
            done = replay(DATA / "1000_2.csv", 1024008, "--fidelity", fidelity)
            self.assertEqual(done.returncode, 0, done.stderr)
            reads, median, mean, p90 = row(done.stdout, ALL)
            self.assertEqual(reads, 67)
            self.assertLess(mean, 2)
            self.assertLess(median, mean)
            self.assertLess(p90, 4)
            self.assertLess(mean, row(done.stdout, "11 x wire time for every READ")[2] / 2)

    def test_one_client_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "alone.csv"
            path.write_text("client,start_ns,measured_ns\n5,1000,890100\n5,1000000,890200\n")
            done = replay(path, 1024008, "--each")
        self.assertEqual(done.returncode, 0, done.stderr)
        # The wire time, six links each way, the request and the turn.
        want = 884.87 + 2 * 6 * 0.25 + 0.1 + 2.5
        for line in done.stdout.splitlines()[:2]:
            self.assertAlmostEqual(float(line.split()[4]), want, delta=1)

    def mean(self, recording, size, *options):
        done = replay(DATA / recording, size, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return row(done.stdout, ALL)[2]

    def test_the_model_with_equal_shares_is_the_program(self):
        for recording, size in (("1000_2.csv", 1024008), ("250_1.csv", 256008)):
            self.assertAlmostEqual(self.mean(recording, size), self.mean(recording, size, "--burst", "1"), delta=0.3)

    def test_bursts_in_a_fixed_order(self):
        nic = ("--burst", "125", "--ahead", "150", "--order", "client")
        self.assertLess(self.mean("1000_2.csv", 1024008, *nic), 0.7)
        self.assertLess(self.mean("250_1.csv", 256008, *nic), 21)
        # A READ of 251 packets is then one of two turns, not three.
        self.assertGreater(self.mean("250_1.csv", 256008, "--burst", "126", *nic[2:]), 30)

    def test_packets_fetched_ahead(self):
        given = ("--idle", "--open", "--burst", "1")
        self.assertLess(self.mean("250_1.csv", 256008, *given, "--ahead", "88"), 9)
        self.assertGreater(self.mean("250_1.csv", 256008, *given), 12)

    def test_an_idle_server(self):
        text = "client,start_ns,measured_ns\n1,0,890000\n2,100000,890000\n1,2000000,890100\n2,4000000,890100\n2,6000000,890100\n"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "idle.csv"
            path.write_text(text)
            for options in ((), ("--burst", "125")):
                done = replay(path, 1024008, "--idle", *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                reads, _, mean, _ = row(done.stdout, ALL)
                self.assertEqual(reads, 3)
                self.assertLess(mean, 0.1)
            path.write_text("".join(text.splitlines(keepends=True)[:3]))
            done = replay(path, 1024008, "--idle")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("never seen idle", done.stderr)

    def test_options_of_the_model(self):
        for options, words in ((("--open",), "give it a --burst"), (("--ahead", "9"), "give it a --burst"),
                               (("--burst", "0"), "--burst 0 --ahead 2: the least"), (("--burst", "9", "--ahead", "1"), "the least")):
            done = replay(DATA / "250_1.csv", 256008, *options)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_what_is_no_recording(self):
        for text, words in (("client,start_ns,measured_ns\n", "no READs"), ("client,start_ns\n1,2\n", "alone.csv:2: "),
                            ("client,start_ns,measured_ns\n11,0,1\n", "client 11")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "alone.csv"
                path.write_text(text)
                done = replay(path, 1024)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
