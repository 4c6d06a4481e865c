"""Unmodified verbs programs on soft NICs, on a cable between two network namespaces: two of them, or one and an emulated
node."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import both_ends
import nccl_test
import stage

SERVER, CLIENT = "10.8.0.2", "10.8.0.1"
MTU = "4200"
LONGEST = 120  # seconds; a program that takes as long hangs
# Shows the names that soft NICs claim for services of RDMA-CM.
LISTENS = ("sed", "-n", r"/understudy-soft-nic.*service/p", "/proc/net/unix")


# A verbs program that forks while its device is open, and whose child uses one, too.
FORKS = """
import ctypes, os
verbs = ctypes.CDLL(None)
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_cq"):
    getattr(verbs, name).restype = ctypes.c_void_p
def use(who):
    devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))
    domain = ctypes.c_void_p(verbs.ibv_alloc_pd(context))
    print(who, verbs.ibv_dealloc_pd(domain), flush=True)
    return context
first = ctypes.c_void_p(verbs.ibv_get_device_list(None))
held = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(ctypes.cast(first, ctypes.POINTER(ctypes.c_void_p))[0])))
child = os.fork()
if child == 0:
    use("child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
use("parent")
assert verbs.ibv_close_device(held) == 0
"""


# A program whose child uses RDMA-CM beside it, and after it.
FORKS_CONNECTING = """
import ctypes, os, socket, struct, time
verbs = ctypes.CDLL(None, use_errno=True)
verbs.rdma_create_event_channel.restype = ctypes.c_void_p
def listen(who, port):
    channel, made = ctypes.c_void_p(verbs.rdma_create_event_channel()), ctypes.c_void_p()
    assert verbs.rdma_create_id(channel, ctypes.byref(made), None, 0x0106) == 0
    address = struct.pack("=HH12x", socket.AF_INET, socket.htons(port))
    assert verbs.rdma_bind_addr(made, address) == 0
    failed = verbs.rdma_listen(made, 0)
    print(who, port, os.strerror(ctypes.get_errno()) if failed else "listens", flush=True)
listen("parent", 4000)
parent, (done, tell) = os.getpid(), os.pipe()
if os.fork() == 0:
    listen("child", 4000)
    listen("child", 4001)
    os.write(tell, b"1")
    while os.getppid() == parent:
        time.sleep(0.01)
    listen("child", 4000)
else:
    os.read(done, 1)
    listen("parent", 4001)
"""


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

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces and packet sockets need root")

    def setUp(self):
        self.cable = Cable()
        self.addCleanup(self.cable.remove)
        scratch = tempfile.TemporaryDirectory(prefix="soft-nic-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.log = self.folder / "server.log"
        self.environment = {**os.environ, "LD_PRELOAD": str(stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so"),
                            "UNDERSTUDY_SOFT_NIC": "soft0"}

    def output(self, end, *words, status=0, **environment):
        done = subprocess.run(self.cable.command(end, words), env={**self.environment, **environment}, timeout=LONGEST,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout


class PairOnCable(OnCable):
    """A program on both ends."""

    def pair(self, *words, server=(), client=(SERVER,), shows=("ss", "-Hltn"), server_end=1, status=0):
        """Runs a program on both ends, which ends by `status`; returns what the client printed. `shows` prints something once
        the server is there."""
        with open(self.log, "w") as log:
            other = subprocess.Popen(self.cable.command(server_end, [*words, *server]), env=self.environment, stdout=log, stderr=log)
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
            other = subprocess.Popen(self.cable.command(1, server), env=self.environment, stdout=log, stderr=log)
        try:
            self.wait_for_server(LISTENS)
            return self.output(0, *client)
        finally:
            other.kill()
            other.wait()

    def wait_for_server(self, shows, end=1):
        for _ in range(LONGEST * 10):
            if subprocess.run(self.cable.command(end, shows), stdout=subprocess.PIPE, check=True).stdout.strip():
                return
            subprocess.run(["sleep", "0.1"], check=True)
        self.fail("the server does not listen:\n" + self.log.read_text())


class TwoSoftNics(PairOnCable):
    def test_the_device_is_shown(self):
        self.assertIn("understudy0", self.output(0, "ibv_devices"))
        shown = self.output(0, "ibv_devinfo", "-v")
        self.assertRegex(shown, r"active_mtu:\s+4096")
        self.assertRegex(shown, rf"GID\[\s*0\]:\s+::ffff:{CLIENT}, RoCE v2")
        self.assertIn("other", self.output(0, "ibv_devices", UNDERSTUDY_SOFT_NIC_NAME="other"))

    def test_wrong_settings_are_named(self):
        for variable, value in (("UNDERSTUDY_SOFT_NIC", "nowhere9"), ("UNDERSTUDY_SOFT_NIC_ADDRESS", "10.8.0.300"),
                                ("UNDERSTUDY_SOFT_NIC_ADDRESS", "10.8.0.77"), ("UNDERSTUDY_SOFT_NIC_WINDOW", "0")):
            with self.subTest(variable=variable, value=value):
                shown = self.output(0, "ibv_devices", **{variable: value})
                self.assertIn(variable, shown)
                self.assertIn(value, shown)
                self.assertNotIn("understudy0", shown)

    def test_pingpong(self):
        for options in ((), ("-e",), ("-N", "-c"), ("-s", "300000", "-m", "4096", "-c")):
            with self.subTest(options=options):
                self.assertIn("200 iters in", self.pair("ibv_rc_pingpong", "-g", "0", "-n", "200", *options))
        self.assertIn("200 iters in", self.pair("ibv_ud_pingpong", "-g", "0", "-n", "200"))
        self.assertIn("200 iters in", self.pair("ibv_srq_pingpong", "-g", "0", "-n", "200", "-q", "4"))

    def test_perftest(self):
        for kind, size in (("write", 65536), ("send", 65536), ("read", 65536), ("atomic", 8)):
            for what, *options in (("bw",), ("bw", "-b") if kind != "atomic" else ("bw", "-q", "3"), ("lat",)):
                program = [f"ib_{kind}_{what}", "-F", "-x", "0", "-n", "100", *options]
                if kind != "atomic":
                    program += ["-s", str(size if what == "bw" else 8)]
                with self.subTest(program=program):
                    printed = self.pair(*program)
                    rows = [line for line in printed.splitlines() if line.split()[1:2] in (["100"], ["300"])]
                    self.assertEqual(len(rows), 1, printed)

    def test_programs_on_one_address(self):
        for program in (("ib_write_bw", "-b", "-s", "65536"), ("ib_send_lat", "-s", "8"), ("ib_send_bw", "-c", "UD", "-s", "2048")):
            with self.subTest(program=program):
                self.pair(*program, "-F", "-x", "0", "-n", "100", client=(CLIENT,), server_end=0)
        shown = self.pair("rping", "-a", CLIENT, "-C", "3", "-v", server=("-s",), client=("-c",), server_end=0,
                          shows=("tail", "-n", "+2", "/proc/net/packet"))
        self.assertEqual(shown.count("ping data: rdma-ping-"), 3, shown)

    def test_datagrams_of_perftest(self):
        self.pair("ib_send_lat", "-c", "UD", "-F", "-x", "0", "-n", "100", "-s", "8")

    def test_connections_by_rdma_cm(self):
        printed = self.connected("rping", "-a", SERVER, "-C", "3", "-v", server=("-s",), client=("-c",))
        self.assertEqual(printed.count("ping data: rdma-ping-"), 3, printed)
        for program in (("ib_write_bw", "-s", "65536"), ("ib_send_lat", "-s", "8"), ("ib_read_bw", "-s", "65536")):
            with self.subTest(program=program):
                self.connected(*program, "-R", "-F", "-n", "100")
        self.assertIn("return status 0", self.connected("ucmatose", "-c", "3", client=("-s", SERVER)))
        printed = self.beside(("cmtime", "-b", SERVER, "-c", "50"), "cmtime", "-s", SERVER, "-c", "50")
        self.assertRegex(printed, r"connect +: +\d+\.\d\d")

    def test_endpoints_whose_calls_wait(self):
        for kind in ("", "x"):
            with self.subTest(kind=kind):
                with open(self.log, "w") as log:
                    server = subprocess.Popen(self.cable.command(1, [f"rdma_{kind}server"]), env=self.environment, stdout=log,
                                              stderr=log)
                self.addCleanup(server.kill)
                self.wait_for_server(LISTENS)
                self.assertIn("end 0", self.output(0, f"rdma_{kind}client", "-s", SERVER))
                self.assertEqual(server.wait(timeout=LONGEST), 0, self.log.read_text())

    def test_datagrams_by_rdma_cm(self):
        for options in ((), ("-c", "4", "-C", "20", "-S", "1000")):
            with self.subTest(options=options):
                self.assertIn("return status 0", self.connected("udaddy", *options, client=("-s", SERVER)))

    def running(self, end, *words):
        """A program in the background, with what it prints."""
        log = open(self.folder / f"{end}-{len(os.listdir(self.folder))}.log", "w+")
        self.addCleanup(log.close)
        program = subprocess.Popen(self.cable.command(end, words), env=self.environment, stdout=log, stderr=log, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program, log

    def assert_ends(self, program, log, status=0):
        ended = program.wait(timeout=LONGEST)
        log.seek(0)
        self.assertEqual(ended, status, log.read())

    def test_several_processes_on_one_address(self):
        """Each hears all requests and messages, and leaves to others what is theirs."""
        servers = []
        for port in ("4000", "4001", "4002"):
            servers.append(self.running(1, "rping", "-s", "-a", SERVER, "-p", port, "-C", "300"))
            listed = ("sed", "-n", f"/service.{0x0106 << 16 | int(port)}/p", "/proc/net/unix")
            self.wait_for_server(listed)
        taken = self.output(1, "rping", "-s", "-a", SERVER, "-p", "4001", status=255)
        self.assertIn("Address already in use", taken)
        clients = [self.running(0, "rping", "-c", "-a", SERVER, "-p", port, "-C", "300") for port in ("4000", "4001")]
        for _ in range(3):  # whichever process answers for nobody does, and only for nobody
            refused = self.output(0, "rping", "-c", "-a", SERVER, "-p", "4003", "-C", "1", status=255)
            self.assertIn("RDMA_CM_EVENT_REJECTED", refused)
        for program in clients + servers[:2]:
            self.assert_ends(*program)
        self.output(0, "rping", "-c", "-a", SERVER, "-p", "4002", "-C", "300")  # the one that is left
        self.assert_ends(*servers[2])

    def heard(self):
        """Begins to record; returns what ends it and judges what both ends heard."""
        paths = [self.folder / f"heard{end}" for end in (0, 1)]
        ears = []
        for end, path in enumerate(paths):
            command = self.cable.command(end, [sys.executable, both_ends.__file__, "soft0", str(path)])
            ears.append(subprocess.Popen(command))
            self.addCleanup(ears[-1].wait)
            self.addCleanup(ears[-1].kill)
        while not all(path.exists() and path.stat().st_size for path in paths):
            subprocess.run(["sleep", "0.05"], check=True)

        def judge():
            subprocess.run(["sleep", "0.2"], check=True)
            for ear in ears:
                ear.kill()
            capture = self.folder / "heard.pcap"
            capture.write_bytes(both_ends.joined(paths))
            return stage.roce_check(stage.Stage.build / "tools/roce_check/roce-check", capture)
        return judge

    def test_what_two_of_them_say_to_each_other_holds(self):
        judge = self.heard()
        self.connected("rping", "-a", SERVER, "-C", "20", server=("-s",), client=("-c",))
        self.connected("udaddy", "-c", "3", client=("-s", SERVER))
        self.connected("ib_send_lat", "-R", "-F", "-n", "50", "-s", "8")
        self.connected("ucmatose", "-c", "3", client=("-s", SERVER))
        self.pair("ib_write_bw", "-F", "-x", "0", "-n", "5", "-s", "65536")
        holds, text = judge()
        self.assertTrue(holds, text)
        self.assertRegex(text, r"cm +holds")
        self.assertRegex(text, r"acknowledged +holds")

    def test_what_is_not_offered_is_refused(self):
        for program in (("mckey", "-m", "239.8.0.1"), ("udaddy", "-p", "0x2"), ("rdma_xserver", "-c", "x"), ("rstream",), ("riostream",),
                        ("udpong",), ("rcopy",)):
            with self.subTest(program=program):
                self.assertIn("Operation not supported", self.output(0, *program, status=255))

    def test_connections_that_cannot_be_made(self):
        with open(self.log, "w") as log:
            other = subprocess.Popen(self.cable.command(1, ["rping", "-s", "-a", SERVER, "-p", "4000"]), stdout=log,
                                     stderr=log, env=self.environment)
        try:
            refused = self.output(0, "rping", "-c", "-a", SERVER, "-p", "4001", "-C", "1", status=255)
            self.assertIn("RDMA_CM_EVENT_REJECTED", refused)
        finally:
            other.kill()
            other.wait()
        nobody = self.output(0, "rping", "-c", "-a", "10.8.0.77", "-C", "1", status=255)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR", nobody)

    def test_by_soname(self):
        """The library in libibverbs' place instead of in front of it."""
        del self.environment["LD_PRELOAD"]
        self.environment["LD_LIBRARY_PATH"] = str(stage.Stage.build / "tools/soft_nic")
        self.assertIn("understudy0", self.output(0, "ibv_devinfo", "-v"))
        self.assertIn("100 iters in", self.pair("ibv_rc_pingpong", "-g", "0", "-n", "100"))
        self.pair("ib_write_bw", "-F", "-x", "0", "-n", "100", "-s", "65536")  # needs what providers need

    def test_as_nccl_finds_it(self):
        del self.environment["LD_PRELOAD"]
        self.environment["LD_LIBRARY_PATH"] = str(stage.Stage.build / "tools/soft_nic")
        shown = self.output(0, sys.executable, "-c", FINDS)
        self.assertEqual(shown.split("\n")[:3], ["understudy0", "table None", "mlx5 False"])

    def test_a_child_opens_a_device_of_its_own(self):
        shown = self.output(0, sys.executable, "-c", FORKS)
        self.assertEqual(shown.split(), ["child", "0", "parent", "0"])

    def test_a_child_uses_rdma_cm_beside_its_parent(self):
        shown = self.output(0, sys.executable, "-c", FORKS_CONNECTING)
        self.assertEqual(shown.splitlines(), ["parent 4000 listens", "child 4000 Address already in use", "child 4001 listens",
                                              "parent 4001 Address already in use", "child 4000 listens"])

    def test_completion_events_of_perftest(self):
        self.pair("ib_send_lat", "-F", "-x", "0", "-n", "100", "-s", "8", "-e")


class WithAnEmulatedNode(OnCable):
    """The other end is the emulator's port: programs reach an emulated node's services."""

    NODE = "10.9.0.2"

    def setUp(self):
        super().setUp()
        if shutil.which("ethtool") is None:
            self.skipTest("ethtool is not installed: the kernel's TCP would leave checksums to a device that is none")
        subprocess.run(self.cable.command(0, ["ethtool", "-K", "soft0", "tx", "off"]), stdout=subprocess.DEVNULL, check=True)
        Cable.ip("-n", self.cable.ends[0], "addr", "replace", "10.9.0.1/24", "dev", "soft0")
        self.environment["UNDERSTUDY_SOFT_NIC_ADDRESS"] = "10.9.0.1"

    def attached(self, text):
        """The configuration with its port on the other end, and the program that runs it."""
        text, found = re.subn(r'device = "net_vhost[^"]*"', 'device = "net_af_packet0,iface=soft0"', text)
        self.assertEqual(found, 1)
        understudy = self.folder / "understudy"
        understudy.write_text(f'#!/bin/sh\nexec ip netns exec {self.cable.ends[1]} '
                              f'{stage.Stage.build / "ctrl/understudy"} "$@"\n')
        understudy.chmod(0o755)
        return text, understudy

    def start(self, text):
        text, understudy = self.attached(text.replace("100Mbit/s", "1Gbit/s"))
        self.config = self.folder / "run.toml"
        self.config.write_text(text)
        self.emulator = stage.Run(understudy, self.config, self.folder)
        self.addCleanup(self.emulator.stop)

    def assert_all_served(self, count):
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assertEqual([service["error"] for service in self.emulator.report()["services"]], count * [None])
        self.assert_holds()

    def assert_holds(self):
        holds, text = stage.roce_check(stage.Stage.build / "tools/roce_check/roce-check", self.emulator.capture,
                                       "--config", str(self.config))
        self.assertTrue(holds, text)

    def test_clients_of_every_kind(self):
        self.start((stage.ROOT / "configs/perftest.toml").read_text())
        self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", "0", "-n", "100", self.NODE))
        for program, size, *options in (("ib_write_bw", "65536"), ("ib_send_bw", "65536"), ("ib_read_bw", "65536"),
                                        ("ib_write_bw", "65536", "-R"), ("ib_write_lat", "8", "-p", "18516")):
            with self.subTest(program=program):
                self.output(0, program, "-F", "-x", "0", "-u", "18", "-n", "50", "-s", size, *options, self.NODE)
        self.assert_all_served(7)  # -R has a connection for its own exchange, too

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
        printed = self.output(0, str(stage.Stage.build / "tools/ring_node/ring_node"), "--peer-next", stage.NEXT,
                              "--peer-prev", stage.PREVIOUS)
        self.assertIn("Out of bounds values : 0 OK", printed)  # every element of every result was right
        self.assertIn(self.emulator.wait(60), (0, stage.NOT_FAITHFUL))
        self.assertEqual({size["wrong_elements"] for job in self.emulator.report()["jobs"] for size in job["sizes"]}, {0})
        self.assert_holds()

    def test_a_rank_of_nccls_with_emulated_ranks(self):
        """The reference rank, which posts what net_ib posts; its results are right to the bit."""
        for minor, job in ((28, {}), (22, {"channels": 2}), (30, {"more": ", queue_pairs = 4"})):
            with self.subTest(release=f"2.{minor}", **job):
                uid = self.folder / f"id{minor}"
                job = {"channels": 1, "more": "", **job}
                self.start(nccl_test.NODES.format(emulated=3, socket="unused", collective="all_reduce", algorithm="ring", minor=minor,
                                                  protocol="simple", order='["gpu", "w*"]', sizes='["8B", "64KiB", "1MiB"]',
                                                  iterations=2, payload="exact", join=f'file = "{uid}"', **job))
                printed = self.output(0, str(stage.Stage.build / "tests/nccl_rank/nccl_rank_node"), str(self.config))
                operations = printed.splitlines()[2:]
                self.assertEqual([operation for operation in operations if not operation.endswith(", 0 wrong")], [], printed)
                self.assertIn(self.emulator.wait(60), (0, stage.NOT_FAITHFUL))
                done, = self.emulator.report()["jobs"]
                self.assertEqual((done["done"], done["planned"], done["failed"], done["protocol_violations"]),
                                 (6, 6, False, 0))
                self.assertEqual(len(operations), 6)
                self.assert_holds()


if __name__ == "__main__":
    stage.main(live=False)
