"""However a run with real kernels in virtual time ends, it says of which node and why, and leaves nothing behind: no process of the
guests', no file. Programs that fail, hang and wait for ever, kernels that end, crash and cannot be started, and signals."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import stage

from kernel_nodes import head, kernel, output_of  # noqa: E402  stage says where it is

FAILED = 1
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy/vnode/uml"
WRITES_LONG = "ib_write_bw -d rxe0 -x 1 -m 4096 -F -s 65536 -n 1000000"
# Memory is asked for until there is none, which this kernel takes for the end.
PANICS = "echo 1 >/proc/sys/vm/panic_on_oom; tail /dev/zero"


def processes():
    """(pid, command line, PID namespace) of all that can be seen."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes(), os.readlink(entry / "ns/pid")
            except OSError:
                pass  # it has ended, or is somebody else's


class Watch(threading.Thread):
    """Notes the PID namespaces of a run's guests: their processes are known by them when nothing else is left of their names. They are
    held open, for the system gives numbers of namespaces out again at once, and other runs may be under way."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.mark, self.spaces, self.over = str(folder).encode(), {}, threading.Event()

    def run(self):
        own = os.readlink("/proc/self/ns/pid")
        while not self.over.wait(0.02):
            for pid, command, space in processes():
                if self.mark in command and space != own and space not in self.spaces:
                    self.hold(pid, space)

    def hold(self, pid, space):
        try:
            held = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it has ended
        if os.readlink(f"/proc/self/fd/{held}") == space:
            self.spaces[space] = held
        else:
            os.close(held)

    def left(self):
        return [(pid, command) for pid, command, space in processes() if self.mark in command or space in self.spaces]

    def close(self):
        self.over.set()
        self.join()
        for held in self.spaces.values():
            os.close(held)


class Endings(stage.Stage):
    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.watch = None

    def begin(self, text, *arguments, cache=None, nics=1):
        """A run of nodes; its scratch folder and its guests' memory are in the test's own."""
        config = self.folder / "endings.toml"
        config.write_text(head(nics) + text)
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        if cache:
            environment["XDG_CACHE_HOME"] = str(cache)
        self.watch = Watch(self.folder)
        self.watch.start()
        self.addCleanup(self.watch.close)
        run = subprocess.Popen([self.understudy, "simulate", config, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def end(self, run, status, *said, booted=True):
        """Waits for a run's end; returns what it printed."""
        out, err = run.communicate(timeout=300)
        text = out + err
        self.assertEqual(run.returncode, status, text)
        for words in said:
            self.assertIn(words, text)
        self.watch.over.set()
        self.watch.join()
        if booted:
            self.assertTrue(self.watch.spaces, "no guest was seen")
        self.assertEqual(self.watch.left(), [])
        self.assertEqual(list(self.scratch.iterdir()), [])
        return text

    def ends(self, text, status, *said, booted=True, **how):
        return self.end(self.begin(text, **how), status, *said, booted=booted)

    @stage.only_in_full
    def test_a_program_that_fails_among_two(self):
        text = self.ends(kernel("a", "sleep 1; exit 7") + kernel("b", "sleep 2; echo fine"), stage.NOT_FAITHFUL,
                         'the program of node "a" ended with status 7', "b: fine")
        self.assertNotIn('the program of node "b"', text)

    @stage.only_in_full
    def test_a_program_that_fails_and_another_that_waits_for_it(self):
        self.ends(kernel("a", "exit 7") + kernel("b", WRITES_LONG), FAILED, "an hour of virtual time", 'node "b" has not ended',
                  'node "a" ended with status 7')

    @stage.only_in_full
    def test_a_kernel_that_is_powered_off(self):
        self.ends(kernel("a", "echo bye; poweroff -f"), FAILED, 'node "a": its kernel ended before its program', "a: bye")

    @stage.only_in_full
    def test_a_kernel_that_is_powered_off_among_two(self):
        """The other one would wait for ever."""
        text = self.ends(kernel("a", "sleep 1; poweroff -f") + kernel("b", "sleep infinity"), FAILED,
                         'node "a": its kernel ended before its program')
        self.assertNotIn("an hour of virtual time", text)

    @stage.only_in_full
    def test_a_kernel_that_panics(self):
        self.ends(kernel("a", "sleep infinity") + kernel("b", PANICS), FAILED, 'node "b": its kernel ended before its program',
                  "Kernel panic")

    def test_a_kernel_that_is_killed(self):
        """By the host, that has no memory left, say."""
        run = self.begin(kernel("a", "sleep infinity") + kernel("b", "echo begins; sleep 1; while :; do :; done"))
        for line in run.stderr:
            if line == "b: begins\n":
                break
        kernels = [pid for pid, command, _ in processes() if self.watch.mark in command and b"VNODE_NAME=b" in command]
        os.kill(min(kernels), signal.SIGKILL)  # the others are processes of its programs
        self.end(run, FAILED, 'node "b"', "its kernel by signal 9")

    def test_a_program_that_spins(self):
        # A kernel that boots on a busy machine may need seconds, too.
        run = self.begin(kernel("a", "sleep infinity") + kernel("b", "while :; do :; done"), "--patience", "10s")
        self.end(run, FAILED, 'node "b": has computed for 10000 ms', "a program in it polls, or hangs")

    @stage.only_in_full
    def test_programs_that_wait_for_ever(self):
        self.ends(kernel("a", "sleep infinity") + kernel("b", WRITES_LONG), FAILED, "an hour of virtual time", 'node "a" has not ended',
                  'node "b" has not ended')

    def test_no_kernel(self):
        self.ends(kernel("a", "true"), FAILED, "there is no kernel", "tools/rigs/vnode/vnode build --kind uml", booted=False,
                  cache=self.folder)

    def cache_with(self, kernel_text, mode=0o755):
        folder = self.folder / "cache/understudy/vnode/uml"
        folder.mkdir(parents=True)
        (folder / "initramfs.cpio").symlink_to(CACHE / "initramfs.cpio")
        (folder / "kernel").write_text(kernel_text)
        (folder / "kernel").chmod(mode)
        return self.folder / "cache"

    def test_a_kernel_that_must_not_be_executed(self):
        self.ends(kernel("a", "true"), FAILED, "there is no kernel", booted=False, cache=self.cache_with("", 0o644))

    def test_a_kernel_that_is_none(self):
        self.ends(kernel("a", "true"), FAILED, 'node "a"', "its kernel cannot be executed", booted=False,
                  cache=self.cache_with("nothing of that kind"))

    def test_a_kernel_that_ends_at_once(self):
        self.ends(kernel("a", "true"), FAILED, 'node "a": its process has ended by itself, its kernel with status 9', "no memory here",
                  booted=False, cache=self.cache_with("#!/bin/sh\necho no memory here\nexit 9\n"))

    def test_a_kernel_that_never_begins(self):
        run = self.begin(kernel("a", "true"), "--patience", "2s", cache=self.cache_with("#!/bin/sh\nsleep 1000 & sleep 1000\n"))
        self.end(run, FAILED, 'node "a": has computed for 2000 ms')

    def writing(self, *arguments):
        """A run in the middle of its work."""
        run = self.begin(kernel("a", WRITES_LONG) + kernel("b", f"sleep 0.1; {WRITES_LONG} 10.9.0.1"), *arguments)
        for line in run.stderr:
            if line.startswith("at ") and int(line.split()[3]) > 1000:
                return run
        raise AssertionError(f"the run ended with {run.wait()}")

    def signalled(self, number, name):
        report, capture = self.folder / "report.json", self.folder / "run.pcapng"
        run = self.writing("--report", report, "--capture", capture)
        run.send_signal(number)
        self.end(run, stage.NOT_FAITHFUL, f"ended by {name}")
        content = json.loads(report.read_text())
        stage.jsonschema.validate(content, json.loads((stage.ROOT / "ctrl/report/report.schema.json").read_text()))
        self.assertEqual(content["ended_by"], name)
        self.assert_holds(capture, "--open-end")

    @stage.only_in_full
    def test_interrupt(self):
        self.signalled(signal.SIGINT, "SIGINT")

    def test_terminate(self):
        self.signalled(signal.SIGTERM, "SIGTERM")

    @stage.only_in_full
    def test_a_signal_while_a_program_spins(self):
        run = self.begin(kernel("a", "echo spins; while :; do :; done"))
        while not any("spins" in file.read_text() for file in self.scratch.rglob("output")):  # no look at it is due any more
            self.assertIsNone(run.poll(), "the run has ended")
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        self.end(run, stage.NOT_FAITHFUL, "ended by SIGTERM")

    def test_kill(self):
        """What is left then goes by itself, soon."""
        run = self.writing()
        run.kill()
        run.wait()
        deadline = time.monotonic() + 30
        while (self.watch.left() or list(self.scratch.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.end(run, -signal.SIGKILL)

    def test_two_rails(self):
        """Nothing is left of a run that is right, either; here of kernels with two NICs."""
        # While the other rail's program begins, some 40 us, iterations take twice as long: these are few of a thousand.
        pingpong = "ibv_rc_pingpong -d rxe{nic} -p {port} -g 1 -n 1000 -s 4096 -m 4096 {server}"
        write = "ib_write_bw -d rxe1 -x 1 -m 4096 -F -s 65536 -n 100 "

        def program(*servers):
            both = [pingpong.format(nic=nic, port=18515 + nic, server=server) for nic, server in enumerate(servers)]
            return f"{both[0]} & {both[1]}; wait; {write}{servers[1]}"

        run = self.begin(kernel("a", program("", ""), nics=2) + kernel("b", f"sleep 0.1; {program('10.9.0.1', '10.9.1.1')}", nics=2),
                         nics=2)
        lines = output_of("b", self.end(run, 0).splitlines())
        times = [float(re.search(r"= ([\d.]+) usec", line)[1]) for line in lines if "usec/iter" in line]
        self.assertEqual(len(times), 2, lines)
        for iteration in times:  # two messages of 4,096 bytes and two paths of 200 ns, on both rails at once
            self.assertAlmostEqual(iteration, 2 * (4178 * 8 / 100e3 + 0.2), delta=0.06)
        (row,) = [line.split() for line in lines if line.startswith(" 65536")]
        self.assertAlmostEqual(float(row[3]) * (1 << 20) * 8, 100e9 * 4096 / 4178, delta=1e9)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
