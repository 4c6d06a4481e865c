#!/usr/bin/env python3
"""Manual pages and completion from --help: of two programs, and of layouts they do not have.    help_pages_test.py UNDERSTUDY ROCE_CHECK"""
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROCE_CHECK = str(pathlib.Path(sys.argv.pop()).resolve())
UNDERSTUDY = str(pathlib.Path(sys.argv.pop()).resolve())
PAGES = str(pathlib.Path(__file__).resolve().parents[3] / "tools/lib/help_pages.py")


def made(*words):
    return subprocess.run([sys.executable, PAGES, *words], capture_output=True, text=True, check=True).stdout


def completed(script, *words):
    """What bash offers for the last of these words."""
    typed = " ".join(shlex.quote(w) for w in words)
    ask = f"{script}\nCOMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n_{words[0].replace('-', '_')}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


class Man(unittest.TestCase):
    def test_has_every_subcommand_and_option(self):
        page = made("man", "1", "7.8.9", "understudy", UNDERSTUDY)
        self.assertIn('"understudy 7.8.9"', page)
        for words in ('.SH "UNDERSTUDY SIMULATE"', '.SH "UNDERSTUDY STATUS"', r"\fB\-\-series\-interval TEXT\fR", r"\fB\-h,\-\-help\fR",
                      "Virtual time from one sample to the next"):
            self.assertIn(words, page)
        self.assertNotIn(UNDERSTUDY, page)

    def test_groff_has_nothing_to_say(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff")
        for name, program in (("understudy", UNDERSTUDY), ("roce-check", ROCE_CHECK)):
            page = made("man", "1", "1.0", name, program)
            done = subprocess.run(["groff", "-man", "-ww", "-Tascii"], input=page, capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "")
            self.assertIn("OPTIONS", done.stdout)

    def test_other_text_stands_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "p")
            program.write_text("#!/bin/sh\necho 'usage: p [FILE]'\necho '.not a request \\ -x'\n", encoding="utf-8")
            program.chmod(0o755)
            page = made("man", "1", "1.0", "p", str(program))
        self.assertIn("usage: p [FILE]\n\\&.not a request \\e \\-x\n", page)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = made("completion", "understudy", UNDERSTUDY)
        cls.roce_check = made("completion", "roce-check", ROCE_CHECK)

    def test_subcommands(self):
        self.assertEqual(completed(self.script, "understudy", "s"), ["schedule", "simulate", "status"])

    def test_options_are_the_subcommand_s(self):
        self.assertEqual(completed(self.script, "understudy", "simulate", "--series-"), ["--series-interval", "--series-links", "--series-flows"])
        self.assertEqual(completed(self.script, "understudy", "run", "x.toml", "--lin"), ["--linger"])
        self.assertEqual(completed(self.script, "understudy", "check", "--lin"), [])

    def test_files_and_other_values(self):
        own = str(pathlib.Path(__file__).resolve())
        self.assertEqual(completed(self.script, "understudy", "simulate", own[:-3]), [own])
        self.assertEqual(completed(self.script, "understudy", "simulate", "--report", own[:-3]), [own])
        self.assertEqual(completed(self.script, "understudy", "simulate", "--seed", own[:-3]), [], "a number")

    def test_program_without_subcommands(self):
        self.assertEqual(completed(self.roce_check, "roce-check", "--pl"), ["--plot", "--plot-queues"])
        own = str(pathlib.Path(__file__).resolve())
        self.assertEqual(completed(self.roce_check, "roce-check", own[:-3]), [own])


if __name__ == "__main__":
    unittest.main()
