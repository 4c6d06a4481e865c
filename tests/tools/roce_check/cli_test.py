#!/usr/bin/env python3
"""roce-check as a program: exit status, messages, JSON.    tools_roce_check_cli_test.py ROCE_CHECK"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/rigs"))
from confined import comes_to_be_confined  # noqa: E402

ROCE_CHECK = str(pathlib.Path(sys.argv.pop(1)).resolve())
DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "rxe"
GOOD = DATA / "rxe_write_4k_mtu1024_rdmacm.pcap"
CONFIG = str(pathlib.Path(__file__).resolve().parents[3] / "configs/quickstart.toml")
BAD = DATA / "rxe_send_rnr_nak.pcap"  # ends in the middle of retries


def run(*arguments):
    return subprocess.run([ROCE_CHECK, *map(str, arguments)], capture_output=True, text=True,
                          check=False)


class RoceCheck(unittest.TestCase):
    def test_holds(self):
        done = run(GOOD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("the capture holds", done.stdout)

    def test_does_not_hold(self):
        done = run(BAD)
        self.assertEqual(done.returncode, 1)
        self.assertIn("packets from here on have no answer", done.stdout)
        self.assertEqual(run(BAD, "--open-end").returncode, 0)

    def test_quiet(self):
        for capture, status in ((GOOD, 0), (BAD, 1)):
            done = run("--quiet", capture)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))

    def test_json(self):
        report = json.loads(run("--json", GOOD).stdout)
        self.assertEqual(report["schema"], "understudy-roce-check/2")
        self.assertTrue(report["holds"])
        self.assertEqual({check["name"] for check in report["checks"]},
                         {"parse", "headers", "icrc", "order", "opcodes", "lengths", "acks", "reads", "waits",
                          "acknowledged", "ecn", "cm", "complete", "rate", "collective"})
        self.assertEqual(report["messages"]["write"], {"count": 10, "bytes": 40960})

    def test_two_captures_are_those_of_both_ends(self):
        done = run(GOOD, GOOD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("the capture holds"), 2)
        self.assertIn("40 packets, 40 came, 0 lost", done.stdout)
        report = json.loads(run("--json", GOOD, GOOD).stdout)
        self.assertEqual(report["schema"], "understudy-roce-check-ends/1")
        self.assertEqual((len(report["captures"]), report["between"]["lost"], report["between"]["clock_ahead_ps"]), (2, 0, 0))
        self.assertEqual(run(GOOD, BAD).returncode, 1)
        self.assertEqual(run(GOOD, GOOD, GOOD).returncode, 2)

    def test_consecutive_files_are_one_capture(self):
        with tempfile.TemporaryDirectory() as folder:
            data, cut = GOOD.read_bytes(), 24  # behind the file's header
            for _ in range(20):
                cut += 16 + int.from_bytes(data[cut + 8:cut + 12], "little")
            first, second = pathlib.Path(folder, "first.pcap"), pathlib.Path(folder, "second.pcap")
            first.write_bytes(data[:cut])
            second.write_bytes(data[:24] + data[cut:])
            done = run("--consecutive", second, first)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"{first}: pcap, ", done.stdout)
            self.assertIn(f"{second}: ", done.stdout)
            self.assertIn(", from frame 21\n", done.stdout)
            report, whole = (json.loads(run("--json", *words).stdout) for words in (("--consecutive", first, second), (GOOD,)))
            self.assertEqual([(file["path"], file["frames_before"]) for file in report.pop("files")], [(str(first), 0), (str(second), 20)])
            self.assertEqual({**report, "capture": None}, {**whole, "capture": None})
            self.assertEqual(run("--consecutive", GOOD, first).returncode, 2)

    def test_pipe(self):
        for name in ("-", "/dev/stdin"):
            with subprocess.Popen(["cat", str(GOOD)], stdout=subprocess.PIPE) as cat:
                done = subprocess.run([ROCE_CHECK, name], stdin=cat.stdout, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("the capture holds", done.stdout)

    def test_live_captures_refuse_what_they_cannot_do(self):
        for arguments, message in (
                (("-i", "nowhere9"), "roce-check: nowhere9: "),
                (("-i", "lo", GOOD), "a live capture is judged alone"),
                (("-i", "lo", "--plot", "x.svg"), "--plot cannot be drawn"),
                (("-i", "lo", "--config", "nowhere.toml"), "nowhere.toml"),
                (("-i", "lo", "--consecutive"), "--consecutive is for files"),
                (("-i", "lo", "--interval", "5"), "the unit is missing"),
                (("-i", "lo", "--interval", "1us"), "from 10 ms to 40 days"),
                (("-i", "lo", "--duration", "41000h"), "--duration"),
                (("-i", "lo", "--buffer", "5"), "the unit is missing"),
                (("-i", "lo", "--buffer", "2GiB"), "from 1 MiB to 1 GiB"),
                ((GOOD, "--buffer", "2MiB"), "--buffer needs -i"),
                ((GOOD, "--duration", "1s"), "--duration needs -i"),
                ((GOOD, "--interval", "1s"), "--interval needs -i")):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(message, done.stderr, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_violations_name_rule_frame_and_time(self):
        done = run("--json", BAD)
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        first = report["violations"][0]
        self.assertEqual((first["rule"], first["check"], first["frame"]), ("A4.10", "acknowledged", 1))
        self.assertEqual(first["time_ps"], 647946000000)
        rules = {rule["rule"]: rule for rule in report["rules"] if rule["check"] == "acknowledged"}
        self.assertEqual(rules["A4.10"]["violations"], 2)

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder, "plot.svg")
            done = run("--quiet", "--plot", plot, GOOD)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            root = ElementTree.parse(plot).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
            self.assertIn("10.9.0.2 -> 10.9.0.1 QP 18", texts)
            self.assertTrue({"Mbit/s", "seconds", "sent", "ACK"} <= texts, texts)

    def test_plot_that_cannot_be_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--quiet", "--plot", pathlib.Path(folder, "none", "plot.svg"), GOOD)
            self.assertEqual(done.returncode, 2)
            self.assertIn("gnuplot could not draw plots", done.stderr)
            done = run("--quiet", "--plot", pathlib.Path(folder, "plot.svg"), DATA / "rxe_ud_send_1k.pcap")
            self.assertEqual(done.returncode, 2)
            self.assertIn("nothing to plot", done.stderr)
            done = run("--plot", pathlib.Path(folder, "plot.pdf"), GOOD)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("plot.pdf: a plot's name ends in .svg or .png", done.stderr)
            self.assertFalse(pathlib.Path(folder, "plot.pdf").exists())
            done = subprocess.run([ROCE_CHECK, "--plot", str(pathlib.Path(folder, "plot.svg")), str(GOOD)],
                                  env={"PATH": folder}, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("Debian: gnuplot-nox", done.stderr)

    def test_bad_arguments_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = pathlib.Path(folder, "empty.pcap")
            empty.touch()
            text = pathlib.Path(folder, "text.pcap")
            text.write_text("this is no capture at all\n", encoding="utf-8")
            config = pathlib.Path(folder, "bad.toml")
            config.write_text("format = 1\nnonsense = 2\n", encoding="utf-8")
            for arguments, message in (
                    ((), "capture is required"),
                    ((GOOD, "--nonsense"), "--nonsense"),
                    ((GOOD, "--cnp-interval", "-1"), "--cnp-interval"),
                    ((GOOD, "--cnp-interval", "1e300"), "--cnp-interval"),
                    ((GOOD, "--plot-queues", "0"), "--plot-queues"),
                    ((pathlib.Path(folder, "none.pcap"),), "No such file or directory"),
                    ((empty,), "the file is empty"),
                    ((text,), "neither pcap nor pcapng nor ERF"),
                    ((folder,), "not a file"),
                    ((GOOD, "--config", config), "nonsense"),
                    ((GOOD, "--config", pathlib.Path(folder, "none.toml")), "none.toml")):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, arguments)
                self.assertIn(message, done.stderr, arguments)
                self.assertEqual(done.stdout, "", arguments)

    @unittest.skipUnless(os.environ.get("UNDERSTUDY_CONFINES"), "built without libseccomp, or sanitized")
    def test_is_confined_once_its_files_are_open(self):
        """It waits for whoever reads its report: the pipe is full."""
        with tempfile.TemporaryDirectory() as folder:
            for more in ([], ["--config", CONFIG], ["--consecutive"], ["--plot", str(pathlib.Path(folder, "plot.svg"))]):
                reader, writer = os.pipe()
                os.set_blocking(writer, False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writer, bytes(1 << 12))
                os.set_blocking(writer, True)
                with subprocess.Popen([ROCE_CHECK, *more, str(GOOD)], stdout=writer, stderr=subprocess.DEVNULL) as process:
                    os.close(writer)
                    self.assertTrue(comes_to_be_confined(process), more)
                    os.close(reader)
                    process.wait(60)

    def test_help(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Examples: roce-check", done.stdout)


if __name__ == "__main__":
    unittest.main()
