#!/usr/bin/env python3
"""What the programs write: a full disk is an error, what is there is replaced as a whole or not at all, devices and
pipes stay what they are, and what cannot be written is said before a run.

    outputs_test.py UNDERSTUDY ROCE_CHECK
"""
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

UNDERSTUDY, ROCE_CHECK = (str(pathlib.Path(sys.argv.pop(1)).resolve()) for _ in range(2))
CONFIGS = pathlib.Path(__file__).resolve().parents[3] / "configs"
QUICKSTART = CONFIGS / "quickstart.toml"
FULL = "No space left on device"


class OutputsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.changed("sizes", '["256KiB"]')

    def changed(self, key, value):
        """The quickstart's configuration with another value, in a folder of its own."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = pathlib.Path(folder.name) / "changed.toml"
        config.write_text(re.sub(f"^{key} = .*$", f"{key} = {value}", QUICKSTART.read_text(), flags=re.M))
        return str(config)

    def path(self, name):
        return str(self.folder / name)

    def run_it(self, *words, stdout=subprocess.PIPE):
        return subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=100)

    def simulate(self, *words):
        return self.run_it(UNDERSTUDY, "simulate", self.config, *words)

    def test_a_full_disk_is_an_error(self):
        capture = self.path("out.pcapng")
        self.assertEqual(self.simulate("--capture", capture).returncode, 0)
        asked = {("check", self.config): 1, ("capabilities",): 1, ("topo", str(CONFIGS / "oversubscribed.toml")): 1,
                 ("schedule", "--json", str(CONFIGS / "collectives.toml")): 1,
                 ("predict", str(CONFIGS / "predict.toml")): 1, ("simulate", self.config): 1, ("--help",): 1,
                 ("roce-check", capture): 2, ("roce-check", "--json", capture): 2}
        for words, status in asked.items():
            words = (ROCE_CHECK, *words[1:]) if words[0] == "roce-check" else (UNDERSTUDY, *words)
            with self.subTest(words), open("/dev/full", "w", encoding="utf-8") as full:
                done = self.run_it(*words, stdout=full)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn("standard output: " + FULL, done.stderr)

    def test_files_on_a_full_disk(self):
        for option in ("--capture", "--report", "--junit", "--timeline"):
            with self.subTest(option):
                done = self.simulate(option, "/dev/full")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("/dev/full: " + FULL, done.stderr)

    def test_one_file_that_fails_does_not_lose_the_others(self):
        junit, timeline = self.path("junit.xml"), self.path("timeline.json")
        done = self.simulate("--report", "/dev/full", "--junit", junit, "--timeline", timeline)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("<testsuite", pathlib.Path(junit).read_text())
        self.assertTrue(json.loads(pathlib.Path(timeline).read_text())["traceEvents"])

    def test_devices_stay_devices(self):
        done = self.simulate("--report", "/dev/null", "--capture", "/dev/null", "--junit", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        said = self.simulate("--quiet", "--report", "/dev/stderr").stderr
        self.assertEqual(json.loads(said[said.index("{"):])["schema"], "understudy-report/1")

    def test_a_draft_is_not_what_somebody_has_planted(self):
        report, victim = self.path("rep.json"), self.path("victim")
        pathlib.Path(victim).write_text("precious")
        os.symlink(victim, report + ".part")
        self.assertEqual(self.simulate("--report", report).returncode, 0)
        self.assertEqual(pathlib.Path(victim).read_text(), "precious")
        self.assertEqual(json.loads(pathlib.Path(report).read_text())["schema"], "understudy-report/1")
        self.assertEqual(sorted(os.listdir(self.folder)), ["rep.json", "rep.json.part", "victim"])

    def test_a_pipe_is_written_to(self):
        pipe, got = self.path("pipe"), []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: got.append(pathlib.Path(pipe).read_bytes()))
        reader.start()
        done = self.simulate("--capture", pipe)
        reader.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        plain = self.path("plain.pcapng")
        self.assertEqual(self.simulate("--capture", plain).returncode, 0)
        self.assertEqual(got[0], pathlib.Path(plain).read_bytes())

    def test_a_reader_that_leaves_is_an_error_and_no_end(self):
        pipe, report = self.path("pipe"), self.path("report.json")
        os.mkfifo(pipe)

        def read_a_little():
            with open(pipe, "rb") as file:
                file.read(1)

        reader = threading.Thread(target=read_a_little)
        reader.start()
        done = self.simulate("--capture", pipe, "--report", report)
        reader.join()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(pipe + ": Broken pipe", done.stderr)

    def test_a_file_that_is_mounted_is_written_over(self):
        """As a container gets one: nothing can take its place."""
        unshare = ("unshare", "--user", "--map-root-user", "--mount")
        if subprocess.run((*unshare, "true"), capture_output=True, check=False).returncode != 0:
            self.skipTest("it needs user namespaces")
        outside, inside = self.folder / "outside", self.folder / "inside"
        outside.write_text("a" * 1_000_000)
        inside.touch()
        done = self.run_it(*unshare, "sh", "-c", 'mount --bind "$1" "$2" && exec "$3" simulate "$4" --report "$2"', "sh",
                           str(outside), str(inside), UNDERSTUDY, self.config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(outside.read_text())["schema"], "understudy-report/1")
        self.assertEqual(inside.read_text(), "")
        self.assertEqual(sorted(os.listdir(self.folder)), ["inside", "outside"])

    def test_what_cannot_be_written_is_said_before_the_run(self):
        missing = self.path("no/such")
        for option in ("--capture", "--report", "--junit", "--timeline"):
            with self.subTest(option):
                done = self.simulate(option, missing)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr, f"{option}: {missing}: No such file or directory\n")
        done = self.simulate("--report", str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (1, f"--report: {self.folder}: is a folder\n"))
        both = self.path("both")
        done = self.simulate("--report", both, "--capture", both)
        self.assertEqual((done.returncode, done.stderr), (2, f"--capture and --report name the same file, {both}\n"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_memory_that_is_not_there(self):
        large = self.changed("sizes", '["64GiB"]')
        limited = ("prlimit", f"--as={3 << 30}", UNDERSTUDY)
        done = self.run_it(*limited, "check", large)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not for this machine: ", done.stdout)
        done = self.run_it(*limited, "simulate", large)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"changed\.toml:\d+: job\.payload: exact results of operations of 64 GiB need 64\.0 GiB")

    def test_ports_of_feeds(self):
        for port in ("99999", "65536", "0", "12x", "-1"):
            done = self.run_it(UNDERSTUDY, "feed", f"127.0.0.1:{port}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("expected a port from 1 to 65535", done.stderr)


if __name__ == "__main__":
    unittest.main()
