"""Real kernels in virtual time among emulated ranks of one ring, in any order, and beside a reference node with a job of its own, over one
fabric: results right, times those of the plan, the same again. Time is virtual, so that figures are exact however busy the machine is."""

import json
import subprocess

import stage

from kernel_nodes import emulated, head, kernel, ring_job  # noqa: E402  stage says where it is

LINK = {"rate": "100Gbit/s", "latency": "500ns"}
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


def reference_node(name):
    return emulated(name, **LINK) + f'real = true\n[[port]]\nreal = "{name}"\ndevice = "virtual"\n'


def allreduce(ranks, name="allreduce"):
    return ring_job(ranks, ["64KiB", "1MiB"], name, warmup=1)


class MixedKernels(stage.Stage):
    def kernel(self, name, *arguments):
        """A kernel with ring_node."""
        return kernel(name, " ".join(["./ring_node", *arguments]), share=self.build / "tools/ring_node", **LINK)

    def nodes(self, kinds, first=1, seeds=None):
        """A node for each letter, its address 10.9.0.`first` and so on: K a kernel with ring_node in a ring of them, R a reference
        node, E emulated; and their names. `seeds`: of the kernels' values."""
        text, names = "", []
        for i, kind in enumerate(kinds):
            name = f"n{i + first}"
            names.append(name)
            if kind == "K":
                following, previous = (f"10.9.0.{(i + step) % len(kinds) + first}" for step in (1, -1))
                text += self.kernel(name, "--peer-next", following, "--peer-prev", previous, "--input-seed", str(seeds[i] if seeds else 5))
            else:
                text += reference_node(name) if kind == "R" else emulated(name, **LINK)
        return text, names

    def ring(self, kinds, **options):
        nodes, ranks = self.nodes(kinds, **options)
        return head() + nodes + allreduce(ranks)

    def simulate(self, text, name="mixed", status=0, with_capture=True):
        """What it has said, its report and, of a capture, each frame's times and length."""
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
        return done.stderr, values, stage.frame_times(capture)

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

    def assert_same(self, packets, again):
        self.assertGreater(len(packets), 1000)
        self.assertTrue(packets == again, "two runs differ")

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
                    self.assert_same(packets, self.simulate(self.ring(kinds), "again")[2])

    def test_a_kernel_with_other_values_is_found_out(self):
        said, report, _ = self.simulate(self.ring("KEK", seeds=[5, None, 6]), status=stage.NOT_FAITHFUL)
        self.assertIn("wrong elements", said)
        self.assertTrue(all(size["wrong_elements"] > 0 for size in report["jobs"][0]["sizes"]))

    def test_a_reference_node_has_a_job_beside_kernels(self):
        mine, ranks = self.nodes("KE")
        others, other_ranks = self.nodes("RRE", first=3)
        its_job = allreduce(other_ranks, "reference")
        text = head() + mine + others + allreduce(ranks, "kernels") + its_job
        _, report, packets = self.simulate(text)
        kernels, reference = report["jobs"]
        self.assertEqual((kernels["name"], reference["name"]), ("kernels", "reference"))
        for job in (kernels, reference):
            self.assert_right(job)
        self.assert_times(kernels)
        # No link is shared: its job takes what it takes without kernels.
        nobody, _ = self.nodes("EE")
        alone = self.simulate(head() + nobody + others + its_job, "alone")[1]["jobs"][0]
        self.assertEqual(reference["real_nodes"], ["n3", "n4"])
        self.assertEqual(len(reference["collectives"]), 6)
        self.assertEqual(reference["collectives"], alone["collectives"])
        self.assert_holds(self.folder / "mixed.pcapng", "--config", str(self.folder / "mixed.toml"))
        self.assert_same(packets, self.simulate(text, "again")[2])

    def test_they_meet_on_the_same_links(self):
        """Two rings of two over one uplink: the reference node's goes on before, during and after the kernel's, which has half of it."""
        # In order of their addresses, four on a leaf.
        text = (head() + self.nodes("E")[0] + self.nodes("R", first=2)[0] + self.nodes("EE", first=3)[0] +
                self.kernel("gpu", "--peer-next", "10.9.0.1", "--peer-prev", "10.9.0.1") + self.nodes("EEE", first=6)[0] +
                LEAF_SPINE + allreduce(["n1", "gpu"], "kernels"))
        its_job = ring_job(["n2", "n6"], ["256KiB"], "reference", iterations=1500, warmup=1, payload="synthetic")
        jobs = [self.simulate(config, name, with_capture=False)[1]["jobs"]
                for name, config in (("alone", text), ("both", text + its_job))]
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
