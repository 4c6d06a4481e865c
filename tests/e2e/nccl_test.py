"""A reference rank of NCCL on the virtual node's RDMA device, in a communicator whose other ranks are emulated."""

import shutil

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


class Nccl(stage.Stage):
    """Each case: release, ranks, and what of the configuration is not the default."""

    def setUp(self):
        super().setUp()
        shutil.copy(self.build / "tests/nccl_rank/nccl_rank_node", self.share)

    def config(self, minor, ranks, collective="all_reduce", algorithm="ring", protocol="simple",
               sizes='["64KiB", "1MiB"]', iterations=2, payload="synthetic", channels=2, order='["gpu", "w*"]', join=None,
               more=""):
        file = self.share / "run.toml"
        join = join or f'file = "{self.share / "id"}"'
        file.write_text(NODES.format(emulated=ranks - 1, socket=self.socket, collective=collective, algorithm=algorithm,
                                     protocol=protocol, sizes=sizes, iterations=iterations, payload=payload,
                                     channels=channels, minor=minor, order=order, join=join, more=more))
        return file

    def play(self, minor, ranks, **job):
        """A run with one node; returns what the real rank printed of its operations."""
        for old in (self.share / "id", self.socket):
            old.unlink(missing_ok=True)
        config = self.config(minor, ranks, **job)
        emulator = self.start(config, "--linger", "60s")
        node = self.join("--mem", "768", prefix=16)
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


if __name__ == "__main__":
    stage.main()
