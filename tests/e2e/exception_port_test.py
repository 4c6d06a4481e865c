#!/usr/bin/env python3
"""TCP between the virtual node and 1,000 emulated addresses, IPv4 and IPv6, in both directions.

usage: exception_port_test.py UNDERSTUDY [unittest's arguments]; skipped (status 77) without a virtual node's kernel
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools/lib"))
sys.dont_write_bytecode = True

from live_run import Run, VirtualNode  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SKIPPED = 77
COUNT = 1000
PORT = 18515

HEAD = """format = 1

[fidelity]
idle = "sleep"

[[prefix]]
nic = 0
v4 = "10.9.0.0/16"
v6 = "fd00:9::/64"

[[node]]
name = "gpu"
real = true
link = {{ rate = "1Gbit/s", latency = "1us" }}

[[node]]
name = "w"
count = {count}
link = {{ rate = "1Gbit/s", latency = "1us" }}

[[port]]
real = "gpu"
device = "net_vhost0,iface={socket},queues=1"
"""

SERVICE = """
[[service]]
node = "w{index}"
port = {port}
"""


def helper_of(pid):
    """The child of the run that holds the exception namespace."""
    own = os.readlink(f"/proc/{pid}/ns/net")
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if os.readlink(f"/proc/{child}/ns/net") != own:
                return child
    raise AssertionError("no child with a network namespace of its own")


class ExceptionPort(unittest.TestCase):
    understudy = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="xport-")
        cls.addClassCleanup(cls.scratch.cleanup)
        folder = Path(cls.scratch.name)
        share = folder / "share"
        share.mkdir()
        cls.client = share / "tcp_many"
        subprocess.run(["c++", "-std=c++20", "-O1", "-o", cls.client, HERE / "tcp_many.cc"], check=True)
        config = folder / "config.toml"
        config.write_text(HEAD.format(count=COUNT, socket=folder / "gpu.sock") + "".join(
            SERVICE.format(index=index, port=PORT) for index in range(COUNT)))
        cls.run_ = Run(cls.understudy, config, folder)
        cls.addClassCleanup(cls.run_.stop)
        cls.node = VirtualNode(folder / "vnode", "gpu", folder / "gpu.sock", "--ip", "10.9.0.1/16", "--ip6",
                               "fd00:9::1/64", "--mtu", "4200", "--share", str(share))
        cls.addClassCleanup(cls.node.stop)

    def to_each(self, first):
        begin = time.monotonic()
        done = self.node.execute(f"/mnt/tcp_many connect {PORT} {first} {COUNT}")
        print(f"virtual node to {COUNT} addresses from {first} on: {done.stdout.strip().splitlines()[-1]}, "
              f"{time.monotonic() - begin:.1f} s")
        self.assertEqual(done.returncode, 0, done.stdout[:2000])
        self.assertIn(f"connected: {COUNT}\n", done.stdout)

    def test_ipv4_to_each_emulated_address(self):
        self.to_each("10.9.0.2")

    def test_ipv6_to_each_emulated_address(self):
        self.to_each("fd00:9::2")

    def from_each(self, host, first):
        self.node.output("pidof tcp_many || { /mnt/tcp_many serve 9000 >/dev/null 2>&1 & sleep 0.3; pidof tcp_many; }")
        helper = helper_of(self.run_.process.pid)
        users = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
        begin = time.monotonic()
        done = subprocess.run(["nsenter", "--target", helper, *users, "--net", str(self.client), "from", "9000", host,
                               first, str(COUNT)], capture_output=True, text=True, check=False, timeout=120)
        last = (done.stdout.strip().splitlines() or [done.stderr])[-1]
        print(f"{COUNT} addresses from {first} on to the virtual node: {last}, {time.monotonic() - begin:.1f} s")
        self.assertEqual(done.returncode, 0, done.stdout[:2000] + done.stderr)
        self.assertIn(f"connected: {COUNT}\n", done.stdout)

    def test_ipv4_from_each_emulated_address(self):
        self.from_each("10.9.0.1", "10.9.0.2")

    def test_ipv6_from_each_emulated_address(self):
        self.from_each("fd00:9::1", "fd00:9::2")

    def test_nobody_answers_at_an_address_without_a_node(self):
        done = self.node.execute(f"/mnt/tcp_many connect {PORT} 10.9.99.1 1")
        self.assertEqual((done.returncode, done.stdout), (1, "no answer: 10.9.99.1\nconnected: 0\n"))


if __name__ == "__main__":
    if not (CACHE / "understudy/vnode/uml/kernel").exists() or not shutil.which("c++"):
        print("skipped: no virtual node (tools/vnode/vnode build)")
        sys.exit(SKIPPED)
    ExceptionPort.understudy = Path(sys.argv.pop(1)).resolve()
    unittest.main()
