"""The image's example: an unmodified verbs program among 1,000 emulated ranks, with a drill that passes and one that fails. It runs in
a root filesystem that cannot be written, as an ordinary user without capabilities, with its own network and no huge pages."""

import re
import subprocess
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where stage is
import stage  # noqa: E402

LONGEST = 240  # seconds
CONTAINER = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--dev-bind", "/dev/net/tun", "/dev/net/tun", "--proc", "/proc",
             "--tmpfs", "/tmp", "--unshare-all", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--die-with-parent"]


def missing():
    """What the example needs of a machine, or None."""
    if not Path("/dev/net/tun").is_char_device():
        return "/dev/net/tun"
    if subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], check=False, capture_output=True).returncode != 0:
        return "user namespaces"
    return None


class Example(stage.Stage):
    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(f"it needs {why}")

    def example(self, kind):
        """The example's status, what it said, and JUnit's drill."""
        run = stage.favoured([*CONTAINER, "--bind", str(self.folder), "/tmp/out", str(stage.ROOT / "tools/drill_example"), "--build",
                              str(self.build), "--out", "/tmp/out", kind], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.kill)
        said = run.communicate(timeout=LONGEST)[0]
        junit = self.folder / "drill.xml"
        self.assertTrue(junit.exists(), said)
        drill = next(case for case in ElementTree.parse(junit).getroot().iter("testcase") if case.get("name") == "leaf reboots")
        return run.returncode, said, drill

    def test_a_program_that_repeats_soon_passes(self):
        status, said, drill = self.example("pass")
        self.assertIsNone(drill.find("failure"), said)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"(?m)^ *1024 +[1-9]\d+ ")  # perftest's row
        self.assertIn("drill 'leaf reboots' at 12.00 s: passed", said)

    def test_a_program_that_waits_long_fails(self):
        status, said, drill = self.example("fail")
        self.assertIsNotNone(drill.find("failure"), said)
        self.assertEqual(status, stage.NOT_FAITHFUL, said)
        self.assertRegex(said, re.compile(r"drill 'leaf reboots' at 12.00 s: FAILED|failed", re.I))

    def test_what_is_missing_is_named(self):
        ran = subprocess.run([stage.ROOT / "tools/drill_example", "--build", "/nowhere"], check=False, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 125)
        self.assertIn("no /nowhere/ctrl/understudy", ran.stderr)
        ran = subprocess.run([stage.ROOT / "tools/drill_example", "perhaps"], check=False, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)


if __name__ == "__main__":
    stage.main(live=False)
