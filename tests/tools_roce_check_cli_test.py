#!/usr/bin/env python3
"""roce-check as a program: exit status, messages, JSON.    tools_roce_check_cli_test.py ROCE_CHECK"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROCE_CHECK = str(pathlib.Path(sys.argv.pop(1)).resolve())
DATA = pathlib.Path(__file__).parent / "data" / "rxe"
GOOD = DATA / "rxe_write_4k_mtu1024_rdmacm.pcap"
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
                    ((pathlib.Path(folder, "none.pcap"),), "No such file or directory"),
                    ((empty,), "the file is empty"),
                    ((text,), "neither pcap nor pcapng"),
                    ((folder,), "not a file"),
                    ((GOOD, "--config", config), "nonsense"),
                    ((GOOD, "--config", pathlib.Path(folder, "none.toml")), "none.toml")):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, arguments)
                self.assertIn(message, done.stderr, arguments)
                self.assertEqual(done.stdout, "", arguments)

    def test_help(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Example: roce-check", done.stdout)


if __name__ == "__main__":
    unittest.main()
