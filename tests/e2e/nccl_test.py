"""A reference rank of NCCL on the virtual node's RDMA device, in a communicator whose other ranks are emulated."""

import shutil
import subprocess
import time

import stage

NODES = """format = 1
seed = 20
[fidelity]
tolerance = 0.05
idle = "spin"
[fabric]
mtu = 4096
pacing = true
[[prefix]]
nic = 0
v4 = "10.9.0.0/16"
[[node]]
name = "gpu"
real = true
link = {{ rate = "1Gbit/s", latency = "50us" }}
[[node]]
name = "w"
count = {emulated}
link = {{ rate = "1Gbit/s", latency = "50us" }}
[[port]]
real = "gpu"
device = "net_vhost0,iface={socket},queues=1"
[[job]]
name = "nccl"
collective = "{collective}"
algorithm = "{algorithm}"
protocol = "{protocol}"
ranks = {order}
sizes = {sizes}
iterations = {iterations}
payload = "{payload}"
entry = "first_credit"
channels = {channels}
nccl = "2.{minor}"
join = {{ {join}{more} }}
"""


class Job(stage.Stage):
    """One joined job, with the program that plays its real rank."""

    def setUp(self):
        super().setUp()
        shutil.copy(self.build / "tests/nccl_rank/nccl_rank_node", self.share)

    def config(self, minor, ranks, collective="all_reduce", algorithm="ring", protocol="simple",
               sizes='["64KiB", "1MiB"]', iterations=2, payload="synthetic", channels=2, order='["gpu", "w*"]', join=None,
               more="", tables=""):
        file = self.share / "run.toml"
        join = join or f'file = "{self.share / "id"}"'
        file.write_text(NODES.format(emulated=ranks - 1, socket=self.socket, collective=collective, algorithm=algorithm,
                                     protocol=protocol, sizes=sizes, iterations=iterations, payload=payload,
                                     channels=channels, minor=minor, order=order, join=join, more=more) +
                        tables)
        return file

    def node(self):
        return self.join("--mem", "768", prefix=16)


class Nccl(Job):
    """Each case: release, ranks, and what of the configuration is not the default."""

    def play(self, minor, ranks, **job):
        """A run with one node; returns what the real rank printed of its operations."""
        for old in (self.share / "id", self.socket):
            old.unlink(missing_ok=True)
        config = self.config(minor, ranks, **job)
        emulator = self.start(config, "--linger", "60s")
        node = self.node()
        output = node.output("/mnt/nccl_rank_node /mnt/run.toml --id /mnt/id")
        node.stop()
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        print(output, end="", flush=True)
        done, = self.valid_report(emulator)["jobs"]
        self.assertEqual((done["done"], done["failed"], done["protocol_violations"]), (done["planned"], False, 0))
        self.assert_holds(emulator.capture, "--config", str(config))
        operations = output.splitlines()[2:]
        self.assertEqual(len(operations), done["planned"])
        return operations

    def play_all(self, *cases):
        for minor, ranks, job in cases:
            with self.subTest(release=f"2.{minor}", ranks=ranks, **job):
                for operation in self.play(minor, ranks, **job):
                    verified = job.get("payload") == "exact"
                    self.assertTrue(operation.endswith(", 0 wrong" if verified else ", not verified"), operation)

    def test_rings_are_right_to_the_bit(self):
        exact = {"payload": "exact"}
        small = {"sizes": '["256KiB"]', "channels": 1}
        self.play_all((22, 2, exact), (18, 4, exact), (28, 8, exact), (29, 64, exact | small),
                      (28, 1024, exact | small | {"iterations": 1}))

    def test_connections_of_several_queue_pairs(self):
        exact = {"payload": "exact", "sizes": '["1MiB"]'}
        self.play_all((19, 4, exact | {"more": ", queue_pairs = 3"}), (30, 4, exact | {"more": ", queue_pairs = 2"}))

    def test_emulated_roots_and_an_agreed_address(self):
        exact = {"payload": "exact", "sizes": '["64KiB"]'}
        middle = {"order": '["w0", "w1", "gpu", "w2"]'}
        self.play_all((23, 4, exact | middle), (28, 4, exact | middle | {"join": 'comm_id = "10.9.0.2:5555"'}),
                      (30, 4, exact | {"join": 'comm_id = "10.9.0.1:5555"'}))

    def test_trees(self):
        small = {"algorithm": "tree", "sizes": '["256KiB"]'}
        self.play_all((22, 4, small), (29, 8, small), (18, 64, small), (28, 1024, small | {"iterations": 1}))

    def test_lines_with_flags(self):
        sizes = {"sizes": '["16KiB", "256KiB"]'}
        self.play_all((28, 4, sizes | {"protocol": "ll"}), (29, 8, sizes | {"protocol": "ll128", "algorithm": "tree"}),
                      (22, 4, sizes | {"protocol": "ll128"}),
                      (28, 4, {"algorithm": "auto", "protocol": "auto", "sizes": '["4KiB", "64KiB", "4MiB", "1MiB"]'}))

    def test_other_collectives(self):
        self.play_all((20, 4, {"collective": "all_gather"}), (24, 4, {"collective": "reduce_scatter"}),
                      (21, 4, {"collective": "broadcast"}), (26, 4, {"collective": "reduce"}),
                      (23, 4, {"collective": "all_gather", "algorithm": "pat"}),
                      (25, 4, {"collective": "reduce_scatter", "algorithm": "pat"}),
                      (27, 4, {"collective": "send_recv"}), (30, 4, {"collective": "all_to_all"}))


