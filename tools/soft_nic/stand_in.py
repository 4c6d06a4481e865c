#!/usr/bin/env python3
"""What a library needs to stand in libibverbs' place: its version nodes, and stubs for what it does not have.

    stand_in.py LIBIBVERBS OURS MAP STUBS

LIBIBVERBS is the distribution's, OURS the preloaded library and the sources of more functions separated by commas. Writes
the linker's version script and a C++ file. Programs and libraries find every symbol that the distribution's has, in the
same version: providers such as libmlx5, which programs are linked to, need dozens of private ones just to be loaded. A
stub does nothing and returns 0: nothing of ours gets to a provider's code.
"""
import re
import subprocess
import sys
from pathlib import Path


# Newer than some distributions' library, looked up by name in that version.
LATER = {"ibv_query_port_speed": "IBVERBS_1.16"}


def listed(library):
    """(name, default version or None, whether it is data, bytes) of every symbol of a library."""
    lines = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", "-S", library], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    for line in lines:
        words = line.split()
        name, _, version = words[-1].partition("@@")
        if "@" in name or words[-2] == "A":
            continue  # an old program's version, or a node itself
        yield name, version or None, words[-2] in "BDV", int(words[1], 16) if len(words) == 4 else 0


def main():
    library, ours, script, stubs = sys.argv[1:]
    first, *sources = ours.split(",")
    have = {name for name, *_ in listed(first)}
    for source in sources:
        have |= set(re.findall(r"^SOFT_NIC_EXPORT [\w ]+?\W*(\w+)\(", Path(source).read_text(), re.MULTILINE))
    nodes, lacking = {}, []
    theirs = [symbol for symbol in listed(library) if symbol[1] is not None]
    later = set(LATER) - {name for name, *_ in theirs}
    for name, version, is_data, size in theirs + [(name, LATER[name], False, 0) for name in sorted(later)]:
        nodes.setdefault(version, []).append(name)
        if name not in have:
            what = f"char {name}[{size}];" if is_data else f"void* {name}() {{ return nullptr; }}"
            lacking.append(f'extern "C" {{ __attribute__((visibility("default"))) {what} }}')
    text = ["/* Made by stand_in.py of the distribution's library. */"]
    # The local ones belong to the first node.
    local = "  local:\n    *;\n"
    for version, names in sorted(nodes.items()):
        text.append(f"{version} {{\n  global:\n" + "".join(f"    {name};\n" for name in sorted(names)) + local + "};")
        local = ""
    Path(script).write_text("\n".join(text) + "\n")
    Path(stubs).write_text("/* Made by stand_in.py. */\n" + "".join(f"{line}\n" for line in lacking))


if __name__ == "__main__":
    main()
