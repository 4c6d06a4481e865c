#!/usr/bin/env python3
"""Sums up the logs that `meson test` left behind: names what failed and what was skipped, and ends
with one line 'N passed, N failed, N skipped'. Status 1 if anything failed.

usage: test_summary.py [--failed NAME]... LABEL=testlog.json...
"""
import json
import re
import sys

PASSED = ("OK", "EXPECTEDFAIL")
# A GoogleTest case that was skipped inside a program, and why.
SKIPPED_CASE = re.compile(r"(?:: Skipped\n(.*)\n+)?\[  SKIPPED \] (\S+) \(\d+ ms\)$", re.MULTILINE)


def tests_of(path):
    """The entries of one log; one that is missing or cut off counts as what it holds."""
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except FileNotFoundError:
        return


def say(text):
    print(f"check: {text}")


def report(label, test):
    """Says what is to be known of one test; returns what it counts as."""
    result, output = test["result"], test.get("stdout", "")
    if result in PASSED:
        for why, case in SKIPPED_CASE.findall(output):
            say(f"{label}: {test['name']}: {case} was skipped: {why or 'no reason given'}")
        return "passed"
    if result == "SKIP":
        last = (output.strip() or "no reason given").splitlines()[-1]
        say(f"{label}: {test['name']}: skipped: {last}")
        return "skipped"
    say(f"{label}: {test['name']}: {result} (status {test.get('returncode')})")
    for line in (output + test.get("stderr", "")).splitlines()[-60:]:
        print(f"    {line}")
    return "failed"


def main(arguments):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    while arguments and arguments[0] == "--failed":
        say(f"{arguments[1]}: FAILED")
        counts["failed"] += 1
        del arguments[:2]
    for argument in arguments:
        label, _, path = argument.partition("=")
        for test in tests_of(path):
            counts[report(label, test)] += 1
    print(", ".join(f"{number} {what}" for what, number in counts.items()), flush=True)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
