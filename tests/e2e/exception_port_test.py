"""TCP between the virtual node and 1,000 emulated addresses with a listener each, IPv4 and IPv6, in both directions."""

import os
import subprocess
import time
from pathlib import Path

import stage

COUNT = 1000
PORT, NODES_PORT = 18515, 9000

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

SERVICE = """[[service]]
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


class ExceptionPort(stage.Stage):
    def setUp(self):
        super().setUp()
        compiler = os.environ.get("CXX", "c++").split()
        self.tool = self.share / "tcp_many"
        subprocess.run([*compiler, "-std=c++20", "-O1", "-o", self.tool, Path(__file__).with_name("tcp_many.cc")], check=True)
        config = self.folder / "config.toml"
        config.write_text(HEAD.format(count=COUNT, socket=self.socket) + "".join(
            SERVICE.format(index=index, port=PORT) for index in range(COUNT)))
        self.emulator = self.start(config)
        self.node = stage.VirtualNode(self.folder / "vnode", "gpu", self.socket, "--ip", "10.9.0.1/16", "--ip6",
                                      "fd00:9::1/64", "--mtu", "4200", "--share", str(self.share))
        self.addCleanup(self.node.stop)

    def judge(self, direction, begin, status, output):
        print(f"{direction}: {output.strip().splitlines()[-1]} of {COUNT}, {time.monotonic() - begin:.1f} s")
        self.assertEqual((status, output), (0, f"connected: {COUNT}\n"))

    def to_each(self, first):
        begin = time.monotonic()
        done = self.node.execute(f"/mnt/tcp_many connect {PORT} {first} {COUNT}")
        self.judge(f"from the virtual node to {first} and on", begin, done.returncode, done.stdout)

    def from_each(self, first, host):
        helper = helper_of(self.emulator.process.pid)
        users = [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
        begin = time.monotonic()
        done = subprocess.run(["nsenter", "--target", helper, *users, "--net", str(self.tool), "from", str(NODES_PORT), host,
                               first, str(COUNT)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.judge(f"from {first} and on to the virtual node", begin, done.returncode, done.stdout)

    def test_tcp_in_both_directions(self):
        self.node.output(f"/mnt/tcp_many serve {NODES_PORT} >/dev/null 2>&1 & sleep 0.3; pidof tcp_many")
        # First, so that nobody knows the real node's MAC yet.
        self.from_each("10.9.0.2", "10.9.0.1")
        self.to_each("10.9.0.2")
        self.from_each("fd00:9::2", "fd00:9::1")
        self.to_each("fd00:9::2")
        done = self.node.execute(f"/mnt/tcp_many connect {PORT} 10.9.99.1 1")
        self.assertEqual((done.returncode, done.stdout), (1, "no answer: 10.9.99.1\nconnected: 0\n"))

    @stage.only_in_full
    def test_ipv6_from_an_emulated_address_first(self):
        self.node.output(f"/mnt/tcp_many serve {NODES_PORT} >/dev/null 2>&1 & sleep 0.3; pidof tcp_many")
        self.from_each("fd00:9::2", "fd00:9::1")


if __name__ == "__main__":
    stage.main()
