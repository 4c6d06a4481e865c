"""What tests of NCCL jobs with the virtual node share: a reference rank on its RDMA device, in a communicator whose other ranks are
emulated."""

import shutil

import stage

NODES = """format = 1
seed = 20
[fidelity]
tolerance = 0.05
idle = "{idle}"
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

    idle = "spin"

    def setUp(self):
        super().setUp()
        shutil.copy(self.build / "tests/rigs/nccl_rank/nccl_rank_node", self.share)

    def config(self, minor, ranks, collective="all_reduce", algorithm="ring", protocol="simple",
               sizes='["64KiB", "1MiB"]', iterations=2, payload="synthetic", channels=2, order='["gpu", "w*"]', join=None,
               more="", tables=""):
        file = self.share / "run.toml"
        join = join or f'file = "{self.share / "id"}"'
        file.write_text(NODES.format(emulated=ranks - 1, idle=self.idle, socket=self.socket, collective=collective, algorithm=algorithm,
                                     protocol=protocol, sizes=sizes, iterations=iterations, payload=payload,
                                     channels=channels, minor=minor, order=order, join=join, more=more) +
                        tables)
        return file

    def node(self):
        return self.join("--mem", "768", prefix=16)
