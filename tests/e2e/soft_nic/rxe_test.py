"""Unmodified verbs programs on a soft NIC here and on Linux' own RoCE stack (rdma_rxe) in the virtual node, which a cable with a
capture joins: each of them serves the other."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from soft_nic_links import OWN_NETWORK, Vhost  # noqa: E402
from cable import Cable, OnCable  # noqa: E402

SOFT, RXE = "10.9.0.1", "10.9.0.2"
LONGEST = 60  # seconds
EACH_KIND = (("write", "bw"), ("send", "lat"), ("read", "bw"), ("atomic", "lat"))
OTHER_KINDS = (("write", "lat"), ("send", "bw"), ("read", "lat"), ("atomic", "bw"))
# How each end names its device and the GID of its IPv4 address.
DEVICE = {SOFT: ("-d", "understudy0"), RXE: ("-d", "rxe0")}
GID = {SOFT: "0", RXE: "1"}
# What shows that a program waits for its client, by TCP or by RDMA-CM; a soft NIC has no kernel that could tell.
LISTENS = {(SOFT, False): "ss -Hltn", (SOFT, True): "tail -n +2 /proc/net/packet",
           (RXE, False): "ss -Hltn", (RXE, True): "rdma resource show cm_id | grep LISTEN; true"}


class WithRxe(OnCable):
    """The soft NIC's frames come by packet sockets on a veth."""

    shown_by_cm = (RXE, SOFT)
    gid, guest = GID, ("--ip", f"{RXE}/24")

    def setUp(self):
        super().setUp()
        if shutil.which("ethtool") is None:
            self.skipTest("ethtool is not installed: the kernel's TCP would leave checksums to a device that is none")
        subprocess.run(self.cable.command(0, ["ethtool", "-K", "soft0", "tx", "off"]), stdout=subprocess.DEVNULL, check=True)
        Cable.ip("-n", self.cable.ends[0], "addr", "replace", f"{SOFT}/24", "dev", "soft0")
        for end in (0, 1):  # nothing that the kernels say of themselves, before the guest is there to take it
            quiet = self.cable.command(end, ["sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/soft0/disable_ipv6"])
            subprocess.run(quiet, check=True)
        self.environment["UNDERSTUDY_SOFT_NIC_ADDRESS"] = SOFT
        self.join("net_af_packet0,iface=soft0")

    def cable_at(self, words):
        return self.cable.command(1, words)

    def soft(self, words):
        return self.cable.command(0, words)

    def join(self, device):
        """Starts the cable, from a device that the soft NIC's frames come to, and the guest."""
        self.capture = self.folder / "cable.pcapng"
        socket = self.folder / "rxe.sock"
        self.joint = stage.favoured(
            self.cable_at([stage.Stage.build / "tests/e2e/cable", self.capture, device, f"net_vhost0,iface={socket},queues=1"]),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_cable)
        self.assertEqual(self.joint.stdout.readline(), "ready\n", "the cable's message stands below")
        self.node = stage.VirtualNode(self.folder / "vnode", "rxe", socket, *self.guest, "--mtu", "4200")
        self.addCleanup(self.node.stop)

    def end_cable(self):
        """Returns its status and what it said."""
        if self.joint.poll() is None:
            self.joint.send_signal(signal.SIGINT)
        said = self.joint.communicate(timeout=LONGEST)[1]
        return self.joint.returncode, said

    def assert_capture_holds(self):
        """Returns how many packets came again."""
        time.sleep(0.2)  # for the last acknowledgements
        status, said = self.end_cable()
        self.assertEqual(status, 0, said)
        holds, text = stage.roce_check(stage.Stage.build / "tools/roce_check/roce-check", self.capture)
        self.assertTrue(holds, text)
        return int(re.search(r"retransmissions +(\d+) packets", text)[1])

    def command(self, at, words):
        """Runs words at one of the ends."""
        words = [str(word) for word in words]
        return self.soft(words) if at == SOFT else self.node.command(" ".join(words), LONGEST)

    def start_at(self, at, words, output):
        """A program at one of the ends. One on the soft NIC is a node as the guest is: who does not read for 100 ms, as all others
        go before it, loses frames."""
        start = stage.favoured if at == SOFT else subprocess.Popen
        return start(self.command(at, words), env=self.environment, stdout=output, stderr=subprocess.STDOUT, text=True)

    def run_at(self, at, words):
        """(status, what it printed)"""
        with self.start_at(at, words, subprocess.PIPE) as process:
            try:
                printed = process.communicate(timeout=2 * LONGEST)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, printed

    def wait_for(self, server, cm, process):
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline and process.poll() is None:
            shown = self.soft(["sh", "-c", LISTENS[server, cm]]) if server == SOFT else self.node.command(LISTENS[server, cm])
            if subprocess.run(shown, stdout=subprocess.PIPE, check=True).stdout.strip():
                return
            time.sleep(0.05)
        self.fail("the server does not listen:\n" + self.log.read_text())

    def pair(self, server, *words, cm=False, serve=(), call=None, attempts=1):
        """Runs a program at both ends; returns what the client printed. `words` are functions of the end, or text; `attempts`: how
        often a client may be told that nobody listens."""
        client = RXE if server == SOFT else SOFT

        def at(end, more):
            return [part for word in [*words, *more] for part in (word(end) if callable(word) else [word])]

        for attempt in range(attempts):
            with open(self.log, "w") as log:
                process = self.start_at(server, at(server, serve), log)
            try:
                self.wait_for(server, cm, process)
                status, printed = self.run_at(client, at(client, (server,) if call is None else call))
                if attempt + 1 < attempts and "RDMA_CM_EVENT_REJECTED" in printed:
                    continue
                self.assertEqual(status, 0, f"client:\n{printed}\nserver:\n{self.log.read_text()}")
                self.assertEqual(process.wait(timeout=LONGEST), 0, self.log.read_text())
                return printed
            finally:
                if process.poll() is None:
                    process.terminate()
                    if server == RXE:
                        self.node.execute(f"killall {words[0]}")
                process.wait(timeout=LONGEST)

    def of_both(self, program, *words, servers=(RXE, SOFT), attempts=1, **more):
        """The same with each end as the server; `attempts` where the guest is."""
        for server in servers:
            with self.subTest(server={RXE: "rxe", SOFT: "soft NIC"}[server], program=(program, *words)):
                yield self.pair(server, program, lambda end: DEVICE[end], *words, attempts=attempts if server == RXE else 1, **more)

    def perftest(self, kind, what, *options, **more):
        size = [] if kind == "atomic" else ["-s", "65536" if what == "bw" else "8"]
        # More patience than perftest's own half a second: other tests have the CPUs, too.
        patience = () if "-u" in options else ("-u", "18")
        for printed in self.of_both(f"ib_{kind}_{what}", "-F", lambda end: ("-x", self.gid[end]), "-n", "100", *size, *patience, *options,
                                    **more):
            rows = [line for line in printed.splitlines() if line.split()[1:2] == ["100"]]
            self.assertEqual(len(rows), 1, printed)

    def test_perftest(self):
        for kind, what in stage.cases(EACH_KIND, OTHER_KINDS):
            self.perftest(kind, what)
        self.assert_capture_holds()

    def test_perftest_by_rdma_cm_of_the_soft_nic(self):
        for kind, what in EACH_KIND + OTHER_KINDS:
            self.perftest(kind, what, "-R", cm=True, servers=(SOFT,))
        self.assert_capture_holds()

    def test_perftest_by_rdma_cm_of_the_guest(self):
        # Perftest's server lets its client go on before it listens for the second connection. A soft NIC's client is there within
        # microseconds, mostly before a busy guest: it is rejected, and perftest's own second try uses what it has freed.
        for kind, what in EACH_KIND:
            self.perftest(kind, what, "-R", cm=True, servers=(RXE,), attempts=30)

    def test_pingpong_with_every_byte_compared(self):
        for options in ((), ("-e",), ("-s", "300000", "-m", "4096")):
            for printed in self.of_both("ibv_rc_pingpong", lambda end: ("-g", self.gid[end]), "-n", "100", "-c", *options):
                self.assertIn("100 iters in", printed)
        for printed in self.of_both("ibv_ud_pingpong", lambda end: ("-g", self.gid[end]), "-n", "100", "-c"):
            self.assertIn("100 iters in", printed)
        self.assert_capture_holds()

    def test_rping_with_every_byte_compared(self):
        for server in self.shown_by_cm:
            for size in ("64", "60000"):
                with self.subTest(server=server, size=size):
                    printed = self.pair(server, "rping", "-a", server, "-C", "20", "-v", "-V", "-S", size, cm=True, serve=("-s",),
                                        call=("-c",))
                    self.assertEqual(printed.count("ping data: rdma-ping-"), 20, printed)
        self.assert_capture_holds()


