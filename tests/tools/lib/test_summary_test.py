#!/usr/bin/env python3
"""tools/lib/test_summary.py: what it says of logs of `meson test` and of steps that are no tests."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/lib"))
import test_summary  # pylint: disable=wrong-import-position


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="understudy-summary-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self, *tests):
        path = self.folder / "testlog.json"
        path.write_text("".join(json.dumps(test) + "\n" for test in tests), encoding="utf-8")
        return f"plain={path}"

    def output(self, text):
        path = self.folder / "step.txt"
        path.write_text(text, encoding="utf-8")
        return path

    def said(self, *arguments):
        """(status, the lines that it printed)"""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = test_summary.main([*map(str, arguments)])
        return status, out.getvalue().splitlines()

    def test_all_is_well(self):
        log = self.log({"name": "a", "result": "OK", "returncode": 0}, {"name": "b", "result": "SKIP", "stdout": "no device\n"})
        self.assertEqual(self.said(log), (0, ["check: plain: b: skipped: no device", "1 passed, 0 failed, 1 skipped"]))

    def test_the_last_lines_name_all_that_failed(self):
        log = self.log({"name": "a", "result": "FAIL", "returncode": 1, "stdout": "".join(f"line {i}\n" for i in range(100))})
        step = self.output("much before\n" * 100 + "ctrl/a.cc:3: suspicious [x]\n")
        status, lines = self.said("--failed", f"clang-tidy={step}", "--failed", "format", log)
        self.assertEqual(status, 1)
        self.assertEqual(lines[-6:], ["    ctrl/a.cc:3: suspicious [x]", "check: format: FAILED", "check: failed: clang-tidy",
                                      "check: failed: format", "check: failed: plain: a", "0 passed, 3 failed, 0 skipped"])
        self.assertEqual(lines.count("    line 99"), 1)
        self.assertNotIn("    line 39", lines)
        self.assertEqual(lines.count("    much before"), 19)


if __name__ == "__main__":
    unittest.main()
