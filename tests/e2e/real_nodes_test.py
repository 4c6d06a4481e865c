"""Several real nodes in one job of a run in real time: programs on soft NICs, each at a vhost-user port of its own, with emulated nodes
between them, over two links a path and over switches. Results are right to the bit, captures hold; and at some rate times are right, too."""

import csv
import subprocess
import time
import unittest

import stage
from soft_nic_links import Vhost

from kernel_nodes import emulated, head, job, ring_job  # noqa: E402  stage says where it is

LONGEST = 120  # seconds
PLUGIN = "libnccl-profiler-understudy.so"
# Jobs that are no rings: whom they have, and their operation.
OTHERS = (("REEE", "tree", 'collective = "all_reduce"\nalgorithm = "tree"\n'), ("RRE", "all to all", 'collective = "all_to_all"\n'),
          ("ERE", "PAT", 'collective = "all_gather"\nalgorithm = "pat"\n'),
          ("RER", "broadcast", 'collective = "broadcast"\nroot = 1\nchannels = 2\nprotocol = "ll128"\n'))
RINGS = ("RER", "RRERE", "RERERRE")  # a letter for each rank: real, emulated
SOME_RINGS = stage.cases((("RER", False), ("RERERRE", True)), (("RER", True), ("RRERE", False), ("RRERE", True), ("RERERRE", False)))
SPINE = """[topology]
kind = "leaf_spine"
hosts_per_leaf = 2
spines = 1
uplink = {{ rate = "{rate}", latency = "{latency}" }}
"""
RATES = ("100Mbit/s", "40Mbit/s", "16Mbit/s", "6Mbit/s", "2Mbit/s")  # that this machine may carry beside others


