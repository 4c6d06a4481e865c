"""Drills in `run` while a real rank works: ring_node on a soft NIC at the emulator's port. A flap is recovered from; of a dead
neighbour the real rank reports an error, which the drill expects. How exact times are plays no part."""

import json
import subprocess
import unittest
from xml.etree import ElementTree

import stage
from soft_nic_links import Vhost

LONGEST = 120  # seconds
# 128 KiB take 32 ms, and all of them 5 s.
JOB = 'nccl = "2.22"\n'


class SoftNicDrills(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := Vhost.missing():
            raise unittest.SkipTest(f"it needs {why}")

    def drilled(self, outcome, event, *options):
        """What came of a drill, the report, and what ring_node said and ended with."""
        junit = self.folder / "junit.xml"
        drill = f'[[drill]]\nname = "drill"\n{outcome}\n[[drill.event]]\nat = "2s"\n{event}\n'
        config = self.ring(sizes='["256KiB"]', iterations=100, more=JOB + drill, idle="sleep", tolerance=1.0)
        emulator = self.start(config, "--junit", str(junit), *options)
        link = Vhost(stage.NODE_ADDRESS, self.socket)
        words = [self.build / "tools/rigs/ring_node/ring_node", "--peer-next", stage.NEXT, "--peer-prev", stage.PREVIOUS]
        node = stage.favoured(link.command(self.build, words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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

    def test_a_flap_is_recovered_from(self):
        drill, report, status, said = self.drilled('recovers_within = "10s"', 'link = "w0"\naction = "down"\nfor = "100ms"')
        self.assertEqual(status, 0, said)
        self.assertTrue(drill["passed"], drill)
        self.assertGreater(drill["found_ps"], 10**10, drill)
        self.assert_all_right(report)

    def test_a_dead_neighbour_is_reported(self):
        drill, report, status, said = self.drilled('reports_within = "60s"', 'node = "w0"\naction = "pause"', "--duration", "80s")
        self.assertNotEqual(status, 0, said)
        self.assertTrue(drill["passed"], json.dumps(drill) + said)


if __name__ == "__main__":
    stage.main(live=False)
