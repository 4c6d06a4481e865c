"""Unmodified RDMA-CM clients of the virtual node against one emulated node's own address."""

import stage

CONNECTIONS = 8


class RdmaCm(stage.Stage):
    def setUp(self):
        super().setUp()
        self.config = self.with_socket("configs/rdma_cm.toml")
        self.emulator = self.start(self.config)
        self.node = self.join()

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

    # rules: A9.7
    def test_a_port_where_nobody_listens_rejects(self):
        client = self.node.execute(f"ucmatose -p 7999 -s {stage.NEXT}", limit=30)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error: 8", client.stdout)


if __name__ == "__main__":
    stage.main()
