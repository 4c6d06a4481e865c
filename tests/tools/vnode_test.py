#!/usr/bin/env python3
"""The virtual node's tool on a guest without network: needs a kernel that `vnode build` made, else it
is skipped (status 77). The joined node is tested with the dataplane."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/rigs/vnode/vnode"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
SKIPPED = 77


class Build(unittest.TestCase):
    def test_says_why_it_cannot_be_done(self):
        with tempfile.TemporaryDirectory(prefix="vnode-") as scratch:
            for program, script in (("apt-cache", "echo Version: 1"), ("apt-get", "echo no network >&2; exit 100")):
                file = pathlib.Path(scratch) / program
                file.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
                file.chmod(0o755)
            environment = {**os.environ, "PATH": f"{scratch}:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{scratch}/cache"}
            done = subprocess.run([sys.executable, str(TOOL), "build", "--kind", "qemu"], env=environment, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("qemu: ", done.stderr)
            self.assertNotIn("Traceback", done.stderr)


class Node(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="vnode-")
        cls.state = pathlib.Path(cls.scratch.name) / "state"
        cls.share = pathlib.Path(cls.scratch.name) / "with space"
        cls.share.mkdir()
        started = cls.vnode("start", "t", "--share", str(cls.share))
        assert started.returncode == 0, started.stderr
        cls.pid = int(cls.vnode("status").stdout.split("pid ")[1].split()[0])

    @classmethod
    def tearDownClass(cls):
        cls.vnode("stop", "t")
        cls.scratch.cleanup()

    @classmethod
    def command(cls, *words):
        return [sys.executable, str(TOOL), "--state", str(cls.state), *words]

    @classmethod
    def vnode(cls, *words):
        return subprocess.run(cls.command(*words), capture_output=True, text=True, timeout=120, check=False)

    def guest(self, script, *options):
        return self.vnode("exec", *options, "t", script)

    def wait_in_guest(self, condition):
        for _ in range(100):
            if self.guest(condition).returncode == 0:
                return
            time.sleep(0.05)
        self.fail(f"never true in the guest: {condition}")

    def test_returns_output_and_status(self):
        done = self.guest("echo out; echo err >&2; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\nerr\n"))

    def test_output_may_be_binary_and_large(self):
        done = subprocess.run(self.command("exec", "t", "head -c 3000000 /dev/urandom | tee /mnt/copy"),
                              capture_output=True, timeout=120, check=True)
        self.assertTrue(done.stdout == (self.share / "copy").read_bytes())

    def test_has_the_rdma_tools(self):
        programs = "ibv_devinfo ibv_rc_pingpong ib_write_bw ib_read_lat rping tcpdump ip tc ping ethtool nc"
        done = self.guest(f"for p in {programs}; do which $p >/dev/null || echo no $p; done; ibv_devices")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("no ", done.stdout)

    def test_ticks_while_it_sleeps(self):
        """Its kernel may miss an interrupt just before it sleeps, and sees it at the next one (kinds.py)."""
        ticks = "awk '/timer/ { print $2 }' /proc/interrupts"
        before, after = map(int, self.guest(f"{ticks}; sleep 1; {ticks}").stdout.split())
        self.assertGreater(after - before, 40)  # of 100; without: seven

    def test_commands_run_side_by_side(self):
        waiting = subprocess.Popen(self.command("exec", "t", "while [ ! -e /tmp/go ]; do usleep 10000; done"))
        self.guest("touch /tmp/go")
        self.assertEqual(waiting.wait(timeout=60), 0)

    def test_ends_a_command_at_its_limit(self):
        self.assertEqual(self.guest("sleep 1000", "--timeout", "0.5").returncode, 124)
        self.wait_in_guest("! ps | grep -q '[s]leep 1000'")

    def test_ends_the_command_of_an_exec_that_is_ended(self):
        for number, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
            with self.subTest(how=how):
                begun = f"/tmp/begun{number}"
                execution = subprocess.Popen(self.command("exec", "t", f"touch {begun}; sleep 2000"))
                self.wait_in_guest(f"[ -e {begun} ]")
                execution.send_signal(how)
                execution.wait(timeout=60)
                # After SIGKILL the next one to use the line does it.
                self.wait_in_guest("! ps | grep -q '[s]leep 2000'")

    def test_second_start_is_the_first(self):
        again = self.vnode("start", "t", "--share", str(self.share))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("running already", again.stderr)
        other = self.vnode("start", "t", "--mem", "256")
        self.assertEqual(other.returncode, 1)
        self.assertIn("other options", other.stderr)

    def test_names_what_is_wrong(self):
        for words, status, text in (
                (["start", "a b"], 2, "node name"),
                (["start", "x", "--share", "/no/such"], 2, "no directory /no/such"),
                (["start", "x", "--ip", "10.9.0.1/16"], 2, "need a network device"),
                (["start", "x", "--ip", "10.9.0.1"], 2, "with a length"),
                (["start", "x", "--vlan", "4095"], 2, "from 1 to 4094"),
                (["start", "x", "--vhost", "/no/socket", "--wait", "0"], 1, "no vhost-user server at /no/socket"),
                (["exec", "x", "true"], 255, "no running node x"),
                (["exec", "t", "x" * 3000], 2, "a command may have"),
        ):
            with self.subTest(words=words):
                done = self.vnode(*words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(text, done.stderr)

    def test_stop_leaves_nothing(self):
        self.assertEqual(self.vnode("start", "u").returncode, 0)
        pid = self.vnode("status").stdout.split("u\trunning\tpid ")[1].split()[0]
        self.assertEqual(self.vnode("stop", "u").returncode, 0)
        self.assertFalse((self.state / "u").exists())
        alive = subprocess.run(["ps", "-o", "stat=", "-s", pid], capture_output=True, text=True, check=False).stdout
        self.assertEqual([state for state in alive.split() if not state.startswith("Z")], [])
        self.assertIn("was not running", self.vnode("stop", "u").stderr)


if __name__ == "__main__":
    if not (CACHE / "understudy/vnode/uml/kernel").exists():
        print("skipped: no kernel, run tools/rigs/vnode/vnode build --kind uml")
        sys.exit(SKIPPED)
    unittest.main()
