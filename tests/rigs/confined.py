"""Whether a program has put itself under a filter of system calls (dataplane/base/confinement.h)."""
import pathlib
import time

PATIENCE_S = 60


def filters(process):
    """How many filters a process has; containers' own ones are inherited. None: it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = dict(line.split(":", 1) for line in lines)
    # Kernels before 5.9 do not count them.
    return int(values["Seccomp_filters"]) if "Seccomp_filters" in values else int(values["Seccomp"]) // 2


def comes_to_be_confined(process):
    """Waits until it has a filter more than the one that asks; false if it ends without or takes too long."""
    own = filters("self")
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        now = filters(process.pid)
        if now is None or process.poll() is not None:
            return False
        if now > own:
            return True
        time.sleep(0.01)
    return False
