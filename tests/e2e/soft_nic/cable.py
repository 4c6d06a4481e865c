"""What whole runs of the soft NIC share: a cable between two network namespaces, and programs on its ends."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import both_ends  # noqa: E402
import stage  # noqa: E402

SERVER, CLIENT = "10.8.0.2", "10.8.0.1"
MTU = "4200"
LONGEST = 120  # seconds; a program that takes as long hangs
# Shows the names that soft NICs claim for services of RDMA-CM.
LISTENS = ("sed", "-n", r"/understudy-soft-nic.*service/p", "/proc/net/unix")


# How NCCL finds libibverbs (src/misc/ibvsymbols.cc), and what it asks mlx5's provider about a device.
FINDS = """
import ctypes
verbs, libc = ctypes.CDLL("libibverbs.so"), ctypes.CDLL(None)
libc.dlvsym.restype = ctypes.c_void_p
versions = {"ibv_reg_mr_iova2": "IBVERBS_1.8", "ibv_query_ece": "IBVERBS_1.10", "ibv_reg_dmabuf_mr": "IBVERBS_1.12"}
for name in ("ibv_get_device_list", "ibv_query_port", "ibv_reg_mr", "ibv_create_qp", *versions):
    found = libc.dlvsym(ctypes.c_void_p(verbs._handle), name.encode(), versions.get(name, "IBVERBS_1.1").encode())
    assert found, name
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
device = verbs.ibv_get_device_list(None)[0]
print(verbs.ibv_get_device_name(ctypes.c_void_p(device)).decode())
# Providers look for a table of theirs behind the device: sizeof(ibv_device) is 664.
print("table", ctypes.c_void_p.from_address(device + 664).value)
mlx5 = ctypes.CDLL("libmlx5.so.1")
mlx5.mlx5dv_is_supported.restype = ctypes.c_bool
print("mlx5", mlx5.mlx5dv_is_supported(ctypes.c_void_p(device)))
"""


class Cable:
    """Two network namespaces with one end of a veth pair each."""

    def __init__(self):
        self.ends = [f"snic{os.getpid()}{end}" for end in "ab"]
        for end in self.ends:
            self.ip("netns", "add", end)
        self.ip("link", "add", "soft0", "netns", self.ends[0], "type", "veth", "peer", "name", "soft0", "netns", self.ends[1])
        for end, address in zip(self.ends, (CLIENT, SERVER)):
            self.ip("-n", end, "addr", "add", f"{address}/24", "dev", "soft0")
            self.ip("-n", end, "link", "set", "soft0", "mtu", MTU, "up")
            self.ip("-n", end, "link", "set", "lo", "up")

    def remove(self):
        for end in self.ends:
            subprocess.run(["ip", "netns", "del", end], check=False)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def command(self, end, words):
        return ["ip", "netns", "exec", self.ends[end], *words]


class OnCable(unittest.TestCase):
    """One test's cable, and programs on its ends that preload the soft NIC."""

    kind = Cable

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces and packet sockets need root")

    def setUp(self):
        self.cable = self.kind()
        self.addCleanup(self.cable.remove)
        scratch = tempfile.TemporaryDirectory(prefix="soft-nic-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.log = self.folder / "server.log"
        self.environment = {**os.environ, "LD_PRELOAD": str(stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so"),
                            "UNDERSTUDY_SOFT_NIC": "soft0"}

    def output(self, end, *words, status=0, **environment):
        ended, said = stage.favoured_output(self.cable.command(end, words), LONGEST, env={**self.environment, **environment})
        self.assertEqual(ended, status, said)
        return said

    def begun(self, end, *words):
        """The same of a program that goes on; its output is there to be read."""
        return stage.favoured(self.cable.command(end, words), env=self.environment, stdout=subprocess.PIPE, text=True)


class PairOnCable(OnCable):
    """A program on both ends."""

    def pair(self, *words, server=(), client=(SERVER,), shows=("ss", "-Hltn"), server_end=1, status=0):
        """Runs a program on both ends, which ends by `status`; returns what the client printed. `shows` prints something once
        the server is there."""
        with open(self.log, "w") as log:
            other = stage.favoured(self.cable.command(server_end, [*words, *server]), env=self.environment, stdout=log, stderr=log)
        try:
            self.wait_for_server(shows, server_end)
            printed = self.output(0, *words, *client, status=status)
            self.assertEqual(other.wait(timeout=LONGEST), status, self.log.read_text())
        finally:
            other.kill()
            other.wait()
        return printed

    def connected(self, *words, server=(), client=(SERVER,)):
        """The same for programs that use RDMA-CM."""
        return self.pair(*words, server=server, client=client, shows=LISTENS)

    def beside(self, server, *client):
        """The same with a server that stays."""
        with open(self.log, "w") as log:
            other = stage.favoured(self.cable.command(1, server), env=self.environment, stdout=log, stderr=log)
        try:
            self.wait_for_server(LISTENS)
            return self.output(0, *client)
        finally:
            other.kill()
            other.wait()

    def heard(self):
        """Begins to record; returns what ends it and judges what both ends heard, in `self.capture`."""
        paths = [self.folder / f"heard{end}" for end in (0, 1)]
        ears = []
        for end, path in enumerate(paths):
            command = self.cable.command(end, [sys.executable, both_ends.__file__, "soft0", str(path)])
            ears.append(stage.favoured(command))
            self.addCleanup(ears[-1].wait)
            self.addCleanup(ears[-1].kill)
        while not all(path.exists() and path.stat().st_size for path in paths):
            subprocess.run(["sleep", "0.05"], check=True)

        def judge():
            sizes = None
            while sizes != (now := [path.stat().st_size for path in paths]):  # busy machines hear late
                sizes = now
                subprocess.run(["sleep", "1"], check=True)
            for ear in ears:
                ear.kill()
            self.capture = self.folder / "heard.pcap"
            self.capture.write_bytes(both_ends.joined(paths))
            return stage.roce_check(stage.Stage.build / "tools/roce_check/roce-check", self.capture)
        return judge

    def wait_for_server(self, shows, end=1):
        for _ in range(LONGEST * 10):
            if subprocess.run(self.cable.command(end, shows), stdout=subprocess.PIPE, check=True).stdout.strip():
                return
            subprocess.run(["sleep", "0.1"], check=True)
        self.fail("the server does not listen:\n" + self.log.read_text())
