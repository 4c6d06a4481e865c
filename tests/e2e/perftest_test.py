"""Unmodified clients of the virtual node against one emulated node's own address."""

import stage

SIZE, COUNT = 65536, 50


class Perftest(stage.Stage):
    def setUp(self):
        super().setUp()
        self.config = self.with_socket("configs/perftest.toml")
        self.emulator = self.start(self.config)
        self.node = self.join()

    def bandwidth(self, program):
        """The clients' timeout outlasts what their window waits in the link's queue (43 ms, and more when busy)."""
        output = self.node.output(f"{program} -d rxe0 -x 1 -F -u 20 -s {SIZE} -n {COUNT} {stage.NEXT}")
        rows = [line.split() for line in output.splitlines() if line.split()[:2] == [str(SIZE), str(COUNT)]]
        self.assertEqual(len(rows), 1, output)  # figures are not looked at: perftest's clock fails on busy machines

    def test_all_kinds_one_after_the_other(self):
        output = self.node.output(f"ibv_rc_pingpong -d rxe0 -g 1 -n 100 {stage.NEXT}")
        self.assertIn("100 iters in", output)
        # A guest that has no CPU for long loses a datagram, and this program then waits for ever: a second try.
        datagrams = f"ibv_ud_pingpong -d rxe0 -g 1 -n 100 -s 2048 -p 18518 {stage.NEXT}"
        tries = [self.node.execute(datagrams, limit=20)]
        if tries[0].returncode != 0:
            tries.append(self.node.execute(datagrams, limit=20))
        self.assertIn("100 iters in", tries[-1].stdout)
        for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            with self.subTest(program=program):
                self.bandwidth(program)
        output = self.node.output(f"ib_write_lat -d rxe0 -x 1 -F -u 20 -p 18516 -s 8 -n {COUNT} {stage.NEXT}")
        self.assertTrue([line for line in output.splitlines() if line.split()[:2] == ["8", str(COUNT)]], output)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        report = self.valid_report(self.emulator)
        self.assertEqual([(service["port"], service["client"], service["error"]) for service in report["services"]],
                         [(18515, stage.NODE_ADDRESS, None)] + len(tries) * [(18518, stage.NODE_ADDRESS, None)]
                         + 3 * [(18515, stage.NODE_ADDRESS, None)] + [(18516, stage.NODE_ADDRESS, None)])
        self.assert_holds(self.emulator.capture, "--config", str(self.config))

    @stage.only_in_full
    def test_unreliable_connections(self):
        """Nothing is acknowledged, so nothing waits for the link: messages fit its queue."""
        output = self.node.output(f"ibv_uc_pingpong -d rxe0 -g 1 -n 100 -p 18519 {stage.NEXT}")
        self.assertIn("100 iters in", output)
        for program, port in (("ib_write_bw", 18520), ("ib_send_bw", 18520), ("ib_write_lat", 18521), ("ib_send_lat", 18522)):
            with self.subTest(program=program):
                size = "8192" if program.endswith("bw") else "1024"
                output = self.node.output(f"{program} -c UC -d rxe0 -x 1 -F -p {port} -s {size} -n {COUNT} {stage.NEXT}")
                self.assertTrue([line for line in output.splitlines() if line.split()[:2] == [size, str(COUNT)]], output)
        self.assertIn(self.emulator.stop(), (0, stage.NOT_FAITHFUL))
        self.assertEqual({service["error"] for service in self.valid_report(self.emulator)["services"]}, {None})
        self.assert_holds(self.emulator.capture, "--config", str(self.config))

    @stage.only_in_full
    def test_a_client_of_another_kind_ends_with_a_message(self):
        client = self.node.execute(f"ibv_rc_pingpong -d rxe0 -g 1 -n 100 -p 18516 {stage.NEXT}", limit=30)
        self.assertNotIn(client.returncode, (0, 124), client.stdout)
        self.assertRegex(self.emulator.log.read_text(), r"service w:18516 .*pingpong")
        self.assertEqual(self.emulator.stop(), stage.NOT_FAITHFUL)
        errors = [service["error"] for service in self.valid_report(self.emulator)["services"]]
        self.assertEqual(len(errors), 1)
        self.assertIn("write_lat", errors[0])


if __name__ == "__main__":
    stage.main()
