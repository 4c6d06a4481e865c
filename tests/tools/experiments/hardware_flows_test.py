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


def replay(recording, size, *options):
    command = [sys.executable, ROOT / "tools/experiments/hardware_flows", recording, "--bytes", str(size), "--understudy", UNDERSTUDY, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def row(out, words):
    line = next(line for line in out.splitlines() if line.startswith(words))
    return [float(cell) for cell in line[len(words):].split()]


class HardwareFlows(unittest.TestCase):
    def test_reads_of_a_server_that_is_always_busy(self):
        for fidelity in ("packet", "flow"):
            done = replay(ROOT / "tests/data/oracle/hardware_flows/1000_2.csv", 1024008, "--fidelity", fidelity)
            self.assertEqual(done.returncode, 0, done.stderr)
            reads, median, mean, p90 = row(done.stdout, "all")
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