class SelfTest(Job):
    """What `run` says of RoCE while a job starts."""

    ANSWERED = "self-test: gpu (10.9.0.1) answers all 3 emulated addresses"
    PASSED = "self-test: RoCE passes between gpu (10.9.0.1) and "

    def begin(self, tables=""):
        """A run whose real node answers by TCP; its RoCE meets the faults of `tables`."""
        emulator = self.start(self.config(28, 4, tables=tables), "--linger", "60s", "--control", str(self.folder / "control"))
        node = self.node()
        self.wait(emulator, self.ANSWERED, 10)
        return emulator, node

    def wait(self, emulator, line, seconds):
        """Until the run says so; returns the seconds that it took."""
        start = time.monotonic()
        while line not in emulator.log.read_text():
            self.assertLess(time.monotonic() - start, seconds, emulator.log.read_text())
            time.sleep(0.05)
        return time.monotonic() - start

    def play(self, node):
        rank = subprocess.Popen(node.command("/mnt/nccl_rank_node /mnt/run.toml --id /mnt/id"), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        return rank

    def status(self):
        return subprocess.run([self.understudy, "status", str(self.folder / "control")], capture_output=True, text=True,
                              check=True).stdout

    def test_linux_answers_for_each_emulated_address(self):
        emulator, node = self.begin()
        took = self.wait(emulator, self.PASSED + "3 emulated addresses", 5)
        print(f"answered after {took:.2f} s")
        self.assertIn(self.PASSED + "3 emulated addresses", self.status())
        node.stop()
        emulator.stop()
        self.assertNotIn("RDMA-CM", emulator.log.read_text())
        self.assert_holds(emulator.capture)

    def test_lost_packets_are_named_while_tcp_works(self):
        emulator, node = self.begin('[[fault]]\naction = "drop"\n')
        took = self.wait(emulator, "answers no REQ of RDMA-CM yet", 5)
        self.assertIn("0 of 3 emulated addresses have an answer", self.status())
        rank = self.play(node)
        packets = self.wait(emulator, "and none has come back: TCP between the same addresses works", 20)
        print(f"REQs without an answer: named after {took:.2f} s, packets {packets:.2f} s after the rank's start")
        self.assertIn("has acknowledged no RoCE packet yet", self.status())
        self.assertIsNone(rank.poll())
        self.assertNotIn("a queue pair has failed", emulator.log.read_text())

    def test_packets_pass_where_no_communication_manager_answers(self):
        emulator, node = self.begin('[[fault]]\naction = "drop"\npackets = "cm"\n')
        self.wait(emulator, "answers no REQ of RDMA-CM yet", 5)
        self.play(node)
        self.wait(emulator, self.PASSED + "queue pairs of the job", 20)


if __name__ == "__main__":
    stage.main()
