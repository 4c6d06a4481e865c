"""A soft NIC on a cable to an emulated node, for tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from cable import Cable, OnCable  # noqa: E402


class OnEmulatedNode(OnCable):
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
