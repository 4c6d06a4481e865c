"""The same programs as in emulated_test.py with an emulated node, over the emulator's vhost-user socket: nothing needs root.
A TAP in a network namespace of the test's user carries their TCP."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import cable  # noqa: E402
import emulated_test  # noqa: E402
import stage  # noqa: E402
from soft_nic_links import Vhost  # noqa: E402

WITH_SOFT_NIC = stage.ROOT / "tools/with_soft_nic"
# Whether soft0 has IFF_RUNNING, by SIOCGIFFLAGS.
RUNS = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    request = fcntl.ioctl(any_socket, 0x8913, struct.pack("16sH14x", b"soft0", 0))
print("running" if struct.unpack("16sH14x", request)[1] & 0x40 else "not running", flush=True)
"""


class OverVhost(emulated_test.WithAnEmulatedNode):
    OPTIONS = ()  # of with_soft_nic
    ADDRESSES = "10.9.0.1"  # of programs that have no TAP

    # What waits for room in the ring of a program that stands still leaves late: the emulated side's lateness it is here.
    test_a_rank_that_stands_still_is_named = None
    test_a_network_interface_that_goes_away_ends_the_run = None  # there is none

    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="soft-nic-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.socket = self.folder / "gpu.sock"
        self.emulator = None

    def command(self, end, words, options=None):
        self.assertEqual(end, 0)  # the other one is the emulator
        options = self.OPTIONS if options is None else options
        return [WITH_SOFT_NIC, "--build", stage.Stage.build, "--socket", self.socket, *options, *words]

    def output(self, end, *words, status=0, options=None, **environment):
        ended, said = stage.favoured_output(self.command(end, words, options), cable.LONGEST, env={**os.environ, **environment})
        if ended != status:
            self.fail(f"status {ended}, not {status}:\n{said}\n{self.seen_by_the_emulator()}")
        return said

    def seen_by_the_emulator(self):
        if self.emulator is None:
            return "no emulator"
        self.emulator.stop()
        ports = [{key: port[key] for key in ("counters", "drops", "pacing") if key in port} for port in self.emulator.report()["ports"]]
        return f"the emulator's ports: {ports}\n{self.emulator.log.read_text()}"

    def attached(self, text):
        text, found = re.subn(r"iface=[^,\"]*", f"iface={self.socket}", text)
        self.assertEqual(found, 1)
        return text, stage.Stage.build / "ctrl/understudy"

    def bare(self, *words, **environment):
        """A program at the socket, without TAP and namespace."""
        settings = {"UNDERSTUDY_SOFT_NIC": f"vhost:{self.socket}", "UNDERSTUDY_SOFT_NIC_ADDRESS": self.ADDRESSES, **environment,
                    "LD_PRELOAD": str(stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so")}
        status, said = stage.favoured_output(words, cable.LONGEST, env={**os.environ, **settings})
        self.assertEqual(status, 0, said)
        return said

    def test_without_a_tap(self):
        """RDMA-CM needs nothing of the kernel."""
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        said = self.bare("rping", "-c", "-a", self.NODE, "-C", "3", "-v")
        self.assertEqual(said.count("ping data: rdma-ping-"), 3, said)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assert_holds()

    def test_a_port_over_several_cores(self):
        """What goes through its threads is the same, and the capture shows it in the order in which it went."""
        text = (stage.ROOT / "configs/perftest.toml").read_text()
        for cores in (2, 3):
            with self.subTest(cores=cores):
                more, found = re.subn(r'(device = "net_vhost[^"]*")', rf"\1\ncores = {cores}", text)
                self.assertEqual(found, 1)
                self.start(more)
                self.assertIn("100 iters in",
                              self.output(0, "ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", self.NODE))
                for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
                    self.output(0, program, "-F", "-x", "0", "-u", "18", "-n", "200", "-s", "65536", self.NODE)
                self.assert_all_served(4)
                (port,) = self.emulator.report()["ports"]
                self.assertEqual(port["pacing"]["threads"], cores)
                self.assertEqual({port["drops"][why] for why in ("bad_icrc", "truncated")}, {0})

    def test_programs_that_look_for_libibverbs_by_name(self):
        """As NCCL does: what is preloaded is not what dlsym() finds there."""
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        shown = self.output(0, "--by-name", sys.executable, "-c", cable.FINDS)
        self.assertEqual(shown.split("\n")[0], "understudy0")

    def test_the_interface_runs_before_the_library_is_loaded(self):
        """NCCL looks for interfaces before libibverbs, and takes those with IFF_RUNNING only."""
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        shown = self.output(0, "--by-name", sys.executable, "-c", RUNS + cable.FINDS)
        self.assertEqual(shown.split("\n")[:2], ["running", "understudy0"])

    def test_one_program_at_a_time(self):
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        serve = [WITH_SOFT_NIC, "--build", stage.Stage.build, "--socket", self.socket, "rping", "-s", "-a", "10.9.0.1"]
        first = stage.favoured(serve)
        try:
            for _ in range(cable.LONGEST * 10):
                shown = self.output(0, "sh", "-c", "ibv_devinfo || true")
                if "another program uses it" in shown:
                    break
                if first.poll() is not None:  # the other one was there just before it
                    first = stage.favoured(serve)
            else:
                self.fail(shown)
            self.assertIn(str(self.socket), shown)
        finally:
            first.kill()
            first.wait()

    def test_errors_name_what_is_missing(self):
        shown = self.output(0, "ibv_devinfo", status=125)
        self.assertIn(f"no socket {self.socket}", shown)
        self.assertIn("start `understudy run`", shown)
        for wrong in (["--address", "10.9.0.1", "true"], ["--address", "fd00:9::1", "true"], ["--vlan", "4095", "true"], ["--vlan", "x", "true"],
                      ["--vlan"], ["--mtu", "big", "true"], ["--nonsense"], ["--socket"], []):
            with self.subTest(wrong=wrong):
                done = subprocess.run([WITH_SOFT_NIC, *wrong], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(wrong[0] if wrong else "usage", done.stderr)


if __name__ == "__main__":
    stage.main(live=False)
