#!/usr/bin/env python3
"""Sums up the logs that `meson test` left behind: names what was skipped and what failed, and ends
with one line 'N passed, N failed, N skipped'. Status 1 if anything failed. Who sees the last lines
only sees all failures: what they said comes first, their names after all of it.

usage: test_summary.py [--failed NAME[=OUTPUT]]... LABEL=testlog.json...
  --failed  a step that is no test; OUTPUT: a file with what it printed
"""
import json
import re
import sys

PASSED = ("OK", "EXPECTEDFAIL")
LINES_OF_TEST, LINES_OF_STEP = 60, 20  # the last of what it printed
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


def last_lines(text, count):
    for line in text.splitlines()[-count:]:
        print(f"    {line}")


def report_step(name, path):
    """A step that failed, and the end of what it printed."""
    say(f"{name}: FAILED")
    if path:
        with open(path, encoding="utf-8", errors="replace") as file:
            last_lines(file.read(), LINES_OF_STEP)


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
    last_lines(output + test.get("stderr", ""), LINES_OF_TEST)
    return "failed"


def main(arguments):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed, steps = [], []
    while arguments and arguments[0] == "--failed":
        name, _, path = arguments[1].partition("=")
        steps.append((name, path))
        failed.append(name)
        del arguments[:2]
    counts["failed"] += len(steps)
    for argument in arguments:
        label, _, path = argument.partition("=")
        for test in tests_of(path):
            what = report(label, test)
            counts[what] += 1
            if what == "failed":
                failed.append(f"{label}: {test['name']}")
    for step in steps:
        report_step(*step)
    for name in failed:
        say(f"failed: {name}")
    print(", ".join(f"{number} {what}" for what, number in counts.items()), flush=True)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
