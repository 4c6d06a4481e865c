#!/usr/bin/env python3
"""`topo` and `check`: networks, and their drawings.

    topology_test.py UNDERSTUDY
"""
import json
import shutil
import subprocess
import unittest
from xml.etree import ElementTree

from command_line import QUICKSTART, UNDERSTUDY, CommandLine


class Topologies(CommandLine):
    def test_check_says_what_is_for_predict_only(self):
        """Such a configuration is good, but not for simulate, whose reason is shown."""
        path = QUICKSTART.parent / "topology/astra_sim_ring_fc_switch.toml"
        done, refused = self.run_it("check", path), self.run_it("simulate", path)
        self.assertEqual((done.returncode, refused.returncode), (0, 2))
        self.assertIn(f"for predict only: simulate says: {refused.stderr.strip()}", done.stdout)
        self.assertNotIn("predict only", self.run_it("check", QUICKSTART).stdout)

    def test_check_says_what_is_for_one_of_both_only(self):
        """Such a configuration is good, but what run or simulate would refuse is shown."""
        clocked = self.config(("[[job]]", "[[job]]\nstart = \"1ms\""))
        done, refused = self.run_it("check", clocked), self.run_it("run", clocked)
        self.assertEqual((done.returncode, refused.returncode), (0, 2))
        self.assertIn(f"for simulate only: run says: {refused.stderr.strip()}", done.stdout)
        self.assertIn("when run's real node begins its operations is its own", done.stdout)
        self.assertNotIn("only", self.run_it("check", self.config(name="good.toml")).stdout)

    def test_topology_summary(self):
        path = self.topology("")
        self.assertEqual(self.run_it("check", path).returncode, 0)
        done = self.run_it("topo", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("64 nodes, 64 NICs", "oversubscription 2:1", "bisection bandwidth  1.6 Tbit/s, 50 %",
                     "4 links, 6.000 us: w16 -> leaf1 -> spine0 -> leaf0 -> w1 (one of 8 shortest)"):
            self.assertIn(part, done.stdout)
        done = self.run_it("topo", path, "--json")
        summary = json.loads(done.stdout)
        self.assertEqual((summary["nics"], summary["bisection_bps"]), (64, 1600 * 10**9))
        self.assertEqual(summary["longest_path"]["links"], 4)

    def test_topology_of_a_run(self):
        done = self.run_it("topo", QUICKSTART)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("single_switch", done.stdout)

    def test_bad_topologies(self):
        for text, parts in {
                '[[topology.override]]\nlink = "leaf9 - spine0"\nloss = 0.1\n':
                    ("topology.toml:12", "topology.override.link", 'nothing is called "leaf9"'),
                '[[topology.route]]\nfrom = "w0"\nto = "w63"\nvia = ["leaf0", "spine1", "leaf0"]\n':
                    ("topology.toml:11", "a cycle: leaf0 -> spine1 -> leaf0"),
        }.items():
            for command in ("check", "topo", "simulate", "run"):
                with self.subTest(text, command=command):
                    self.expect_bad(self.run_it(command, self.topology(text)), *parts)

    @unittest.skipUnless(shutil.which("dot"), "no Graphviz")
    def test_topology_drawings(self):
        path = self.topology("")
        for name, start in (("t.dot", b"graph topology {"), ("t.svg", b"<?xml"), ("t.png", b"\x89PNG")):
            done = self.run_it("topo", path, "--draw", name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue((self.folder / name).read_bytes().startswith(start), name)
        root = ElementTree.parse(self.folder / "t.svg").getroot()
        texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
        self.assertTrue({"w0", "w63", "leaf3", "spine7"} <= texts, texts)

    @unittest.skipUnless(shutil.which("dot"), "no Graphviz")
    def test_drawings_of_a_thousand_hosts(self):
        path = QUICKSTART.parent / "topology/fat_tree_1024.toml"
        done = self.run_it("topo", path, "--draw", "t.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        root = ElementTree.parse(self.folder / "t.svg").getroot()
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count("64 NICs, 16 switches"), 16, texts)
        self.assertLess(len(texts), 64)
        done = self.run_it("topo", path, "--draw", "all.dot", "--all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "all.dot").read_text().count(" [label="), 1024 + 320)
        done = self.run_it("topo", path, "--all")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--all requires --draw", done.stderr)

    def test_drawings_that_cannot_be_made(self):
        path = self.topology("")
        for name, part in (("t.pdf", ".svg, .png or .dot"), ("none/t.dot", "none/t.dot"),
                           ("t.svg", "Debian: graphviz")):
            done = subprocess.run([UNDERSTUDY, "topo", str(path), "--draw", name], env={"PATH": "/nonexistent"},
                                  capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual(done.returncode, 2 if name == "t.pdf" else 1, done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
