#!/usr/bin/env python3
"""The JSON Schema of reports fits what the program writes, and only that.

usage: ctrl_report_schema_test.py [REPORT.json...]   with files: says whether each fits the schema
"""
import copy
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "ctrl/report/report.schema.json"
# Written by the report's own tests, which compare them byte by byte.
SAMPLES = sorted((ROOT / "tests/data/report").glob("*.json"))

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed (Debian package python3-jsonschema)")
    sys.exit(77)  # meson: skipped

VALIDATOR = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def findings(report):
    return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in VALIDATOR.iter_errors(report)]


def load(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


class Schema(unittest.TestCase):
    def test_is_a_schema(self):
        VALIDATOR.check_schema(VALIDATOR.schema)

    def test_fits_the_samples(self):
        self.assertGreaterEqual(len(SAMPLES), 2)
        for path in SAMPLES:
            self.assertEqual(findings(load(path)), [], path)


class Mutations(unittest.TestCase):
    """Every key of the full sample is needed, and no other one is allowed."""

    def setUp(self):
        self.sample = load(ROOT / "tests/data/report/full.json")

    def objects(self, value, path=()):
        """Paths to all objects whose keys the schema names (counters have free names)."""
        if isinstance(value, dict):
            if path and path[-1] in ("counters", "drops", "rc_events", "cm", "device_counters"):
                return
            yield path
            for key, inner in value.items():
                yield from self.objects(inner, path + (key,))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self.objects(inner, path + (index,))

    def changed(self, path, change):
        report = copy.deepcopy(self.sample)
        target = report
        for part in path:
            target = target[part]
        change(target)
        return findings(report)

    def test_missing_key(self):
        for path in self.objects(self.sample):
            target = self.sample
            for part in path:
                target = target[part]
            for key in target:
                self.assertTrue(self.changed(path, lambda o, k=key: o.pop(k)), (path, key))

    def test_unknown_key(self):
        paths = list(self.objects(self.sample))
        self.assertGreater(len(paths), 10)
        for path in paths:
            self.assertTrue(self.changed(path, lambda o: o.update(surprise=1)), path)

    def test_other_schema(self):
        self.assertTrue(self.changed((), lambda o: o.update(schema="understudy-report/2")))

    def test_fraction_of_a_picosecond(self):
        self.assertTrue(self.changed((), lambda o: o.update(duration_ps=0.5)))

    def test_verdict_without_reason(self):
        self.assertTrue(
            self.changed(("verdict",), lambda o: o.update(faithful=False, reasons=[])))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        wrong = [f"{path}: {text}" for path in sys.argv[1:] for text in findings(load(path))]
        print("\n".join(wrong) or "all fit the schema")
        sys.exit(1 if wrong else 0)
    unittest.main()
