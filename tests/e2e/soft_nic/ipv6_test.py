"""Unmodified verbs programs on soft NICs over IPv6: between two of them, and with an emulated node over packet sockets and over
vhost-user."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import emulated_test  # noqa: E402
import vhost_test  # noqa: E402
import stage  # noqa: E402
from cable import LISTENS, LONGEST, SERVER, Cable, PairOnCable  # noqa: E402

CLIENT6, SERVER6 = "fd00:8::1", "fd00:8::2"
REAL6, NODE6 = "fd00:9::1", "fd00:9::2"


class TwoSoftNics(PairOnCable):
    def setUp(self):
        super().setUp()
        for end, address in zip(self.cable.ends, (CLIENT6, SERVER6)):
            Cable.ip("-n", end, "addr", "add", f"{address}/64", "dev", "soft0", "nodad")

    def gids(self, **environment):
        shown = self.output(0, "ibv_devinfo", "-v", **environment)
        return [line.split()[-3].rstrip(",") for line in shown.splitlines() if "GID[" in line]

    def test_the_device_has_a_gid_for_each_address(self):
        self.assertEqual(self.gids(), ["::ffff:10.8.0.1", CLIENT6])
        self.assertEqual(self.gids(UNDERSTUDY_SOFT_NIC_ADDRESS=CLIENT6), [CLIENT6])
        self.assertEqual(self.gids(UNDERSTUDY_SOFT_NIC_ADDRESS=f"{CLIENT6},10.8.0.1"), [CLIENT6, "::ffff:10.8.0.1"])
        shown = self.output(0, "ibv_devices", UNDERSTUDY_SOFT_NIC_ADDRESS="fd00:8::77")
        self.assertIn("UNDERSTUDY_SOFT_NIC_ADDRESS", shown)
        self.assertIn("fd00:8::77", shown)

    def test_an_interface_without_others_has_its_link_local_address(self):
        Cable.ip("-n", self.cable.ends[0], "-4", "addr", "flush", "dev", "soft0")
        Cable.ip("-n", self.cable.ends[0], "-6", "addr", "flush", "dev", "soft0", "scope", "global")
        (gid,) = self.gids()
        self.assertTrue(gid.startswith("fe80::"), gid)

    def test_pingpong(self):
        for options in ((), ("-e",), ("-s", "300000", "-m", "4096", "-c")):
            with self.subTest(options=options):
                self.assertIn("200 iters in", self.pair("ibv_rc_pingpong", "-g", "1", "-n", "200", *options))
        self.assertIn("200 iters in", self.pair("ibv_ud_pingpong", "-g", "1", "-n", "200"))
        self.assertIn("200 iters in", self.pair("ibv_srq_pingpong", "-g", "1", "-n", "200", "-q", "4"))

    def test_perftest(self):
        """Debian's exchanges its data over IPv4; --ipv6 lets it choose the GID."""
        for gid in (("-x", "1"), ("--ipv6",)):
            for program in (("ib_write_bw", "-s", "65536"), ("ib_send_lat", "-s", "8"), ("ib_read_bw", "-s", "65536", "-q", "2"),
                            ("ib_atomic_lat",), ("ib_send_bw", "-c", "UD", "-s", "2048")):
                with self.subTest(program=program, gid=gid):
                    shown = self.pair(*program, *gid, "-F", "-n", "100")
                    self.assertIn("253:00:00:08:00:00:00:00:00:00:00:00:00:00:00:02", shown)

    def test_programs_on_one_address(self):
        self.pair("ib_write_bw", "-b", "-s", "65536", "-F", "-x", "1", "-n", "100", client=("10.8.0.1",), server_end=0)
        shown = self.pair("rping", "-a", CLIENT6, "-C", "3", "-v", server=("-s",), client=("-c",), server_end=0,
                          shows=("tail", "-n", "+2", "/proc/net/packet"))
        self.assertEqual(shown.count("ping data: rdma-ping-"), 3, shown)

    def test_a_listener_at_any_address_is_reached_by_both_families(self):
        for address in (SERVER6, SERVER):
            with self.subTest(address=address):
                shown = self.connected("rping", "-C", "3", "-v", server=("-s", "-a", "::"), client=("-c", "-a", address))
                self.assertEqual(shown.count("ping data: rdma-ping-"), 3, shown)
        refused = self.beside(("rping", "-s", "-a", SERVER), "sh", "-c", f"rping -c -a {SERVER6} -C 1; true")
        self.assertIn("RDMA_CM_EVENT_REJECTED", refused)

    def test_nobody_at_an_address(self):
        nobody = self.output(0, "rping", "-c", "-a", "fd00:8::77", "-C", "1", status=255)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR", nobody)

    def test_connections_by_rdma_cm_hold(self):
        judge = self.heard()
        shown = self.connected("rping", "-a", SERVER6, "-C", "20", "-v", server=("-s",), client=("-c",))
        self.assertEqual(shown.count("ping data: rdma-ping-"), 20, shown)
        self.assertIn("return status 0", self.connected("udaddy", "-c", "3", server=("-b", SERVER6), client=("-s", SERVER6)))
        self.assertIn("return status 0", self.connected("ucmatose", "-c", "3", server=("-b", SERVER6), client=("-s", SERVER6)))
        with open(self.log, "w") as log:
            server = stage.favoured(self.cable.command(1, ["rdma_server", "-s", SERVER6]), env=self.environment, stdout=log, stderr=log)
        self.addCleanup(server.kill)
        self.wait_for_server(LISTENS)
        self.assertIn("end 0", self.output(0, "rdma_client", "-s", SERVER6))
        self.assertEqual(server.wait(timeout=LONGEST), 0, self.log.read_text())
        self.pair("ib_write_bw", "-F", "-x", "1", "-n", "5", "-s", "65536")
        holds, text = judge()
        self.assertTrue(holds, text)
        self.assertRegex(text, r"cm +holds")
        self.assertRegex(text, r"acknowledged +holds")