class RealNodes(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def sockets(self, kinds):
        """Of each real rank's port, by its place in the ring."""
        return {i: self.folder / f"n{i + 1}.sock" for i, kind in enumerate(kinds) if kind == "R"}

    def write(self, kinds, rate, latency, switches, job):
        link = {"rate": rate, "latency": latency}
        text = head().replace("[fabric]", '[fidelity]\ntolerance = 0.05\nidle = "sleep"\n[fabric]')
        for i in range(len(kinds)):
            text += emulated(f"n{i + 1}", **link)
            if socket := self.sockets(kinds).get(i):
                text += f'real = true\n[[port]]\nreal = "n{i + 1}"\ndevice = "net_vhost{i},iface={socket},queues=1"\n'
        config = self.folder / "run.toml"
        config.write_text(text + (SPINE.format(**link) if switches else "") + job)
        return config

    def node(self, kinds, place, socket, before=()):
        """ring_node as that rank, on a soft NIC."""
        following, previous = (f"10.9.0.{(place + step) % len(kinds) + 1}" for step in (1, -1))
        return self.program(place, socket, *before, self.build / "tools/rigs/ring_node/ring_node", "--peer-next", following, "--peer-prev", previous,
                            "--input-seed", "5")

    def whole_node(self, kinds, place, socket, before=()):
        """ring_node as all ranks of that node; it calls the first emulated one."""
        return self.program(place, socket, *before, self.build / "tools/rigs/ring_node/ring_node", "--peer", f"10.9.0.{kinds.index('E') + 1}",
                            "--input-seed", "5")

    def program(self, place, socket, *words):
        link = Vhost(f"10.9.0.{place + 1}", socket)
        program = stage.favoured(link.command(self.build, words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def ranks_of_nccl(self, kinds, minor, switches, rate="1Gbit/s", latency="250us", payload="exact", algorithm="ring", words=(), **keys):
        """A rank of NCCL's at each letter R, in one communicator. The run's report, once everything but times has been found right."""
        uid = self.folder / "id"
        uid.unlink(missing_ok=True)  # of a run before
        job = ring_job([f"n{i + 1}" for i in range(len(kinds))], ("8B", "64KiB", "256KiB"), "nccl", payload=payload)
        job = job.replace('"ring"', f'"{algorithm}"')
        more = "".join(f"{key} = {value}\n" for key, value in {"channels": 2, "inner": '"times"', **keys}.items())
        config = self.write(kinds, rate, latency, switches, f'{job}nccl = "2.{minor}"\njoin = {{ file = "{uid}" }}\n{more}')
        emulator = self.start(config)
        node = self.build / "tests/rigs/nccl_rank/nccl_rank_node"
        programs = [self.program(place, socket, node, config, "--rank", str(place), *words) for place, socket in self.sockets(kinds).items()]
        for program in programs:
            said = program.communicate(timeout=LONGEST)[0]
            self.assertEqual(program.returncode, 0, said)
            # Behind them its soft NIC may say that the run, which has all results, is over.
            operations = [line for line in said.splitlines() if line.startswith("all_reduce ")]
            self.assertEqual(len(operations), 6, said)
            verified = ", 0 wrong" if payload == "exact" else ", not verified"
            self.assertEqual([operation for operation in operations if not operation.endswith(verified)], [], said)
            for word in words:
                self.assertIn(f"{word.strip('-')} operations: ", said)
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        self.assert_holds(emulator.capture, "--config", str(config))
        report = self.valid_report(emulator)
        job, = report["jobs"]
        self.assertEqual((job["done"], job["planned"], job["failed"], job["protocol_violations"]), (6, 6, False, 0))
        for name in [f"n{i + 1}" for i, kind in enumerate(kinds) if kind == "R"]:
            # What it says of TCP may come too late: the ranks have left before all emulated addresses were called.
            self.assertIn(f"self-test: RoCE passes between {name} (", emulator.log.read_text())
        return report

    def run_ring(self, kinds, rate, latency, switches=False, sizes=("4KiB", "256KiB")):
        """The run's report, once everything but times has been found right."""
        names = [f"n{i + 1}" for i in range(len(kinds))]
        config = self.write(kinds, rate, latency, switches, ring_job(names, sizes, warmup=1))
        series = self.folder / "series.csv"
        emulator = self.start(config, *(("--series", str(series), "--series-interval", "2ms") if switches else ()))
        programs = [self.node(kinds, *where) for where in self.sockets(kinds).items()]
        for program in programs:
            said = program.communicate(timeout=LONGEST)[0]
            self.assertEqual(program.returncode, 0, said)
            self.assertIn("Out of bounds values : 0 OK", said)  # every element of every result was right
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        self.assert_holds(emulator.capture, "--config", str(config))
        report = self.valid_report(emulator)
        self.assert_all_right(report)
        if switches:
            self.assert_sampled(series, report)
        job, = report["jobs"]
        self.assertEqual(job["real_nodes"], [name for name, kind in zip(names, kinds) if kind == "R"])
        self.assertEqual({len(c["by_node_ps"]) for c in job["collectives"] if not c["warmup"]}, {kinds.count("R")})
        return report

    def assert_sampled(self, series, report):
        """Every link that carried much was seen to, and none more than it can; sums are those of ctrl_run_run_sampler_test."""
        rows = list(csv.DictReader(series.open()))
        self.assertEqual([float(row["time_us"]) for row in rows], sorted(float(row["time_us"]) for row in rows))
        for link in report["traffic"]["links"]:
            seen = [int(row["throughput_bit_per_s"]) for row in rows if row["name"] == link["link"]]
            self.assertLessEqual(max(seen, default=0), 1.01 * link["rate_bits_per_second"], link["link"])
            if link["wire_bytes"] > 100_000:
                self.assertGreater(max(seen, default=0), 0, link["link"])

    def test_results_are_right_whatever_the_times(self):
        for kinds, switches in SOME_RINGS:
            with self.subTest(kinds=kinds, switches=switches):
                report = self.run_ring(kinds, "100Mbit/s", "250us", switches)
                self.assertEqual(len(report["ports"]), kinds.count("R"))
                through = [port["counters"]["rx_roce"] for port in report["ports"]]
                print(f"{kinds}, {'leaf-spine' if switches else 'two links'}: {through} RoCE frames from the real nodes")

    def test_real_nodes_reach_each_other_and_emulated_ones(self):
        """Without a job: what they say crosses both of their links, or the switches; services know all of them, by RDMA-CM too."""
        services = "".join(f'[[service]]\nnode = "n2"\nport = {port}\nkind = "{kind}"\n' for port, kind in ((7174, "rping"), (18515, "pingpong")))
        for switches in (False, True):
            with self.subTest(switches=switches):
                emulator = self.start(self.write("RER", "1Gbit/s", "250us", switches, services))
                sockets = self.sockets("RER")
                for server, client in ((["ibv_rc_pingpong", "-g", "0", "-n", "50"], ["ibv_rc_pingpong", "-g", "0", "-n", "50", "10.9.0.1"]),
                                       (["rping", "-s", "-a", "10.9.0.1", "-C", "3"], ["rping", "-c", "-a", "10.9.0.1", "-C", "3"])):
                    waits = self.program(0, sockets[0], *server)
                    time.sleep(1)  # until it listens
                    said = self.program(2, sockets[2], *client).communicate(timeout=LONGEST)[0]
                    self.assertEqual(waits.wait(LONGEST), 0, said)
                    if client[0] == "ibv_rc_pingpong":
                        self.assertIn("50 iters in", said)
                for place, socket in sockets.items():
                    for client in (["ibv_rc_pingpong", "-g", "0", "-n", "50", "10.9.0.2"], ["rping", "-c", "-a", "10.9.0.2", "-p", "7174", "-C", "3"]):
                        program = self.program(place, socket, *client)
                        said = program.communicate(timeout=LONGEST)[0]
                        self.assertEqual(program.returncode, 0, said)
                self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
                served = self.valid_report(emulator)["services"]
                self.assertEqual(sorted((service["client"], service["kind"], service["error"]) for service in served),
                                 sorted((f"10.9.0.{place}", kind, None) for place in (1, 3) for kind in ("pingpong", "rping")))
                self.assert_holds(emulator.capture, "--config", str(emulator.config))

    def test_ranks_of_one_communicator_of_nccls(self):
        """Neighbours, whose connections are their own, and others; the root is a real rank or an emulated one."""
        for kinds, minor, switches in stage.cases((("RREE", 22, False), ("ERRER", 30, True)),
                                                  (("RER", 28, False), ("RER", 28, True), ("RREE", 22, True), ("ERRER", 30, False))):
            with self.subTest(kinds=kinds, release=f"2.{minor}", switches=switches):
                report = self.ranks_of_nccl(kinds, minor, switches)
                self.assertEqual(len(report["ports"]), kinds.count("R"))

    def test_one_sided_operations_of_nccls(self):
        """Windows, collectives without kernels, a put, gets: the program verifies all that comes; the report counts it."""
        for kinds, switches in (("REEE", False), ("EER", True)):
            with self.subTest(kinds=kinds, switches=switches):
                job, = self.ranks_of_nccl(kinds, 30, switches, words=("--one-sided",))["jobs"]
                peers = len(kinds) - 1
                counted = job["one_sided"]
                self.assertEqual((counted["windows"], counted["puts"], counted["signals"]), (2 * peers, 3 * peers + 1, 6 * peers + 1))
                self.assertEqual((counted["answers"], counted["unanswered"]), (counted["puts"], 0))

    def test_ranks_of_one_communicator_of_nccls_in_trees(self):
        """What a real rank gets is made of several other real ranks' and emulated ones' values, in the trees' order."""
        for kinds, minor, keys in stage.cases((("RRERE", 29, {"protocol": '"ll128"', "type": '"float16"'}),),
                                              (("RERE", 28, {}), ("EREER", 25, {"protocol": '"ll"'}))):
            with self.subTest(kinds=kinds, release=f"2.{minor}", **keys):
                self.ranks_of_nccl(kinds, minor, False, algorithm="tree", **keys)

    def test_operations_that_are_fed_or_inferred(self):
        """By rings of ring_node, whose plugins tell one feed what each of them does, or by nobody."""
        # Of two that are neighbours, whose messages may cross the network.
        few = (("REER", "fed", 'inner = "packets"\n'), ("RERERRE", "inferred", ""))
        for kinds, way, inner in stage.cases(few, [(kinds, way, "") for kinds in RINGS for way in ("fed", "inferred")]):
            with self.subTest(kinds=kinds, way=way, inner=inner):
                names = [f"n{i + 1}" for i in range(len(kinds))]
                job = ring_job(names, ("256KiB",), payload="synthetic", iterations=3, warmup=1) + f'operations = "{way}"\n{inner}'
                config = self.write(kinds, "100Mbit/s", "250us", False, job)
                emulator = self.start(config)
                feed = f"10.9.0.{kinds.index('E') + 1}:7300"
                settings = [f"NCCL_PROFILER_PLUGIN={self.build / 'tools/nccl_profiler' / PLUGIN}", f"UNDERSTUDY_FEED={feed}"]
                before = ["env", *settings] if way == "fed" else []
                programs = [self.node(kinds, *where, before=before) for where in self.sockets(kinds).items()]
                for program in programs:
                    said = program.communicate(timeout=LONGEST)[0]
                    self.assertEqual(program.returncode, 0, said)
                    self.assertIn("(not verified)", said)
                self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
                # Credits of a next operation leave ahead, also to a real node that has gone after the last one.
                self.assert_holds(emulator.capture, "--config", str(config), "--open-end")
                done, = self.valid_report(emulator)["jobs"]
                self.assertEqual((done["failed"], done["protocol_violations"], done[way]["lost"]), (False, 0, None))
                self.assertEqual((done["planned"], done["done"]), (4, 4))
                self.assertEqual([o["right"] for o in done[way]["operations"]], 4 * [True])
                if inner:
                    counts = self.valid_report(emulator)["traffic"]["inner_messages"][0]["counts"]
                    self.assertGreater(counts["messages"], 0)
                    self.assertEqual(counts["messages"], counts["received"])

    def run_whole_nodes(self, kinds, operation, rate, latency, switches=False, sizes=("12KiB", "192KiB"), more="", before=(), options=(),
                        payload="synthetic"):
        """The run's report of a job that is no ring, once everything but times has been found right."""
        names = [f"n{i + 1}" for i in range(len(kinds))]
        config = self.write(kinds, rate, latency, switches, job(operation, names, sizes, warmup=1, payload=payload) + more)
        emulator = self.start(config)
        programs = [self.whole_node(kinds, *where, before=before) for where in self.sockets(kinds).items()]
        for program in programs:
            said = program.communicate(timeout=LONGEST)[0]
            self.assertEqual(program.returncode, 0, said)
            self.assertIn("All operations are done", said)
            if payload == "exact":
                self.assertIn("Out of bounds values : 0 OK", said)
        self.assertIn(emulator.wait(LONGEST), (0, stage.NOT_FAITHFUL))
        self.assert_holds(emulator.capture, "--config", str(config), *options)
        report = self.valid_report(emulator)
        done, = report["jobs"]
        self.assertEqual((done["done"], done["failed"], done["protocol_violations"]), (done["planned"], False, 0))
        self.assertEqual({c["size_mismatches"] for c in done["collectives"]}, {0})
        return report

    def test_nodes_of_any_job_whatever_the_times(self):
        for number, (kinds, name, operation) in enumerate(OTHERS):
            for switches in stage.cases((number % 2 == 0,), (number % 2 != 0,)):
                with self.subTest(name, switches=switches):
                    report = self.run_whole_nodes(kinds, operation, "100Mbit/s", "250us", switches, payload="exact")
                    self.assertEqual(len(report["ports"]), kinds.count("R"))

    def test_fed_operations_of_any_job(self):
        """Each node's plugin tells the feed what its rank does: collectives, or sends and receives."""
        for kinds, name, operation in stage.cases(OTHERS[1:3], (OTHERS[0], OTHERS[3])):
            with self.subTest(name):
                feed = f"10.9.0.{kinds.index('E') + 1}:7300"
                settings = [f"NCCL_PROFILER_PLUGIN={self.build / 'tools/nccl_profiler' / PLUGIN}", f"UNDERSTUDY_FEED={feed}"]
                report = self.run_whole_nodes(kinds, operation, "100Mbit/s", "250us", sizes=("192KiB",), more='operations = "fed"\n',
                                              before=["env", *settings], options=["--open-end"])
                fed = report["jobs"][0]["fed"]
                self.assertEqual((fed["lost"], [o["right"] for o in fed["operations"]]), (None, 3 * [True]))

    def test_times_are_right_at_some_rate(self):
        for kinds, switches in SOME_RINGS:
            with self.subTest(kinds=kinds, switches=switches):
                self.assert_times_at_some_rate(f"{kinds}, {'leaf-spine' if switches else 'two links'}",
                                               lambda rate, kinds=kinds, switches=switches: self.run_ring(kinds, rate, "2ms", switches, sizes=("64KiB",)))

    def test_times_of_a_tree_are_right_at_some_rate(self):
        kinds, _, operation = OTHERS[0]
        self.assert_times_at_some_rate("tree", lambda rate: self.run_whole_nodes(kinds, operation, rate, "2ms", sizes=("64KiB",), more='inner = "packets"\n'))

    def assert_times_at_some_rate(self, what, run):
        for rate in RATES:
            report = run(rate)
            timed = [c for c in report["jobs"][0]["collectives"] if not c["warmup"]]
            late = max(c["lateness_ps"] / c["modelled_ps"] for c in timed)
            over = max(c["node_reported_ps"] / c["modelled_ps"] - 1 for c in timed)
            print(f"{what}, {rate}: departures at most {100 * late:.1f} % late, the nodes' own times {100 * over:+.1f} %")
            if report["verdict"]["faithful"]:
                return
        self.fail(f"at none of {RATES}: {report['verdict']['reasons']}")


if __name__ == "__main__":
    stage.main(live=False)
