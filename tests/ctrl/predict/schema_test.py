#!/usr/bin/env python3
"""The JSON Schema of `understudy predict --json` fits what the program writes, and only that.

usage: ctrl_predict_schema_test.py UNDERSTUDY
"""
import json
import subprocess
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True  # the checkout may belong to another user

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from json_schema import ROOT, Schema, expect_every_key_counts  # noqa: E402

UNDERSTUDY = sys.argv.pop(1)
SCHEMA = Schema(ROOT / "ctrl/report/prediction.schema.json")


def prediction(config):
    done = subprocess.run([UNDERSTUDY, "predict", "--json", str(ROOT / "configs" / config)],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Fits(unittest.TestCase):
    def test_is_a_schema(self):
        SCHEMA.check()

    def test_configurations(self):
        for config in ("predict.toml", "quickstart.toml", "congested_node.toml", "training.toml"):
            self.assertEqual(SCHEMA.findings(prediction(config)), [], config)

    def test_every_key(self):
        sample = prediction("predict.toml")
        sample["jobs"] = sample["jobs"][:1]  # with algorithms
        sample["jobs"][0]["rows"] = sample["jobs"][0]["rows"][:1]
        sample["jobs"][0]["iterations"] = prediction("training.toml")["jobs"][0]["iterations"]
        expect_every_key_counts(self, SCHEMA, sample)

    def test_other_schema(self):
        sample = prediction("predict.toml")
        sample["schema"] = "understudy-prediction/2"
        self.assertTrue(SCHEMA.findings(sample))


if __name__ == "__main__":
    unittest.main()
