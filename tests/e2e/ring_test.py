"""Ring all-reduces of the virtual node with three emulated ones: results verified, captures of both ends hold."""

import stage

SIZES = '{ from = "4KiB", to = "1MiB", factor = 4 }'
COUNT = 5


class Ring(stage.Stage):
    def test_results_are_right_and_both_captures_hold(self):
        config = self.ring(sizes=SIZES, idle="sleep")
        emulator = self.start(config, "--linger", "60s")
        node = self.join("--mem", "768")
        node.start_tcpdump("tcpdump.pcap", buffer_kb=256 * 1024)
        output = node.output(stage.RING_NODE)
        self.assertIn("# Out of bounds values : 0 OK", output)
        rows = [line.split() for line in output.splitlines() if line[:1] == " "]
        self.assertEqual([row[0] for row in rows], ["4096", "16384", "65536", "262144", "1048576"])
        node.stop_tcpdump()
        self.assertIn(emulator.stop(), (0, stage.NOT_FAITHFUL))
        report = emulator.report()
        self.assertIsNone(report["ended_by"])
        self.assertEqual(report["capture_drops"], 0)
        self.assertEqual(len(report["jobs"][0]["sizes"]), COUNT)
        self.assert_all_right(report)
        self.assert_holds(emulator.capture, "--config", str(config))
        self.assert_holds(self.share / "tcpdump.pcap", "--config", str(config))

    @stage.only_in_full
    def test_a_changed_input_element_changes_exactly_its_result(self):
        emulator = self.start(self.ring(sizes=SIZES, iterations=1, idle="sleep"))
        output = self.join().output(f"{stage.RING_NODE} --perturb 1000")
        self.assertIn(f"changed exactly that result element in {COUNT} of {COUNT} sizes", output)
        self.assertIn(emulator.wait(30), (0, stage.NOT_FAITHFUL))
        self.assert_all_right(emulator.report())


if __name__ == "__main__":
    stage.main()
