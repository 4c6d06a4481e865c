"""Live commands on links, nodes and traffic: flows of [[traffic]] among emulated nodes show what they do. No real node comes."""

import subprocess
import time

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


class LiveEvents(stage.Stage):
    def command(self, text, status=0):
        done = subprocess.run([str(self.understudy), "command", str(self.folder / "control"), text], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_traffic_links_and_nodes(self):
        emulator = self.start(self.network(TRAFFIC), "--control", str(self.folder / "control"))
        self.assertIn("only emulated", self.command("node gpu pause", status=2))
        self.assertIn("nothing is called", self.command("link w0 - leaf9 down", status=2))
        self.assertIn("no [[traffic]] has this name", self.command("traffic laod start", status=2))
        self.command("traffic load start")  # 10 MB take 800 ms
        time.sleep(0.05)
        self.command("link w1 - switch0 down")
        time.sleep(0.5)
        self.command("link w1 - switch0 up")
        self.command("node w2 pause 1ms")
        self.command("link w2 loss 0.5 rate 50Mbit/s")
        time.sleep(4)
        emulator.stop()
        report = self.valid_report(emulator)
        words = [" ".join(command["text"].split()[:4]) for command in report["commands"]]
        self.assertEqual(words, ["traffic load start", "link w1 - switch0", "link w1 - switch0", "node w2 pause 1000000000ps",
                                 "link w2 rate 50000000bit/s"])
        traffic = report["traffic"]
        group = traffic["groups"][0]
        self.assertEqual((group["flows"], group["ended"]), (1, 1))
        self.assertGreater(group["took_ps"], 0.5 * PS)
        self.assertGreater(sum(link["counters"]["lost_by_outage"] for link in traffic["links"]), 0)
        self.assertNotIn("closed", report)


if __name__ == "__main__":
    stage.main(live=False)
