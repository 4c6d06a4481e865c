#!/usr/bin/env python3
"""Which room may include which: the house's rule as a table, and the check of a source tree.

    include_rules.py [ROOT]     prints every forbidden include; exit 1 if there is one
"""
import pathlib
import re
import sys

# Rooms of the data plane in their order: each may include what stands before it. Rooms on one
# line do not know one another.
ORDER = [
    ["dataplane/base"],
    ["dataplane/wire"],
    ["dataplane/rc", "dataplane/cm", "dataplane/cc"],
    ["dataplane/fabric"],
    ["dataplane/node"],
    ["dataplane/engine"],
    ["dataplane/port"],
    ["dataplane/app"],
]
DATAPLANE = [room for line in ORDER for room in line]

# What each room may include beyond itself: a room, or one file of it. Built from ORDER, then:
ALLOWED = {room: {r for line in ORDER[:i] for r in line}
           for i, line in enumerate(ORDER) for room in line}
ALLOWED["dataplane/node"] |= {"collective_model/iteration.h", "collective_model/operation_plan.h",
                              "collective_model/schedule.h"}
ALLOWED["collective_model"] = {"dataplane/base", "dataplane/fabric/graph.h"}
ALLOWED["ctrl"] = {"collective_model"} | set(DATAPLANE) - {"dataplane/port"}
ALLOWED["tools"] = {"dataplane/base", "dataplane/wire", "dataplane/rc", "dataplane/cm", "ctrl/config",
                    "ctrl/report"}
ALLOWED["tests"] = {"collective_model", "ctrl", "tools"} | set(DATAPLANE)

# Single files that may include one thing more, each with its reason.
EXCEPTIONS = {
    # The rank of the ring speaks the ring peer's out-of-band messages.
    "tools/ring_node/": {"ctrl/peers/ring_messages.h"},
    # Which messages are right is what the schedules of jobs say.
    "tools/roce_check/": {"ctrl/build/expected_messages.h"},
    # The profiler plugin speaks the feed's records.
    "tools/nccl_profiler/": {"ctrl/peers/feed_record.h"},
}

# What these files must not know, not even through other headers: what plans are measured against.
INDEPENDENT = {
    "dataplane/node/rank_traffic.cc": {"collective_model/operation_plan.h",
                                       "collective_model/environment.h"},
}

# DPDK's headers; the tests of ports make devices of their own.
DPDK_ROOMS = ("dataplane/port/", "dataplane/app/", "tests/port_")

SOURCES = {".h", ".hpp", ".cc", ".cpp", ".c"}
ROOMS = sorted(ALLOWED, key=len, reverse=True)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    """The room that a path from the root belongs to, or None."""
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def verdict(path, included):
    """None if `path` may include `included` (both from the root), else the reason."""
    if re.match(r"rte_", pathlib.PurePosixPath(included).name):
        return None if path.startswith(DPDK_ROOMS) else "DPDK outside port and app"
    target = room_of(included)
    if target is None:
        return None  # the system's, or a library's
    source = room_of(path)
    if source is None:
        return "a file outside every room includes one"
    allowed = ALLOWED[source] | {source}
    for prefix, more in EXCEPTIONS.items():
        if path.startswith(prefix):
            allowed = allowed | more
    if any(included == a or included.startswith(a + "/") for a in allowed):
        return None
    return f"{source} may not include {target}"


def check(root):
    """Every forbidden include below `root`, as (path, line, included, reason)."""
    root = pathlib.Path(root)
    found = []
    for top in ("dataplane", "collective_model", "ctrl", "tools", "tests"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8", errors="replace")
            for match in INCLUDE.finditer(text):
                quoted, angled = match.groups()
                included = quoted or angled
                if quoted and not (root / included).exists() and (file.parent / included).exists():
                    reason = "include from the repository's root"
                else:
                    reason = verdict(path, included)
                if reason:
                    line = text.count("\n", 0, match.start()) + 1
                    found.append((path, line, included, reason))
    return found


def reached(root, path):
    """All files of the tree that `path` includes, directly or not."""
    seen, work = set(), [path]
    while work:
        file = root / work.pop()
        if not file.is_file():
            continue
        for quoted, angled in INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
            included = quoted or angled
            if included not in seen:
                seen.add(included)
                work.append(included)
    return seen


def check_independence(root):
    """The same for INDEPENDENT; the line is that of no include, 0."""
    root = pathlib.Path(root)
    return [(path, 0, included, "must not know it, nor what includes it")
            for path, forbidden in INDEPENDENT.items() for included in sorted(reached(root, path) & forbidden)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = check(root) + check_independence(root)
    for path, line, included, reason in found:
        print(f"{path}:{line}: {included}: {reason}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
