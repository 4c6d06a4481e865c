#!/usr/bin/env python3
"""tools/lib/lint.py in a scratch repository: which files it takes, what it calls unclean, and what it says without git."""
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/lib"))
import lint  # pylint: disable=wrong-import-position

CLEAN = "int twice(int a) { return 2 * a; }\n"
# bugprone-suspicious-semicolon: the body of this `if` is empty.
BUG = "int f(int a) {\n  if (a > 0);\n  return a;\n}\n"


class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="understudy-lint-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.addCleanup(setattr, lint, "ROOT", lint.ROOT)
        lint.ROOT = self.root
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(pathlib.Path(__file__).resolve().parents[3] / name, self.root)
        self.write("ctrl/a.cc", '#include "ctrl/a.h"\n\n' + CLEAN)
        self.write("ctrl/a.h", "int twice(int a);\n")
        self.write("ctrl/b.cc", '#include "ctrl/b_only.h"\n' + CLEAN)
        self.write("ctrl/b_only.h", "int once(int a);\n")
        self.write("tests/t.cc", CLEAN)
        self.write("tests/data/theirs.h", "int   not_ours ;\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def git(self, *words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *identity, "-C", str(self.root), *words], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "a change")

    def repository(self):
        self.git("init", "-q")
        self.commit()

    def commands(self, *flags):
        """A build folder whose compiler was g++."""
        build = self.root / "build"
        build.mkdir(exist_ok=True)
        (build / "compile_commands.json").write_text(json.dumps(
            [{"directory": str(build), "file": f"../{name}", "command": " ".join(("c++", "-I..", *flags, "-c", f"../{name}"))}
             for name in ("ctrl/a.cc", "ctrl/b.cc", "tests/t.cc")]), encoding="utf-8")
        return build

    def said(self, function, *arguments):
        """(status, everything it printed)"""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = function(*arguments)
        return status, out.getvalue()

    def test_files_are_the_tree_s_own(self):
        want = ["ctrl/a.cc", "ctrl/a.h", "ctrl/b.cc", "ctrl/b_only.h", "tests/t.cc"]
        self.assertEqual(sorted(lint.sources()), want, "without git")
        self.repository()
        self.write("ctrl/new.h", "\n")
        self.assertEqual(sorted(lint.sources()), sorted(want + ["ctrl/new.h"]))

    def test_changes_count_from_where_the_branch_left_main(self):
        self.repository()
        self.git("checkout", "-qb", "topic")
        self.write("ctrl/a.cc", CLEAN)
        self.commit()
        self.write("tests/t.cc", "\n" + CLEAN)
        self.commit()
        self.write("ctrl/new.cc", CLEAN)
        self.assertEqual(lint.changed(lint.base()), ["ctrl/a.cc", "ctrl/new.cc", "tests/t.cc"])

    def test_on_main_the_last_commit_counts(self):
        self.repository()
        self.write("ctrl/a.cc", CLEAN)
        self.commit()
        self.write("tests/t.cc", "\n" + CLEAN)
        self.commit()
        self.assertEqual(lint.changed(lint.base()), ["tests/t.cc"])

    def test_headers_are_seen_through_a_file_that_includes_them(self):
        compiled = ["ctrl/a.cc", "ctrl/b.cc"]
        self.assertEqual(lint.units_of(["ctrl/a.h", "ctrl/b_only.h"], compiled), ["ctrl/a.cc", "ctrl/b.cc"])
        self.assertEqual(lint.units_of(["ctrl/b_only.h"], compiled), ["ctrl/b.cc"])

    @unittest.skipIf(shutil.which("clang-format") is None, "no clang-format")
    def test_format(self):
        self.assertEqual(lint.format_all(False), 0)
        comment = "// A comment of more than a hundred columns, whose lines nobody but a person breaks: a table stays a table, and so on.\n"
        self.write("tests/t.cc", comment + "int  twice( int a ){return 2*a;}\n")
        self.assertEqual(lint.format_all(False), 1)
        self.assertEqual(lint.format_all(True), 0)
        self.assertEqual((self.root / "tests/t.cc").read_text(encoding="utf-8"), comment + CLEAN)

    @unittest.skipIf(shutil.which("clang-tidy") is None, "no clang-tidy")
    def test_tidy_of_a_build_by_gcc(self):
        build = self.commands("-mmemcpy-strategy=unrolled_loop:256:noalign,libcall:-1:noalign")
        self.repository()
        self.write("ctrl/b.cc", BUG)
        status, text = self.said(lint.tidy, build, False, None, 0)
        self.assertEqual(status, 1, text)
        self.assertIn("bugprone-suspicious-semicolon", text)
        self.assertIn("1 of 1 files looked at, 1 findings", text)
        self.write("ctrl/b.cc", CLEAN + CLEAN.replace("twice", "again"))
        self.assertEqual(self.said(lint.tidy, build, False, None, 0)[0], 0)
        status, text = self.said(lint.tidy, build, True, None, 0)
        self.assertEqual(status, 0, text)
        self.assertIn("all files: 2 of 2 files looked at", text)

    @unittest.skipIf(shutil.which("clang-tidy") is None, "no clang-tidy")
    def test_findings_come_again_at_the_end_each_once(self):
        build = self.commands()
        self.write("ctrl/a.h", BUG.replace("int f", "inline int in_a_header"))
        self.write("ctrl/b.cc", '#include "ctrl/a.h"\n' + BUG)
        status, text = self.said(lint.tidy, build, True, None, 0)
        self.assertEqual(status, 1, text)
        *_, first, second, summary = text.splitlines()
        self.assertTrue(first.startswith("lint: ctrl/a.h:2: ") and second.startswith("lint: ctrl/b.cc:3: "), text)
        self.assertIn("2 of 2 files looked at, 2 findings", summary)

    @unittest.skipIf(shutil.which("clang-tidy") is None, "no clang-tidy")
    def test_files_that_do_not_go_together_are_looked_at_alone(self):
        build = self.commands()
        self.write("ctrl/b.cc", CLEAN + BUG)
        self.write("ctrl/a.cc", CLEAN)
        status, text = self.said(lint.tidy, build, True, None, 0)
        self.assertEqual(status, 1, text)
        self.assertIn("2 of 2 files looked at, 1 findings", text)
        self.write("ctrl/b.cc", CLEAN + "int g() { return nothing; }\n")
        status, text = self.said(lint.tidy, build, True, None, 0)
        self.assertEqual(status, 1, text)
        self.assertIn("use of undeclared identifier", text)

    def test_findings_are_named_from_the_root(self):
        texts = [f"../../ctrl/a.h:3:1: error: odd [x,-warnings-as-errors]\n  int a;\n{lint.ROOT}/build/../ctrl/a.h:3:9: error: odd [x]\n"]
        self.assertEqual(lint.in_lines(texts), ["ctrl/a.h:3: odd [x]"])
        self.assertEqual(lint.in_lines(["clang-tidy: killed"]), ["clang-tidy: killed"])

    def test_a_group_is_of_one_target(self):
        def of(file, target):
            return {"directory": "/b", "file": f"../{file}", "command": f"c++ -I{target} -MF {target}/x.d -o {target}/x.o -c ../{file}"}

        files = [f"ctrl/f{i}.cc" for i in range(7)]
        commands = {file: of(file, "t1.p" if i != 1 else "t2.p") for i, file in enumerate(files)}
        self.assertEqual(lint.in_groups(files, commands), [["ctrl/f0.cc", *files[2:6]], ["ctrl/f1.cc"], ["ctrl/f6.cc"]])

    def test_without_git_nothing_is_known_to_have_changed(self):
        status, text = self.said(lint.tidy, self.commands(), False, None, 0)
        self.assertEqual(status, 0)
        self.assertIn("skipped: git does not say what has changed", text)

    def test_without_a_build(self):
        self.assertEqual(self.said(lint.tidy, self.root / "build", True, None, 0)[0], 2)


if __name__ == "__main__":
    unittest.main()
