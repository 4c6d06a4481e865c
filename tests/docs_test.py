#!/usr/bin/env python3
"""The tree's documents hold together, and the check does see documents that do not."""
import pathlib
import tempfile
import unittest

import docs_rules

ROOT = pathlib.Path(__file__).resolve().parent.parent

NCCL = "# 3 Data\n## 3.1 Credits\ntext\n### 3.10.2 Rings\n## Appendix H. Defaults\n# G Numbers\n## G.4 Trees\n"
RULES = "## A4 Responder\n* **A4.3** A check. (source)\n## A9.1 Header\n"
DESIGN = "### Rule 1: time\n### Rule 2: space\n"


def findings(files):
    """What the check says of a tree with these files (path -> text): [(file, line, text)]."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return docs_rules.check(folder)


class Tree(unittest.TestCase):
    def test_holds_together(self):
        self.assertEqual(docs_rules.check(ROOT), [])

    def test_is_seen_at_all(self):
        self.assertGreater(len(docs_rules.documents(ROOT)), 15)
        texts = [docs_rules.read(f) for f in docs_rules.sources(ROOT)]
        sections = [c for t in texts for c in docs_rules.CITATION.findall(t) if c[0] == "docs/nccl" and c[2]]
        self.assertGreater(len(sections), 80)
        self.assertGreater(sum(len(docs_rules.RULE.findall(t)) for t in texts), 200)
        self.assertGreater(sum(len(docs_rules.DESIGN_RULE.findall(t)) for t in texts), 5)


class Documents(unittest.TestCase):
    def wrong(self, text, line=1, **others):
        found = findings({"docs/a.md": text, **others})
        self.assertEqual([(f[0], f[1]) for f in found], [("docs/a.md", line)], found)

    def right(self, text, others=None):
        self.assertEqual(findings({"docs/a.md": text, **(others or {})}), [])

    def test_links_to_files(self):
        self.wrong("\n[b](b.md)\n", 2)
        self.wrong("![picture](b.png)")
        self.wrong("[b](../ctrl/b.h)")
        self.right("[b](sub/b.md) [c](../ctrl) [web](https://example.org/x) [mail](mailto:a@b.c)",
                   {"docs/sub/b.md": "", "ctrl/b.h": ""})

    def test_links_to_headings(self):
        self.wrong("# One\n[two](#two)\n", 2)
        self.wrong("[b](b.md#23-two)", **{"docs/b.md": "## 2.3 One\n"})
        self.right("# What `it` is, *really*\n[a](#what-it-is-really) [b](b.md#23-two-threes) [c](b.md#23-two-threes-1)",
                   {"docs/b.md": "## 2.3 Two, threes\n## 2.3 Two threes\n"})

    def test_headings_in_code_are_none(self):
        self.wrong("```\n# one\n```\n[one](#one)\n", 4)

    def test_links_in_code_are_none(self):
        self.right("`[a](b.md)`\n```\n[a](b.md)\n```\n")

    def test_top_level_documents(self):
        for name in ("README.md", "CONTRIBUTING.md"):
            found = findings({name: "[b](docs/b.md)"})
            self.assertEqual([(f[0], f[1]) for f in found], [(name, 1)])

    def test_outside_of_the_repository(self):
        self.wrong("See /home/someone/notes.")
        self.wrong("Run `/home/somebody/understudy/tools/check`.")
        self.wrong("```\ncd /root\n```\n", 2)
        self.wrong("[a](../../elsewhere/a.md)")
        self.right("`/dev/net/tun`, /etc/passwd, work/home, https://example.org/home/a, a/root/b")

    def test_paths_of_the_repository(self):
        self.wrong("`tools/check --all`")
        self.wrong("`dataplane/rc/qp.h`")
        self.right("`tools/check --all`, `tools/`, `transport/net_ib.cc`, `ctrl/*.cc`", {"tools/check": "#!/bin/sh\n"})

    def test_old_names(self):
        self.assertEqual(findings({"docs/decisions/names.md": "`dataplane/old.h`"}), [])
        self.assertNotEqual(findings({"docs/decisions/names.md": "[old](old.md)"}), [])


class Sources(unittest.TestCase):
    DOCUMENTS = {"docs/nccl/a.md": NCCL, "docs/rocev2.md": RULES, "docs/design_rules.md": DESIGN}

    def wrong(self, text, line=1, path="ctrl/a.h"):
        found = findings({**self.DOCUMENTS, path: text})
        self.assertEqual([(f[0], f[1]) for f in found], [(path, line)], found)

    def right(self, text, path="ctrl/a.h"):
        self.assertEqual(findings({**self.DOCUMENTS, path: text}), [])

    def test_documents(self):
        self.wrong("\n// See docs/b.md.\n", 2)
        self.wrong("# docs/nothing 3.1", path="tools/run.py")
        self.wrong("#!/bin/sh\n# docs/nothing\n", 2, path="tools/run")
        self.wrong("// docs/nccl/a.md#nothing")
        self.right("// docs/nccl/a.md#31-credits, docs/nccl/a.md, docs/rocev2.md; other/docs/b.md.")

    def test_sections(self):
        self.wrong("// (docs/nccl 3.2)")
        self.wrong("// (docs/nccl 3.1 to 3.4)")
        self.wrong("// (docs/nccl 3.1, 3.10, 4)")
        self.wrong("// docs/nccl 3.1-3.11")
        self.wrong("// docs/nccl appendix D")
        self.wrong("// docs/nccl G.5")
        self.wrong("/// (docs/nccl\n/// 3.2)")
        self.wrong("// docs/nccl 3.1\n// and 3.2")
        self.wrong("// docs/nccl 3.1 (credits), 3.2")
        self.right("// (docs/nccl 3, 3.1, 3.10 to 3.10.2 and appendix H, G.4); A rank has 5. (docs/nccl\n/// 3.1), 6")

    def test_conformance_rules(self):
        self.wrong("// rule A4.4")
        self.wrong("// rules A4.3 and A5")
        self.wrong("// (rule\n// A4.4)")
        self.wrong("// rules: A4.3 A4.4", path="tests/a_test.cc")
        self.right("// rule A4, rules A4.3 and A9.1; rules: A4.3 A9.1")

    def test_design_rules(self):
        self.wrong("// (design rule 3)")
        self.wrong("// design rules 1 to 3")
        self.right("// design rule 1, design rules 1 to 2")

    def test_list_of_conformance_rules(self):
        listed = '[A4]\n3 = "a check"\n[A9]\n1 = "a header"\n'
        path = "tests/conformance/rules.toml"
        self.right(listed, path)
        self.wrong(listed + '2 = "no document has it"\n', path=path)
        found = findings({**self.DOCUMENTS, path: '[A4]\n3 = "a check"\n[out_of_scope]\n"A4.3" = "why"\n'})
        self.assertEqual([f[2] for f in found], [f"rule A9.1 is not in {path}"])


if __name__ == "__main__":
    unittest.main()
