#!/usr/bin/env python3
"""The JSON Schema of reports fits what the program writes, and only that.

usage: ctrl_report_schema_test.py [REPORT.json...]   with files: says whether each fits the schema
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # the checkout may belong to another user

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema, expect_every_key_counts, load, objects  # noqa: E402

SCHEMA = Schema(ROOT / "ctrl/report/report.schema.json")
# Written by the report's own tests, which compare them byte by byte.
SAMPLES = sorted((ROOT / "tests/data/report").glob("*.json"))
FREE_NAMES = ("counters", "counts", "drops", "rc_events", "cm", "device_counters", "packets", "work")


class Fits(unittest.TestCase):
    def test_is_a_schema(self):
        SCHEMA.check()

    def test_fits_the_samples(self):
        self.assertGreaterEqual(len(SAMPLES), 2)
        for path in SAMPLES:
            self.assertEqual(SCHEMA.findings(load(path)), [], path)


class Mutations(unittest.TestCase):
    def setUp(self):
        self.sample = load(ROOT / "tests/data/report/full.json")

    def changed(self, path, change):
        return SCHEMA.changed(self.sample, path, change)

    def test_every_key(self):
        self.assertGreater(len(list(objects(self.sample, FREE_NAMES))), 10)
        expect_every_key_counts(self, SCHEMA, self.sample, FREE_NAMES)

    def test_other_schema(self):
        self.assertTrue(self.changed((), lambda o: o.update(schema="understudy-report/2")))

    def test_fraction_of_a_picosecond(self):
        self.assertTrue(self.changed((), lambda o: o.update(duration_ps=0.5)))

    def test_verdict_without_reason(self):
        self.assertTrue(
            self.changed(("verdict",), lambda o: o.update(faithful=False, reasons=[])))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        wrong = [f"{path}: {text}" for path in sys.argv[1:] for text in SCHEMA.findings(load(path))]
        print("\n".join(wrong) or "all fit the schema")
        sys.exit(1 if wrong else 0)
    unittest.main()
