#!/usr/bin/env python3
"""Runs a configuration's ring job with a virtual node or a program on a soft NIC as its real rank, captures it, of a virtual node
at both ends, has captures judged and says what was right and what was not. What tools/quickstart does after its set-up.

Exit status: 0 right and faithful, 3 right but not faithful in time, 1 anything else, 2 bad arguments.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout may belong to another user

from live_run import Failed, Run, VirtualNode, favoured, roce_check  # noqa: E402
from soft_nic_links import Vhost  # noqa: E402

NODE = "gpu"
ADDRESS, NEXT, PREVIOUS = "10.9.0.1", "10.9.0.2", "10.9.0.4"
# The guest holds its whole capture in memory if it has to: tcpdump has no turn while packets arrive.
GUEST_MEMORY_MB = 1024
GUEST_BUFFER_KB = 384 * 1024
RUN_LIMIT = 240  # seconds


def say(text):
    print(f"quickstart: {text}", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="build directory")
    parser.add_argument("--config", type=Path, required=True, help="configuration with one [[port]] and one ring job")
    parser.add_argument("--out", type=Path, required=True, help="existing folder for all that is written")
    parser.add_argument("--kind", choices=["soft", "uml", "qemu"], default="uml", help="of the real node: a soft NIC, or a virtual node of this kind")
    return parser.parse_args()


def derived_config(config, socket, out):
    """The configuration with another socket: a path of its own for every run, and short as sockets' must be."""
    text, found = re.subn(r"iface=[^,\"]*", f"iface={socket}", config.read_text(encoding="utf-8"))
    if found != 1:
        raise Failed(f"{config} has {found} ports with a socket (iface=...), not one")
    derived = out / config.name
    derived.write_text(text, encoding="utf-8")
    return derived


class SoftNode:
    """ring_node here, on a soft NIC: its transport is the emulator's own, and no kernel sees its frames."""

    title = "ring_node on a soft NIC of this host"

    def __init__(self, arguments, _scratch, socket, _shared):
        self.link, self.arguments = Vhost(ADDRESS, socket), arguments
        if why := self.link.missing():
            raise Failed(f"no soft NIC on this machine, it needs {why}; try --kind uml")

    def command(self, *words):
        return self.link.command(self.arguments.programs, [self.arguments.programs / "tools/rigs/ring_node/ring_node", *words])

    def start_capture(self):
        pass

    def stop_capture(self):
        """Returns the captures of its end: what each is, its file, and the lines that say what it lacks."""
        return []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()


class GuestNode:
    """ring_node in the virtual node, on Linux' own RoCE stack; tcpdump stands beside it."""

    def __init__(self, arguments, scratch, socket, shared):
        self.title, self.shared = f"ring_node on Linux' rdma_rxe in a virtual node, {arguments.kind}", shared
        self.node = VirtualNode(scratch / "vnode", NODE, socket, "--kind", arguments.kind, "--ip", f"{ADDRESS}/24", "--mtu", "4200",
                                "--mem", str(GUEST_MEMORY_MB), "--share", str(shared))

    def command(self, *words):
        return self.node.command(" ".join(["/mnt/ring_node", *words]), RUN_LIMIT)

    def start_capture(self):
        self.node.start_tcpdump("tcpdump.pcap", buffer_kb=GUEST_BUFFER_KB)

    def stop_capture(self):
        self.node.stop_tcpdump()
        said = (self.shared / "tcpdump.pcap.log").read_text().splitlines()[-3:]
        return [("capture by tcpdump inside the virtual node", self.shared / "tcpdump.pcap", said)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.node.stop()


def run_node(node):
    """The all-reduces; the node's table goes to the user as it grows. True if all results are right."""
    command = node.command("--peer-next", NEXT, "--peer-prev", PREVIOUS)
    with favoured(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout:
                print(f"  {line}", end="", flush=True)
        except BaseException:
            process.terminate()
            raise
    return process.returncode == 0


def judge(arguments, label, capture, config):
    holds, text = roce_check(arguments.programs / "tools/roce_check/roce-check", capture, "--config", str(config))
    Path(f"{capture}.txt").write_text(text, encoding="utf-8")
    say(f"{label}: {capture}")
    for line in text.splitlines()[:None if not holds else 4]:
        print(f"  {line}")
    print(f"  roce-check: the capture {'holds and is complete' if holds else 'does NOT hold'}", flush=True)
    return holds


def load_note():
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    if load > cores / 2:
        say(f"this machine is busy (load {load:.1f} on {cores} cores): times will suffer from it, results will not")


def run(arguments, scratch):
    out, shared = arguments.out, arguments.out / "node"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir()
    shutil.copy(arguments.programs / "tools/rigs/ring_node/ring_node", shared)
    socket = scratch / "gpu.sock"
    config = derived_config(arguments.config, socket, out)
    load_note()
    with Run(arguments.programs / "ctrl/understudy", config, out, "--linger", "60s") as emulator:
        with (SoftNode if arguments.kind == "soft" else GuestNode)(arguments, scratch, socket, shared) as node:
            node.start_capture()
            say(f"the real node ({ADDRESS}) is {node.title}; it runs all-reduces with three emulated nodes ({NEXT} to {PREVIOUS}):")
            right = run_node(node)
            captures = node.stop_capture()
        status = emulator.stop()
    say("the same run beside the model:")
    print(emulator.table.read_text(), end="", flush=True)
    if status not in (0, 3):
        print(emulator.log.read_text(), file=sys.stderr)
    holds = [judge(arguments, label, capture, config)
             for label, capture, _ in [("capture of the emulated side", emulator.capture, None), *captures]]
    for _, _, said in captures:
        say(f"tcpdump: {', '.join(said)}")
    say(f"report: {emulator.report_file}")
    if not right:
        say("WRONG: the real node's program did not end well, see above")
    if not all(holds):
        say("WRONG: a capture does not hold, see above")
    if not right or not all(holds) or status not in (0, 3):
        return 1
    say(f"real node: {node.title}")
    if not captures:
        say("for a transport that is not ours on the other side, and its own capture: tools/quickstart --kind uml")
    say(f"all results verified, {'both captures hold' if captures else 'the capture holds'}; "
        + ("faithful to the model in time" if status == 0 else
           "NOT faithful to the model in time, the reasons stand under the table"))
    return status


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    with tempfile.TemporaryDirectory(prefix="quickstart-") as scratch:
        try:
            return run(arguments, Path(scratch))
        except Failed as failure:
            say(str(failure))
            return 1
        except KeyboardInterrupt:
            say("interrupted")
            return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
