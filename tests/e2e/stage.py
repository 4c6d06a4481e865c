"""What the tests of whole runs share: the programs under test, the virtual node's kernel, configurations.

A test is called with the build directory first: TEST.py BUILD_DIRECTORY [unittest's arguments]. How many of its
cases it runs: tests/extent.py.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools/lib"), str(ROOT / "tests")]

import capture_file  # noqa: E402
import jsonschema  # noqa: E402
from extent import ALL, cases, only_in_full  # noqa: E402,F401
from live_run import Run, VirtualNode, favoured, favoured_output, roce_check  # noqa: E402,F401

SKIPPED = 77
CANNOT_BUILD = 3  # vnode build's status
NOT_FAITHFUL = 3
NODE_ADDRESS, NEXT, PREVIOUS = "10.9.0.1", "10.9.0.2", "10.9.0.4"
RING_NODE = f"/mnt/ring_node --peer-next {NEXT} --peer-prev {PREVIOUS}"

NETWORK = """format = 1
seed = {seed}
[fidelity]
tolerance = {tolerance}
idle = "{idle}"
[fabric]
mtu = 4096
pacing = {pacing}
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = {{ rate = "{rate}", latency = "{latency}" }}
[[node]]
name = "w"
count = 3
link = {{ rate = "{rate}", latency = "{latency}" }}
[[port]]
real = "gpu"
device = "net_vhost0,iface={socket},queues=1"
"""
RING = """[[job]]
name = "allreduce"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w0", "w1", "w2"]
sizes = {sizes}
iterations = {iterations}
warmup = 1
payload = "{payload}"
entry = "first_credit"
interval = "1ms"
{more}
"""


class Stage(unittest.TestCase):
    """One test's folder, with programs and ways to write configurations, start runs and join nodes."""

    build = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="e2e-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.share = self.folder / "share"
        self.share.mkdir()
        self.socket = self.folder / "gpu.sock"
        self.understudy = self.build / "ctrl/understudy"
        shutil.copy(self.build / "tools/rigs/ring_node/ring_node", self.share)

    def network(self, tables, name="run.toml", rate="100Mbit/s", latency="250us", tolerance=0.05, idle="spin",
                pacing="true", seed=20):
        """A configuration of one real and three emulated nodes, and what `tables` says they do."""
        file = self.folder / name
        file.write_text(NETWORK.format(rate=rate, latency=latency, tolerance=tolerance, idle=idle, pacing=pacing,
                                       seed=seed, socket=self.socket) + tables)
        return file

    def ring(self, name="ring.toml", sizes='["1MiB"]', iterations=2, payload="exact", more="", **network):
        return self.network(RING.format(sizes=sizes, iterations=iterations, payload=payload, more=more), name, **network)

    def with_socket(self, config):
        """A copy of a configuration of the repository that listens in this test's folder."""
        text, found = re.subn(r"iface=[^,\"]*", f"iface={self.socket}", (ROOT / config).read_text())
        self.assertEqual(found, 1)
        file = self.folder / Path(config).name
        file.write_text(text)
        return file

    def start(self, config, *options):
        emulator = Run(self.understudy, config, self.folder, *options)
        self.addCleanup(emulator.stop)
        return emulator

    def join(self, *options, prefix=24):
        node = VirtualNode(self.folder / "vnode", "gpu", self.socket, "--ip", f"{NODE_ADDRESS}/{prefix}", "--mtu", "4200",
                           "--share", str(self.share), *options)
        self.addCleanup(node.stop)
        return node

    def assert_holds(self, capture, *options):
        holds, text = roce_check(self.build / "tools/roce_check/roce-check", capture, *options)
        self.assertTrue(holds, text)

    def assert_does_not_hold(self, capture, *options):
        """Returns what roce-check says about it."""
        done = subprocess.run([str(self.build / "tools/roce_check/roce-check"), str(capture), *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout

    def valid_report(self, emulator):
        report = emulator.report()
        jsonschema.validate(report, json.loads((ROOT / "ctrl/report/report.schema.json").read_text()))
        return report

    def play(self, node, options=""):
        """Starts ring_node; returns when its first size is done and the next one runs."""
        player = subprocess.Popen(node.command(f"{RING_NODE} {options}"), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.addCleanup(player.stdout.close)
        self.addCleanup(player.wait)
        self.addCleanup(player.kill)
        lines = []
        for line in player.stdout:
            lines.append(line)
            if line.split()[2:4] == ["float", "sum"]:
                return player
        raise AssertionError(f"ring_node did not get to work:\n{''.join(lines)}")

    def assert_all_right(self, report):
        """Every operation was done and every result verified, whatever the times were."""
        for job in report["jobs"]:
            self.assertEqual((job["done"], job["failed"], job["protocol_violations"]), (job["planned"], False, 0))
            self.assertEqual({size["wrong_elements"] for size in job["sizes"]}, {0})


def scheduled_packets(capture):
    """(scheduled time in ps, length) of each packet of a capture of ours that left by a schedule."""
    for time, frame in scheduled_frames(capture):
        yield time, len(frame)


def scheduled_frames(capture):
    """(scheduled time in ps, bytes) of the same."""
    for frame in capture_file.frames(capture):
        if frame.direction == capture_file.OUT and frame.scheduled != capture_file.NO_SCHEDULE:
            yield frame.scheduled, frame.data


def frame_times(capture):
    """What two runs with kernels have in common: each frame's times, way and length. Their ports and sequence numbers are drawn anew."""
    return [(frame.at, frame.scheduled, frame.interface, frame.direction, len(frame.data)) for frame in capture_file.frames(capture)]


def _no_tap():
    """Why no virtual node can be joined here in real time; None if nothing is in the way."""
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None


def _no_namespaces():
    """Why processes here cannot have namespaces of their own."""
    spaces = subprocess.run(["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "true"], capture_output=True,
                            text=True, check=False)
    return None if os.getuid() == 0 or spaces.returncode == 0 else f"no user namespaces: {spaces.stderr.strip()}"


def _no_kernel():
    """Builds the virtual node's kernel where it is not there; why that cannot be."""
    lines = []
    with subprocess.Popen([sys.executable, str(ROOT / "tools/rigs/vnode/vnode"), "build", "--kind", "uml"], stderr=subprocess.PIPE,
                          text=True) as build:
        for line in build.stderr:
            sys.stderr.write(line)
            lines.append(line)
    if build.returncode not in (0, CANNOT_BUILD):
        sys.exit(build.returncode)
    return None if build.returncode == 0 else "".join(lines).strip()


def skip_without_guests(live=False):
    """Ends the test where no guest can run; `live`: one that is joined in real time."""
    for obstacle in (_no_tap if live else lambda: None, _no_namespaces, _no_kernel):
        if why := obstacle():
            print(f"skipped: {why}")
            sys.exit(SKIPPED)


def main(live=True, guests=False):
    """Runs the calling script's tests; `live`: they need the virtual node, whose kernel is built if it is not there; `guests`: they
    need its kernel only, for virtual time. Behind --few stand the tests to be run where not all is asked for."""
    Stage.build = Path(sys.argv.pop(1)).resolve()
    if "--few" in sys.argv:
        few = sys.argv.index("--few")
        sys.argv[few:] = [] if ALL else sys.argv[few + 1:]
    if live or guests:
        skip_without_guests(live)
    unittest.main()
