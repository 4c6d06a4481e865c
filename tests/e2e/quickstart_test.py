"""tools/quickstart after its set-up, with a small ring, and the real node's stand-in that is the fastest to have: a soft NIC."""

import subprocess
import sys

import stage


class Quickstart(stage.Stage):
    def test_a_soft_nic_as_the_real_node(self):
        out = self.folder / "out"
        out.mkdir()
        config = self.ring(sizes='["4KiB", "64KiB"]')
        done = subprocess.run([sys.executable, stage.ROOT / "tools/lib/ring_run.py", "--programs", self.build, "--config", config, "--out",
                               out, "--kind", "soft"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if "no soft NIC on this machine" in done.stdout:
            self.skipTest(done.stdout)
        self.assertIn(done.returncode, (0, stage.NOT_FAITHFUL), done.stdout)
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)  # every element of every result was right
        self.assertIn("real node: ring_node on a soft NIC of this host\n", done.stdout)
        self.assertIn("all results verified, the capture holds; ", done.stdout)
        self.assert_holds(out / "run.pcapng", "--config", out / "ring.toml")

    def test_a_stand_in_that_is_none(self):
        done = subprocess.run([stage.ROOT / "tools/quickstart", "--kind", "moon"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "quickstart: --kind takes auto, soft, uml or qemu\n"))


if __name__ == "__main__":
    stage.main(live=False)
