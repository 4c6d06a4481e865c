"""Drills in `run` while a real rank works, a program on a soft NIC at the emulator's port. ring_node recovers from a flap; a rank of
NCCL's (nccl_rank_node) reports an error when its neighbour is dead, as the drill expects. How exact times are plays no part."""

import subprocess
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402
from soft_nic_links import Vhost  # noqa: E402

LONGEST = 180  # seconds
AFTER = 'after = { job = "allreduce", operations = 10 }'


class SoftNicDrills(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def drilled(self, outcome, event, program, more="", **keys):
        """What came of a drill that begins after ten operations, the report, and what the program said and ended with. Each operation
        takes 32 ms."""
        junit = self.folder / "junit.xml"
        drill = f'[[drill]]\nname = "drill"\n{AFTER}\n{outcome}\n[[drill.event]]\nat = "1ms"\n{event}\n'
        config = self.ring(sizes='["128KiB"]', iterations=40, more=more + drill, idle="sleep", tolerance=1.0, **keys)
        emulator = self.start(config, "--junit", str(junit), "--duration", f"{LONGEST}s")
        node = stage.favoured(Vhost(stage.NODE_ADDRESS, self.socket).command(self.build, [*program, *self.last(program, config)]),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.kill)
        said = node.communicate(timeout=LONGEST)[0]
        status = emulator.wait(LONGEST)
        report = self.valid_report(emulator)
        drills = report["drills"]
        cases = {case.get("name"): case.find("failure") for case in ElementTree.parse(junit).getroot().iter("testcase")}
        self.assertEqual(cases["drill"] is None, drills[0]["passed"], drills)
        self.assertIn(status, (0, stage.NOT_FAITHFUL))
        return drills[0], report, node.returncode, said

    @staticmethod
    def last(program, config):
        """What the program wants to know of the configuration."""
        return [config, "--rank", "0"] if program[0].name == "nccl_rank_node" else []

    def test_a_flap_is_recovered_from(self):
        ring_node = [self.build / "tools/rigs/ring_node/ring_node", "--peer-next", stage.NEXT, "--peer-prev", stage.PREVIOUS]
        drill, report, status, said = self.drilled('recovers_within = "60s"', 'link = "w0"\naction = "down"\nfor = "300ms"', ring_node)
        self.assertEqual(status, 0, said)
        self.assertTrue(drill["passed"], drill)
        self.assertGreater(drill["found_ps"], 10**11, drill)
        self.assert_all_right(report)

    def test_a_dead_neighbour_is_reported(self):
        rank = [self.build / "tests/rigs/nccl_rank/nccl_rank_node"]
        join = f'nccl = "2.22"\njoin = {{ file = "{self.folder / "id"}" }}\n'  # it gives up after 8.6 s
        drill, report, status, said = self.drilled('reports_within = "60s"', 'node = "w0"\naction = "pause"', rank, join)
        self.assertNotEqual(status, 0, said)
        self.assertTrue(drill["passed"], f"{drill} {said}")
        self.assertGreater(drill["found_ps"], 8 * 10**12, drill)
        self.assertLess(report["jobs"][0]["done"], report["jobs"][0]["planned"])


if __name__ == "__main__":
    stage.main(live=False)