class OverVhost(WithRxe):
    """They come by vhost-user; nothing needs root. A TAP carries the programs' TCP."""

    shown_by_cm = (RXE,)  # nothing shows that a soft NIC without a packet socket listens
    lose = ()
    addresses = (f"{SOFT}/24",)

    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise cls.skipTest(cls, f"it needs {why}")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="soft-nic-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.log = self.folder / "server.log"
        socket = self.folder / "soft.sock"
        self.environment = {**os.environ, "UNDERSTUDY_SOFT_NIC": f"vhost:{socket},tap=soft0"}
        own = "".join(f"ip addr add {address} dev soft0 && " for address in self.addresses)
        tap = f"ip tuntap add dev soft0 mode tap && {own}ip link set soft0 mtu 4200 up && echo there && exec cat"
        self.namespace = subprocess.Popen([*OWN_NETWORK, "sh", "-c", tap], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.namespace.communicate)  # ends it, for its input does
        self.assertEqual(self.namespace.stdout.readline(), b"there\n")
        self.join(f"net_vhost1,iface={socket},queues=1")

    def cable_at(self, words):
        return [*words, *self.lose]

    def soft(self, words):
        library = stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so"
        return ["nsenter", "--target", str(self.namespace.pid), "--user", "--net", "--preserve-credentials", "env",
                f"LD_PRELOAD={library}", *words]

    test_perftest_by_rdma_cm_of_the_soft_nic = test_perftest_by_rdma_cm_of_the_guest = None


