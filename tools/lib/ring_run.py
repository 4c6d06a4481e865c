#!/usr/bin/env python3
"""Runs a configuration's ring job with the virtual node as its real rank, captures it at both ends, has
both captures judged and says what was right and what was not. What tools/quickstart does after its set-up.

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

from live_run import Failed, Run, VirtualNode, roce_check  # noqa: E402

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
    parser.add_argument("--kind", choices=["uml", "qemu"], default="uml", help="of the virtual node")
    return parser.parse_args()


def derived_config(config, socket, out):
    """The configuration with another socket: a path of its own for every run, and short as sockets' must be."""
    text, found = re.subn(r"iface=[^,\"]*", f"iface={socket}", config.read_text(encoding="utf-8"))
    if found != 1:
        raise Failed(f"{config} has {found} ports with a socket (iface=...), not one")
    derived = out / config.name
    derived.write_text(text, encoding="utf-8")
    return derived


def run_node(node):
    """The all-reduces; the guest's table goes to the user as it grows. True if all results are right."""
    command = node.command(f"/mnt/ring_node --peer-next {NEXT} --peer-prev {PREVIOUS}", RUN_LIMIT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
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
    shutil.copy(arguments.programs / "tools/ring_node/ring_node", shared)
    socket = scratch / "gpu.sock"
    config = derived_config(arguments.config, socket, out)
    load_note()
    with Run(arguments.programs / "ctrl/understudy", config, out, "--linger", "60s") as emulator:
        with VirtualNode(scratch / "vnode", NODE, socket, "--kind", arguments.kind, "--ip", f"{ADDRESS}/24", "--mtu",
                         "4200", "--mem", str(GUEST_MEMORY_MB), "--share", str(shared)) as node:
            node.start_tcpdump("tcpdump.pcap", buffer_kb=GUEST_BUFFER_KB)
            say(f"the virtual node ({ADDRESS}, {arguments.kind}) runs all-reduces with three emulated nodes "
                f"({NEXT} to {PREVIOUS}):")
            right = run_node(node)
            node.stop_tcpdump()
        status = emulator.stop()
    say("the same run beside the model:")
    print(emulator.table.read_text(), end="", flush=True)
    if status not in (0, 3):
        print(emulator.log.read_text(), file=sys.stderr)
    holds = [judge(arguments, "capture of the emulated side", emulator.capture, config),
             judge(arguments, "capture by tcpdump inside the virtual node", shared / "tcpdump.pcap", config)]
    say(f"tcpdump: {', '.join(line for line in (shared / 'tcpdump.pcap.log').read_text().splitlines()[-3:])}")
    say(f"report: {emulator.report_file}")
    if not right:
        say("WRONG: the virtual node's program did not end well, see above")
    if not all(holds):
        say("WRONG: a capture does not hold, see above")
    if not right or not all(holds) or status not in (0, 3):
        return 1
    say("all results verified, both captures hold; "
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
