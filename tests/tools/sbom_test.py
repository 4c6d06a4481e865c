#!/usr/bin/env python3
"""The list of dependencies holds against meson.build files and tools/packages, and the check sees one that does not."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SBOM = ROOT / "tools/sbom"
COPIED = ["meson.build", "tools/packages", "tools/lib/dependencies.toml"]
LICENCES = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "EPL-1.0", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-or-later",
            "ISC", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-or-later", "Linux-OpenIB", "MIT", "PSF-2.0", "gnuplot"}
EXCEPTIONS = {"GCC-exception-3.1", "LLVM-exception", "Linux-syscall-note"}


def run(*words):
    return subprocess.run([sys.executable, SBOM, *words], capture_output=True, text=True, timeout=100, check=False)


class Tree(unittest.TestCase):
    def test_list_holds(self):
        done = run("--check")
        self.assertEqual((done.returncode, done.stdout), (0, "sbom: the list holds\n"), done.stderr)

    def test_table_is_the_list_s(self):
        self.assertEqual(run("--table", "-").stdout, (ROOT / "docs/dependencies.md").read_text(encoding="utf-8"))


class Changed(unittest.TestCase):
    """A tree with all of this one's meson.build files, one of them other."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        files = {path.relative_to(ROOT) for top in ("dataplane", "collective_model", "ctrl", "tools", "tests")
                 for path in (ROOT / top).rglob("meson.build")}
        for file in files | set(map(pathlib.Path, COPIED)):
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, self.root / file)

    def change(self, file, old, new):
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def complaints(self):
        done = run("--check", "--root", self.root)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stdout

    def test_copy_holds(self):
        done = run("--check", "--root", self.root)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_new_dependency(self):
        for line in ("zstd_dep = dependency('libzstd')", "m = meson.get_compiler('cpp').find_library('zstd', required: false)",
                     "meson.get_compiler('cpp').has_header('zstd.h')"):
            path = self.root / "ctrl/meson.build"
            before = path.read_text(encoding="utf-8")
            path.write_text(before + line + "\n", encoding="utf-8")
            self.assertRegex(self.complaints(), r"ctrl/meson\.build needs (lib)?zstd(\.h)?, which is not in tools/lib/dependencies\.toml")
            path.write_text(before, encoding="utf-8")

    def test_dependency_that_is_gone(self):
        self.change("meson.build", "dependency('libpcap')", "disabler()")
        self.assertIn("no meson.build needs libpcap any more", self.complaints())

    def test_packages(self):
        self.change("tools/packages", "libpcap-dev", "libzstd-dev")
        said = self.complaints()
        self.assertIn("tools/packages has libzstd-dev, which is not in", said)
        self.assertIn("tools/packages lacks libpcap-dev, which is in", said)


class Spdx(unittest.TestCase):
    def test_document(self):
        document = json.loads(run("--spdx", "-").stdout)
        self.assertEqual((document["spdxVersion"], document["dataLicense"]), ("SPDX-2.3", "CC0-1.0"))
        ids = [package["SPDXID"] for package in document["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        named = {info["licenseId"] for info in document["hasExtractedLicensingInfos"]}
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            words = set(re.findall(r"[\w.-]+", package["licenseDeclared"])) - {"AND", "OR", "WITH"}
            self.assertLessEqual(words, LICENCES | EXCEPTIONS | named, package["name"])
        self.assertEqual({end for relation in document["relationships"] for end in (relation["spdxElementId"], relation["relatedSpdxElement"])},
                         set(ids) | {"SPDXRef-DOCUMENT"})
        linked = {relation["relatedSpdxElement"] for relation in document["relationships"] if relation["relationshipType"] == "DYNAMIC_LINK"}
        self.assertLessEqual({"SPDXRef-libseccomp2", "SPDXRef-libisal2", "SPDXRef-libpcap0.8"}, linked)

    def test_where_it_cannot_be_written(self):
        done = run("--spdx", "/nowhere/file.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/file.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
