"""Real kernels in virtual time: ring_node beside emulated nodes, their processor's costs. Faults: kernel_faults_test.py. Time is virtual, so
that figures are exact however busy the machine is."""

import json
import re
import subprocess

import stage

NODE = """[[node]]
name = "{name}"
real = {{ kind = "kernel", program = "{program}", share = "{share}" }}
link = {{ rate = "{rate}", latency = "100ns" }}
[[port]]
real = "{name}"
device = "virtual"
"""
HEAD = """format = 1
seed = 7
[fabric]
mtu = 4096
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
"""
EMULATED = """[[node]]
name = "w"
count = {count}
link = {{ rate = "{rate}", latency = "100ns" }}
"""
RING = """[[job]]
name = "allreduce"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w0", "w1", "w2"]
sizes = ["64KiB", "1MiB"]
iterations = 2
warmup = 1
payload = "exact"
entry = "first_credit"
"""


class Kernels(stage.Stage):
    def node(self, name, program, rate="100Gbit/s"):
        return NODE.format(name=name, program=program, rate=rate, share=self.build / "tools/ring_node")

    def simulate(self, text, *arguments):
        config = self.folder / "kernels.toml"
        config.write_text(HEAD + text)
        return subprocess.run([str(self.understudy), "simulate", str(config), *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=300)

    def packets(self, capture):
        """Time and length of each frame."""
        done = subprocess.run(["tshark", "-r", str(capture), "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"],
                              capture_output=True, text=True, check=True)
        return done.stdout

    def ring(self):
        program = "./ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4"
        return self.node("gpu", program) + EMULATED.format(count=3, rate="100Gbit/s") + RING

    def test_a_ring_is_right_on_time_and_the_same_again(self):
        captures = []
        for i in range(2):
            capture, report = self.folder / f"{i}.pcapng", self.folder / f"{i}.json"
            done = self.simulate(self.ring(), "--capture", capture, "--report", report)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("Out of bounds values : 0 OK", done.stderr)
            captures.append(self.packets(capture))
        self.assertGreater(captures[0].count("\n"), 1000)
        self.assertEqual(captures[0], captures[1])
        large = json.loads((self.folder / "0.json").read_text())["jobs"][0]["sizes"][1]
        self.assertEqual(large["wrong_elements"], 0)
        self.assertAlmostEqual(large["time_ps"], large["modelled_ps"], delta=0.005 * large["modelled_ps"])
        self.assert_holds(self.folder / "0.pcapng", "--config", str(self.folder / "kernels.toml"))

    def bandwidth(self, lines):
        """perftest's average, in bit/s: it prints MiB/s."""
        (row,) = [line.split() for line in lines if re.match(r"\s*65536\s", line)]
        return float(row[3]) * (1 << 20) * 8

    def test_costs_of_the_processor_are_added(self):
        program = "ib_write_bw -d rxe0 -x 1 -m 4096 -F -s 65536 -n 200"
        costs = ', packet_cost = "200ns", message_cost = "1us" }'
        text = self.node("a", program, "400Gbit/s") + self.node("b", f"sleep 0.1; {program} 10.9.0.1", "400Gbit/s")
        done = self.simulate(text.replace(" }\nlink", costs + "\nlink"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [line[3:] for line in done.stderr.splitlines() if line.startswith("b: ")]
        # 16 packets of a message and its acknowledgement, and the message.
        expected = 65536 * 8 / (17 * 200e-9 + 1e-6)
        self.assertAlmostEqual(self.bandwidth(lines), expected, delta=0.01 * expected)

    def test_a_program_that_fails_fails_the_run(self):
        done = self.simulate(self.node("a", "echo no; exit 7"))
        self.assertEqual(done.returncode, stage.NOT_FAITHFUL, done.stdout + done.stderr)
        self.assertIn("the program of node \"a\" ended with status 7", done.stdout)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
