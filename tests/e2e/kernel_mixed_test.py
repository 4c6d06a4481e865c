"""Real kernels in virtual time among emulated ranks of one ring, in any order, and beside a reference node with a job of its own, over one
fabric: results right, times those of the plan, the same again. Time is virtual, so that figures are exact however busy the machine is."""

import json
import subprocess

import stage

HEAD = """format = 1
seed = 7
[fabric]
mtu = 4096
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
"""
JOB = """[[job]]
name = "{name}"
collective = "all_reduce"
algorithm = "ring"
ranks = [{ranks}]
sizes = ["64KiB", "1MiB"]
iterations = 2
warmup = 1
payload = "exact"
entry = "first_credit"
"""
# A leaf-spine whose only way between its leaves, of four nodes each, is as fast as one node.
LEAF_SPINE = """[topology]
kind = "leaf_spine"
hosts_per_leaf = 4
spines = 1
uplink = { rate = "100Gbit/s", latency = "500ns" }
[queues]
buffer = "32MB"
[[queues.class]]
pfc = { headroom = "auto" }
"""
PATH_PS, CLOCK_PS = 1_000_000, 256_000  # two links of 500 ns; a look at a guest's clock


class MixedKernels(stage.Stage):
    def node(self, name, real=""):
        port = f'[[port]]\nreal = "{name}"\ndevice = "virtual"\n' if real else ""
        return f'[[node]]\nname = "{name}"\nlink = {{ rate = "100Gbit/s", latency = "500ns" }}\n{real}\n{port}'

    def nodes(self, kinds, first=1, seeds=None):
        """A node for each letter, its address 10.9.0.`first` and so on: K a kernel with ring_node in a ring of them, R a reference
        node, E emulated; and how a job names them. `seeds`: of the kernels' values."""
        text, names = "", []
        for i, kind in enumerate(kinds):
            following, previous = ((i + step) % len(kinds) + first for step in (1, -1))
            program = (f"./ring_node --peer-next 10.9.0.{following} --peer-prev 10.9.0.{previous} --input-seed "
                       f"{seeds[i] if seeds else 5}")
            real = {"K": f'real = {{ kind = "kernel", program = "{program}", share = "{self.build / "tools/ring_node"}" }}',
                    "R": "real = true", "E": ""}[kind]
            names.append(f"n{i + first}")
            text += self.node(names[-1], real)
        return text, ", ".join(f'"{name}"' for name in names)

    def ring(self, kinds, **options):
        nodes, ranks = self.nodes(kinds, **options)
        return HEAD + nodes + JOB.format(name="allreduce", ranks=ranks)

    def simulate(self, text, name="mixed", status=0, with_capture=True):
        """What it has said, its report and, of a capture, the time and length of each frame."""
        config, capture, report = (self.folder / f"{name}.{end}" for end in ("toml", "pcapng", "json"))
        config.write_text(text)
        more = ["--capture", str(capture)] if with_capture else []
        done = subprocess.run([str(self.understudy), "simulate", str(config), "--report", str(report), *more], capture_output=True,
                              text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        values = json.loads(report.read_text())
        stage.jsonschema.validate(values, json.loads((stage.ROOT / "ctrl/report/report.schema.json").read_text()))
        if not with_capture:
            return done.stderr, values, None
        packets = subprocess.run(["tshark", "-r", str(capture), "-T", "fields", "-e", "frame.interface_id", "-e", "frame.time_epoch",
                                  "-e", "frame.len"], capture_output=True, text=True, check=True).stdout
        return done.stderr, values, packets

    def assert_times(self, job):
        """All operations, warm-ups apart, are the plan's: a rank that enters may find the first credits of one that was done before, which
        spares a path's latency; or enter that much before one that is done later, and looks at its clock."""
        timed = [c for c in job["collectives"] if not c["warmup"]]
        self.assertEqual(len(timed), 4)
        for c in timed:
            over = c["node_reported_ps"] - c["modelled_ps"]
            took = c["node_reported_ps"] / 1e6
            print(f"{job['name']}, {len(job['ranks'])} ranks, {c['size_bytes']} bytes: {took:.2f} us, {over / 1e6:+.2f}")
            self.assertLess(abs(over), PATH_PS + CLOCK_PS + 0.001 * c["modelled_ps"])

    def assert_right(self, job):
        self.assertEqual([size["wrong_elements"] for size in job["sizes"]], [0, 0])
        self.assertEqual(job["protocol_violations"], 0)

    def test_kernels_stand_anywhere_in_a_ring(self):
        for kinds in ("KEKE", "KKE", "EKKKE"):
            with self.subTest(kinds=kinds):
                kernels = [f"n{i + 1}" for i, kind in enumerate(kinds) if kind == "K"]
                said, report, packets = self.simulate(self.ring(kinds), kinds)
                self.assertEqual(said.count("Out of bounds values : 0 OK"), len(kernels), said)
                job = report["jobs"][0]
                self.assert_right(job)
                self.assertEqual(job["real_nodes"], kernels)
                for c in job["collectives"]:
                    if not c["warmup"]:
                        self.assertEqual(len(c["by_node_ps"]), len(kernels))
                        self.assertEqual(max(c["by_node_ps"]), c["node_reported_ps"])
                self.assert_times(job)
                self.assert_holds(self.folder / f"{kinds}.pcapng", "--config", str(self.folder / f"{kinds}.toml"))
                if kinds == "KKE":
                    self.assertEqual(self.simulate(self.ring(kinds), "again")[2], packets)

    def test_a_kernel_with_other_values_is_found_out(self):
        said, report, _ = self.simulate(self.ring("KEK", seeds=[5, None, 6]), status=stage.NOT_FAITHFUL)
        self.assertIn("wrong elements", said)
        self.assertTrue(all(size["wrong_elements"] > 0 for size in report["jobs"][0]["sizes"]))

    def test_a_reference_node_has_a_job_beside_kernels(self):
        mine, ranks = self.nodes("KE")
        others, other_ranks = self.nodes("RRE", first=3)
        its_job = JOB.format(name="reference", ranks=other_ranks)
        text = HEAD + mine + others + JOB.format(name="kernels", ranks=ranks) + its_job
        _, report, packets = self.simulate(text)
        kernels, reference = report["jobs"]
        self.assertEqual((kernels["name"], reference["name"]), ("kernels", "reference"))
        for job in (kernels, reference):
            self.assert_right(job)
        self.assert_times(kernels)
        # No link is shared: its job takes what it takes without kernels.
        emulated, _ = self.nodes("EE")
        alone = self.simulate(HEAD + emulated + others + its_job, "alone")[1]["jobs"][0]
        self.assertEqual(reference["real_nodes"], ["n3", "n4"])
        self.assertEqual(len(reference["collectives"]), 6)
        self.assertEqual(reference["collectives"], alone["collectives"])
        self.assert_holds(self.folder / "mixed.pcapng", "--config", str(self.folder / "mixed.toml"))
        self.assertEqual(self.simulate(text, "again")[2], packets)

    def test_they_meet_on_the_same_links(self):
        """Two rings of two over one uplink: the reference node's goes on before, during and after the kernel's, which has half of it."""
        program = './ring_node --peer-next 10.9.0.1 --peer-prev 10.9.0.1'
        kernel = f'real = {{ kind = "kernel", program = "{program}", share = "{self.build / "tools/ring_node"}" }}'
        # In order of their addresses, four on a leaf.
        text = (HEAD + self.nodes("E")[0] + self.nodes("R", first=2)[0] + self.nodes("EE", first=3)[0] + self.node("gpu", kernel) +
                self.nodes("EEE", first=6)[0] + LEAF_SPINE + JOB.format(name="kernels", ranks='"n1", "gpu"'))
        reference = (JOB.format(name="reference", ranks='"n2", "n6"').replace('"64KiB", "1MiB"', '"256KiB"')
                     .replace("iterations = 2", "iterations = 1500").replace("exact", "synthetic"))
        jobs = [self.simulate(config, name, with_capture=False)[1]["jobs"]
                for name, config in (("alone", text), ("both", text + reference))]
        for job in (jobs[0][0], jobs[1][0]):
            self.assert_right(job)
        before, beside = ([c["node_reported_ps"] for c in kernels["collectives"] if c["size_bytes"] == 1 << 20 and not c["warmup"]]
                          for kernels, *_ in jobs)
        print("1 MiB alone", before, "ps, beside the reference node", beside)
        for a, b in zip(before, beside):
            self.assertGreater(b, 1.2 * a)
            self.assertLess(b, 2.2 * a)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
