#!/usr/bin/env python3
"""Joins GoogleTest programs' files into one, so that what all of them include is parsed and generated once: join.py OUT FILE...

An unnamed namespace gets a name, that of its file: names of two files do not meet. main.cc runs the tests of one file.
"""

import re
import sys
from pathlib import Path

UNNAMED = re.compile(r"^namespace \{$", re.MULTILINE)
FIXTURE = re.compile(r"^(?:TEST_F|TEST_P|TYPED_TEST)\((\w+),", re.MULTILINE)


def main():
    out, *files = sys.argv[1:]
    joined, fixtures = [], {}
    for file in files:
        text = Path(file).read_text(encoding="utf-8")
        for fixture in set(FIXTURE.findall(text)):
            if other := fixtures.get(fixture):
                sys.exit(f"{file}: {other} has tests of a fixture {fixture}, too; GoogleTest takes one of a name for each program")
            fixtures[fixture] = file
        name = re.sub(r"\W", "_", "_".join(Path(file).with_suffix("").parts[-3:]))
        joined.append(f'#line 1 "{file}"\n' + UNNAMED.sub(f"namespace {name} {{", text))
    Path(out).write_text("\n".join(joined), encoding="utf-8")


if __name__ == "__main__":
    main()
