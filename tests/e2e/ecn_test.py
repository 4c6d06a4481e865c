"""Marks and CNPs between the virtual node and emulated nodes, behind a switch that marks: seen by the node's own tcpdump."""

import math
import struct

import stage

SIZE, READS, WRITES, MTU = 65536, 60, 40, 4096
FAST, NODE, SLOW = 730e6, 100e6, 20e6  # bit/s of the links of the READ's source, the virtual node, and the WRITEs' sink
KMAX = 100_000
CNP_INTERVAL_US = 5000
ECT0, CE, CNP_TOS = 2, 3, 48 << 2
ROCE_PORT = (4791).to_bytes(2, "big")
CNP, READ_RESPONSES, WRITE_OPCODES = 0x81, range(0x0D, 0x11), range(0x06, 0x0C)
OVERHEAD = 14 + 20 + 8 + 12 + 4 + 4  # of a frame around the payload: Ethernet, IP, UDP, BTH, ICRC, FCS

CONFIG = f"""format = 1
seed = 7
[fidelity]
tolerance = 0.05
idle = "sleep"
[fabric]
mtu = {MTU}
cnp_interval = "{CNP_INTERVAL_US}us"
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = {{ rate = "100Mbit/s", latency = "50us" }}
[[node]]
name = "source"
link = {{ rate = "730Mbit/s", latency = "50us" }}
[[node]]
name = "sink"
link = {{ rate = "20Mbit/s", latency = "50us" }}
[topology]
kind = "single_switch"
[queues]
[[queues.class]]
priorities = [6]
scheduling = "strict"
[[queues.class]]
ecn = {{ kmin = "0B", kmax = "{KMAX}B", pmax = 1 }}
[[port]]
real = "gpu"
device = "net_vhost0,iface=SOCKET,queues=1"
[[service]]
node = "source"
port = 18515
traffic_class = {ECT0}
[[service]]
node = "source"
port = 18516
[[service]]
node = "sink"
port = 18515
"""
SOURCE, SINK = "10.9.0.2", "10.9.0.3"


class Packet:
    """A RoCEv2 packet over IPv4 of a pcap with nanoseconds."""

    def __init__(self, at, frame):
        self.at, self.bytes = at, len(frame)
        self.tos = frame[15]
        self.src, self.dst = (".".join(map(str, frame[i:i + 4])) for i in (26, 30))
        bth = frame[42:]
        self.opcode, self.becn = bth[0], bth[4] & 0x40
        self.dest_qpn, self.psn = int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big")
        self.body = bth[12:-4]


def packets(file):
    data = file.read_bytes()
    magic = struct.unpack_from("<I", data)[0]
    assert magic == 0xA1B23C4D, hex(magic)
    offset = 24
    while offset + 16 <= len(data):
        seconds, nanoseconds, length, _ = struct.unpack_from("<IIII", data, offset)
        yield Packet(seconds * 1e6 + nanoseconds / 1e3, data[offset + 16:offset + 16 + length])
        offset += 16 + length


def queue_behind(count):
    """Bytes that wait at the switch behind each packet of a READ's answer when that starts on the virtual node's link."""
    packet = MTU + OVERHEAD
    behind = []
    for i in range(count):
        come = min(count, math.floor(i * FAST / NODE) + 1)
        behind.append(packet * max(come - i - 1, 0))
    return behind


