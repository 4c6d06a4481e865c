"""PFC frames to the virtual node, whose switch pauses it: seen by its own tcpdump, and not obeyed by Linux' virtio devices."""

import struct

import stage

SIZE, WRITES = 65536, 40
CONFIG = """format = 1
seed = 7
[fidelity]
tolerance = 0.05
idle = "sleep"
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "100Mbit/s", latency = "50us" }
[[node]]
name = "sink"
link = { rate = "20Mbit/s", latency = "50us" }
[topology]
kind = "single_switch"
[queues]
[[queues.class]]
pfc = { xoff = "40KB", xon = "20KB", headroom = "auto" }
[[port]]
real = "gpu"
device = "net_vhost0,iface=SOCKET,queues=1"
rate = "10Gbit/s"
pfc = true
[[service]]
node = "sink"
port = 18515
"""
SINK = "10.9.0.2"
HEAD = bytes.fromhex("0180c2000001" "0275ff000002" "8808" "0101" "00ff")


def frames(file):
    """Of a pcap with nanoseconds: time in us, bytes."""
    data = file.read_bytes()
    offset = 24
    while offset + 16 <= len(data):
        seconds, nanoseconds, length, _ = struct.unpack_from("<IIII", data, offset)
        yield seconds * 1e6 + nanoseconds / 1e3, data[offset + 16:offset + 16 + length]
        offset += 16 + length


class Pfc(stage.Stage):
    def test_the_node_sees_the_frames(self):
        config = self.folder / "pfc.toml"
        config.write_text(CONFIG.replace("SOCKET", str(self.socket)))
        emulator = self.start(config)
        node = self.join()
        node.start_tcpdump("node.pcap")
        output = node.output(f"ib_write_bw -d rxe0 -x 1 -F -u 20 -s {SIZE} -n {WRITES} {SINK}")
        self.assertTrue([line for line in output.splitlines() if line.split()[:2] == [str(SIZE), str(WRITES)]], output)
        node.stop_tcpdump()
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        report = self.valid_report(emulator)
        port, up = report["ports"][0], next(x for x in report["traffic"]["links"] if x["link"].startswith("gpu -> "))
        seen = [f for _, f in frames(self.share / "node.pcap") if f[12:14] == b"\x88\x08"]
        pause, resume = HEAD + b"\xff" * 16 + bytes(26), HEAD + bytes(42)
        self.assertEqual(set(seen), {pause, resume})
        self.assertEqual(len(seen), port["pfc"]["sent"])
        print(f"{len(seen)} PFC frames, {seen.count(resume)} of them say go on; {up['counters']['pauses']} pauses")
        scheduled = [f for _, f in stage.scheduled_frames(emulator.capture) if f[12:14] == b"\x88\x08"]
        self.assertEqual(scheduled, seen)
        # A pause lasts for milliseconds, a frame of it for 3.4: it is said again, and every one ends.
        self.assertEqual(seen[0], pause)
        self.assertEqual(seen[-1], resume)
        self.assertGreater(seen.count(pause), seen.count(resume))
        # It goes on sending: that waits at our end, and nothing is lost.
        self.assertGreater(up["counters"]["queue_peak_bytes"], 2 * SIZE)
        self.assertEqual([port["drops"][reason] for reason in ("queue_full", "no_buffer")], [0, 0])
        self.assert_holds(self.share / "node.pcap")
        self.assert_holds(emulator.capture, "--config", str(config))


if __name__ == "__main__":
    stage.main()
