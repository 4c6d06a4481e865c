"""Live commands on links, nodes and traffic: flows of [[traffic]] among emulated nodes show what they do. No real node comes."""

import json
import subprocess
import time
from xml.etree import ElementTree

import stage

PS = 10**12
TRAFFIC = """[topology]
kind = "single_switch"
[[traffic]]
name = "load"
pattern = "flow"
from = "w0"
to = "w1"
size = "10MB"
start = "command"
"""


TWO_SPINES = TRAFFIC.replace('kind = "single_switch"', """kind = "leaf_spine"
hosts_per_leaf = 2
spines = 2
uplink = { rate = "100Mbit/s", latency = "250us" }
reconverge = "20ms\"""").replace('to = "w1"', 'to = "w2"').replace("10MB", "100MB")  # 8 s: commands take a while on a busy machine
GIVES_UP = """[queues]
[flows]
timeout = "50ms"
retries = 2
[[event]]
at = "200ms"
link = "w1 - switch0"
action = "down"
"""


class LiveEvents(stage.Stage):
    def command(self, text, status=0):
        done = subprocess.run([str(self.understudy), "command", str(self.folder / "control"), text], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_traffic_links_and_nodes(self):
        # 1.6 s: commands take a while on a busy machine.
        emulator = self.start(self.network(TRAFFIC.replace("10MB", "20MB"), idle="sleep"), "--control", str(self.folder / "control"))
        self.assertIn("only emulated", self.command("node gpu pause", status=2))
        self.assertIn("nothing is called", self.command("link w0 - leaf9 down", status=2))
        self.assertIn("no [[traffic]] has this name", self.command("traffic laod start", status=2))
        self.command("traffic load start")
        time.sleep(0.05)
        self.command("link w1 - switch0 down")
        time.sleep(0.5)
        self.command("link w1 - switch0 up")
        self.command("node w2 pause 1ms")
        self.command("link w2 loss 0.5 rate 50Mbit/s")
        time.sleep(10)
        emulator.stop()
        report = self.valid_report(emulator)
        words = [" ".join(command["text"].split()[:4]) for command in report["commands"]]
        self.assertEqual(words, ["traffic load start", "link w1 - switch0", "link w1 - switch0", "node w2 pause 1ms",
                                 "link w2 rate 50000000bit/s"])
        traffic = report["traffic"]
        group = traffic["groups"][0]
        self.assertEqual((group["flows"], group["ended"]), (1, 1))
        self.assertGreater(group["took_ps"], 0.5 * PS)
        self.assertGreater(sum(link["counters"]["lost_by_outage"] for link in traffic["links"]), 0)
        self.assertNotIn("closed", report)

    def test_routes_leave_out_a_switch_that_is_down(self):
        emulator = self.start(self.network(TWO_SPINES, idle="sleep"), "--control", str(self.folder / "control"))
        self.assertIn("no switch is called so", self.command("switch leaf9 down", status=2))
        self.assertIn("no class of [queues] has pfc", self.command("node w1 storm", status=2))
        self.command("traffic load start")
        for spine in ("spine0", "spine1"):  # one of them is on the way
            time.sleep(0.1)
            self.command(f"switch {spine} down")
            time.sleep(0.3)
            self.command(f"switch {spine} up")
        self.command("node w0 nic 0 down 1ms")
        time.sleep(12)
        emulator.stop()
        report = self.valid_report(emulator)
        first, second, port = report["outages"]
        for outage in (first, second):
            self.assertGreaterEqual(outage["rerouted_ps"] - outage["at_ps"], 0.02 * PS)
            self.assertLess(outage["rerouted_ps"] - outage["at_ps"], 0.1 * PS)
            self.assertEqual(outage["again"], outage["stopped"])
        self.assertGreater(first["stopped"] + second["stopped"], 0)
        self.assertEqual((port["event"], port["rerouted_ps"]), ("node w0 nic 0 down 1ms", None))
        self.assertEqual(report["traffic"]["groups"][0]["ended"], 1)
        self.assertNotIn("closed", report)

    def test_a_flow_that_gives_up_ends_the_run(self):
        config = self.network(TRAFFIC.replace('start = "command"\n', "") + GIVES_UP)
        done = subprocess.run([str(self.understudy), "run", str(config)], capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('1 of 1 flows never end: nothing comes through w1 -> switch0, switch0 -> w1: "load 0" from w0 to w1 '
                      "gave up after 2 retries", done.stderr)

    def drilled(self, outcome, length):
        """Status, and the one drill, of a run whose flow of 800 ms loses its link after 200 ms; JUnit's file says the same."""
        junit, report = self.folder / "junit.xml", self.folder / "report.json"
        text = TRAFFIC.replace('start = "command"\n', "") + '[queues]\n[flows]\ntimeout = "50ms"\nretries = 2\n'
        text += f'[[drill]]\nname = "flap"\n{outcome}\n[[drill.event]]\nat = "200ms"\nlink = "w1 - switch0"\naction = "down"\n{length}'
        done = subprocess.run([str(self.understudy), "run", str(self.network(text)), "--junit", str(junit), "--report", str(report),
                               "--duration", "5s"], capture_output=True, text=True, check=False, timeout=180)
        drills = json.loads(report.read_text())["drills"]
        failures = {case.get("name"): case.find("failure") is not None for case in ElementTree.parse(junit).getroot().iter("testcase")}
        self.assertEqual(len(drills), 1)
        self.assertEqual(failures["flap"], not drills[0]["passed"])
        self.assertEqual(done.returncode, 3 if any(failures.values()) else 0, done.stdout + done.stderr)
        self.assertIn("drill 'flap' at 200.0 ms", done.stdout)
        return done.returncode, drills[0], json.loads(report.read_text()).get("outages", [])

    def test_a_drill_from_which_traffic_recovers(self):
        status, drill, outages = self.drilled('recovers_within = "1s"', 'for = "60ms"\n')
        self.assertTrue(drill["passed"], drill)
        self.assertEqual([outage["longest_ps"] for outage in outages], [drill["found_ps"]])
        self.assertGreater(drill["found_ps"], 0)
        self.assertEqual(status, 0)

    def test_a_drill_whose_error_is_expected_or_not(self):
        status, drill, _ = self.drilled('reports_within = "4s"', "")
        self.assertTrue(drill["passed"], drill)
        self.assertIn('"load 0" from w0 to w1 gave up after 2 retries', drill["text"])
        self.assertEqual(status, 0)
        status, drill, _ = self.drilled('recovers_within = "4s"', "")
        self.assertFalse(drill["passed"], drill)
        self.assertEqual(status, 3)


if __name__ == "__main__":
    stage.main(live=False)
