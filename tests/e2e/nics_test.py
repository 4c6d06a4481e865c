#!/usr/bin/env python3
"""configs/two_nics.toml: two NICs on two ports in one run, one job over IPv6, one over VLAN 100; simulated with reference
nodes, and live with two virtual nodes. The run's capture and the one of each virtual node are judged.

usage: nics_test.py UNDERSTUDY ROCE_CHECK RING_NODE [unittest's arguments]; the live part is skipped without a virtual
node's kernel
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/lib"))
sys.dont_write_bytecode = True

from live_run import Run, VirtualNode, roce_check  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CONFIG = (ROOT / "configs/two_nics.toml").read_text()
MESSAGES = "108 messages, 21528576 bytes"  # of each connection of each job


def only_nic(config, nic):
    """The configuration without the other NIC's port and job: what a capture on one NIC can show."""
    parts = re.split(r"\n(?=\[)", config)
    return "\n".join(part for part in parts if not part.startswith(("[[port]]", "[[job]]")) or f"\nnic = {nic}\n" in part)


def tags(capture):
    """(VLAN, priority) of all RoCE frames; empty for those without a tag."""
    fields = subprocess.run(["tshark", "-r", str(capture), "-Y", "infiniband", "-T", "fields", "-e", "vlan.id", "-e",
                             "vlan.priority"], capture_output=True, text=True, check=True).stdout
    return {tuple(line.split("\t")) for line in fields.splitlines()}


class TwoNics(unittest.TestCase):
    understudy = checker = ring_node = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="nics-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def judge(self, capture, config, *expected):
        holds, text = roce_check(self.checker, capture, "--config", str(config))
        self.assertTrue(holds, text)
        for line in expected:
            self.assertIn(line, text)
        print(f"{capture.name}: holds, {re.search('RoCEv2 packets +([0-9]+)', text)[1]} RoCEv2 packets")

    def both_jobs(self):
        return [f"job {job}, {hop}, channel 0: {MESSAGES}" for job, hop in (
            ("over-ipv6", "gpu to a0"), ("over-ipv6", "a2 to gpu"), ("over-vlan", "gpu to b0"), ("over-vlan", "b2 to gpu"))]

    def test_simulated(self):
        config = self.folder / "config.toml"
        config.write_text(CONFIG)
        capture = self.folder / "simulated.pcapng"
        done = subprocess.run([self.understudy, "simulate", config, "--capture", capture, "--quiet"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.judge(capture, config, *self.both_jobs())
        self.assertEqual(tags(capture), {("", ""), ("100", "3")})

    @unittest.skipUnless((CACHE / "understudy/vnode/uml/kernel").exists(), "no virtual node (tools/vnode/vnode build)")
    def test_live(self):
        config = self.folder / "config.toml"
        config.write_text(CONFIG.replace("/tmp/understudy-", f"{self.folder}/").replace(
            "[fidelity]\n", '[fidelity]\nidle = "sleep"\n'))
        ends = []
        with Run(self.understudy, config, self.folder, "--linger", "60s") as run:
            for nic, options in enumerate((["--ip6", "fd00:9::1/64"], ["--ip", "10.10.0.1/24", "--vlan", "100", "--pcp", "3"])):
                share = self.folder / f"share{nic}"
                share.mkdir()
                shutil.copy(self.ring_node, share / "ring_node")
                node = VirtualNode(self.folder / "vnode", f"nic{nic}", self.folder / f"nic{nic}.sock", *options, "--mtu",
                                   "4200", "--share", str(share))
                self.addCleanup(node.stop)
                node.start_tcpdump("tcpdump.pcap")
                ends.append((node, share))
            hosts = (("fd00:9::2", "fd00:9::4"), ("10.10.0.5", "10.10.0.7"))
            rings = [subprocess.Popen(node.command(f"/mnt/ring_node --peer-next {after} --peer-prev {before}"),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for (node, _), (after, before) in zip(ends, hosts)]
            for ring in rings:
                output = ring.communicate()[0]
                print(output)
                self.assertEqual(ring.returncode, 0, output)
                self.assertIn("Out of bounds values : 0 OK", output)
            for node, _ in ends:
                node.stop_tcpdump()
            status = run.stop()
        self.assertIn(status, (0, 3), run.log.read_text())
        print(run.table.read_text())
        self.judge(run.capture, config, *self.both_jobs())
        self.assertEqual(tags(run.capture), {("", ""), ("100", "3")})
        for nic, (_, share) in enumerate(ends):
            part = self.folder / f"nic{nic}.toml"
            part.write_text(only_nic(config.read_text(), nic))
            self.judge((share / "tcpdump.pcap").rename(share / f"virtual-node-{nic}.pcap"), part,
                       *self.both_jobs()[2 * nic:2 * nic + 2])


if __name__ == "__main__":
    TwoNics.understudy, TwoNics.checker, TwoNics.ring_node = (Path(sys.argv.pop(1)).resolve() for _ in range(3))
    unittest.main()
