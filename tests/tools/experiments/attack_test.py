#!/usr/bin/env python3
"""tools/experiments/attack at its smallest: a checker that names the rule passes, one that names nothing or all does not.

usage: attack_test.py ROCE_CHECK UNDERSTUDY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
ATTACK = ROOT / "tools/experiments/attack"
UNDERSTUDY = pathlib.Path(sys.argv.pop(2)).resolve()
ROCE_CHECK = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools/lib"))
import capture_edit  # noqa: E402

CAPTURES = ("rping", "VLAN")  # one that was recorded and one that is simulated here
RECORDING = ROOT / "tests/data/rxe/rxe_rping_3x1000.pcap"


def attack(only, *words):
    return subprocess.run([sys.executable, ATTACK, "--build", UNDERSTUDY.parents[1], "--only", only, "--captures", *CAPTURES, *map(str, words)],
                          capture_output=True, text=True, check=False)


class Edit(unittest.TestCase):
    def test_seals_as_linux_does(self):
        for frame in capture_edit.load(RECORDING).frames:
            if frame.packet:
                before = bytes(frame.data)
                frame.packet.seal()
                self.assertEqual(bytes(frame.data), before)

    def test_every_form_says_the_same(self):
        capture = capture_edit.load(RECORDING)
        reports = []
        with tempfile.TemporaryDirectory(prefix="attack-test-") as folder:
            for form in ("pcap", "pcapng", "counted"):
                path = pathlib.Path(folder, form)
                path.write_bytes(capture.as_form(form).bytes())
                done = subprocess.run([ROCE_CHECK, "--json", path], capture_output=True, text=True, check=False)
                report = json.loads(done.stdout)
                reports.append((report["frames"], report["duration_ps"], report["messages"], report["holds"]))
        self.assertEqual(len(set(map(str, reports))), 1, reports)
        self.assertTrue(reports[0][-1])


class Attack(unittest.TestCase):
    def test_found_and_not_accused(self):
        done = attack("TTL")  # one attack, and a change that breaks nothing
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| changed, but right |", done.stdout)
        self.assertIn("100.0 %", done.stdout)

    def test_checkers_that_name_nothing_or_everything(self):
        report = {"violations": [], "holds": True}
        loud = {"violations": [{"rule": "A1.2", "check": "headers", "text": "always"}], "holds": False}
        for said, status, words in ((report, 0, "missed ["), (loud, 1, "accused [")):
            with tempfile.TemporaryDirectory(prefix="attack-test-") as folder:
                checker = pathlib.Path(folder, "checker")
                checker.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\nexit {status}\n", encoding="utf-8")
                checker.chmod(0o755)
                done = attack("TTL", "--roce-check", checker)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)

    def test_bad_arguments(self):
        self.assertEqual(attack("no such attack").returncode, 2)
        self.assertEqual(attack("TTL", "--roce-check", "/nonexistent").returncode, 2)


if __name__ == "__main__":
    unittest.main()
