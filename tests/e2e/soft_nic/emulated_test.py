"""Unmodified verbs programs on a soft NIC, on a cable to an emulated node."""

import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import nccl_job  # noqa: E402
import stage  # noqa: E402
from emulated_node import OnEmulatedNode  # noqa: E402

# Services whose kind has to be said have ports of their own.
PORTS = {("write", "lat"): ("-p", "18516"), ("send", "lat"): ("-p", "18517")}


class WithAnEmulatedNode(OnEmulatedNode):
    def test_clients_of_every_kind(self):
        self.start((stage.ROOT / "configs/perftest.toml").read_text() + '[[service]]\nnode = "w"\nport = 18517\nkind = "send_lat"\n')
        self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", "0", "-n", "100", self.NODE))
        self.assertIn("200 iters in", self.output(0, "ibv_ud_pingpong", "-g", "0", "-n", "200", "-p", "18518", self.NODE))
        self.assertIn("50 iters in", self.output(0, "ibv_ud_pingpong", "-g", "0", "-n", "50", "-s", "4096", "-c", "-p", "18518", self.NODE))
        programs = [(f"ib_{kind}_{what}", *(() if kind == "atomic" else ("-s", "8" if what == "lat" else "65536")),
                     *PORTS.get((kind, what), ())) for kind in ("write", "send", "read", "atomic") for what in ("bw", "lat")]
        for cm in ((), ("-R",)):
            for program, *options in programs:
                with self.subTest(program=program, cm=cm):
                    self.output(0, program, "-F", "-x", "0", "-u", "18", "-n", "50", *options, *cm, self.NODE)
        self.assertIn("100 iters in", self.output(0, "ibv_uc_pingpong", "-g", "0", "-n", "100", "-p", "18519", self.NODE))
        unreliable = (("ib_write_bw", "18520"), ("ib_send_bw", "18520"), ("ib_write_lat", "18521"), ("ib_send_lat", "18522"))
        for program, port in unreliable:
            with self.subTest(program=program, unreliable=True):
                self.output(0, program, "-c", "UC", "-F", "-x", "0", "-n", "50", "-s", "1024", "-p", port, self.NODE)
        self.assert_all_served(3 + 3 * len(programs) + 1 + len(unreliable))  # -R has a connection for its own exchange, too

    def test_a_network_interface_that_goes_away_ends_the_run(self):
        self.start((stage.ROOT / "configs/perftest.toml").read_text())
        self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", "0", "-n", "100", self.NODE))
        self.cable.ip("-n", self.cable.ends[0], "link", "del", "soft0")  # the other end of a veth goes with it
        self.assertEqual(self.emulator.wait(60), stage.NOT_FAITHFUL)
        reason = "port of gpu: its network interface soft0 is gone"
        self.assertIn(reason, self.emulator.log.read_text())
        report = self.emulator.report()
        self.assertEqual((report["verdict"]["faithful"], report["broken_off"]["text"]), (False, reason))
        self.assertIn(reason, report["verdict"]["reasons"])
        self.assertEqual([service["error"] for service in report["services"]], [None])
        self.assert_holds()

    def test_clients_that_use_rdma_cm(self):
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        self.assertEqual(self.output(0, "rping", "-c", "-a", self.NODE, "-C", "3", "-v").count("ping data: rdma-ping-"), 3)
        self.assertIn("return status 0", self.output(0, "ucmatose", "-c", "3", "-s", self.NODE))
        refused = self.output(0, "ucmatose", "-p", "7999", "-s", self.NODE, status=8)
        self.assertIn("RDMA_CM_EVENT_REJECTED", refused)
        self.assert_all_served(4)

    def test_a_rank_of_a_ring_with_emulated_ranks(self):
        self.start(stage.NETWORK.format(seed=20, tolerance=0.05, idle="sleep", pacing="true", rate="100Mbit/s", latency="250us",
                                        socket=self.folder / "unused")
                   + stage.RING.format(sizes='["4KiB", "256KiB"]', iterations=3, payload="exact", more=""))
        printed = self.output(0, str(stage.Stage.build / "tools/rigs/ring_node/ring_node"), "--peer-next", stage.NEXT,
                              "--peer-prev", stage.PREVIOUS)
        self.assertIn("Out of bounds values : 0 OK", printed)  # every element of every result was right
        self.assertIn(self.emulator.wait(180), (0, stage.NOT_FAITHFUL))
        self.assertEqual({size["wrong_elements"] for job in self.emulator.report()["jobs"] for size in job["sizes"]}, {0})
        self.assert_holds()

    def test_a_rank_of_nccls_with_emulated_ranks(self):
        """The reference rank, which posts what net_ib posts; its results are right to the bit."""
        few = ((30, {"more": ", queue_pairs = 4"}, {}), (28, {"algorithm": "tree", "channels": 2}, {}),
               (25, {"algorithm": "tree", "protocol": "ll"}, {"type": "bfloat16"}),
               (27, {"collective": "reduce_scatter", "algorithm": "pat"}, {"type": "float16"}),
               (28, {"protocol": "ll128"}, {"type": "int8", "reduction": "max"}))
        for number, (minor, keys, job) in enumerate(stage.cases(few, (
                (28, {}, {}), (22, {"channels": 2}, {}), (29, {"algorithm": "tree", "protocol": "ll128"}, {"type": "float64", "reduction": "prod"}),
                (24, {"collective": "all_gather", "algorithm": "pat"}, {})))):
            with self.subTest(release=f"2.{minor}", **keys, **job):
                uid = self.folder / f"id{number}"
                keys = {"channels": 1, "more": "", "collective": "all_reduce", "algorithm": "ring", "protocol": "simple", **keys}
                self.start(nccl_job.NODES.format(emulated=3, idle="sleep", socket="unused", minor=minor, order='["gpu", "w*"]',
                                                 sizes='["32B", "64KiB", "1MiB"]', iterations=2, payload="exact", join=f'file = "{uid}"', **keys)
                           + "".join(f'{key} = "{value}"\n' for key, value in job.items()))
                printed = self.output(0, str(stage.Stage.build / "tests/rigs/nccl_rank/nccl_rank_node"), str(self.config))
                operations = printed.splitlines()[2:]
                self.assertEqual([operation for operation in operations if not operation.endswith(", 0 wrong")], [], printed)
                self.assertIn(self.emulator.wait(180), (0, stage.NOT_FAITHFUL))
                done, = self.emulator.report()["jobs"]
                self.assertEqual((done["done"], done["planned"], done["failed"], done["protocol_violations"]),
                                 (6, 6, False, 0))
                self.assertEqual(len(operations), 6)
                self.assert_holds()

    def test_a_rank_that_stands_still_is_named(self):
        """Stopped for longer than an operation takes, and let go on: who waits for whom, at once and in the report."""
        self.start(nccl_job.NODES.format(emulated=3, idle="sleep", socket="unused", minor=28, order='["gpu", "w*"]', sizes='["32MiB"]', iterations=20,
                                         payload="synthetic", join=f'file = "{self.folder / "id"}"', channels=1, more="", collective="all_reduce",
                                         algorithm="ring", protocol="simple"))
        rank = self.begun(0, str(stage.Stage.build / "tests/rigs/nccl_rank/nccl_rank_node"), str(self.config))
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        for line in rank.stdout:
            if line.startswith("all_reduce "):  # the first operation is done
                break
        for _ in range(10):  # until it stands in an operation, not between two, where it may compute for as long as it likes
            time.sleep(0.2)
            rank.send_signal(signal.SIGSTOP)
            named = self.says("does not go on: rank ", 15)
            rank.send_signal(signal.SIGCONT)
            if named:
                break
        self.assertTrue(named, self.emulator.log.read_text())
        self.assertEqual(rank.wait(180), 0)
        self.assertIn(self.emulator.wait(180), (0, stage.NOT_FAITHFUL))
        job, = self.emulator.report()["jobs"]
        self.assertEqual((job["done"], job["failed"]), (20, False))
        self.assertGreater(job["pace"]["waited"], 0.2, job["pace"])
        self.assertIn("# pace: operations took ", self.emulator.table.read_text())

    def says(self, words, seconds):
        """Whether the run has said so within that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if words in self.emulator.log.read_text():
                return True
            time.sleep(0.1)
        return False


if __name__ == "__main__":
    stage.main(live=False)
