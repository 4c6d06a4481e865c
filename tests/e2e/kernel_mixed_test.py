"""Real kernels in virtual time among emulated ranks and reference nodes of one ring or of any other job, in any order, and beside a
reference node with a job of its own, over one fabric: results right, times those of the plan, the same again. Time is virtual, so that figures are exact however busy the machine is."""

import json
import shutil
import subprocess

import stage

from kernel_nodes import emulated, head, job, kernel, ring_job  # noqa: E402  stage says where it is

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
REDUCE, GATHER = 'collective = "all_reduce"\n', 'collective = "all_gather"\n'
TREE, PAT, ALL_TO_ALL = f'{REDUCE}algorithm = "tree"\n', f'{GATHER}algorithm = "pat"\n', 'collective = "all_to_all"\n'
BROADCAST = 'collective = "broadcast"\nroot = 1\nchannels = 3\n'
LL128 = f'{GATHER}algorithm = "ring"\nprotocol = "ll128"\nchannels = 2\n'
PATH_PS, CLOCK_PS = 1_000_000, 256_000  # two links of 500 ns; a look at a guest's clock


def reference_node(name):
    return emulated(name, **LINK) + f'real = true\n[[port]]\nreal = "{name}"\ndevice = "virtual"\n'


def allreduce(ranks, name="allreduce"):
    return ring_job(ranks, ["64KiB", "1MiB"], name, warmup=1)


