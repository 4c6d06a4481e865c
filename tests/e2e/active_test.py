"""Emulated nodes as perftest clients of unmodified servers in the virtual node."""

import stage

CONFIG = """format = 1
[fidelity]
tolerance = 0.5
idle = "sleep"
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = {{ rate = "100Mbit/s", latency = "50us" }}
[[node]]
name = "w"
count = 3
link = {{ rate = "100Mbit/s", latency = "50us" }}
[[port]]
real = "gpu"
device = "net_vhost0,iface={socket},queues=1"
"""
CLIENT = """[[client]]
node = "{node}"
server = "gpu"
port = {port}
kind = "{kind}"
size = "{size}B"
iterations = {count}
queue_pairs = {queue_pairs}
"""
# Node, port, test, bytes, messages, queue pairs.
TESTS = [("w0", 18601, "write_bw", 65536, 100, 2), ("w1", 18602, "send_bw", 5000, 200, 1),
         ("w2", 18603, "read_bw", 16384, 100, 1)]


class Active(stage.Stage):
    def test_write_send_and_read_at_a_time(self):
        clients = [CLIENT.format(node=node, port=port, kind=kind, size=size, count=count, queue_pairs=q)
                   for node, port, kind, size, count, q in TESTS]
        config = self.folder / "active.toml"
        config.write_text(CONFIG.format(socket=self.socket) + "".join(clients))
        emulator = self.start(config)
        node = self.join()
        servers = [f"ib_{kind} -d rxe0 -x 1 -F -u 20 -p {port} -s {size} -n {count} -q {q} >/mnt/{kind}.txt 2>&1 & "
                   for _, port, kind, size, count, q in TESTS]
        node.output("".join(servers) + "wait")
        self.assertIn(emulator.wait(60), (0, stage.NOT_FAITHFUL))
        reports = self.valid_report(emulator)["clients"]
        self.assertEqual([(r["node"], r["kind"], r["completed"], r["error"]) for r in reports],
                         [(name, kind, count * q, None) for name, _, kind, _, count, q in TESTS])
        for report in reports:
            self.assertLess(report["message_bytes"] * report["messages"] * 8 / (report["to_ps"] - report["from_ps"]),
                            100e-6)  # bits per picosecond; no faster than the link
        for _, _, kind, size, count, q in TESTS[::2]:  # ib_send_bw prints its own figures, write and read ours
            rows = [line.split() for line in (self.share / f"{kind}.txt").read_text().splitlines()]
            self.assertTrue([row for row in rows if row[:2] == [str(size), str(count)]], rows)
        self.assert_holds(emulator.capture, "--config", str(config))


if __name__ == "__main__":
    stage.main()
