"""Unmodified verbs programs on two soft NICs, on a cable between two network namespaces."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from cable import CLIENT, FINDS, PairOnCable  # noqa: E402


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

    def test_what_is_not_offered_is_refused(self):
        for program in (("mckey", "-m", "239.8.0.1"), ("udaddy", "-p", "0x2"), ("rdma_xserver", "-c", "x"), ("rstream",), ("riostream",),
                        ("udpong",), ("rcopy",)):
            with self.subTest(program=program):
                self.assertIn("Operation not supported", self.output(0, *program, status=255))

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

    def test_completion_events_of_perftest(self):
        self.pair("ib_send_lat", "-F", "-x", "0", "-n", "100", "-s", "8", "-e")


if __name__ == "__main__":
    stage.main(live=False)
