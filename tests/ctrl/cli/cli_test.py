#!/usr/bin/env python3
"""The program's command line: bad input ends with status 2 and a message that names the thing, and help shows an
example.

    cli_test.py UNDERSTUDY
"""
import os
import pathlib
import re
import shutil
import subprocess
import unittest
from command_line import GOOD, NO_DPDK, QUICKSTART, UNDERSTUDY, CommandLine, lacks_dpdk

COMMANDS = ("check", "topo", "schedule", "predict", "calibrate", "feed", "simulate", "run", "command", "fct", "workload")
# What is done to the good configuration, and what the message must contain.
BAD_CONFIGS = {
    "malformed TOML": (("v4 = ", "v4 == "), ("bad.toml:4",)),
    "unknown key": (("latency = ", "latancy = "),
                    ("bad.toml:8", "latancy", 'did you mean "latency"?')),
    "wrong unit": (('latency = "250us"', 'latency = "250Mbit/s"'),
                   ("bad.toml:8", "node.link.latency", "250Mbit/s", "us")),
    "no unit": (('rate = "100Mbit/s"', "rate = 100"), ("bad.toml:8", "node.link.rate", "100")),
    "prefix too small": (("count = 3", "count = 300"),
                         ("bad.toml:4", "10.9.0.0/24", "too small", "303")),
    "two nodes with one address": (('name = "gpu"', 'name = "gpu"\naddress = "10.9.0.3"'),
                                   ("bad.toml:7", "10.9.0.3", "gpu", "w1")),
    "no such real node": (('real = "gpu"', 'real = "gpv"'),
                          ("bad.toml:14", "port.real", "gpv", 'did you mean "gpu"?')),
    "a port to an emulated node": (('real = "gpu"', 'real = "w0"'), ("port.real", "w0")),
    "no such rank": (('"w*"', '"x9"'), ("job.ranks", "x9")),
}
# What `run` says of devices, as any user, before anything is made.
BAD_DEVICES = {
    "0000:99:00.0": ("gpu", "no such device 0000:99:00.0"),
    "net_nosuch0": ("gpu", "net_nosuch0", "net_vhost0"),
    "net_pcap0,rx_pcap=/nonexistent/in.pcap": ("gpu", "/nonexistent/in.pcap"),
}


class Documents(unittest.TestCase):
    def test_capabilities_are_the_programs(self):
        """docs/capabilities.md holds what `understudy capabilities` prints, word for word."""
        done = subprocess.run([UNDERSTUDY, "capabilities"], capture_output=True, text=True, timeout=100, check=True)
        page = (QUICKSTART.parents[1] / "docs/capabilities.md").read_text(encoding="utf-8")
        self.assertIn(done.stdout.strip(), page)


