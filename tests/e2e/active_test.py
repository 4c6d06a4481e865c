"""Emulated nodes as clients of unmodified servers in the virtual node: perftest's over TCP and RDMA-CM, and rping's."""

import stage

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
PINGS, TEXT = 30, 2000
RPING = f"""[[client]]
node = "w1"
server = "gpu"
kind = "rping"
size = "{TEXT}B"
iterations = {PINGS}
"""


def clients(more=""):
    """[[client]] tables of all tests, each with some more lines."""
    return "".join(CLIENT.format(node=node, port=port, kind=kind, size=size, count=count, queue_pairs=q) + more
                   for node, port, kind, size, count, q in TESTS)


def servers(options=""):
    """Starts the tests' servers in the virtual node; their outputs come to the shared folder."""
    return "".join(f"ib_{kind} -d rxe0 -x 1 -F -u 20 -p {port} -s {size} -n {count} -q {q} {options} "
                   f">/mnt/{kind}.txt 2>&1 & " for _, port, kind, size, count, q in TESTS)


class Active(stage.Stage):
    def start_clients(self, tables):
        self.config = self.network(tables, latency="50us", tolerance=0.5, idle="sleep")
        self.emulator = self.start(self.config)
        return self.join()

    def assert_done(self, more=()):
        """The run ended by itself, each client's messages were all taken, and the capture holds."""
        self.assertIn(self.emulator.wait(60), (0, stage.NOT_FAITHFUL))
        reports = self.valid_report(self.emulator)["clients"]
        self.assertEqual([(r["node"], r["kind"], r["completed"], r["error"]) for r in reports],
                         [(name, kind, count * q, None) for name, _, kind, _, count, q in TESTS] + list(more))
        for report in reports:
            self.assertLess(report["message_bytes"] * report["messages"] * 8 / (report["to_ps"] - report["from_ps"]),
                            100e-6)  # bits per picosecond; no faster than the link
        for _, _, kind, size, count, q in TESTS[::2]:  # ib_send_bw prints its own figures, write and read ours
            rows = [line.split() for line in (self.share / f"{kind}.txt").read_text().splitlines()]
            self.assertTrue([row for row in rows if row[:2] == [str(size), str(count)]], rows)
        self.assert_holds(self.emulator.capture, "--config", str(self.config))

    @stage.only_in_full
    def test_write_send_and_read_at_a_time(self):
        node = self.start_clients(clients())
        node.output(servers() + "wait")
        self.assert_done()

    # rules: A9.5
    def test_the_same_and_rping_by_rdma_cm(self):
        node = self.start_clients(clients("rdma_cm = true\n") + RPING)
        rping = f"rping -s -v -V -C {PINGS} -S {TEXT} >/mnt/rping.txt 2>&1 & "
        node.output(servers("-R") + rping + "wait")
        self.assert_done([("w1", "rping", PINGS, None)])
        said = (self.share / "rping.txt").read_text()
        self.assertEqual(said.count("server ping data: rdma-ping-"), PINGS, said)
        port = self.valid_report(self.emulator)["ports"][0]
        # Of each test one for its messages and one for each queue pair, and rping's.
        self.assertEqual(port["cm"]["established"], sum(1 + q for *_, q in TESTS) + 1)
        self.assertEqual(port["cm"]["timeouts"], 0)


if __name__ == "__main__":
    stage.main()
