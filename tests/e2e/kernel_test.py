"""Real kernels in virtual time: ring_node beside emulated nodes, their processor's costs. Faults: kernel_faults_test.py. Time is
virtual, so that figures are exact however busy the machine is."""

import csv
import json
import re
import subprocess

import stage

from kernel_nodes import emulated, head, kernel, output_of, ring_job  # noqa: E402  stage says where it is


class Kernels(stage.Stage):
    def simulate(self, text, *arguments):
        config = self.folder / "kernels.toml"
        config.write_text(head() + text)
        return subprocess.run([str(self.understudy), "simulate", str(config), *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=300)

    def ring(self):
        program = "./ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4"
        return (kernel("gpu", program, share=self.build / "tools/rigs/ring_node") + emulated("w", count=3) +
                ring_job(["gpu", "w0", "w1", "w2"], ["64KiB", "1MiB"], warmup=1))

    def test_a_ring_is_right_on_time_and_the_same_again(self):
        captures = []
        for i in range(2):
            capture, report = self.folder / f"{i}.pcapng", self.folder / f"{i}.json"
            done = self.simulate(self.ring(), "--capture", capture, "--report", report)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("Out of bounds values : 0 OK", done.stderr)
            captures.append(stage.frame_times(capture))
        self.assertGreater(len(captures[0]), 1000)
        self.assertTrue(captures[0] == captures[1], "two runs differ")
        large = json.loads((self.folder / "0.json").read_text())["jobs"][0]["sizes"][1]
        self.assertEqual(large["wrong_elements"], 0)
        self.assertAlmostEqual(large["time_ps"], large["modelled_ps"], delta=0.005 * large["modelled_ps"])
        self.assert_holds(self.folder / "0.pcapng", "--config", str(self.folder / "kernels.toml"))

    @stage.only_in_full
    def test_samples_change_nothing(self):
        """Beside kernels, too: the same times of all frames; and the links carried what the report says."""
        times, series = [], self.folder / "series.csv"
        for options in ((), ("--series", series, "--series-interval", "100us")):
            capture, report = self.folder / "c.pcapng", self.folder / "r.json"
            done = self.simulate(self.ring() + "[queues]\n", "--capture", capture, "--report", report, *options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            times.append(stage.frame_times(capture))
        self.assertTrue(times[0] == times[1], "samples change the run")
        rows = list(csv.DictReader(series.open()))
        for link in json.loads(report.read_text())["traffic"]["links"]:
            carried = sum(int(row["throughput_bit_per_s"]) for row in rows if row["name"] == link["link"]) / 8e6 * 100
            self.assertLess(abs(carried - link["wire_bytes"]), 1_000, link["link"])

    def bandwidth(self, lines):
        """perftest's average, in bit/s: it prints MiB/s."""
        (row,) = [line.split() for line in lines if re.match(r"\s*65536\s", line)]
        return float(row[3]) * (1 << 20) * 8

    def test_costs_of_the_processor_are_added(self):
        program = "ib_write_bw -d rxe0 -x 1 -m 4096 -F -s 65536 -n 200"
        settings = {"rate": "400Gbit/s", "packet_cost": "200ns", "message_cost": "1us"}
        done = self.simulate(kernel("a", program, **settings) + kernel("b", f"sleep 0.1; {program} 10.9.0.1", **settings))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = output_of("b", done.stderr.splitlines())
        # 16 packets of a message and its acknowledgement, and the message.
        expected = 65536 * 8 / (17 * 200e-9 + 1e-6)
        self.assertAlmostEqual(self.bandwidth(lines), expected, delta=0.01 * expected)

    def test_a_program_that_fails_fails_the_run(self):
        done = self.simulate(kernel("a", "echo no; exit 7"))
        self.assertEqual(done.returncode, stage.NOT_FAITHFUL, done.stdout + done.stderr)
        self.assertIn("the program of node \"a\" ended with status 7", done.stdout)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
