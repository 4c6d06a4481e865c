"""Unmodified verbs programs on soft NICs in a VLAN: between two of them, and with an emulated node over packet sockets and over
vhost-user."""

import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import both_ends  # noqa: E402
import emulated_test  # noqa: E402
import vhost_test  # noqa: E402
import stage  # noqa: E402
import capture_file  # noqa: E402
from cable import CLIENT, SERVER, Cable, PairOnCable  # noqa: E402
from ipv6_test import CLIENT6, NODE6, REAL6, SERVER6, without_tests  # noqa: E402

VLAN, PRIORITY = "100", 3
ROCE = struct.pack("!H", 4791)
L3 = {b"\x08\x00": 20, b"\x86\xdd": 40}  # bytes of an IP header


def tags(frames):
    """(VLAN, priority) of all RoCE frames, (0, 0) of untagged ones."""
    seen = set()
    for frame in frames:
        tagged = frame[12:14] == b"\x81\x00"
        at = 18 if tagged else 14
        header = L3.get(frame[at - 2:at])
        if header is not None and frame[at + header + 2:at + header + 4] == ROCE:
            tag = struct.unpack("!H", frame[14:16])[0] if tagged else 0
            seen.add((tag & 0xfff, tag >> 13))
    return seen


def frames_of(pcap):
    data, at = pcap.read_bytes(), len(both_ends.HEADER)
    while at + both_ends.RECORD.size <= len(data):
        size = both_ends.RECORD.unpack_from(data, at)[2]
        at += both_ends.RECORD.size + size
        yield data[at - size:at]


class TwoSoftNics(PairOnCable):
    """The kernels' own frames, TCP's among them, are in no VLAN."""

    def setUp(self):
        super().setUp()
        for end, address in zip(self.cable.ends, (CLIENT6, SERVER6)):
            Cable.ip("-n", end, "addr", "add", f"{address}/64", "dev", "soft0", "nodad")
        self.environment["UNDERSTUDY_SOFT_NIC_VLAN"] = VLAN

    def test_what_they_say_is_tagged_and_holds(self):
        for address in (SERVER, SERVER6):
            judge = self.heard()
            shown = self.connected("rping", "-a", address, "-C", "20", "-v", server=("-s",), client=("-c",))
            self.assertEqual(shown.count("ping data: rdma-ping-"), 20, shown)
            self.assertIn("return status 0", self.connected("udaddy", "-c", "3", server=("-b", address), client=("-s", address)))
            holds, text = judge()
            self.assertTrue(holds, text)
            self.assertRegex(text, r"cm +holds")
            self.assertEqual(tags(frames_of(self.capture)), {(100, 0)})

    def test_the_service_level_is_the_priority(self):
        for gid in ("0", "1"):
            judge = self.heard()
            self.assertIn("20 iters in", self.pair("ibv_rc_pingpong", "-g", gid, "-n", "20", "-l", "5"))
            self.pair("ib_write_bw", "-F", "-x", gid, "-S", "5", "-n", "5", "-s", "65536")
            self.pair("ib_send_lat", "-c", "UD", "-F", "-x", gid, "-S", "5", "-n", "20", "-s", "8")
            holds, text = judge()
            self.assertTrue(holds, text)
            self.assertEqual(tags(frames_of(self.capture)), {(100, 5)})

    def test_the_traffic_class_is_the_priority_without_one(self):
        judge = self.heard()
        self.connected("ib_send_lat", "-R", "-F", "-T", "104", "-n", "20", "-s", "8")
        holds, text = judge()
        self.assertTrue(holds, text)
        self.assertIn((100, 3), tags(frames_of(self.capture)))  # beside those that make the connection

    def test_programs_on_one_address(self):
        self.pair("ib_write_bw", "-b", "-s", "65536", "-F", "-x", "0", "-n", "100", client=(CLIENT,), server_end=0)
        self.pair("ib_write_bw", "-b", "-s", "65536", "-F", "-x", "1", "-n", "100", client=(CLIENT,), server_end=0)

    def test_another_vlan_is_another_network(self):
        for other in ("101", None):
            with self.subTest(other=other):
                wrong = {**self.environment}
                wrong.pop("UNDERSTUDY_SOFT_NIC_VLAN")
                if other is not None:
                    wrong["UNDERSTUDY_SOFT_NIC_VLAN"] = other
                command = self.cable.command(0, ["ibv_rc_pingpong", "-g", "0", "-n", "10", SERVER])
                with open(self.log, "w") as log:
                    server = stage.favoured(self.cable.command(1, ["ibv_rc_pingpong", "-g", "0", "-n", "10"]), env=self.environment,
                                            stdout=log, stderr=log)
                try:
                    self.wait_for_server(("ss", "-Hltn"))
                    status, said = stage.favoured_output(command, 60, env=wrong)
                    self.assertNotEqual(status, 0, said)
                finally:
                    server.kill()
                    server.wait()

    def test_the_kernels_interface_of_the_vlan_has_the_addresses(self):
        self.environment.pop("UNDERSTUDY_SOFT_NIC_VLAN")
        for end, address in zip(self.cable.ends, ("10.6.0.1", "10.6.0.2")):
            made = subprocess.run(["ip", "-n", end, "link", "add", "link", "soft0", "name", "soft0.100", "type", "vlan", "id", VLAN],
                                  capture_output=True, check=False)
            if made.returncode != 0:
                self.skipTest("the kernel knows no VLANs (8021q)")
            Cable.ip("-n", end, "addr", "add", f"{address}/24", "dev", "soft0.100")
            Cable.ip("-n", end, "link", "set", "soft0.100", "up")
        for name in ("soft0", "soft0.100"):
            shown = self.output(0, "ibv_devinfo", "-v", UNDERSTUDY_SOFT_NIC=name, UNDERSTUDY_SOFT_NIC_VLAN=VLAN)
            self.assertRegex(shown, r"GID\[\s*0\]:\s+::ffff:10.6.0.1, RoCE v2")
        refused = self.output(0, "ibv_devices", UNDERSTUDY_SOFT_NIC="soft0.100", UNDERSTUDY_SOFT_NIC_VLAN="101")
        self.assertIn("UNDERSTUDY_SOFT_NIC_VLAN", refused)
        self.environment["UNDERSTUDY_SOFT_NIC_VLAN"] = VLAN
        judge = self.heard()
        self.assertIn("100 iters in", self.pair("ibv_rc_pingpong", "-g", "0", "-n", "100", client=("10.6.0.2",)))
        holds, text = judge()
        self.assertTrue(holds, text)
        self.assertEqual(tags(frames_of(self.capture)), {(100, 0)})


