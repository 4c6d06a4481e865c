#!/usr/bin/env python3
"""`simulate` and `run`: traffic, series and timelines, changes and faults, feeds, and how they end.

    runs_test.py UNDERSTUDY
"""
import csv as csv_module
import filecmp
import json
import re
import socket
import struct
import subprocess
import time
import unittest
from xml.etree import ElementTree

from command_line import GOOD, NO_DPDK, QUICKSTART, TOPOLOGY, UNDERSTUDY, CommandLine, lacks_dpdk

NODE = QUICKSTART.with_name("congested_node.toml")
INCAST = """[[traffic]]
name = "in"
pattern = "incast"
from = ["w1", "w2"]
to = "w0"
size = "1MB"
"""
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


def record_of(count, sequence):
    """What the profiler plugin tells of an all-reduce."""
    return struct.pack("<8sBBBBIQQQiI16s16s16s16s16x", b"ustudyF1", 1, 5, 1, 16, 0, 0xABC, sequence, count, 0, 0,
                       b"AllReduce", b"ncclFloat32", b"RING", b"SIMPLE")


class Runs(CommandLine):
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
