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
link = {{ rate = "{rate}", latency = "50us" }}
[[node]]
name = "w"
count = {emulated}
link = {{ rate = "{rate}", latency = "50us" }}
[[port]]
real = "gpu"
device = "net_vhost0,iface={socket},queues=1"
[[job]]
name = "nccl"
collective = "{collective}"
algorithm = "{algorithm}"
ranks = ["gpu", "w*"]
sizes = {sizes}
iterations = {iterations}
payload = "{payload}"
entry = "first_credit"
channels = {channels}
nccl = "2.{minor}"
join = {{ file = "{id}"{more} }}
"""


class Nccl(stage.Stage):
    def setUp(self):
        super().setUp()
        shutil.copy(self.build / "tests/nccl_rank/nccl_rank_node", self.share)

    def config(self, minor, ranks, collective="all_reduce", algorithm="ring", sizes='["64KiB", "1MiB"]', iterations=2,
               payload="exact", channels=2, rate="1Gbit/s", more=""):
        file = self.share / "run.toml"
        file.write_text(NODES.format(rate=rate, emulated=ranks - 1, socket=self.socket, collective=collective,
                                     algorithm=algorithm, sizes=sizes, iterations=iterations, payload=payload,
                                     channels=channels, minor=minor, id=self.share / "id", more=more))
        return file

    def play(self, config):
        emulator = self.start(config, "--linger", "60s")
        node = self.join("--mem", "768", prefix=16)
        output = node.execute("/mnt/nccl_rank_node /mnt/run.toml --id /mnt/id").stdout
        print(output)
        emulator.stop()
        print(emulator.log.read_text())
        self.assert_holds(emulator.capture, "--config", str(config))
        self.assert_all_right(emulator.report())

    def test_ring(self):
        self.play(self.config(28, 4))


if __name__ == "__main__":
    stage.main()
