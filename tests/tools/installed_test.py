#!/usr/bin/env python3
"""`meson install` into a scratch folder: what is there works from there.    installed_test.py BUILD"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


def option(name):
    for entry in json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text(encoding="utf-8")):
        if entry["name"] == name:
            return entry["value"]
    raise KeyError(name)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="understudy-installed-")
        cls.addClassCleanup(folder.cleanup)
        # Where other things are not wanted, meson installs what has been built.
        subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--destdir", folder.name],
                       capture_output=True, text=True, check=True)
        cls.prefix = pathlib.Path(folder.name) / option("prefix").lstrip("/")
        cls.libraries = cls.prefix / option("libdir") / "understudy"

    def run_it(self, *words, **more):
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=100, check=False, **more)

    def test_quickstart_of_the_installed_program(self):
        done = self.run_it(self.prefix / "bin/understudy", "simulate", self.prefix / "share/understudy/configs/quickstart.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verdict: faithful", done.stdout)

    def test_programs(self):
        for name in ("understudy", "roce-check", "nccl-decode"):
            done = self.run_it(self.prefix / "bin" / name, "--version")
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, name))
            self.assertIn("--help", (self.prefix / f"share/bash-completion/completions/{name}.bash").read_text(encoding="utf-8"))
            self.assertTrue((self.prefix / f"share/man/man1/{name}.1").stat().st_size > 0)

    def test_pkg_config_knows_where_libraries_are(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        env = os.environ | {"PKG_CONFIG_LIBDIR": str(self.prefix / option("libdir") / "pkgconfig")}
        for variable in ("soft_nic", "profiler_plugin", "configs", "schemas"):
            done = self.run_it("pkg-config", f"--define-variable=prefix={self.prefix}", f"--variable={variable}", "understudy", env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(pathlib.Path(done.stdout.strip()).exists(), done.stdout)

    def test_soft_nic_is_found_from_where_it_is(self):
        """Without a socket nothing can start: the error comes after the library was found."""
        done = self.run_it(self.prefix / "bin/with_soft_nic", "--socket", "/nowhere.sock", "true")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("no socket /nowhere.sock", done.stderr)
        library = self.libraries / "libunderstudy_soft_nic.so"
        library.rename(library.with_suffix(".moved"))
        done = self.run_it(self.prefix / "bin/with_soft_nic", "--socket", "/nowhere.sock", "true")
        library.with_suffix(".moved").rename(library)
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"no {library.resolve()}", done.stderr)

    def test_stand_in_does_not_hide_the_system_s_libibverbs(self):
        self.assertTrue((self.libraries / "libibverbs.so.1").exists())
        self.assertEqual(list((self.prefix / option("libdir")).glob("libibverbs*")), [])

    def test_schemas(self):
        for name in ("report", "prediction", "roce_check"):
            self.assertIn("$schema", json.loads((self.prefix / f"share/understudy/schemas/{name}.schema.json").read_text(encoding="utf-8")))

    def test_debian_package_has_the_version(self):
        first = (ROOT / "debian/changelog").read_text(encoding="utf-8").splitlines()[0]
        done = self.run_it(self.prefix / "bin/understudy", "--version")
        self.assertEqual(first.split()[1].strip("()"), done.stdout.split()[1])

    def test_nothing_is_left_of_the_checkout(self):
        """No installed text names the folder it was built from."""
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.suffix in (".pc", ".bash", ".1", "") and not path.is_symlink():
                content = path.read_bytes()
                if not content.startswith(b"\x7fELF"):
                    self.assertNotIn(str(BUILD).encode(), content, path)


if __name__ == "__main__":
    unittest.main()
