"""configs/two_nics.toml: two NICs on two ports in one run, one job over IPv6, one over VLAN 100; simulated with reference
nodes, and live with two virtual nodes. The run's capture and the one of each virtual node are judged."""

import re
import shutil
import subprocess

import stage

CONFIG = (stage.ROOT / "configs/two_nics.toml").read_text()
ADDRESSES = (["--ip6", "fd00:9::1/64"], ["--ip", "10.10.0.1/24", "--vlan", "100", "--pcp", "3"])
NEIGHBOURS = (("fd00:9::2", "fd00:9::4"), ("10.10.0.5", "10.10.0.7"))
HOPS = (("over-ipv6", "gpu to a0"), ("over-ipv6", "a2 to gpu"), ("over-vlan", "gpu to b0"), ("over-vlan", "b2 to gpu"))
LINES = [f"job {job}, {hop}, channel 0: 108 messages, 21528576 bytes" for job, hop in HOPS]
TAGS = {("", ""), ("100", "3")}


def only_nic(config, nic):
    """The configuration without the other NIC's port and job: what a capture on one NIC can show."""
    parts = re.split(r"\n(?=\[)", config)
    return "\n".join(part for part in parts if not part.startswith(("[[port]]", "[[job]]")) or f"\nnic = {nic}\n" in part)


def tags(capture):
    """(VLAN, priority) of all RoCE frames; empty for those without a tag."""
    fields = subprocess.run(["tshark", "-r", str(capture), "-Y", "infiniband", "-T", "fields", "-e", "vlan.id", "-e",
                             "vlan.priority"], capture_output=True, text=True, check=True).stdout
    return {tuple(line.split("\t")) for line in fields.splitlines()}


class TwoNics(stage.Stage):
    def judge(self, capture, config, lines, name):
        holds, text = stage.roce_check(self.build / "tools/roce_check/roce-check", capture, "--config", str(config))
        self.assertTrue(holds, text)
        for line in lines:
            self.assertIn(line, text)
        print(f"{name}: holds, {re.search('RoCEv2 packets +([0-9]+)', text)[1]} RoCEv2 packets")

    def test_simulated(self):
        config, capture = self.folder / "config.toml", self.folder / "simulated.pcapng"
        config.write_text(CONFIG)
        done = subprocess.run([self.understudy, "simulate", config, "--capture", capture, "--quiet"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.judge(capture, config, LINES, "simulated run")
        self.assertEqual(tags(capture), TAGS)

    def join_nic(self, nic):
        share = self.folder / f"share{nic}"
        share.mkdir()
        shutil.copy(self.build / "tools/rigs/ring_node/ring_node", share)
        node = stage.VirtualNode(self.folder / "vnode", f"nic{nic}", self.folder / f"nic{nic}.sock", *ADDRESSES[nic],
                                 "--mtu", "4200", "--share", str(share))
        self.addCleanup(node.stop)
        node.start_tcpdump("tcpdump.pcap")
        return node

    def test_live(self):
        config = self.folder / "config.toml"
        # Asleep when idle: two guests and the emulator may have to share two CPUs.
        config.write_text(CONFIG.replace("iface=understudy-", f"iface={self.folder}/").replace(
            "[fidelity]\n", '[fidelity]\nidle = "sleep"\n'))
        emulator = self.start(config, "--linger", "60s")
        nodes = [self.join_nic(nic) for nic in (0, 1)]
        rings = [subprocess.Popen(node.command(f"/mnt/ring_node --peer-next {after} --peer-prev {before}"),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for node, (after, before) in zip(nodes, NEIGHBOURS)]
        for ring in rings:
            output = ring.communicate()[0]
            self.assertEqual(ring.returncode, 0, output)
            self.assertIn("Out of bounds values : 0 OK", output)
        for node in nodes:
            node.stop_tcpdump()
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        print(emulator.table.read_text())
        self.assert_all_right(self.valid_report(emulator))
        self.judge(emulator.capture, config, LINES, "run")
        self.assertEqual(tags(emulator.capture), TAGS)
        for nic in (0, 1):
            part = self.folder / f"nic{nic}.toml"
            part.write_text(only_nic(config.read_text(), nic))
            self.judge(self.folder / f"share{nic}/tcpdump.pcap", part, LINES[2 * nic:2 * nic + 2], f"virtual node {nic}")


if __name__ == "__main__":
    stage.main()
