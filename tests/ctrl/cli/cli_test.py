#!/usr/bin/env python3
"""The program's command line: bad input ends with status 2 and a message that names the thing, help
shows an example, and the quick start's configuration simulates alike twice.

    ctrl_cli_cli_test.py UNDERSTUDY
"""
import csv as csv_module
import filecmp
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

UNDERSTUDY = str(pathlib.Path(sys.argv.pop(1)).resolve())  # the tests run elsewhere
QUICKSTART = pathlib.Path(__file__).resolve().parents[3] / "configs/quickstart.toml"
NODE = QUICKSTART.with_name("congested_node.toml")
COMMANDS = ("check", "topo", "schedule", "predict", "calibrate", "feed", "simulate", "run", "command", "fct")
GOOD = """format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "100Mbit/s", latency = "250us" }
[[node]]
name = "w"
count = 3
link = { rate = "100Mbit/s", latency = "250us" }
[[port]]
real = "gpu"
device = "virtual"
[[job]]
name = "ring"
collective = "all_reduce"
algorithm = "ring"
ranks = ["gpu", "w*"]
sizes = ["4KiB"]
entry = "scheduled"
interval = "1ms"
"""
TOPOLOGY = """format = 1
[[node]]
name = "w"
count = 64
link = { rate = "100Gbit/s", latency = "1us" }
[topology]
kind = "leaf_spine"
hosts_per_leaf = 16
oversubscription = "2:1"
uplink = { rate = "100Gbit/s", latency = "2us" }
"""
INCAST = """[[traffic]]
name = "in"
pattern = "incast"
from = ["w1", "w2"]
to = "w0"
size = "1MB"
"""
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


def record_of(count, sequence):
    """What the profiler plugin tells of an all-reduce."""
    return struct.pack("<8sBBBBIQQQiI16s16s16s16s16x", b"ustudyF1", 1, 5, 1, 16, 0, 0xABC, sequence, count, 0, 0,
                       b"AllReduce", b"ncclFloat32", b"RING", b"SIMPLE")


CHANGE = "expected: [at TIME] link NODE"
BAD_CHANGES = {
    "": "--at",
    "20ms": CHANGE,
    "20 link gpu rate 50Mbit/s": "the unit is missing",
    "-5ms link gpu rate 50Mbit/s": "-5ms",
    "20ms link gpv rate 50Mbit/s": 'did you mean "gpu"?',
    "20ms link gpu": "nothing that changes is given",
    "20ms link gpu rate": '"rate" has no value',
    "20ms link gpu rate 50": "the unit is missing",
    "20ms link gpu speed 50Mbit/s": '"speed"',
}
# What a build without DPDK says of `run`.
NO_DPDK = "this build has no DPDK: `run` needs it (Debian package libdpdk-dev"
# What `run` says of devices, as any user, before anything is made.
BAD_DEVICES = {
    "0000:99:00.0": ("gpu", "no such device 0000:99:00.0"),
    "net_nosuch0": ("gpu", "net_nosuch0", "net_vhost0"),
    "net_pcap0,rx_pcap=/nonexistent/in.pcap": ("gpu", "/nonexistent/in.pcap"),
}


def lacks_dpdk():
    """Whether the program was built without DPDK, as its help says."""
    done = subprocess.run([UNDERSTUDY, "run", "--help"], capture_output=True, text=True, timeout=100, check=True)
    return NO_DPDK in done.stdout.replace("\n", " ")


class Documents(unittest.TestCase):
    def test_capabilities_are_the_programs(self):
        """docs/capabilities.md holds what `understudy capabilities` prints, word for word."""
        done = subprocess.run([UNDERSTUDY, "capabilities"], capture_output=True, text=True, timeout=100, check=True)
        page = (QUICKSTART.parents[1] / "docs/capabilities.md").read_text(encoding="utf-8")
        self.assertIn(done.stdout.strip(), page)