class OverVhostInAVlanByIpv6(OverVhost):
    """Both ends are in a VLAN and use their IPv6 GIDs; programs' TCP over IPv4 is in it, too."""

    gid = {SOFT: "1", RXE: "2"}
    guest = ("--ip", f"{RXE}/24", "--ip6", "fd00:9::2/64", "--vlan", "100", "--pcp", "3")
    addresses = (f"{SOFT}/24", "fd00:9::1/64 nodad")
    test_pingpong_with_every_byte_compared = None

    def setUp(self):
        super().setUp()
        self.environment["UNDERSTUDY_SOFT_NIC_VLAN"] = "100"

    def test_perftest(self):
        for kind, what in (("write", "bw"), ("send", "lat"), ("read", "bw"), ("atomic", "lat")):
            self.perftest(kind, what)
        self.assert_capture_holds()

    def join(self, device):
        share = self.folder / "share"
        share.mkdir()
        library = stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so"
        shutil.copy(library, share)
        needed = subprocess.run(["ldd", library], stdout=subprocess.PIPE, text=True, check=True).stdout
        shutil.copy(re.search(r"=> (\S*libisal\S*)", needed)[1], share)
        self.guest = (*self.guest, "--share", str(share))
        super().join(device)

    def in_the_guest(self, interface, vlan):
        """What a program's command begins with, so that it uses a soft NIC beside rdma_rxe."""
        return ["env", "LD_LIBRARY_PATH=/mnt", "LD_PRELOAD=/mnt/libunderstudy_soft_nic.so", f"UNDERSTUDY_SOFT_NIC={interface}",
                f"UNDERSTUDY_SOFT_NIC_VLAN={vlan}"]

    def test_a_soft_nic_has_the_addresses_of_the_kernels_interface_of_the_vlan(self):
        for interface in ("eth0", "eth0.100"):
            status, shown = self.run_at(RXE, [*self.in_the_guest(interface, 100), "ibv_devinfo", "-v"])
            self.assertEqual((status, re.findall(r"GID\[ *\d+\]:\s+(\S+),", shown)), (0, [f"::ffff:{RXE}", "fd00:9::2"]), shown)
        _, refused = self.run_at(RXE, [*self.in_the_guest("eth0.100", 101), "ibv_devices"])
        self.assertIn("eth0.100 is the interface of VLAN 100: set UNDERSTUDY_SOFT_NIC_VLAN", refused)
        for gid in ("0", "1"):
            printed = self.pair(RXE, lambda end: self.in_the_guest("eth0", 100) if end == RXE else [], "ibv_rc_pingpong", "-g", gid,
                                "-n", "50", "-c")
            self.assertIn("50 iters in", printed)
        self.assert_capture_holds()

    def test_rping_with_every_byte_compared(self):
        printed = self.pair(RXE, "rping", "-a", "fd00:9::2", "-C", "20", "-v", "-V", "-S", "60000", cm=True, serve=("-s",), call=("-c",))
        self.assertEqual(printed.count("ping data: rdma-ping-"), 20, printed)
        self.assert_capture_holds()


class OverVhostWithLosses(OverVhost):
    """One of so many frames is lost, on the average, behind the capture."""

    lose = ("61",)

    def test_perftest(self):
        # Not by events (-e): perftest itself sleeps for ever where a message overtakes the acknowledgement of the one before.
        timeout = ("-u", "16")  # 8 tries last two seconds, for other tests have the CPUs, too
        for kind, what, servers in (("write", "bw", (RXE,)), ("send", "lat", (RXE, SOFT)), ("read", "bw", (RXE, SOFT)),
                                    ("read", "lat", (RXE, SOFT)), ("atomic", "lat", (RXE, SOFT))):
            self.perftest(kind, what, *timeout, servers=servers)
        retransmitted = self.assert_capture_holds()
        self.assertGreater(retransmitted, 10)

    # Who has all of the answers goes, and the peer's last acknowledgement may be what is lost.
    test_pingpong_with_every_byte_compared = test_rping_with_every_byte_compared = None


if __name__ == "__main__":
    stage.main(live=True)
