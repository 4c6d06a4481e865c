"""The same programs as in soft_nic_test.py with an emulated node, over the emulator's vhost-user socket: nothing needs root.
A TAP in a network namespace of the test's user carries their TCP."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import soft_nic_test
import stage

# Root in a user namespace of its own, as any user can be.
OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]
WITH_TAP = """ip tuntap add dev soft0 mode tap && ip addr add 10.9.0.1/24 dev soft0 && ip link set soft0 mtu 4200 up && exec "$@" """


class OverVhost(soft_nic_test.WithAnEmulatedNode):
    @classmethod
    def setUpClass(cls):
        tried = subprocess.run([*OWN_NETWORK, "ip", "tuntap", "add", "dev", "soft0", "mode", "tap"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)
        if tried.returncode != 0:
            raise cls.skipTest(cls, f"no user namespaces, or no TAP in them: {tried.stdout.strip()}")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="soft-nic-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.socket = self.folder / "gpu.sock"
        self.library = str(stage.Stage.build / "tools/soft_nic/libunderstudy_soft_nic.so")
        self.environment = {**os.environ, "UNDERSTUDY_SOFT_NIC": f"vhost:{self.socket},tap=soft0"}

    def output(self, end, *words, status=0, **environment):
        self.assertEqual(end, 0)  # the other one is the emulator
        command = [*OWN_NETWORK, "sh", "-c", WITH_TAP, "sh", "env", f"LD_PRELOAD={self.library}", *words]
        done = subprocess.run(command, env={**self.environment, **environment}, timeout=soft_nic_test.LONGEST,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def attached(self, text):
        text, found = re.subn(r"iface=[^,\"]*", f"iface={self.socket}", text)
        self.assertEqual(found, 1)
        return text, stage.Stage.build / "ctrl/understudy"

    def test_without_a_tap(self):
        """RDMA-CM needs nothing of the kernel."""
        self.start((stage.ROOT / "configs/rdma_cm.toml").read_text())
        shown = self.output(0, "rping", "-c", "-a", self.NODE, "-C", "3", "-v", UNDERSTUDY_SOFT_NIC=f"vhost:{self.socket}",
                            UNDERSTUDY_SOFT_NIC_ADDRESS="10.9.0.1")
        self.assertEqual(shown.count("ping data: rdma-ping-"), 3)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assert_holds()

    def test_errors_name_what_is_missing(self):
        shown = self.output(0, "ibv_devinfo", status=1)
        self.assertIn(f"vhost socket {self.socket}", shown)
        self.assertIn("start `understudy run`", shown)
        shown = self.output(0, "ibv_devinfo", status=255, UNDERSTUDY_SOFT_NIC=f"vhost:{self.socket}")
        self.assertIn("UNDERSTUDY_SOFT_NIC_ADDRESS", shown)


if __name__ == "__main__":
    stage.main(live=False)