class Ecn(stage.Stage):
    def setUp(self):
        super().setUp()
        self.config = self.folder / "ecn.toml"
        self.config.write_text(CONFIG.replace("SOCKET", str(self.socket)))
        self.emulator = self.start(self.config)
        self.node = self.join()
        self.node.start_tcpdump("node.pcap")

    def perftest(self, program, server, size=SIZE, count=WRITES, options=""):
        output = self.node.output(f"{program} -d rxe0 -x 1 -F -u 20 -s {size} -n {count} {options} {server}")
        self.assertTrue([line for line in output.splitlines() if line.split()[:2] == [str(size), str(count)]], output)

    def ended(self):
        """Ends the run; the packets that the virtual node has seen, and the port's report."""
        self.node.stop_tcpdump()
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        return list(packets(self.share / "node.pcap")), self.valid_report(self.emulator)["ports"][0]

    def test_the_predicted_share_of_packets_to_the_node_is_marked(self):
        """READs one at a time: their answers come seven times as fast as the node's link is, so the queue is known."""
        self.perftest("ib_read_bw", SOURCE, count=READS, options=f"--tclass={ECT0} -o 1 -t 1")
        seen, port = self.ended()
        answers = [p for p in seen if p.src == SOURCE and p.opcode in READ_RESPONSES]
        per_read = SIZE // MTU
        self.assertEqual(len(answers) % per_read, 0)
        self.assertGreaterEqual(len(answers), READS * per_read)
        self.assertEqual({p.tos for p in answers}, {ECT0, CE})
        chances = [q / KMAX for q in queue_behind(per_read)]
        reads = len(answers) // per_read
        expected = reads * sum(chances)
        deviation = math.sqrt(reads * sum(p * (1 - p) for p in chances))
        marked = sum(p.tos == CE for p in answers)
        print(f"marked {marked} of {len(answers)}, predicted {expected:.1f} with a standard deviation of {deviation:.1f}")
        self.assertLess(abs(marked - expected), 4.5 * deviation)
        # Where nothing waits behind a packet, none is marked.
        self.assertFalse([p for i, p in enumerate(answers) if chances[i % per_read] == 0 and p.tos == CE])
        self.assertEqual(port["counters"]["ce_sent"], marked)
        # What Linux' driver does not do, roce-check says.
        self.assertRegex(self.assert_does_not_hold(self.share / "node.pcap"), rf"A6\.2\b.*{marked} packets marked")

    @stage.only_in_full
    def test_packets_that_are_not_ecn_capable_are_never_marked(self):
        self.perftest("ib_read_bw", f"-p 18516 {SOURCE}", count=READS, options="-o 1 -t 1")
        seen, port = self.ended()
        self.assertEqual({p.tos for p in seen}, {0})
        self.assertEqual(port["counters"]["ce_sent"], 0)
        self.assert_holds(self.share / "node.pcap")

    def test_marked_packets_of_the_node_are_answered_by_cnps(self):
        self.perftest("ib_write_bw", SINK, options=f"--tclass={ECT0}")
        seen, port = self.ended()
        own = [p for p in seen if p.opcode in WRITE_OPCODES]
        self.assertEqual({p.tos for p in own}, {ECT0})
        cnps = [p for p in seen if p.opcode == CNP]
        counters = port["counters"]
        self.assertEqual(len(cnps), counters["cnp_sent"])
        self.assertEqual(counters["cnp_sent"] + counters["cnp_suppressed"], counters["ce_delivered"])
        self.assertGreater(len(cnps), 20)
        self.assertEqual({(p.src, p.dst, p.tos) for p in cnps}, {(SINK, stage.NODE_ADDRESS, CNP_TOS)})
        # To the queue pair that sent what was marked: ACKs go there too.
        acknowledged = {p.dest_qpn for p in seen if p.opcode == 0x11 and p.src == SINK}
        self.assertEqual({p.dest_qpn for p in cnps}, acknowledged)
        self.assertTrue(all(p.becn and p.psn == 0 and p.body == bytes(16) for p in cnps))
        # By their schedule the interval is exact but for what else is on the way: an ACK on the slow link.
        frames = stage.scheduled_frames(self.emulator.capture)
        times = [at for at, frame in frames if frame[36:38] == ROCE_PORT and frame[42] == CNP]
        self.assertEqual(len(times), len(cnps))
        gaps = [(b - a) / 1e6 for a, b in zip(times, times[1:])]
        print(f"{len(cnps)} CNPs, {min(gaps):.1f} us apart at least")
        self.assertGreater(min(gaps), CNP_INTERVAL_US - 86 * 8 / (SLOW / 1e6))
        # The node, which ignores them, saw them as they should be.
        self.assert_holds(self.share / "node.pcap")
        self.assert_holds(self.emulator.capture, "--config", str(self.config))


if __name__ == "__main__":
    stage.main()