class MixedKernels(stage.Stage):
    def kernel(self, name, *arguments):
        """A kernel with ring_node."""
        return kernel(name, " ".join(["./ring_node", *arguments]), share=self.build / "tools/rigs/ring_node", **LINK)

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

    def assert_times(self, job, path_ps=PATH_PS):
        """All operations, warm-ups apart, are the plan's: a rank that enters may find the first credits of one that was done before, which
        spares a path's latency; or enter that much before one that is done later, and looks at its clock."""
        timed = [c for c in job["collectives"] if not c["warmup"]]
        self.assertEqual(len(timed), 4)
        for c in timed:
            over = c["node_reported_ps"] - c["modelled_ps"]
            took = c["node_reported_ps"] / 1e6
            print(f"{job['name']}, {len(job['ranks'])} ranks, {c['size_bytes']} bytes: {took:.2f} us, {over / 1e6:+.2f}")
            self.assertLess(abs(over), path_ps + CLOCK_PS + 0.001 * c["modelled_ps"])

    def assert_same(self, packets, again, least=1000):
        self.assertGreater(len(packets), least)
        self.assertTrue(packets == again, "two runs differ")

    def assert_right(self, job):
        self.assertEqual([size["wrong_elements"] for size in job["sizes"]], [0, 0])
        self.assertEqual(job["protocol_violations"], 0)

    def test_kernels_stand_anywhere_in_a_ring(self):
        for kinds in stage.cases(("KKE",), ("KEKE", "EKKKE")):
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
                if kinds == "KKE" and stage.ALL:
                    self.assert_same(packets, self.simulate(self.ring(kinds), "again")[2])

    def test_reference_nodes_stand_among_kernels(self):
        """Each takes as long as where all real nodes are reference nodes."""
        # From one leaf to the other a path has four links.
        for kinds, switches, path_ps in stage.cases((("EKRKER", LEAF_SPINE, 2 * PATH_PS),),
                                                    (("KRE", "", PATH_PS), ("KR", "", PATH_PS), ("KRKE", "", PATH_PS))):
            with self.subTest(kinds=kinds):
                text = self.ring(kinds) + switches
                real = [f"n{i + 1}" for i, kind in enumerate(kinds) if kind != "E"]
                said, report, packets = self.simulate(text, kinds)
                self.assertEqual(said.count("Out of bounds values : 0 OK"), kinds.count("K"), said)
                job, = report["jobs"]
                self.assert_right(job)
                self.assertEqual((job["done"], job["failed"], job["real_nodes"]), (job["planned"], False, real))
                self.assert_times(job, path_ps)
                self.assert_holds(self.folder / f"{kinds}.pcapng", "--config", str(self.folder / f"{kinds}.toml"))
                alone, = self.simulate(self.ring(kinds.replace("K", "R")) + switches, "reference")[1]["jobs"]
                for ours, theirs in zip(job["collectives"], alone["collectives"], strict=True):
                    if ours["warmup"]:
                        continue
                    self.assertEqual(ours["modelled_ps"], theirs["modelled_ps"])
                    for a, b in zip(ours["by_node_ps"], theirs["by_node_ps"], strict=True):
                        self.assertLess(abs(a - b), path_ps + CLOCK_PS + 0.001 * b)
                if kinds == "KRE":
                    self.assert_same(packets, self.simulate(text, "again")[2])

    def whole_nodes(self, kinds, operation, gpus=1, nics=1, sizes=("64KiB", "256KiB"), program="", more="", link=None, payload="synthetic"):
        """A job of `operation` with a node for each letter; kernels call the first node that is none."""
        played = f"10.9.0.{next(i + 1 for i, kind in enumerate(kinds) if kind != 'K')}"
        text, names = head(nics), [f"n{i + 1}" for i in range(len(kinds))]
        link, shape = link or LINK, f"gpus = {gpus}\nnics = {nics}\n"
        for kind, name in zip(kinds, names):
            if kind == "K":
                share = self.build / "tools/rigs/ring_node"
                node = kernel(name, f"./ring_node --peer {played} {program}", share=share, nics=nics, **link)
                text += node.replace("[[port]]", f"gpus = {gpus}\n[[port]]", 1)
                continue
            text += emulated(name, **link) + shape
            if kind == "R":
                text += "real = true\n" + "".join(f'[[port]]\nreal = "{name}"\nnic = {nic}\ndevice = "virtual"\n' for nic in range(nics))
        text += job(operation, names, sizes, warmup=1, payload=payload) + (f"gpus = {gpus}\n" if gpus > 1 else "") + more
        return text.replace('entry = "first_credit"\n', "") if "period" in more else text

    def assert_like_reference_nodes(self, kinds, operation, name, **options):
        """Each real node takes as long as where all of them are reference nodes."""
        said, report, packets = self.simulate(self.whole_nodes(kinds, operation, **options), name)
        self.assertEqual(said.count("All operations are done"), kinds.count("K"), said)
        if options.get("payload") == "exact":
            self.assertEqual(said.count("Out of bounds values : 0 OK"), kinds.count("K"), said)
        self.assert_holds(self.folder / f"{name}.pcapng", "--config", str(self.folder / f"{name}.toml"))
        done, = report["jobs"]
        self.assertEqual((done["done"], done["failed"], done["protocol_violations"]), (done["planned"], False, 0))
        alone, = self.simulate(self.whole_nodes(kinds.replace("K", "R"), operation, **options), "reference")[1]["jobs"]
        for ours, theirs in zip(done["collectives"], alone["collectives"], strict=True):
            self.assertEqual((ours["modelled_ps"], ours["size_mismatches"]), (theirs["modelled_ps"], 0))
            if ours["warmup"]:
                continue
            times = [c.get("by_node_ps") or [c["node_reported_ps"]] for c in (ours, theirs)]
            print(f"{name}, {ours['size_bytes']} bytes:", ", ".join(f"{a / 1e6:.2f} us, {(a - b) / 1e6:+.2f}" for a, b in zip(*times)))
            for a, b in zip(*times, strict=True):
                self.assertLess(abs(a - b), PATH_PS + CLOCK_PS + 0.001 * b)
        return packets

    def test_a_kernel_is_a_node_of_any_job(self):
        few = (("EEKE", "all-to-all", ALL_TO_ALL, {"sizes": ("16KiB", "64KiB"), "payload": "exact"}),
               ("KEE", "two-gpus-merged", TREE, {"gpus": 2, "nics": 4, "more": "merged_nics = 2\n", "payload": "exact"}))
        for kinds, name, operation, options in stage.cases(few, (
                ("KEEE", "tree", TREE, {}), ("EKEE", "tree-ll", TREE + 'protocol = "ll"\n', {"nics": 3, "more": "merged_nics = 3\n", "payload": "exact"}),
                ("KEEE", "ll128", LL128, {"payload": "exact"}),
                ("KEEE", "broadcast", BROADCAST, {}), ("KEEE", "pat", PAT, {"sizes": ("16KiB", "64KiB")}),
                # After the kernel, which is the root, others have messages on their way for long.
                ("KEEE", "long-ways", TREE, {"sizes": ("64KiB",), "link": {"rate": "100Mbit/s", "latency": "2ms"}}),
                ("KEEE", "period", TREE, {"program": "--period 1ms", "more": 'period = "1ms"\n'}),
                ("KEE", "two-gpus", TREE, {"gpus": 2, "nics": 2, "payload": "exact"}),
                ("KEE", "group", REDUCE + 'algorithm = "ring"\ngroup = true\n', {"payload": "exact"}))):
            with self.subTest(name):
                packets = self.assert_like_reference_nodes(kinds, operation, name, **options)
                if name == "tree":
                    self.assert_same(packets, self.simulate(self.whole_nodes(kinds, operation), "again")[2], least=500)

    def test_kernels_and_reference_nodes_are_nodes_of_any_job(self):
        few = ("KKRE", "tree", TREE, {"program": "--input-seed 5", "payload": "exact"}),
        for kinds, name, operation, options in stage.cases(few, (
                ("KKR", "all-to-all", ALL_TO_ALL, {"sizes": ("12KiB", "24KiB")}), ("KR", "ll128", LL128, {}),
                ("KRE", "broadcast", BROADCAST, {}))):
            with self.subTest(name):
                self.assert_like_reference_nodes(kinds, operation, f"mixed-{name}", **options)

    def test_mistakes_of_whole_nodes_have_their_sentences(self):
        tree = self.whole_nodes("KEE", TREE)
        ring = self.ring("KEE").replace("--peer-next 10.9.0.2 --peer-prev 10.9.0.3 --input-seed 5", "--peer 10.9.0.2")
        for text, sentence in stage.cases((
                (tree.replace("--peer 10.9.0.2", ""), "whom to call?"),), (
                (tree.replace("--peer 10.9.0.2", "--peer 10.9.0.2 --job tree"), 'no job in which 10.9.0.2 has a rank and 10.9.0.1 is a real node is called "tree"'),
                (tree.replace("--peer 10.9.0.2", "--peer-next 10.9.0.2 --peer-prev 10.9.0.3"), 'job "job" is no plain ring all-reduce'),
                (ring, "is a ring all-reduce, whose rank calls both of its neighbours"),
                (tree.replace("--peer 10.9.0.2", "--peer 10.9.0.2 --rank 0 --ranks 3 --sizes 4"), "with --peer the job is told"))):
            with self.subTest(sentence):
                self.assertIn(sentence, self.simulate(text, "wrong", stage.NOT_FAITHFUL, with_capture=False)[0])

    @stage.only_in_full
    def test_a_kernel_with_other_values_is_found_out(self):
        said, report, _ = self.simulate(self.ring("KEK", seeds=[5, None, 6]), status=stage.NOT_FAITHFUL)
        self.assertIn("wrong elements", said)
        self.assertTrue(all(size["wrong_elements"] > 0 for size in report["jobs"][0]["sizes"]))

    @stage.only_in_full
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

    def communicator(self, kinds, minor, sizes=("8B", "64KiB", "256KiB"), iterations=2, more='inner = "times"\n', gpus=1, nics=1,
                     operation=f'{REDUCE}algorithm = "ring"\n', payload="exact", communicators=1):
        """A job of NCCL's with all ranks of a node on a kernel for each letter K, on a reference node for each R."""
        share = self.folder / "share"
        share.mkdir(exist_ok=True)
        shutil.copy(self.build / "tests/rigs/nccl_rank/nccl_rank_node", share)
        (share / "id").unlink(missing_ok=True)  # of a run before
        nodes, names = "", [f"n{i + 1}" for i in range(len(kinds))]
        for place, (kind, name) in enumerate(zip(kinds, names)):
            if kind == "K":
                node = kernel(name, f"./nccl_rank_node run.toml --id id --rank {place * gpus} --communicators {communicators}", share=share, nics=nics, **LINK)
                nodes += node.replace("[[port]]", f"gpus = {gpus}\n[[port]]", 1)
            elif kind == "R":
                nodes += reference_node(name)
            else:
                nodes += emulated(name, **LINK) + f"gpus = {gpus}\nnics = {nics}\n"
        text = (head(nics) + nodes + job(operation, names, sizes, "nccl", iterations, payload=payload) +
                f'nccl = "2.{minor}"\njoin = {{ file = "{share / "id"}", communicators = {communicators} }}\nchannels = {2 * gpus}\n{more}')
        (share / "run.toml").write_text(text)
        return text

    def test_kernels_are_ranks_of_one_communicator_of_nccls(self):
        """Neighbours and others; the root is a kernel's rank or an emulated one. Elements are compared by the kernels' programs."""
        for kinds, minor in stage.cases((("KKEE", 22),), (("KEK", 28), ("EKKE", 30))):
            with self.subTest(kinds=kinds, release=f"2.{minor}"):
                said, report, _ = self.simulate(self.communicator(kinds, minor), kinds)
                self.assertEqual(said.count(" us, 0 wrong"), 6 * kinds.count("K"), said)
                job, = report["jobs"]
                self.assertEqual((job["done"], job["planned"], job["failed"], job["protocol_violations"]), (6, 6, False, 0))
                for c in job["collectives"]:
                    took, modelled = c["measured_ps"] / 1e6, c["modelled_ps"] / 1e6
                    print(f"{kinds}, 2.{minor}, {c['size_bytes']} bytes: {took:.2f} us, modelled {modelled:.2f}")
                    if c["size_bytes"] > 8:  # which is less than the time by which one program is at it before the other
                        self.assertLess(abs(took - modelled), 4 + 0.05 * modelled)
                self.assert_holds(self.folder / f"{kinds}.pcapng", "--config", str(self.folder / f"{kinds}.toml"))

    def test_kernels_make_one_communicator_after_another(self):
        """Emulated ranks forget the last one; each takes as long, and is right. The root is a kernel's rank or an emulated one."""
        for kinds, minor in stage.cases((("EKE", 30),), (("KEE", 28),)):
            with self.subTest(kinds=kinds, release=f"2.{minor}"):
                name = f"communicators-{kinds}"
                said, report, _ = self.simulate(self.communicator(kinds, minor, ("64KiB",), more="", communicators=3), name)
                self.assertEqual(said.count(" us, 0 wrong"), 6, said)
                job, = report["jobs"]
                self.assertEqual([(one["done"], one["verdict"]) for one in job["communicators"]], 3 * [(2, "faithful")])
                self.assertEqual({one["end"] for one in job["communicators"]}, {"the real ranks have left the communicator"})
                times = [[c["measured_ps"] for c in job["collectives"] if c["communicator"] == n] for n in (1, 2, 3)]
                print(f"{kinds}, 2.{minor}: {times}")
                for others in times[1:]:
                    for took, first in zip(others, times[0], strict=True):
                        self.assertLess(abs(took - first), PATH_PS + CLOCK_PS + 0.001 * first)
                self.assert_holds(self.folder / f"{name}.pcapng", "--config", str(self.folder / f"{name}.toml"))

    @stage.only_in_full
    def test_emulated_ranks_beside_a_kernel_go_packet_by_packet(self):
        """Where the configuration leaves it open: the plan's times do not hold for a tree."""
        text = self.communicator("KEEE", 28, ("64KiB", "1MiB"), more="", operation=TREE)
        said, report, _ = self.simulate(text, "by-packets")
        self.assertEqual(said.count(" us, 0 wrong"), 4, said)
        job, = report["jobs"]
        self.assertEqual((job["done"], job["planned"], job["failed"], job["model"]), (4, 4, False, "packets"))
        counts = report["traffic"]["inner_messages"][0]["counts"]
        self.assertEqual(counts["messages"], counts["received"])
        for c in job["collectives"]:
            took, modelled = c["measured_ps"] / 1e6, c["modelled_ps"] / 1e6
            print(f"KEEE, tree, {c['size_bytes']} bytes: {took:.2f} us, modelled {modelled:.2f}")
            self.assertLess(abs(took - modelled), 4 + 0.05 * modelled)

    def test_ranks_of_a_kernel_have_merged_nics(self):
        """Two ranks on each node, each beside two NICs that NCCL takes for one."""
        shape = {"gpus": 2, "nics": 4, "sizes": ("64KiB", "256KiB"), "iterations": 1,
                 "more": 'merged_nics = 2\ninner = "packets"\n'}
        for kinds, minor, name, operation in stage.cases((("KEE", 28, "ring", f'{REDUCE}algorithm = "ring"\n'),), (("EKKE", 22, "tree", TREE),)):
            with self.subTest(name, release=f"2.{minor}"):
                text = self.communicator(kinds, minor, operation=operation, **shape)
                said, report, _ = self.simulate(text, f"merged-{name}")
                self.assertEqual(said.count(" us, 0 wrong"), 2 * 2 * kinds.count("K"), said)
                job, = report["jobs"]
                self.assertEqual((job["done"], job["planned"], job["failed"], job["protocol_violations"]), (2, 2, False, 0))
                for c in job["collectives"]:
                    took, modelled = c["measured_ps"] / 1e6, c["modelled_ps"] / 1e6
                    print(f"merged NICs, {name}, 2.{minor}, {c['size_bytes']} bytes: {took:.2f} us, modelled {modelled:.2f}")
                    self.assertLess(abs(took - modelled), 4 + 0.05 * modelled)
                self.assert_holds(self.folder / f"merged-{name}.pcapng", "--config", str(self.folder / f"merged-{name}.toml"))

    @stage.only_in_full
    def test_reference_nodes_are_ranks_of_a_communicator_of_nccls(self):
        """As long as where the kernel is a reference node. The root is a reference node's rank; it sends to the kernel and hears it."""
        said, report, _ = self.simulate(self.communicator("RKE", 28), "joined-mixed")
        self.assertEqual(said.count(" us, 0 wrong"), 6, said)
        alone = self.simulate(self.communicator("RRE", 28), "joined-reference")[1]
        job, others = report["jobs"][0], alone["jobs"][0]
        self.assertEqual((job["done"], job["planned"], job["failed"], job["protocol_violations"]), (6, 6, False, 0))
        for ours, theirs in zip(job["collectives"], others["collectives"], strict=True):
            took, reference = ours["measured_ps"], theirs["measured_ps"]
            print(f"RKE, {ours['size_bytes']} bytes: {took / 1e6:.2f} us, with reference nodes {reference / 1e6:.2f}")
            self.assertEqual((ours["modelled_ps"], ours["size_mismatches"]), (theirs["modelled_ps"], 0))
            if ours["size_bytes"] > 8:
                self.assertLess(abs(took - reference), PATH_PS + CLOCK_PS + 0.001 * reference)
        self.assert_holds(self.folder / "joined-mixed.pcapng", "--config", str(self.folder / "joined-mixed.toml"))

    def test_operations_of_kernels_in_a_communicator_are_inferred(self):
        """Right, and late, as the verdict says: what is to come is asked for each 50 us, as in real time."""
        text = self.communicator("KEK", 28, ("64KiB",), 4, 'operations = "inferred"\n', payload="synthetic")
        _, report, _ = self.simulate(text, "inferred", stage.NOT_FAITHFUL)
        job, = report["jobs"]
        self.assertEqual((job["done"], job["planned"], job["failed"]), (4, 4, False))
        self.assertEqual([operation["right"] for operation in job["inferred"]["operations"]], 4 * [True])

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
