"""For tests of the program's command line: the program, configurations, and a folder for each test. The test's first
argument is the program's path."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())  # the tests run elsewhere
QUICKSTART = pathlib.Path(__file__).resolve().parents[3] / "configs/quickstart.toml"
GOOD = """format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "100Mbit/s", latency = "250us" }
[[node]]
name = "w"
count = 3
link = { rate = "100Mbit/s", latency = "250us" }
[[port]]
real = "gpu"
device = "virtual"
[[job]]
name = "ring"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w*"]
sizes = ["4KiB"]
entry = "scheduled"
interval = "1ms"
"""
TOPOLOGY = """format = 1
[[node]]
name = "w"
count = 64
link = { rate = "100Gbit/s", latency = "1us" }
[topology]
kind = "leaf_spine"
hosts_per_leaf = 16
oversubscription = "2:1"
uplink = { rate = "100Gbit/s", latency = "2us" }
"""
# What a build without DPDK says of `run`.
NO_DPDK = "this build has no DPDK: `run` needs it (Debian package libdpdk-dev"


def lacks_dpdk():
    """Whether the program was built without DPDK, as its help says."""
    done = subprocess.run([UNDERSTUDY, "run", "--help"], capture_output=True, text=True, timeout=100, check=True)
    return NO_DPDK in done.stdout.replace("\n", " ")


class CommandLine(unittest.TestCase):
    def setUp(self):
        # A folder of its own that any user may enter.
        folder = tempfile.TemporaryDirectory(prefix="understudy-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)

    def run_it(self, *words, prefix=()):
        command = [*prefix, UNDERSTUDY, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              cwd=self.folder)

    def config(self, *replacements, name="bad.toml"):
        text = GOOD
        for old, new in replacements:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def expect_bad(self, done, *parts):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def topology(self, text, name="topology.toml"):
        path = self.folder / name
        path.write_text(TOPOLOGY + text, encoding="utf-8")
        return path