class Clients:
    """Of an emulated node's services; what both ways to the emulator share."""

    def served(self, name, only_v6=False, more=""):
        """The configuration of that name, whose nodes have IPv6 addresses as well or instead."""
        text = (stage.ROOT / "configs" / name).read_text() + more
        v4, v6 = 'v4 = "10.9.0.0/24"', 'v6 = "fd00:9::/64"'
        self.assertEqual(text.count(v4), 1)
        self.start(text.replace(v4, v6 if only_v6 else f"{v4}\n{v6}"))

    def test_pingpongs_over_ipv6_alone(self):
        self.served("perftest.toml", only_v6=True)
        self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", self.GID, "-n", "100", NODE6))
        self.assertIn("200 iters in", self.output(0, "ibv_ud_pingpong", "-g", self.GID, "-n", "200", "-p", "18518", NODE6))
        self.assert_all_served(2)

    def test_perftest_by_ipv6_gids(self):
        self.served("perftest.toml", more='[[service]]\nnode = "w"\nport = 18517\nkind = "send_lat"\n')
        programs = (("ib_write_bw", "-s", "65536"), ("ib_send_bw", "-s", "65536"), ("ib_read_lat", "-s", "8"), ("ib_atomic_bw",),
                    ("ib_write_lat", "-s", "8", "-p", "18516"), ("ib_send_lat", "-s", "8", "-p", "18517"))
        for program in programs:
            with self.subTest(program=program):
                shown = self.output(0, *program, "-F", "-x", self.GID, "-u", "18", "-n", "50", "10.9.0.2")
                self.assertIn("253:00:00:09:00:00:00:00:00:00:00:00:00:00:00:02", shown)
        self.assert_all_served(len(programs))

    def test_clients_that_use_rdma_cm(self):
        self.served("rdma_cm.toml", only_v6=True)
        self.assertEqual(self.output(0, "rping", "-c", "-a", NODE6, "-C", "3", "-v").count("ping data: rdma-ping-"), 3)
        self.assertIn("return status 0", self.output(0, "ucmatose", "-c", "3", "-s", NODE6))
        self.assert_all_served(4)


def without_tests(case):
    """The class as it is, but for its tests."""
    return type(case.__name__, (case,), {name: None for name in dir(case) if name.startswith("test_")})


class WithAnEmulatedNode(Clients, without_tests(emulated_test.WithAnEmulatedNode)):
    GID = "1"

    def setUp(self):
        super().setUp()
        Cable.ip("-n", self.cable.ends[0], "addr", "add", f"{REAL6}/64", "dev", "soft0", "nodad")
        self.environment["UNDERSTUDY_SOFT_NIC_ADDRESS"] = f"10.9.0.1,{REAL6}"


class OverVhost(Clients, without_tests(vhost_test.OverVhost)):
    GID = "1"
    ADDRESSES = REAL6
    OPTIONS = ("--address", "10.9.0.1/24", "--address", f"{REAL6}/64")

    def test_without_a_tap(self):
        """RDMA-CM needs nothing of the kernel: the soft NIC asks and answers for MACs itself."""
        self.served("rdma_cm.toml", only_v6=True)
        said = self.bare("rping", "-c", "-a", NODE6, "-C", "3", "-v")
        self.assertEqual(said.count("ping data: rdma-ping-"), 3, said)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assert_holds()

    def test_ipv6_alone(self):
        self.served("perftest.toml", only_v6=True)
        only = ("--address", f"{REAL6}/64")
        shown = self.output(0, "ibv_devinfo", "-v", options=only)
        self.assertRegex(shown, rf"GID\[\s*0\]:\s+{REAL6}, RoCE v2")
        self.assertIn("100 iters in", self.output(0, "ibv_rc_pingpong", "-g", "0", "-n", "100", NODE6, options=only))
        self.assert_all_served(1)


if __name__ == "__main__":
    stage.main(live=False)
