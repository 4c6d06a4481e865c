"""One guest's life on the host: its folder, its processes, start and stop."""

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import channel
import kinds
from fault import Fault

BOOT_LIMIT = {"uml": 90, "qemu": 240}  # seconds; a busy machine boots many times slower than an idle one


def default_state():
    base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    return Path(base) / f"understudy-vnode-{os.getuid()}"


def socket_path(text):
    """Where the dataplane's socket is: a name alone lies in this user's folder for sockets."""
    if "/" in text:
        return os.path.abspath(text)
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(given if given.startswith("/") else f"/tmp/understudy-{os.getuid()}", text)


class Guest:
    """The node `name` under the folder `state`."""

    def __init__(self, state, name):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
            raise Fault(f"node name {name!r}: letters, digits, - and _, at most 32", 2)
        if not re.fullmatch(r"[A-Za-z0-9_./+@-]{1,60}", str(state)):
            # It stands in the kernel's command line and in the names of sockets.
            raise Fault(f"state folder {state}: at most 60 plain characters, no spaces", 2)
        self.state, self.name = Path(state), name
        self.folder = self.state / name

    def start(self, options):
        """Boots and configures the guest; returns the seconds it took, or None if it runs already."""
        self._own_state_folder()
        with self._lock():
            if self.alive() and self.record()["ready"]:
                if self.record()["options"] == options:
                    return None
                raise Fault(f"{self.name} runs already, with other options: stop it first")
            begin = time.monotonic()
            self._end()  # leftovers of a guest that died, or whose start was killed
            shutil.rmtree(self.folder)
            self.folder.mkdir(mode=0o700)
            try:
                self._wait_for_socket(options)
                self._spawn(options)
                self._wait_for_boot(options["kind"])
                self._configure(options)
                self._write_record({**self.record(), "ready": True})
            except BaseException:
                self._end()
                shutil.rmtree(self.folder)
                raise
            return time.monotonic() - begin

    def stop(self):
        """Powers the guest off and removes its folder; returns whether it was running."""
        if not self.folder.is_dir():
            return False
        with self._lock():
            was_alive = self.alive()
            if was_alive:
                channel.power_off(self.folder)
                self._wait_for_end(3)
            self._end()
            shutil.rmtree(self.folder)
            return was_alive

    def execute(self, script, write, limit=None):
        """Runs a shell script in the guest; returns its status."""
        if not self.alive():
            raise Fault(f"no running node {self.name}", 255)
        return channel.run(self.folder, script, write, self.alive, limit)

    def record(self):
        """What start wrote down: pid, its start time, whether it came up, options; None without a guest."""
        try:
            return json.loads((self.folder / "node.json").read_text())
        except FileNotFoundError:
            return None

    def _write_record(self, record):
        part = self.folder / "node.json.part"
        part.write_text(json.dumps(record, indent=1) + "\n")
        part.replace(self.folder / "node.json")

    def alive(self):
        record = self.record()
        return bool(record) and _start_time(record["pid"]) == record["start_time"]

    def _own_state_folder(self):
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = self.state.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            raise Fault(f"{self.state} belongs to someone else: give another with --state")
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def _lock(self):
        with open(self.state / f".{self.name}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _wait_for_socket(self, options):
        path = options["vhost"]
        if path is None:
            return
        deadline = time.monotonic() + options["wait"]
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(path)
                return
            except PermissionError as error:
                raise Fault(f"no permission to connect to {path}: run as the user who runs the dataplane") from error
            except (FileNotFoundError, ConnectionRefusedError) as error:  # the latter: left by a dead server
                if time.monotonic() > deadline:
                    raise Fault(f"no vhost-user server at {path} after {options['wait']} s: "
                                "is the dataplane running?") from error
            except OSError as error:
                raise Fault(f"{path} is no vhost-user socket: {error.strerror or error}", 2) from error
            time.sleep(0.05)

    def _spawn(self, options):
        channel.make_lines(self.folder)
        share = self.folder / "share"
        if options["share"]:
            share.symlink_to(options["share"])  # a link, because the kernel's command line takes no spaces
        else:
            share.mkdir()
        command, environment, inherited = kinds.command_line(self.folder, self.name, options)
        with open(self.folder / "console", "wb") as console, open(self.folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=log, pass_fds=inherited,
                env={**os.environ, **environment}, start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        for fd in inherited:
            os.close(fd)
        self._write_record({"pid": process.pid, "start_time": _start_time(process.pid), "ready": False,
                            "options": options})

    def _wait_for_boot(self, kind):
        deadline = time.monotonic() + BOOT_LIMIT[kind]
        console = self.folder / "console"
        while b"VNODE-READY" not in console.read_bytes():
            if not self.alive() or time.monotonic() > deadline:
                tail = (console.read_text(errors="replace") + (self.folder / "log").read_text(errors="replace"))
                what = "did not come up in time" if self.alive() else "ended while booting"
                raise Fault(f"{self.name} {what}:\n  " + "\n  ".join(tail.splitlines()[-15:]))
            time.sleep(0.02)

    def _configure(self, options):
        script = kinds.MOUNT_SHARE[options["kind"]]
        if options["vhost"]:
            script += " && {}vnode-net".format("".join(
                f"{name}='{value}' " for name, value in {
                    "MAC": options["mac"], "MTU": options["mtu"], "VLAN": options["vlan"] or "",
                    "PCP": options["pcp"], "ADDRESSES": " ".join(options["addresses"])}.items()))
        status, output = channel.control(self.folder, script, self.alive, limit=60)
        if status != 0:
            raise Fault(f"{self.name}: setting up the guest failed: {output.strip()}")

    def _wait_for_end(self, seconds):
        deadline = time.monotonic() + seconds
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _end(self):
        """Ends all processes of the guest: the recorded one and those of its session."""
        record = self.record()
        for signal_number, seconds in ((signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + seconds
            left = _session(record)
            for pid in left:
                with _ignore_gone():
                    os.kill(pid, signal_number)
            while left and time.monotonic() < deadline:
                time.sleep(0.02)
                left = _session(record)
        if record:
            (self.folder / "node.json").unlink()


def _stat_fields(pid):
    """Fields of /proc/PID/stat from the state on (field 3 is index 0), or None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _start_time(pid):
    """Start of a process in clock ticks, which with the pid is unique; None if it has ended."""
    fields = _stat_fields(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def _session(record):
    """Live processes of the guest's session. Its leader's pid is not given out again while it has members."""
    if record is None:
        return []
    leader = _stat_fields(record["pid"])
    if leader and int(leader[19]) != record["start_time"]:
        return []
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat_fields(int(entry.name))
            if fields and fields[0] not in "ZX" and int(fields[3]) == record["pid"]:
                members.append(int(entry.name))
    return members


@contextmanager
def _ignore_gone():
    try:
        yield
    except ProcessLookupError:
        pass
