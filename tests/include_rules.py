#!/usr/bin/env python3
"""Which room may include which: the house's rule as a table, and the check of a source tree.

    include_rules.py [ROOT]     prints every forbidden include; exit 1 if there is one
"""
import pathlib
import re
import sys

# The rooms in their order: each may include what stands before it in its own list. Rooms on one line
# do not know one another.
DATAPLANE_ORDER = [
    ["base"], ["wire"], ["rc", "cm", "cc"], ["fabric"], ["flows", "node"], ["nccl"], ["collective", "engine/state"],
    ["engine/send"], ["engine/network"], ["engine/receive"], ["engine"], ["port"],
    ["virtual_time", "runtime"],
]
MODEL_ORDER = [["nccl", "iteration"], ["workload"], ["training", "simai", "traces", "partition"], ["schedule", "tuner"], ["inference", "predict"], ["plan"]]
CTRL_ORDER = [
    ["config", "report", "guest", "host_namespace"], ["config/toml"], ["config/read"], ["config/read/jobs"], ["topology", "schedule", "traces", "training", "simai", "partition"], ["traffic"], ["compile"], ["validity"],
    ["peers"], ["peers/perftest", "peers/rdma_core", "peers/ring", "peers/nccl/bootstrap", "virtual_host"],
    ["peers/services", "peers/nccl/transport", "peers/torch_store"], ["peers/nccl"], ["peers/sockets"],
    ["shards"], ["network"], ["predict", "jobs/operations"], ["jobs"], ["jobs/nccl", "services"], ["run"], ["compare", "sweep"], ["cli"],
]


def in_order(top, order):
    """Each room of `order` below `top`, with all that stand before it."""
    rooms = [[f"{top}/{name}" for name in line] for line in order]
    return {room: {r for line in rooms[:i] for r in line} for i, line in enumerate(rooms) for room in line}


# What each room may include beyond itself: a room, or one file of it.
ALLOWED = in_order("dataplane", DATAPLANE_ORDER) | in_order("collective_model", MODEL_ORDER) | in_order("ctrl", CTRL_ORDER)
DATAPLANE = {room for room in ALLOWED if room.startswith("dataplane/")}
MODEL = {room for room in ALLOWED if room.startswith("collective_model/")}
CTRL = {room for room in ALLOWED if room.startswith("ctrl/")}
for room in MODEL:
    ALLOWED[room] |= {"dataplane/base"}
ALLOWED["dataplane/collective"] |= {"collective_model/iteration/iteration.h", "collective_model/plan/operation_plan.h",
                                    "collective_model/schedule/schedule.h", "collective_model/workload"}
for room in CTRL:
    ALLOWED[room] |= MODEL | DATAPLANE - {"dataplane/port", "dataplane/virtual_time", "dataplane/runtime"}
for room in ("ctrl/shards", "ctrl/network", "ctrl/run"):
    ALLOWED[room] |= {"dataplane/virtual_time", "dataplane/runtime"}
# The report is plain values: whoever makes one fills them in.
ALLOWED["ctrl/report"] = {"dataplane/base", "collective_model/training/iteration_parts.h"}
# Machines of bytes in and bytes out: no queue pair, port or thread of the data plane.
for room in CTRL:
    if room.startswith("ctrl/peers"):
        ALLOWED[room] -= DATAPLANE - {"dataplane/base", "dataplane/wire", "dataplane/rc"}
ALLOWED["ctrl/peers/nccl/transport"] |= {"dataplane/nccl/cts_layout.h"}
# Products and rigs do not know one another.
TOOL = {"dataplane/base", "dataplane/wire", "dataplane/rc", "dataplane/cm", "ctrl/config", "ctrl/config/read", "ctrl/report"}
for name in ("allreduce_node", "gpu_calibrate", "nccl_decode", "nccl_profiler", "rigs/guest_poll", "rigs/memory_check",
             "rigs/tcp_rate"):
    ALLOWED[f"tools/{name}"] = set(TOOL)
ALLOWED |= {room: before | TOOL for room, before in in_order(
    "tools/rigs/ring_node", [["base", "values"], ["verbs"], ["ring", "whole_node"]]).items()}
ALLOWED["tools/rigs/ring_node"] = {room for room in ALLOWED if room.startswith("tools/rigs/ring_node/")} | TOOL
ALLOWED |= {room: before | TOOL for room, before in in_order(
    "tools/soft_nic", [["base"], ["port"], ["device"], ["verbs", "rdma_cm"]]).items()}
ALLOWED |= {room: before | TOOL for room, before in in_order(
    "tools/roce_check", [["findings"], ["packets"], ["requests"], ["checks"], ["between"], ["output"], ["live"]]).items()}
ALLOWED["tools/roce_check"] = {room for room in ALLOWED if room.startswith("tools/roce_check/")} | TOOL
ALLOWED["tools/soft_nic"] = {room for room in ALLOWED if room.startswith("tools/soft_nic/")} | TOOL
ALLOWED["tests"] = set(ALLOWED)

# Single files that may include one thing more, each with its reason.
EXCEPTIONS = {
    # The rank of the ring speaks the ring peer's out-of-band messages, and calls the plugin as NCCL does. A whole node carries
    # out the model's schedules by the ranks' program, which knows no packet.
    "tools/rigs/ring_node/": {"ctrl/peers/ring/node_job.h", "ctrl/peers/ring/ring_messages.h", "tools/nccl_profiler",
                              "collective_model/nccl", "collective_model/schedule", "collective_model/predict/time_model.h",
                              "dataplane/collective/element_values.h", "dataplane/collective/rank_program.h",
                              "dataplane/collective/wire_lines.h", "dataplane/nccl/message_parts.h", "dataplane/nccl/nccl_steps.h"},
    # Both stand on the same device and TCP.
    "tools/rigs/memory_check/": {"tools/rigs/ring_node/base", "tools/rigs/ring_node/verbs"},
    # Which messages are right is what the schedules of jobs say.
    "tools/roce_check/": {"ctrl/schedule/expected_messages.h"},
    # The profiler plugin speaks the feed's records.
    "tools/nccl_profiler/": {"ctrl/peers/feed_record.h"},
}

# What these files must not know, not even through other headers: what plans are measured against.
PLANS = {"collective_model/plan/operation_plan.h", "collective_model/plan/general_plan.h"}
INDEPENDENT = {
    "dataplane/collective/packet_level_ranks.cc": PLANS,
    "dataplane/collective/rank_program.cc": PLANS | {"dataplane/fabric/flow.h", "dataplane/node/endpoint.h",
                                                     "dataplane/rc/qp.h"},
}

# DPDK's headers; the tests of ports make devices of their own.
DPDK_ROOMS = ("dataplane/port/", "dataplane/runtime/", "tests/port/")

SOURCES = {".h", ".hpp", ".cc", ".cpp", ".c"}
ROOMS = sorted(ALLOWED, key=len, reverse=True)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def room_of(path):
    """The room that a path from the root belongs to, or None."""
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def verdict(path, included):
    """None if `path` may include `included` (both from the root), else the reason."""
    if re.match(r"rte_", pathlib.PurePosixPath(included).name):
        return None if path.startswith(DPDK_ROOMS) else "DPDK outside port and runtime"
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
    if target in allowed or included in allowed:
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
