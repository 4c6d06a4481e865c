"""roce-check -i on a switch between two soft NICs: what passes, a wrong frame among it, and the end of the port that it watches."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from cable import CLIENT, LONGEST, MTU, SERVER, Cable, PairOnCable  # noqa: E402

PORT = "port0"  # of the switch, to the client
NOBODY = 65534


class Switch(Cable):
    """A bridge in a namespace of its own between the two ends: its ports see both directions."""

    def __init__(self):
        self.ends = [f"snic{os.getpid()}{end}" for end in "abs"]
        for end in self.ends:
            self.ip("netns", "add", end)
        middle = self.ends[2]
        self.ip("-n", middle, "link", "add", "switch", "mtu", MTU, "type", "bridge")
        for i, (end, address) in enumerate(zip(self.ends, (CLIENT, SERVER))):
            port = f"port{i}"
            self.ip("link", "add", "soft0", "netns", end, "type", "veth", "peer", "name", port, "netns", middle)
            self.ip("-n", middle, "link", "set", port, "mtu", MTU, "master", "switch", "up")
            self.ip("-n", end, "addr", "add", f"{address}/24", "dev", "soft0")
            self.ip("-n", end, "link", "set", "soft0", "mtu", MTU, "up")
            self.ip("-n", end, "link", "set", "lo", "up")
        self.ip("-n", middle, "link", "set", "switch", "up")


# A RoCEv2 packet with a wrong ICRC, from the client to a queue pair of the server's, sent as the kernel sends frames.
WRONG = f"""
import socket, struct
bth = struct.pack("!BBHII", 0x0a, 0x40, 0xffff, 0x123, 7) + struct.pack("!QII", 0x1000, 1, 4)
udp = struct.pack("!HHHH", 0xc123, 4791, 8 + len(bth) + 8, 0) + bth + b"data" + b"\\xff" * 4
ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 2, 20 + len(udp), 0, 0x4000, 64, 17, 0,
                           socket.inet_aton("{CLIENT}"), socket.inet_aton("{SERVER}")))
total = sum(struct.unpack("!10H", ip))
struct.pack_into("!H", ip, 10, ~((total & 0xffff) + (total >> 16)) & 0xffff)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sends:
    sends.bind(("soft0", 0x800))
    sends.send(b"\\xff" * 6 + b"\\x02" * 6 + b"\\x08\\x00" + bytes(ip) + udp)
"""


class Watch(PairOnCable):
    kind = Switch

    def watch(self, *options):
        """Begins to watch the port; returns when it does."""
        program = stage.Stage.build / "tools/roce_check/roce-check"
        self.seen = []
        watching = subprocess.Popen(self.cable.command(2, [program, "-i", PORT, "--interval", "100ms", *options]),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.seen.append(watching.stdout.readline())
        return watching

    def ended(self, watching, status):
        """What it printed."""
        said, wrong = watching.communicate(timeout=LONGEST)
        said = "".join(self.seen) + said
        self.assertEqual(watching.returncode, status, said + wrong)
        return said, wrong

    def assert_confined(self, process):
        """It may call little of the system, and has no privileges, although root has started it."""
        said = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        self.assertEqual(int(said["CapEff"], 16), 0)
        if os.environ.get("UNDERSTUDY_CONFINES"):
            self.assertEqual(said["Seccomp"].strip(), "2")  # a filter

    def test_what_passes_holds_until_a_wrong_frame_does(self):
        watching = self.watch()
        self.assertIn("200 iters in", self.pair("ibv_rc_pingpong", "-g", "0", "-n", "200", "-s", "5000"))
        self.environment["UNDERSTUDY_SOFT_NIC_VLAN"] = "100"  # the kernel takes tags out of frames
        self.pair("ib_write_bw", "-F", "-x", "0", "-n", "50", "-s", "65536")
        self.assert_confined(watching.pid)
        while "; 2 connections; " not in self.seen[-1]:  # said while it goes on
            self.seen.append(watching.stdout.readline())
            self.assertNotEqual(self.seen[-1], "")
        watching.send_signal(signal.SIGINT)
        said, _ = self.ended(watching, 0)
        self.assertIn(f"{PORT}: live, ", said)
        self.assertRegex(said, r"connections +2 RC\n")
        self.assertRegex(said, r"send +400 messages, 2000000 bytes")
        self.assertIn("the capture holds", said)
        lines = re.findall(r"^ *([0-9.]+) s  (\d+) packets, \d+/s; (\d+) connections; violations (\d+),", said, re.MULTILINE)
        self.assertGreater(len(lines), 5)
        self.assertEqual(lines[-1][2:], ("2", "0"))
        self.assertEqual([int(line[1]) for line in lines], sorted(int(line[1]) for line in lines))

        watching = self.watch("--duration", "40s", "--buffer", "4MiB")
        self.output(0, sys.executable, "-c", WRONG)
        while "ICRC is wrong" not in self.seen[-1]:  # while it goes on
            self.seen.append(watching.stdout.readline())
            self.assertNotEqual(self.seen[-1], "")
        self.cable.ip("-n", self.cable.ends[2], "link", "del", PORT)
        said, wrong = self.ended(watching, 1)
        self.assertIn("what came before is judged", wrong)
        self.assertIn("violations 1,", said)
        self.assertIn("A2.1 frame 1 ", said)
        self.assertIn("the capture does NOT hold", said)

    def test_wrong_use_is_one_sentence(self):
        program = stage.Stage.build / "tools/roce_check/roce-check"
        for words, user, sentence in (
                (["-i", "nowhere9"], 0, "roce-check: nowhere9: there is no such network interface\n"),
                (["-i", PORT], NOBODY, f"roce-check: {PORT}: to see its packets takes the capability CAP_NET_RAW, as root has it\n")):
            with self.subTest(words=words, user=user):
                done = subprocess.run(self.cable.command(2, ["setpriv", f"--reuid={user}", "--clear-groups", program, *words]),
                                      capture_output=True, text=True, timeout=LONGEST, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", sentence))


if __name__ == "__main__":
    stage.main(live=False)
