"""Runs shell scripts in a guest over its command lines, each a pair of FIFOs.

A line carries one script at a time (protocol: guest/vnode-agent). Line 0 is kept for short
internal scripts, so that a script that hangs on another line can always be ended.
"""

import base64
import fcntl
import os
import re
import secrets
import select
import time

from fault import Fault

LINES = 5
CONTROL = 0
# A guest's terminal that was throttled, which it is from 3968 bytes on, may miss the next input in
# User-mode Linux; base64 makes 4 bytes of 3.
MAX_SCRIPT = 2800


class TimedOut(Exception):
    """A script ran past its limit; it has been ended."""


def make_lines(folder):
    for number in range(LINES):
        for way in ("in", "out"):
            path = _fifo(folder, number, way)
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
        _busy_mark(folder, number).unlink(missing_ok=True)


def line_base(folder, number):
    """Path of a line's FIFOs without their ".in" (host to guest) and ".out"."""
    return folder / f"line{number}"


def run(folder, script, write, alive, limit=None):
    """Runs `script` on a free line, hands its output to `write` as it comes, returns its status.

    `alive` tells whether the guest still runs. Raises TimedOut after `limit` seconds. On any exception
    (a signal, a closed output) the script is ended in the guest.
    """
    if len(script.encode()) > MAX_SCRIPT:
        raise Fault(f"a command may have {MAX_SCRIPT} bytes: put a longer one into a file of the shared directory", 2)
    number, host_end = _take_line(folder, alive)
    with host_end as (to_guest, from_guest):
        mark = _busy_mark(folder, number)
        token = secrets.token_hex(8)
        mark.write_text(token)
        _send(to_guest, token, script)
        try:
            status = _read_reply(from_guest, token, write, alive, limit)
        except BaseException:
            if alive():
                _end_session(folder, number, from_guest, token, alive)
                mark.unlink()
            raise
        mark.unlink()
        return status


def control(folder, script, alive, limit=10):
    """Runs a short internal script on the control line; returns (status, output)."""
    output = []
    with _HostEnd(folder, CONTROL) as (to_guest, from_guest):
        fcntl.flock(to_guest, fcntl.LOCK_EX)
        token = secrets.token_hex(8)
        _send(to_guest, token, script)
        try:
            status = _read_reply(from_guest, token, output.append, alive, limit)
        except TimedOut as late:
            raise Fault(f"the node did not answer within {limit} s") from late
    return status, b"".join(output).decode(errors="replace")


def power_off(folder):
    """Asks the guest to end; there is no reply."""
    with _HostEnd(folder, CONTROL) as (to_guest, _):
        _send(to_guest, "off", "poweroff -f")


class _HostEnd:
    """The host's end of a line. Opened for reading and writing, a FIFO never reports end of file."""

    def __init__(self, folder, number):
        self.fds = [os.open(_fifo(folder, number, way), os.O_RDWR | os.O_CLOEXEC) for way in ("in", "out")]

    def __enter__(self):
        return self.fds

    def __exit__(self, *_):
        for fd in self.fds:
            os.close(fd)


def _fifo(folder, number, way):
    return folder / f"line{number}.{way}"


def _busy_mark(folder, number):
    return folder / f"line{number}.busy"


def _take_line(folder, alive):
    """Locks a free line; ends, on all lines, what was left by users that were killed."""
    while alive():
        taken = None
        for number in range(CONTROL + 1, LINES):
            mark = _busy_mark(folder, number)
            if taken and not mark.exists():
                continue
            end = _HostEnd(folder, number)
            try:
                fcntl.flock(end.fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                end.__exit__()
                continue
            if mark.exists():
                _end_session(folder, number, end.fds[1], mark.read_text(), alive)
                mark.unlink()
            if taken:
                end.__exit__()
            else:
                taken = number, end
        if taken:
            return taken
        time.sleep(0.02)
    raise Fault("the node ended")


def _send(to_guest, token, script):
    data = f"{token} {base64.b64encode(script.encode()).decode()}\n".encode()
    while data:
        data = data[os.write(to_guest, data):]


def _end_session(folder, number, from_guest, token, alive):
    """Ends the script `token` on a line, first politely, then for good, and waits for its end mark."""
    control(folder, f"s=$(cat /run/session.{number}); kill -TERM -$s; sleep 0.3; kill -KILL -$s", alive)
    try:
        _read_reply(from_guest, token, lambda _: None, alive, 10)
    except TimedOut as late:
        raise Fault(f"command line {number} of the node does not answer") from late


def _read_reply(from_guest, token, write, alive, limit):
    end = re.compile(rb"\x01" + token.encode() + rb" (\d+)\n")
    deadline = None if limit is None else time.monotonic() + limit
    held = b""
    while True:
        ready, _, _ = select.select([from_guest], [], [], 0.25)
        if ready:
            held += os.read(from_guest, 65536)
            found = end.search(held)
            if found:
                write(held[: found.start()])
                return int(found.group(1))
            # Everything before a possible beginning of the end mark can go out.
            cut = held.find(b"\x01", max(0, len(held) - len(token) - 8))
            cut = len(held) if cut < 0 else cut
            write(held[:cut])
            held = held[cut:]
        elif not alive():
            raise Fault("the node ended before the command did")
        if deadline is not None and time.monotonic() > deadline:
            raise TimedOut
