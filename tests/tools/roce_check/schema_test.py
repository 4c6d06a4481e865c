#!/usr/bin/env python3
"""The JSON Schema of roce-check's report fits what the program writes, and only that.

usage: tools_roce_check_schema_test.py ROCE_CHECK
"""
import json
import subprocess
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # the checkout may belong to another user

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema, expect_every_key_counts  # noqa: E402

ROCE_CHECK = sys.argv.pop(1)
SCHEMA = Schema(ROOT / "tools/roce_check/report.schema.json")
RECORDINGS = sorted((ROOT / "tests/data/rxe").glob("*.pcap"))


def report(*words):
    done = subprocess.run([ROCE_CHECK, "--json", *map(str, words)], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


class Fits(unittest.TestCase):
    def test_is_a_schema(self):
        SCHEMA.check()

    def test_recordings(self):
        reports = [report(capture) for capture in RECORDINGS]
        for capture, seen in zip(RECORDINGS, reports):
            self.assertEqual(SCHEMA.findings(seen), [], capture)
        # Among them there is one of each kind.
        self.assertGreater(len(reports), 10)
        self.assertTrue(any(r["violations"] for r in reports))
        self.assertTrue(any(not r["connections"] for r in reports))


    def test_consecutive_files(self):
        seen = report("--consecutive", RECORDINGS[0])
        self.assertEqual((SCHEMA.findings(seen), len(seen["files"])), ([], 1))
        seen["files"][0]["more"] = 1
        self.assertNotEqual(SCHEMA.findings(seen), [])


class Mutations(unittest.TestCase):
    def setUp(self):
        self.sample = report(ROOT / "tests/data/rxe/rxe_send_rnr_nak.pcap")
        # Enough of what there is many of.
        self.sample["rules"] = self.sample["rules"][:2]
        self.sample["checks"] = self.sample["checks"][:2]

    def test_every_key(self):
        self.assertTrue(self.sample["violations"] and self.sample["connections"])
        expect_every_key_counts(self, SCHEMA, self.sample)

    def test_other_schema(self):
        self.assertTrue(SCHEMA.changed(self.sample, (), lambda o: o.update(schema="understudy-roce-check/1")))

    def test_a_direction_that_was_not_captured(self):
        def forget(connection):
            for key in ("src", "dst", "dest_qpn", "rate"):
                del connection["reverse"][key]
        self.assertEqual(SCHEMA.changed(self.sample, ("connections", 0), forget), [])


if __name__ == "__main__":
    unittest.main()