class Clients:
    """Of an emulated node's services; what both ways to the emulator share."""

    def served(self, name, more=""):
        """The configuration of that name, whose nodes have IPv6 addresses as well and are in a VLAN."""
        text = (stage.ROOT / "configs" / name).read_text() + more
        v4 = 'v4 = "10.9.0.0/24"'
        self.assertEqual(text.count(v4), 1)
        self.start(text.replace(v4, f'{v4}\nv6 = "fd00:9::/64"\nvlan = {VLAN}\npcp = {PRIORITY}'))

    def assert_tagged(self, *priorities):
        """What the soft NIC has sent."""
        sent = [frame.data for frame in capture_file.frames(self.emulator.capture) if frame.direction != capture_file.OUT]
        self.assertEqual(tags(sent), {(int(VLAN), priority) for priority in priorities})

    def test_clients_that_use_rdma_cm(self):
        self.served("rdma_cm.toml")
        for node in (self.NODE, NODE6):
            self.assertEqual(self.output(0, "rping", "-c", "-a", node, "-C", "3", "-v").count("ping data: rdma-ping-"), 3)
            self.assertIn("return status 0", self.output(0, "ucmatose", "-c", "3", "-s", node))
        self.assert_all_served(8)
        self.assert_tagged(0)


class WithAnEmulatedNode(Clients, without_tests(emulated_test.WithAnEmulatedNode)):
    """The kernel's TCP is in no VLAN here, so programs that need it reach nobody."""

    def setUp(self):
        super().setUp()
        Cable.ip("-n", self.cable.ends[0], "addr", "add", f"{REAL6}/64", "dev", "soft0", "nodad")
        self.environment["UNDERSTUDY_SOFT_NIC_ADDRESS"] = f"10.9.0.1,{REAL6}"
        self.environment["UNDERSTUDY_SOFT_NIC_VLAN"] = VLAN


class OverVhost(Clients, without_tests(vhost_test.OverVhost)):
    """A TAP carries TCP in the VLAN."""

    OPTIONS = ("--address", "10.9.0.1/24", "--address", f"{REAL6}/64", "--vlan", VLAN)

    def test_pingpongs_and_perftest(self):
        self.served("perftest.toml")
        for gid, node in (("0", self.NODE), ("1", NODE6)):
            self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", gid, "-n", "100", "-l", "2", node))
            self.assertIn("200 iters in", self.output(0, "ibv_ud_pingpong", "-g", gid, "-n", "200", "-p", "18518", "-l", "2", node))
            for program in (("ib_write_bw", "-s", "65536"), ("ib_read_lat", "-s", "8"), ("ib_write_lat", "-s", "8", "-p", "18516")):
                with self.subTest(program=program, gid=gid):
                    self.output(0, *program, "-F", "-x", gid, "-S", "2", "-u", "18", "-n", "50", self.NODE)
        self.assert_all_served(10)
        self.assert_tagged(2)

    def test_without_a_tap(self):
        self.served("rdma_cm.toml")
        for own, node in (("10.9.0.1", self.NODE), (REAL6, NODE6)):
            said = self.bare("rping", "-c", "-a", node, "-C", "3", "-v", UNDERSTUDY_SOFT_NIC_ADDRESS=own, UNDERSTUDY_SOFT_NIC_VLAN=VLAN)
            self.assertEqual(said.count("ping data: rdma-ping-"), 3, said)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assert_holds()
        self.assert_tagged(0)


if __name__ == "__main__":
    stage.main(live=False)
