"""A run of the emulator with virtual nodes on its ports, for tools and tests that need all of it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

VNODE = Path(__file__).resolve().parent.parent / "rigs/vnode/vnode"
READY_LIMIT = 30  # seconds


class Failed(Exception):
    """What did not work, in words for the user."""


def favour(pid):
    """Lets the process' session go before others, where this user may: a busy machine delays packets.

    Linux weighs whole sessions against each other (autogroups); nice values count inside one only.
    """
    for group in {pid, os.getsid(pid)}:
        try:
            os.setpriority(os.PRIO_PROCESS, group, -12)
            Path(f"/proc/{group}/autogroup").write_text("-12", encoding="ascii")
        except OSError:
            pass


def favoured(command, **options):
    """Starts a program in a session of its own that goes before others. Programs that share a machine with favoured ones, and poll, need
    it too: they get a sixteenth of a CPU otherwise, and their peers' retries run out."""
    program = subprocess.Popen([str(word) for word in command], start_new_session=True, **options)
    favour(program.pid)
    return program


def favoured_output(command, limit, **options):
    """(status, what it printed) of such a program, which is killed with its children after `limit` seconds."""
    with favoured(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options) as program:
        try:
            said = program.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            raise
    return program.returncode, said


class Run:
    """One `understudy run`: ready when the constructor returns, its files in `folder`. A capture takes time of the machine."""

    def __init__(self, understudy, config, folder, *options, capture=True):
        self.config, self.capture = Path(config), Path(folder) / "run.pcapng"
        self.log, self.table = Path(folder) / "run.log", Path(folder) / "run.txt"
        self.report_file = Path(folder) / "report.json"
        with open(self.log, "wb") as log, open(self.table, "wb") as table:
            self.process = favoured(
                [understudy, "run", config, *(["--capture", self.capture] if capture else []), "--report", self.report_file, *options],
                stdout=table, stderr=log)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY_LIMIT
        while "ready\n" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"understudy did not get ready:\n{self.log.read_text()}")
            time.sleep(0.05)

    def stop(self):
        """Ends the run as a user would; returns its status: 0 faithful, 3 not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("understudy did not end after SIGINT") from None

    def wait(self, seconds):
        """Waits until the run ends by itself, its jobs done; returns its status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failed(f"the run did not end within {seconds} s:\n{self.log.read_text()}") from None

    def report(self):
        return json.loads(self.report_file.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class VirtualNode:
    """A guest joined to a port of the run, from construction to stop()."""

    def __init__(self, state, name, socket, *options):
        self.state, self.name, self.tcpdump_file = Path(state), name, None
        try:
            started = self._vnode("start", name, "--vhost", str(socket), *options)
        except BaseException:  # an interrupted start is killed, and leaves its guest
            self.stop()
            raise
        if started.returncode != 0:
            raise Failed(f"virtual node {name}: {started.stderr.strip()}")
        favour(json.loads((self.state / name / "node.json").read_text())["pid"])

    def _vnode(self, *words):
        return subprocess.run([sys.executable, str(VNODE), "--state", str(self.state), *words],
                              capture_output=True, text=True, check=False)

    def command(self, script, limit=120):
        """Command line that runs a shell script in the guest."""
        return [sys.executable, str(VNODE), "--state", str(self.state), "exec", "--timeout", str(limit), self.name,
                script]

    def execute(self, script, limit=120):
        """Runs a shell script in the guest; returns the finished process with its output."""
        return subprocess.run(self.command(script, limit), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)

    def output(self, script, limit=120):
        """What the script prints; Failed if it does not succeed."""
        done = self.execute(script, limit)
        if done.returncode != 0:
            raise Failed(f"status {done.returncode} in {self.name} from: {script}\n{done.stdout}")
        return done.stdout

    def start_tcpdump(self, file, device="eth0", buffer_kb=65536):
        """Captures RoCE traffic and PFC frames in the guest into `file` of its shared folder.

        Not by tcpdump's own -w FILE: it would give the file to a user of its own, which the host may not allow.
        """
        self.tcpdump_file = file
        self.output(f"tcpdump -i {device} -B {buffer_kb} --time-stamp-precision=nano -w - "
                    f"'ether proto 0x8808 or udp port 4791 or (vlan and udp port 4791)' >/mnt/{file} 2>/mnt/{file}.log & "
                    f"sleep 1; pidof tcpdump || {{ cat /mnt/{file}.log; exit 1; }}")

    def stop_tcpdump(self):
        """Ends the capture when all that it has seen is in the file; what it had to drop stands in its log beside it.

        An interrupted tcpdump forgets what it has not read yet, and it reads a part-filled buffer after a second only.
        """
        self.output(f"last=; while now=$(stat -c %s /mnt/{self.tcpdump_file}); "
                    """[ "$now" != "$last" ]; do last=$now; sleep 1.5; done
            kill -INT $(pidof tcpdump); while pidof tcpdump >/dev/null; do sleep 0.1; done""")

    def stop(self):
        self._vnode("stop", self.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def roce_check(program, capture, *options):
    """(holds, report as text) of a capture."""
    done = subprocess.run([str(program), str(capture), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode == 0, done.stdout