class CommandLine(unittest.TestCase):
    def setUp(self):
        # A folder of its own that any user may enter.
        folder = tempfile.TemporaryDirectory(prefix="understudy-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)

    def run_it(self, *words, prefix=()):
        command = [*prefix, UNDERSTUDY, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              cwd=self.folder)

    def config(self, *replacements, name="bad.toml"):
        text = GOOD
        for old, new in replacements:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def expect_bad(self, done, *parts):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_timeline_of_a_run_with_a_real_node(self):
        good = self.config(name="good.toml")
        done = self.run_it("simulate", good, "--timeline", "t.json", "--report", "r.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        report = json.loads((self.folder / "r.json").read_text())
        operation, *messages = [e for e in events if e["ph"] == "X"]
        collective = report["jobs"][0]["collectives"][0]
        self.assertAlmostEqual(operation["dur"], collective["measured_ps"] / 1e6)
        names = [e["args"]["name"] for e in events if e["ph"] == "M"]
        self.assertEqual(names[:2], ["job ring", "all_reduce"])
        self.assertIn("channel 0 to rank 0: messages until their acknowledgement", names)
        self.assertIn("channel 0 from rank 0: credits until messages have come", names)
        kinds = {e["name"] for e in messages}
        self.assertTrue(kinds & {"waits for data", "waits for an acknowledgement", "waits for a credit"}, kinds)
        sent = [e for e in messages if e["name"].startswith("message ")]
        n = len(report["jobs"][0]["ranks"])
        both_ways = 2 * 2 * (n - 1) * collective["size_bytes"] // n
        self.assertEqual(sum(e["args"]["bytes"] for e in sent), both_ways)
        for e in messages:
            self.assertGreaterEqual(e["ts"], operation["ts"])

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

    def test_traffic(self):
        traffic = """[fabric]
fidelity = "flow"
[[traffic]]
pattern = "file"
file = "flows.csv"
"""
        (self.folder / "flows.csv").write_text("id,from,to,bytes,via\na,w0,w1,1MB,leaf0\n",
                                               encoding="utf-8")
        good = self.folder / "traffic.toml"
        good.write_text(TOPOLOGY + traffic, encoding="utf-8")
        report = self.folder / "traffic.json"
        done = self.run_it("simulate", good, "--report", report, "--at", "10us link w0 rate 10Gbit/s")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("traffic 1", done.stdout)
        flow = json.loads(report.read_text(encoding="utf-8"))["traffic"]["flows"][0]
        # 10 us at 100 Gbit/s, the rest at a tenth: 1,020,090 bytes with the headers of 245 packets.
        self.assertAlmostEqual(flow["received_ps"] / 1e6, 10 + (1_020_090 - 125_000) * 8e-4 + 2, 2)
        self.expect_bad(self.run_it("simulate", good, "--capture", "x.pcapng"), "--capture")
        (self.folder / "flows.csv").write_text("id,from,to,bytes,via\na,w0,w1,1MB,leaf9\n",
                                               encoding="utf-8")
        for command in ("check", "simulate", "run"):
            self.expect_bad(self.run_it(command, good), "flows.csv:2: via", "leaf9")
        both = self.folder / "both.toml"
        both.write_text(GOOD + traffic.replace("file", "flow", 1).replace(
            'file = "flows.csv"', 'from = "w0"\nto = "w1"\nsize = "1B"'), encoding="utf-8")
        self.assertEqual(self.run_it("simulate", both).returncode, 0)
        # Packets of one byte at 400 Gbit/s: no machine keeps up.
        both.write_text(GOOD.replace("100Mbit/s", "400Gbit/s") +
                        '[[traffic]]\npattern = "permutation"\nfrom = ["w*"]\nsize = "1B"\n', encoding="utf-8")
        self.assertEqual(self.run_it("simulate", both).returncode, 0)
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        self.expect_bad(self.run_it("run", both), "both.toml:24: traffic", "M events/s packet by packet; this machine does")

    def test_deadlock(self):
        """Everybody at a ring of four switches sends two places on: simulate and run name the links that pause each other."""
        text = GOOD.replace("count = 3", "count = 4").split("[[job]]")[0].replace('"virtual"', '"net_null0"')
        text += '[queues]\n[[queues.class]]\npfc = { xoff = "20KB", xon = "15KB", headroom = "auto" }\n'
        text += '[topology]\nkind = "graph"\n[[topology.link]]\na = "gpu"\nb = "s0"\n'
        for i in range(4):
            via = ", ".join(f'"s{(i + k) % 4}"' for k in range(3))
            text += (f'[[topology.switch]]\nname = "s{i}"\n[[topology.link]]\na = "w{i}"\nb = "s{i}"\n'
                     f'[[topology.link]]\na = "s{i}"\nb = "s{(i + 1) % 4}"\nrate = "100Mbit/s"\nlatency = "1us"\n'
                     f'[[topology.route]]\nfrom = "w{i}"\nto = "w{(i + 2) % 4}"\nvia = [{via}]\n'
                     f'[[traffic]]\npattern = "flow"\nfrom = "w{i}"\nto = "w{(i + 2) % 4}"\nsize = "50MB"\n')
        (self.folder / "ring.toml").write_text(text, encoding="utf-8")
        links = [f"s{i} -> s{(i + 1) % 4}" for i in range(4)]
        done = self.run_it("simulate", "ring.toml")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("ring.toml: 4 of 4 flows never end: deadlock, each of these links", done.stderr)
        for link in links:
            self.assertIn("\n  " + link, done.stderr)
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        # It ends by itself, once the pauses have lasted long enough to look for it.
        done = self.run_it("run", "ring.toml", "--report", "run.json")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("deadlock, each of these links is paused by the switch behind it:\n  s", done.stderr)
        report = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.assertEqual(report["ended_by"], "deadlock")
        self.assertEqual(sorted(report["traffic"]["deadlock"]), links)

    def test_series(self):
        good = self.topology(INCAST)
        reports = [self.folder / name for name in ("plain.json", "sampled.json", "again.json")]
        self.assertEqual(self.run_it("simulate", good, "--report", reports[0]).returncode, 0)
        for i, (csv, plot, start) in enumerate((("a.csv", "a.svg", b"<?xml"), ("b.csv", "b.png", b"\x89PNG"))):
            done = self.run_it("simulate", good, "--report", reports[i + 1], "--series", csv, "--plot", plot,
                               "--series-interval", "5us")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"series: {csv}\nplot: {plot}\n", done.stdout)
            self.assertTrue((self.folder / plot).read_bytes().startswith(start))
            self.assertTrue(filecmp.cmp(reports[0], reports[i + 1], shallow=False))
        self.assertTrue(filecmp.cmp(self.folder / "a.csv", self.folder / "b.csv", shallow=False))
        with open(self.folder / "a.csv", encoding="utf-8", newline="") as file:
            rows = list(csv_module.DictReader(file))
        self.assertEqual({row["time_us"] for row in rows[:3]}, {"5.000000"})
        queues = [int(row["queue_bytes"]) for row in rows if row["name"] == "leaf0 -> w0"]
        self.assertGreater(max(queues), 900_000)
        root = ElementTree.parse(self.folder / "a.svg").getroot()
        texts = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
        self.assertTrue({"leaf0 -> w0", "in 0", "KB", "Gbit/s"} <= texts, texts)
        done = self.run_it("simulate", good, "--plot", "only.svg", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((self.folder / "only.svg").exists())

    def test_series_beside_a_real_node(self):
        for i, words in enumerate(((), ("--series", "a.csv", "--plot", "a.svg", "--series-flows", "allreduce w30 *"))):
            done = self.run_it("simulate", NODE, "--report", f"{i}.json", "--capture", f"{i}.pcapng", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("json", "pcapng"):
            self.assertTrue(filecmp.cmp(self.folder / f"0.{name}", self.folder / f"1.{name}", shallow=False))
        with open(self.folder / "a.csv", encoding="utf-8", newline="") as file:
            rows = list(csv_module.DictReader(file))
        senders = {(row["kind"], row["name"]) for row in rows if row["kind"] != "link"}
        self.assertEqual(senders, {("queue_pair", "allreduce w30 -> gpu 0"), ("queue_pair", "allreduce w30 -> gpu 1")})
        root = ElementTree.parse(self.folder / "a.svg").getroot()
        texts = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
        self.assertTrue({"leaf0 -> gpu", "allreduce w30 -> gpu 0"} <= texts, texts)

    def test_series_that_cannot_be_made(self):
        good = self.topology(INCAST)
        simulate = lambda *words: self.run_it("simulate", good, *words)
        for interval in ("0us", "soon", "-5us"):
            self.expect_bad(simulate("--series", "a.csv", "--series-interval", interval), "--series-interval", interval)
        self.expect_bad(simulate("--series-interval", "1us"), "neither --series nor --plot")
        self.expect_bad(simulate("--series", "a.csv", "--series-links", "nosuch*"), "nosuch*", "no link")
        self.expect_bad(simulate("--series", "a.csv", "--series-flows", "nosuch*"), "nosuch*", "no flow")
        self.expect_bad(simulate("--plot", "a.gif"), "a.gif", ".svg or .png")
        self.expect_bad(self.run_it("simulate", QUICKSTART, "--series", "a.csv"), "--series", "no [topology], [queues] or [[traffic]]")
        self.expect_bad(self.run_it("run", QUICKSTART, "--series", "a.csv"), "--series", "no [topology], [queues] or [[traffic]]")
        self.expect_bad(self.run_it("run", QUICKSTART, "--plot", "a.svg"), "--plot", "no [topology], [queues] or [[traffic]]")
        self.expect_bad(self.run_it("simulate", NODE, "--series", "a.csv", "--series-flows", "nosuch*"),
                        "nosuch*", 'one is "allreduce gpu -> w0 0"')
        self.assertFalse((self.folder / "a.csv").exists())
        done = simulate("--series", "/nonexistent/a.csv", "--report", "report.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--series: /nonexistent/a.csv", done.stderr)
        self.assertFalse((self.folder / "report.json").exists())
        done = subprocess.run([UNDERSTUDY, "simulate", str(good), "--plot", "a.svg", "--report", "report.json"],
                              env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Debian: gnuplot-nox", done.stderr)
        self.assertFalse((self.folder / "report.json").exists())

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

    def test_feed(self):
        record = struct.pack("<8sBBBBIQQQiI16s16s16s16s16x", b"ustudyF1", 1, 5, 4, 16, 2, 0xABC, 7, 1000, 1, 0,
                             b"Broadcast", b"ncclFloat32", b"RING", b"LL")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            where = f"127.0.0.1:{s.getsockname()[1]}"
        for sent, status, words in [
                (record * 2, 0, "broadcast 7, ring, ll, root 1, 1000 float32 = 4000 B, 4 channels"),
                (record + record.replace(b"RING", b"NVLS"), 1, "record 1: algorithm: \"NVLS\" is not known"),
                (record + record.replace(b"\0\0\0\0Broadcast", b"\5\0\0\0Broadcast"), 1, "5 operations are missing")]:
            feed = subprocess.Popen([UNDERSTUDY, "feed", where, "--count", "2", "--record", "taken.feed"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
            host, port = where.split(":")
            while feed.poll() is None:
                try:
                    with socket.create_connection((host, int(port))) as plugin:
                        plugin.sendall(sent)
                    break
                except ConnectionRefusedError:
                    time.sleep(0.05)
            out, err = feed.communicate(timeout=60)
            self.assertEqual(feed.returncode, status, out + err)
            self.assertIn(words, out + err)
            if status == 0:
                self.assertEqual((self.folder / "taken.feed").read_bytes(), sent)
        self.expect_bad(self.run_it("feed", "nonsense"), "feed nonsense: expected ADDRESS:PORT")
        self.expect_bad(self.run_it("feed", "somewhere:7300"), "feed somewhere:7300: ")

    def test_operations_that_are_not_told(self):
        told = [record_of(count=1024, sequence=s) for s in (0, 1)]
        feed = self.folder / "run.feed"
        fed = self.config(('interval = "1ms"', 'interval = "1ms"\niterations = 2\noperations = "fed"'),
                          ('entry = "scheduled"', 'entry = "first_credit"'), name="fed.toml")
        for content, status, lost in [(b"".join(told), 0, None), (told[0], 3, "the feed ended after 1 operations")]:
            feed.write_bytes(content)
            done = self.run_it("simulate", fed, "--feed", feed, "--report", "r.json")
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            job, = json.loads((self.folder / "r.json").read_text())["jobs"]
            self.assertEqual(job["fed"]["lost"], lost)
            self.assertEqual(job["done"], 2 if lost is None else 1)
        self.expect_bad(self.run_it("simulate", self.config(name="told.toml"), "--feed", feed), "--feed: it is of one job")
        self.expect_bad(self.run_it("simulate", fed, "--feed", "nothing.feed"), "nothing.feed")
        self.assertIn("verdict: NOT FAITHFUL", done.stdout)
        self.assertIn(f"the feed lost track, and every credit was answered at once: {lost}", done.stdout)
        # The wire does not tell apart operations in which the real rank only sends, one at once after the other.
        inferred = self.config(("all_reduce", "scatter"), ('algorithm = "ring"\n', "root = 0\n"), ("4KiB", "256KiB"),
                               ('interval = "1ms"', 'iterations = 3\noperations = "inferred"'), ('entry = "scheduled"', 'entry = "first_credit"'), name="inferred.toml")
        done = self.run_it("simulate", inferred, "--report", "r.json")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        lost = "sends and receives of no size"
        self.assertIn(f"inference lost track, and every credit was answered at once: {lost}", done.stdout)
        report = json.loads((self.folder / "r.json").read_text())
        self.assertFalse(report["verdict"]["faithful"])
        self.assertEqual(report["jobs"][0]["inferred"]["lost"], lost)

    def test_predict(self):
        done = self.run_it("predict", QUICKSTART.with_name("predict.toml"), "--why")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("16 ranks, 2 nodes, 16 NICs a node of 100 Gbit/s", "tree ll128, 32 ch", "<- least",
                     "PAT came with NCCL 2.23", "(trees of this size)", "point to point"):
            self.assertIn(part, done.stdout)
        jobs = json.loads(self.run_it("predict", self.config(), "--json").stdout)["jobs"]
        self.assertEqual((jobs[0]["ranks"], jobs[0]["rows"][0]["size"]), (4, 4096))
        bad = self.config(('algorithm = "ring"', 'algorithm = "pat"'))
        for command in ("check", "predict"):
            self.expect_bad(self.run_it(command, bad), "bad.toml:16: job", "PAT is for all-gather")

    def test_predict_beside_packets(self):
        """Predictions against all ranks packet by packet, in per cent of the latter: means of the ranks."""
        for collective, algorithm, protocol, size, most in (
                ("all_reduce", "ring", "simple", "16MiB", 0.5), ("all_reduce", "ring", "ll128", "16MiB", 0.5),
                ("all_reduce", "tree", "simple", "16MiB", 6), ("all_reduce", "tree", "simple", "1MiB", 2),
                ("all_gather", "ring", "simple", "16MiB", 0.5), ("all_gather", "pat", "simple", "16MiB", 0.5),
                ("broadcast", "ring", "simple", "16MiB", 0.5), ("all_to_all", "ring", "simple", "16MiB", 0.5),
                ("send_recv", "ring", "simple", "64KiB", 0.5), ("send_recv", "ring", "simple", "16MiB", 0.5)):
            path = self.folder / "both.toml"
            path.write_text(f"""format = 1
[[node]]
name = "w"
count = 8
link = {{ rate = "100Gbit/s", latency = "1us" }}
[[job]]
name = "j"
collective = "{collective}"
algorithm = "{algorithm}"
protocol = "{protocol}"
channels = 2
ranks = ["w*"]
sizes = ["{size}"]
step_cost = "1us"
""", encoding="utf-8")
            with self.subTest(collective, algorithm=algorithm, protocol=protocol, size=size):
                row = json.loads(self.run_it("predict", path, "--json").stdout)["jobs"][0]["rows"][0]
                simulated = self.run_it("simulate", path)
                self.assertEqual(simulated.returncode, 0, simulated.stderr)
                times = [line.split()[3] for line in simulated.stdout.splitlines()
                         if line.split()[:1] == [str(row["size"])]]
                self.assertEqual(len(times), 1, simulated.stdout)
                self.assertLess(abs(row["time_us"] / float(times[0]) - 1) * 100, most)

    def test_strict(self):
        """With --strict doubts are status 3; without a doubt, or where all failed otherwise, it changes nothing."""
        doubtful = self.topology(INCAST)
        good = self.folder / "good.toml"
        good.write_text(doubtful.read_text(encoding="utf-8") + '[queues]\nbuffer = "16MiB"\n', encoding="utf-8")
        for words in ((), ("--quiet",)):
            done = self.run_it("simulate", doubtful, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = self.run_it("simulate", doubtful, "--strict", *words)
            self.assertEqual((done.returncode, done.stderr), (3, "strict: 1 doubt\n"))
            self.assertRegex(done.stdout, r"(?m)^# doubt: up to \d+ KiB waited in front of leaf0 -> w0, .*\[contention\]$")
            done = self.run_it("simulate", good, "--strict", *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertNotIn("# doubt:", done.stdout)
        self.assertNotIn("#", self.run_it("simulate", good, "--quiet").stdout.replace("# verdict", ""))
        done = self.run_it("simulate", doubtful, "--strict", "--report", "/nonexistent/r.json")
        self.assertEqual((done.returncode, "strict" in done.stderr), (1, False))
        self.expect_bad(self.run_it("simulate", self.config(("4KiB", "5 apples")), "--strict"), "5 apples")
        # The report has the same lines.
        done = self.run_it("simulate", doubtful, "--report", "r.json")
        lines = json.loads((self.folder / "r.json").read_text(encoding="utf-8"))["validity"]
        self.assertEqual([f"# {line['kind']}: {line['text']} [{line['id']}]" for line in lines],
                         re.findall(r"(?m)^# (?:limit|doubt): .*$", done.stdout))

    def test_strict_predictions(self):
        plain, exceeding = self.config(), self.config(name="calibrated.toml")
        exceeding.write_text(exceeding.read_text(encoding="utf-8") + '[calibration]\nlaunch = "1us"\n', encoding="utf-8")
        for words in ((), ("--json",)):
            self.assertEqual(self.run_it("predict", plain, "--strict", *words).returncode, 0)
            self.assertEqual(self.run_it("predict", exceeding, *words).returncode, 0)
            done = self.run_it("predict", exceeding, "--strict", *words)
            self.assertEqual((done.returncode, done.stderr), (3, "strict: 1 doubt\n"))
            if words:
                doubts = [line["id"] for line in json.loads(done.stdout)["validity"] if line["kind"] == "doubt"]
                self.assertEqual(doubts, ["unknown-origin"])

    def test_strict_in_real_time(self):
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        path = self.folder / "real.toml"
        path.write_text(GOOD.split("[[job]]")[0].replace('"virtual"', '"net_null0"') +
                        '[[traffic]]\npattern = "permutation"\nfrom = ["w*"]\nsize = "4KB"\n', encoding="utf-8")
        done = self.run_it("run", path, "--duration", "200ms")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("# doubt: drawn once, from seed 1: who sends to whom", done.stdout)
        done = self.run_it("run", path, "--duration", "200ms", "--strict")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("strict: 1 doubt", done.stderr)

    def test_status_without_jobs(self):
        if lacks_dpdk():
            self.skipTest(NO_DPDK)
        path, control = self.folder / "serves.toml", self.folder / "control"
        path.write_text(GOOD.split("[[job]]")[0].replace('"virtual"', '"net_null0"') +
                        '[[service]]\nnode = "w0"\nport = 18515\n'
                        '[[client]]\nnode = "w1"\nserver = "gpu"\nport = 18516\nkind = "send_bw"\n', encoding="utf-8")
        run = subprocess.Popen([UNDERSTUDY, "run", path, "--control", control, "--duration", "20s"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait, 100)
        self.addCleanup(run.terminate)
        end = time.monotonic() + 60
        while (done := self.run_it("status", control)).returncode != 0 and run.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        if run.poll() is not None and "namespace" in run.stderr.read():
            self.skipTest("no network namespaces here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^running for [\d.]+ m?s\n"
                         r"services: 0 clients connected, 0 served\n"
                         r"clients: 0 of 1 done\nin use: 0 queue pairs, 0 memory regions\n$")

    def test_calibrate(self):
        table = QUICKSTART.parent.parent / "tests/data/oracle/measured/vtrain_a100_8gpu_allreduce.csv"
        done = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("other rows: 504, mean error", "ring 12 x 20 GB/s", "[nccl]", "[calibration]", "ll128 = {"):
            self.assertIn(part, done.stdout)
        # What it prints is a configuration's section.
        sections = done.stdout[done.stdout.index("[nccl]"):]
        path = self.folder / "calibrated.toml"
        path.write_text("""format = 1
[[node]]
name = "a"
gpus = 8
link = { rate = "100Gbit/s", latency = "1us" }
[[job]]
name = "one node"
collective = "all_reduce"
algorithm = "auto"
protocol = "auto"
nccl = "2.18"
ranks = ["a"]
sizes = ["22MiB", "24MiB", "1GiB"]
""" + sections, encoding="utf-8")
        done = self.run_it("predict", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["jobs"][0]["rows"]
        self.assertEqual([r["protocol"] for r in rows], ["ll128", "simple", "simple"])
        for row, measured in zip(rows, (303.1, 265.3, 8193.0)):
            self.assertAlmostEqual(row["time_us"] / measured, 1, delta=0.05)
        judged = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--use", path)
        self.assertIn("other rows: 512", judged.stdout)
        # The output by itself is what --use takes, too.
        own = self.folder / "own.toml"
        own.write_text(self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18").stdout, encoding="utf-8")
        again = self.run_it("calibrate", table, "--ranks", "8", "--nccl", "2.18", "--use", own)
        self.assertEqual((again.returncode, again.stdout), (0, judged.stdout), again.stderr)
        own.write_text("[nccl]\ngpu = \"ampere\"\n", encoding="utf-8")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--use", own), "own.toml", "no [calibration]")
        own.write_text("[calibration]\ntail = 0.5\n[[node]]\nname = \"a\"\n", encoding="utf-8")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--use", own), "own.toml", "format")
        self.expect_bad(self.run_it("calibrate", table), "does not tell its ranks")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--gpu", "pascal"), "--gpu", "hopper")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "8", "--nccl", "3.1"), "--nccl 3.1")
        self.expect_bad(self.run_it("calibrate", table, "--ranks", "9", "--nodes", "2"), "9 ranks on 2 nodes")
        self.expect_bad(self.run_it("calibrate", QUICKSTART, "--ranks", "8"), "found no row")

    def test_flow_completion(self):
        path = self.folder / "poisson.toml"
        path.write_text("""format = 1
[[control]]
name = "slow"
law = "dcqcn"
[[node]]
name = "w"
count = 4
link = { rate = "100Gbit/s", latency = "1us" }
[[traffic]]
pattern = "poisson"
from = "w*"
load = 0.5
sizes = "sizes.csv"
flows = 40
""", encoding="utf-8")
        (self.folder / "sizes.csv").write_text("bytes,share\n1000,0\n50000,100\n", encoding="utf-8")
        rows, table = self.folder / "rows.csv", self.folder / "table.csv"
        done = self.run_it("fct", path, "--control", "slow", "--control", "none", "--seeds", "2", "--flows", rows,
                           "--csv", table, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(" +- ", done.stdout)
        self.assertEqual(done.stdout, self.run_it("fct", path, "--control", "slow", "--control", "none", "--seeds",
                                                  "2", "--quiet").stdout)
        lines = [line.split(",") for line in rows.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(lines[0][6:], ["started_at_us", "ended_at_us", "duration_us", "ideal_duration_us", "slowdown"])
        self.assertEqual(len(lines), 1 + 2 * 2 * 40)
        for line in lines[1:]:
            started, ended, duration, ideal, slowdown = map(float, line[6:])
            self.assertAlmostEqual(ended - started, duration, delta=1e-5)
            self.assertAlmostEqual(duration / ideal, slowdown, delta=1e-4)
            self.assertGreaterEqual(slowdown, 0.999999)
        self.assertIn("p99_9_half_width_95", table.read_text(encoding="utf-8"))
        self.expect_bad(self.run_it("fct", path, "--control", "fast"), 'no [[control]] "fast"')
        self.expect_bad(self.run_it("fct", path, "--control", "slow", "--fidelity", "flow"), "--control", "fidelity")
        self.expect_bad(self.run_it("fct", path, "--control", "slow", "--control", "slow"), 'two curves', '"slow"')
        self.expect_bad(self.run_it("fct", path, path), "two curves", str(path))
        other = self.folder / "other"
        other.mkdir()
        for name in ("poisson.toml", "sizes.csv"):
            shutil.copy(self.folder / name, other / name)
        done = self.run_it("fct", path, other / "poisson.toml", "--csv", table, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        curves = {line.split(",")[0] for line in table.read_text(encoding="utf-8").splitlines()[1:]}
        self.assertEqual(curves, {str(path), str(other / "poisson.toml")})
        self.expect_bad(self.run_it("fct", path, "--plot", "x.pdf"), ".svg or .png")
        path.write_text(path.read_text(encoding="utf-8").replace("load = 0.5", "load = 1e-9")
                        .replace("flows = 40", 'until = "1us"'), encoding="utf-8")
        done = self.run_it("fct", path, "--flows", rows, "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(rows.read_text(encoding="utf-8").splitlines()), 1)
        self.expect_bad(self.run_it("fct", QUICKSTART), "quickstart.toml", "no [[traffic]]")

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

    def test_bad_changes(self):
        good = self.config(name="good.toml")
        for text, part in BAD_CHANGES.items():
            for command in ("simulate", "run"):
                with self.subTest(text, command=command):
                    done = self.run_it(command, good, f"--at={text}")
                    self.expect_bad(done, part, text)
                    if "did you mean" in part or "unit" in part:  # the form is right
                        self.assertNotIn(CHANGE, done.stderr)

    def test_changes_stand_anywhere(self):
        good = self.config(name="good.toml")
        report = self.folder / "report"
        done = self.run_it("simulate", "--at", "1ms link gpu rate 50Mbit/s", good, "--at",
                           "2ms link w0 latency 1ms", "--report", report)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([c["at_ps"] for c in json.loads(report.read_text())["commands"]],
                         [10**9, 2 * 10**9])

    def scenario(self, text, name="scenario.toml"):
        path = self.folder / name
        path.write_text("format = 1\n" + text, encoding="utf-8")
        return path

    def test_scenarios_add_their_faults(self):
        good = self.config(name="good.toml")
        first = self.scenario('[[fault]]\nname = "one lost"\naction = "drop"\nnth = 9\n')
        second = self.scenario('[[fault]]\naction = "duplicate"\nevery = 5\n', "second.toml")
        report = self.folder / "report.json"
        done = self.run_it("simulate", good, "--scenario", first, "--scenario", second, "--report",
                           report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        written = json.loads(report.read_text(encoding="utf-8"))
        self.assertEqual([s["path"] for s in written["scenarios"]], [str(first), str(second)])
        faults = written["ports"][0]["faults"]
        self.assertEqual([f["name"] for f in faults], ["one lost", "fault 2"])
        self.assertEqual(faults[0]["acted"], 1)
        self.assertGreater(faults[1]["acted"], 1)

    def test_bad_scenarios(self):
        good = self.config(name="good.toml")
        for text, parts in {
                '[[fault]]\naction = "dorp"\n': ("scenario.toml:3", 'did you mean "drop"?'),
                '[[node]]\nname = "x"\n': ("scenario.toml:2", "unknown key"),
        }.items():
            for command in ("simulate", "run"):
                self.expect_bad(self.run_it(command, good, "--scenario", self.scenario(text)),
                                *parts)
        self.expect_bad(self.run_it("simulate", good, "--scenario", "nosuch.toml"), "nosuch.toml")

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

    def schedule(self, *arguments):
        done = self.run_it("schedule", QUICKSTART.with_name("collectives.toml"), *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_schedule_of_every_job(self):
        text = self.schedule()
        for job in ("gradients", "buckets", "experts", "parameters", "weights", "uneven"):
            self.assertIn("job " + job + ": ", text)
        self.assertIn("all_reduce, bfloat16; 32 ranks on 4 nodes, up to 8 channels, NCCL 2.28", text)
        self.assertIn("256 MiB (268435456 B): tree, ll128, 8 channels", text)

    def test_schedule_of_one_rank(self):
        job = json.loads(self.schedule("--job", "parameters", "--rank", "1", "--messages", "--json"))["jobs"][0]
        self.assertEqual((job["rank"], job["ranks"]), (1, 4))
        operation = job["operations"][0]
        self.assertEqual((operation["algorithm"], operation["protocol"]), ("pat", "simple"))
        self.assertEqual(operation["channels"], [{"channel": 0, "offset": 0, "bytes": 16384}])
        send = operation["connections"][0]
        self.assertEqual((send["from"], send["to"], send["direction"]), (1, 0, "send"))
        self.assertEqual(send["sizes"], [{"count": 1, "bytes": [32768]}])
        self.assertEqual(send["list"][0]["after"], [{"connection": 3, "message": 0, "moment": "arrival"}])

    def test_operations_of_a_group_share_channels(self):
        job = json.loads(self.schedule("--job", "buckets", "--json"))["jobs"][0]
        first, second, third = (operation["channels"] for operation in job["operations"])
        self.assertEqual(first, [{"channel": 0, "offset": 0, "bytes": 4096}])
        self.assertEqual(second[0]["channel"], 0)
        self.assertEqual(third[0]["channel"], second[-1]["channel"])
        self.assertEqual(third[-1]["channel"], 7)

    def test_schedule_refuses(self):
        self.expect_bad(self.run_it("schedule", QUICKSTART, "--rank", "9"), "--rank 9", "are 0 to 3")
        self.expect_bad(self.run_it("schedule", QUICKSTART, "--job", "x"), "--job x", "no job of this name")
        self.expect_bad(self.run_it("schedule", self.topology("")), "at least one [[job]]")
        path = self.topology("", "wrong.toml")
        path.write_text(GOOD.replace("algorithm = \"ring\"", "algorithm = \"pat\""))
        self.expect_bad(self.run_it("schedule", path), "wrong.toml:16", "job: found \"all_reduce\" by algorithm \"pat\"")

    def test_schedule_of_what_nccl_chooses(self):
        path = self.topology("", "auto.toml")
        path.write_text(GOOD.replace("algorithm = \"ring\"", "algorithm = \"auto\"\nprotocol = \"auto\"\nchannels = 8")
                        .replace("[\"4KiB\"]", "[\"4KiB\", \"256MiB\"]"))
        done = self.run_it("schedule", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        small, large = json.loads(done.stdout)["jobs"][0]["operations"]
        self.assertIn(small["protocol"], ("ll", "ll128"))
        self.assertEqual(len(small["channels"]), 1)
        self.assertEqual(len(large["channels"]), 8)

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

    def topology(self, text, name="topology.toml"):
        path = self.folder / name
        path.write_text(TOPOLOGY + text, encoding="utf-8")
        return path

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

    def test_quick_start_simulates_alike_twice(self):
        files = [[self.folder / f"{kind}{i}" for i in (1, 2)] for kind in ("capture", "report")]
        for capture, report in zip(*files):
            done = self.run_it("simulate", QUICKSTART, "--capture", capture, "--report", report)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("verdict: faithful", done.stdout)
        for first, second in files:
            self.assertGreater(first.stat().st_size, 1000)
            self.assertTrue(filecmp.cmp(first, second, shallow=False), first.name)


if __name__ == "__main__":
    unittest.main()