class Arguments(CommandLine):
    def test_help_shows_an_example(self):
        for words in [("--help",)] + [(command, "--help") for command in COMMANDS]:
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 0, words)
            self.assertRegex(done.stdout, r"Example: understudy \w+ \S+", words)
            for path in re.findall(r"configs/\S+\.toml", done.stdout):
                self.assertTrue((QUICKSTART.parents[1] / path).is_file(), f"{words}: there is no {path}")
        done = self.run_it("--version")
        self.assertEqual(done.returncode, 0)
        stated = re.search(r"^project\('understudy',.* version: '([^']+)'", (QUICKSTART.parents[1] / "meson.build").read_text(encoding="utf-8"), re.M)
        self.assertEqual(done.stdout, f"understudy {stated.group(1)}\n")

    def test_bad_arguments(self):
        good = self.config(name="good.toml")
        self.expect_bad(self.run_it(), "subcommand")
        self.expect_bad(self.run_it("fly"))
        for command in COMMANDS:
            self.expect_bad(self.run_it(command), "required")
        self.expect_bad(self.run_it("simulate", good, "--seed", "many"), "--seed", "many")
        for seed in ("-1", str((1 << 63) - 1), "18446744073709551615"):
            for command in ("simulate", "run", "fct"):
                self.expect_bad(self.run_it(command, good, "--seed", seed), "--seed: ",
                                f"found {seed}: expected an integer from 0 to 9223372036854775806")
        self.assertEqual(self.run_it("simulate", good, "--quiet", "--seed", str((1 << 63) - 2)).returncode, 0)
        self.expect_bad(self.run_it("simulate", good, "--bogus"), "--bogus")

    def test_misspelt_commands_and_options(self):
        good = self.config(name="good.toml")
        for words, said in ((("simulat", good), 'unknown command "simulat" (did you mean "simulate"?)'),
                            (("fly",), 'unknown command "fly"'),
                            (("--versio",), 'unknown option "--versio" (did you mean "--version"?)'),
                            (("simulate", good, "--captur", "x"), 'unknown option "--captur" (did you mean "--capture"?)'),
                            (("simulate", good, "--captur=x"), 'unknown option "--captur" (did you mean "--capture"?)'),
                            (("simulate", "--captur", "x"), 'unknown option "--captur" (did you mean "--capture"?)'),
                            (("simulate", good, "--zzzzzzzz"), 'unknown option "--zzzzzzzz"\n')):
            with self.subTest(words):
                self.expect_bad(self.run_it(*words), f"understudy: {said}")
        done = self.run_it("capabilities", "--help")
        self.assertIn("Example: understudy capabilities", done.stdout)
        self.assertNotIn("understudy simulate", done.stdout)

    def test_durations_of_options(self):
        good = self.config(name="good.toml")
        for duration in ("5", "-5s", "soon"):
            self.expect_bad(self.run_it("run", good, "--duration", duration), "--duration", "us")

    def test_capabilities(self):
        done = self.run_it("capabilities")
        self.assertEqual(done.returncode, 0)
        self.assertIn("| `[topology]` | yes | yes | yes | yes |", done.stdout)
        self.assertIn("1. its time is virtual, and run is in real time", done.stdout)

    def test_no_such_file(self):
        for command in ("check", "topo", "predict", "simulate", "run"):
            self.expect_bad(self.run_it(command, "nosuch.toml"), "nosuch.toml",
                            "No such file or directory")
            self.expect_bad(self.run_it(command, self.folder), "directory")
        self.expect_bad(self.run_it("calibrate", "nosuch.txt"), "nosuch.txt", "No such file or directory")

    def test_examples_are_good(self):
        for path in sorted(QUICKSTART.parent.rglob("*.toml")):
            done = self.run_it("check", path)
            share = re.search(r'^real = .*program = "./([\w]+).*share = "([^"]*)"', path.read_text(encoding="utf-8"), re.MULTILINE)
            if share and not (path.parent / share[2] / share[1]).exists():  # the build is elsewhere, or of less
                self.expect_bad(done, f"{path.name}:16: node.real.")
                continue
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)

    def test_a_kernels_share_counts_from_the_configuration(self):
        path = self.folder / "kernel_node.toml"
        shutil.copy(QUICKSTART.with_name("kernel_node.toml"), path)
        for command in ("check", "simulate"):
            with self.subTest(command):
                self.expect_bad(self.run_it(command, path), "kernel_node.toml:16: node.real.share: found \"../build/plain",
                                "there is no such folder (it counts from the configuration's folder)")

    def test_bad_configurations(self):
        self.assertEqual(self.run_it("check", self.config()).returncode, 0)
        for what, (replacement, parts) in BAD_CONFIGS.items():
            path = self.config(replacement)
            for command in ("check", "topo", "simulate", "run"):
                with self.subTest(what, command=command):
                    self.expect_bad(self.run_it(command, path), *parts)

    def test_kernels_that_no_run_takes(self):
        node = '[[node]]\nname = "alone"\nreal = { kind = "kernel", program = "true" }\nlink = { rate = "1Gbit/s", latency = "1us" }\n'
        path = self.config(('[[node]]\nname = "w"\n', node + '[[node]]\nname = "w"\n'))
        for command in ("check", "simulate"):
            with self.subTest(command):
                self.expect_bad(self.run_it(command, path), "bad.toml:9", "without a port for its NIC 0")

    def test_all_errors_at_once(self):
        path = self.config(("latency = ", "latancy = "), ('real = "gpu"', 'real = "gpv"'),
                           ('"4KiB"', '"4Kb"'))
        self.expect_bad(self.run_it("check", path), "bad.toml:8", "bad.toml:14", "bad.toml:21")

    def test_without_dpdk(self):
        if not lacks_dpdk():
            self.skipTest("this build has DPDK")
        done = self.run_it("run", QUICKSTART, "--report", "r.json")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{QUICKSTART}: {NO_DPDK}", done.stderr)
        self.assertFalse((self.folder / "r.json").exists())

    def test_bad_devices(self):
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        for device, parts in BAD_DEVICES.items():
            with self.subTest(device):
                path = self.config(('"virtual"', f'"{device}"'))
                self.expect_bad(self.run_it("run", path, "--duration", "1s"), *parts)

    def test_no_permission_for_tap(self):
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        if b"__tsan_init" in pathlib.Path(UNDERSTUDY).read_bytes():
            self.skipTest("the thread sanitizer's own thread keeps an ordinary user from a network namespace")
        prefix = ()
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                self.skipTest("root, and no setpriv to become somebody else")
            prefix = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
            if subprocess.run([*prefix, "test", "-x", UNDERSTUDY], check=False).returncode != 0:
                self.skipTest("nobody may not execute the program where it lies")
        if subprocess.run([*prefix, "unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no network namespace for an ordinary user")
        path = self.config(('"virtual"', '"net_tap0"'))
        done = self.run_it("run", path, "--duration", "1s", prefix=prefix)
        self.expect_bad(done, "gpu", "net_tap0", "permission")

    def test_what_has_no_client_is_not_run(self):
        """A program plays a node of any job, with or without values: what is missing here is a device."""
        path = self.topology("", "tree.toml")
        path.write_text(GOOD.replace("algorithm = \"ring\"", "algorithm = \"tree\""))
        self.assertEqual(self.run_it("schedule", path).returncode, 0)
        self.assertEqual(self.run_it("simulate", path).returncode, 0)
        self.expect_bad(self.run_it("run", path), "port \"gpu\": device \"virtual\"")  # all else is right
        exact = GOOD.replace("algorithm = \"ring\"", "payload = \"exact\"")
        path.write_text(exact)
        self.expect_bad(self.run_it("run", path), "port \"gpu\": device \"virtual\"")
        path.write_text(exact.replace("[[job]]", "[[job]]\nnccl = \"2.29\""))
        self.expect_bad(self.run_it("run", path), "port \"gpu\": device \"virtual\"")
        self.assertEqual(self.run_it("simulate", QUICKSTART.with_name("collectives.toml")).returncode, 0)

    def test_outputs_that_cannot_be_written(self):
        good = self.config(name="good.toml")
        for option in ("--capture", "--report", "--timeline"):
            done = self.run_it("simulate", good, option, "/nonexistent/out")
            self.assertEqual(done.returncode, 1)
            self.assertIn("/nonexistent/out", done.stderr)

    def test_nobody_answers_a_command(self):
        done = self.run_it("command", self.folder / "nobody", "link gpu rate 5Mbit/s")
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.folder / "nobody"), done.stderr)


if __name__ == "__main__":
    unittest.main()
