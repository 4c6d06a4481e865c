"""Unmodified RDMA-CM clients of the virtual node against one emulated node's own address."""

import subprocess

import stage

CONNECTIONS = 8
# The client's REQ comes again for want of the REP; our REP goes again for want of the RTU.
LOSSES = """format = 1
[[fault]]
name = "REP"
action = "drop"
direction = "to_real"
packets = "cm"
nth = 1
[[fault]]
name = "RTU"
action = "drop"
direction = "from_real"
packets = "cm"
nth = 3
[[fault]]
name = "twice"
action = "duplicate"
packets = "cm"
probability = 0.3
"""


class Clients(stage.Stage):
    scenario = "format = 1\n"

    def setUp(self):
        super().setUp()
        self.config = self.with_socket("configs/rdma_cm.toml")
        scenario = self.folder / "scenario.toml"
        scenario.write_text(self.scenario)
        self.emulator = self.start(self.config, "--scenario", str(scenario))
        self.node = self.join()


class RdmaCm(Clients):
    # rules: A9.4 A9.10
    def test_connections_are_made_used_and_closed(self):
        for options, connections in (("", 1), (f"-c {CONNECTIONS}", CONNECTIONS)):
            output = self.node.output(f"ucmatose {options} -s {stage.NEXT}")
            self.assertIn("data transfers complete", output)
            self.assertIn("return status 0", output)
            self.assertEqual(output.count("return status"), 1)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        services = self.valid_report(self.emulator)["services"]
        self.assertEqual([(s["port"], s["kind"], s["client"], s["error"]) for s in services],
                         (1 + CONNECTIONS) * [(7471, "ucmatose", stage.NODE_ADDRESS, None)])
        self.assert_holds(self.emulator.capture, "--config", str(self.config))

    @stage.only_in_full
    # rules: A9.4
    def test_rping_verifies_what_comes_back(self):
        for options, pings in (("-C 5 -S 64", 5), ("-C 3 -S 60000", 3)):
            output = self.node.output(f"rping -c -a {stage.NEXT} -v -V {options}")
            self.assertEqual(output.count("ping data: rdma-ping-"), pings, output)
            self.assertNotIn("error", output.lower().replace("wait for", ""))
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        services = self.valid_report(self.emulator)["services"]
        self.assertEqual([(s["port"], s["kind"], s["error"]) for s in services], 2 * [(7174, "rping", None)])
        self.assert_holds(self.emulator.capture, "--config", str(self.config))

    @stage.only_in_full
    # rules: A9.10
    def test_clients_hear_of_the_end_of_the_run(self):
        client = subprocess.Popen(self.node.command(f"rping -c -a {stage.NEXT} -v -C 1000000"), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        self.assertIn("ping data: rdma-ping-", client.stdout.readline())
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assertTrue(any("DISCONNECT EVENT" in line for line in client.stdout))  # it need not come to an end
        report = self.valid_report(self.emulator)
        # The capture is not judged: a ping may be under way when the DREQ comes, and gets no answer then.
        self.assertEqual([(s["kind"], s["error"]) for s in report["services"]], [("rping", None)])

    @stage.only_in_full
    # rules: A9.7
    def test_a_port_where_nobody_listens_rejects(self):
        client = self.node.execute(f"ucmatose -p 7999 -s {stage.NEXT}", limit=30)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error: 8", client.stdout)


class LostMessages(Clients):
    scenario = LOSSES

    # rules: A9.4 A9.6 A9.9
    def test_messages_that_are_lost_or_come_twice(self):
        output = self.node.output(f"ucmatose -s {stage.NEXT}")
        self.assertIn("data transfers complete", output)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        report = self.valid_report(self.emulator)
        self.assertEqual([service["error"] for service in report["services"]], [None])
        port = report["ports"][0]
        acted = {fault["name"]: fault["acted"] for fault in port["faults"]}
        self.assertEqual((acted["REP"], acted["RTU"]), (1, 1))
        self.assertEqual((port["cm"]["established"], port["cm"]["timeouts"]), (1, 0))
        self.assertGreater(port["cm"]["duplicates"] + port["cm"]["repeated"], 0)
        self.assert_holds(self.emulator.capture)


if __name__ == "__main__":
    stage.main()
