#!/usr/bin/env python3
"""Format and clang-tidy of this checkout's C++; tools/check calls it.

    lint.py format [--fix]                                     every file as .clang-format has it
    lint.py tidy BUILD [--all | --since COMMIT] [--seconds N]  clang-tidy (.clang-tidy) of files of dataplane,
                                                               collective_model, ctrl and tools

`tidy` takes what has changed since COMMIT (default: see base()), or all files. It reads BUILD/compile_commands.json, which
g++ may have been set up for, as long as BUILD has no unity builds. Most of what a file costs is what it includes: clang-tidy
sees files of one target a few at a time, and each alone where these do not go together. After N seconds it begins with
nothing further and says how many files are left. The findings come again at the end, a line each. Exit status: 0 clean, 1
not, 2 bad arguments or nothing to read. Without git nobody knows what has changed: then `tidy` says so and looks at nothing,
and `format` takes the files that lie in the source folders.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("dataplane", "collective_model", "ctrl", "tools", "tests")
TIDIED = re.compile(r"(dataplane|collective_model|ctrl|tools)/")
SUFFIXES = (".h", ".cc", ".c", ".cpp", ".hpp")
RECORDED = "tests/data/"  # what others wrote stays as it is
# Flags of meson.build that clang does not know and says so even when asked for no warnings.
GCC_ONLY = ("-mmemset-strategy=", "-mmemcpy-strategy=")
TOGETHER = 5  # files that are looked at in one go
FINDING = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):\d+: (?:error|warning): (?P<what>.*)$")
MOST_LINES = 15  # of findings at the end


def say(text):
    print(f"lint: {text}", flush=True)


def git(*words):
    """What git prints about this checkout, as lines; None if it cannot say."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def sources():
    """Every C++ file, from the root."""
    files = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS)
    if files is None:
        files = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    return [f for f in files if f.endswith(SUFFIXES) and not f.startswith(RECORDED) and (ROOT / f).is_file()]


def base():
    """What changes are counted from: where this branch left the main one, or, on that, the parent commit. None without git."""
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    for name in ("origin/HEAD", "origin/main", "main", "origin/master", "master"):
        merge_base = git("merge-base", "HEAD", name)
        if merge_base and merge_base != head:
            return merge_base[0]
    parent = git("rev-parse", "--verify", "--quiet", "HEAD^")
    return (parent or head)[0]


def changed(since):
    """C++ files that differ from `since`, new ones among them."""
    files = git("diff", "--name-only", "--diff-filter=d", since)
    if files is None:
        return None
    new = git("ls-files", "--others", "--exclude-standard") or []
    return sorted(set(files + new) & set(sources()))


def format_all(fix):
    files = sources()
    command = ["clang-format", "-i"] if fix else ["clang-format", "--dry-run", "-Werror"]
    status = 0
    for i in range(0, len(files), 100):  # the length of a command line is limited
        done = subprocess.run([*command, *files[i:i + 100]], cwd=ROOT, check=False)
        status = status or done.returncode
    say(f"format: {len(files)} files, " + ("fixed" if fix else "clean" if status == 0 else "NOT clean (tools/check --format mends it)"))
    return 1 if status else 0


def commands_for_clang(build):
    """BUILD's command of each file that is looked at, by its path from the root, without flags that only g++ knows."""
    commands = {}
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = os.path.relpath(os.path.join(command["directory"], command["file"]), ROOT)
        if not TIDIED.match(path):
            continue
        words = [w for w in command["command"].split(" ") if not w.strip("'\"").startswith(GCC_ONLY)]
        commands[path] = {**command, "command": " ".join(words)}
    return commands


def like(command):
    """What files must have in common to be compiled as one: directory and words, but for those that name the file."""
    own = pathlib.Path(command["file"]).name
    words = command["command"].split(" ")
    return command["directory"], *(w for i, w in enumerate(words) if own not in w and words[i - 1] not in ("-o", "-MF", "-MQ"))


def in_groups(units, commands):
    """`units` in lists of a few that can be compiled as one file."""
    groups = []
    of_target = {}
    for unit in units:
        group = of_target.get(like(commands[unit]))
        if group is None or len(group) == TOGETHER:
            group = of_target[like(commands[unit])] = []
            groups.append(group)
        group.append(unit)
    return groups


def units_of(files, compiled):
    """Those of `compiled` by which clang-tidy sees `files`: a header by its own .cc or the first that includes it."""
    units, unseen = set(), []
    for file in files:
        own = str(pathlib.Path(file).with_suffix(".cc"))
        if file in compiled:
            units.add(file)
        elif own in compiled:
            units.add(own)
        elif file.endswith(".h"):
            unseen.append(file)
    for header in unseen:
        line = f'#include "{header}"'
        user = next((c for c in compiled if line in (ROOT / c).read_text(encoding="utf-8")), None)
        if user:
            units.add(user)
    return sorted(units)


def findings_of(folder, command, files):
    """What clang-tidy says of files as one; empty if nothing. Raises ValueError where they cannot be compiled as one."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        together = pathlib.Path(own) / "together.cc"
        together.write_text("".join(f'#include "{ROOT / file}"  // NOLINT(bugprone-suspicious-include)\n' for file in files), encoding="utf-8")
        if len(files) == 1:
            together = ROOT / files[0]
        words = [str(together) if word == command["file"] else word for word in command["command"].split(" ")]
        (pathlib.Path(own) / "compile_commands.json").write_text(
            json.dumps([{"directory": command["directory"], "file": str(together), "command": " ".join(words)}]), encoding="utf-8")
        done = subprocess.run(["clang-tidy", "-quiet", "-p", own, f"--config-file={ROOT}/.clang-tidy", f"--header-filter=/{TIDIED.pattern}.*",
                               str(together)], capture_output=True, text=True, check=False)
    if len(files) > 1 and "clang-diagnostic-error" in done.stdout:
        raise ValueError
    return (done.stdout.strip() or done.stderr.strip()) if done.returncode else ""


def tidy_group(folder, commands, files):
    """[(file or files, what is said)]"""
    try:
        text = findings_of(folder, commands[files[0]], files)
        return [(" ".join(files), text)] if text else []
    except ValueError:
        return [found for file in files for found in tidy_group(folder, commands, [file])]


def tidy_units(commands, units, seconds):
    """(number looked at, what was found as texts)"""
    end = time.monotonic() + seconds if seconds else None
    looked, texts = 0, []
    waiting = in_groups(units, commands)[::-1]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        running = {}
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)) and (end is None or time.monotonic() < end):
                group = waiting.pop()
                running[pool.submit(tidy_group, folder, commands, group)] = len(group)
            if not running:
                break
            for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                looked += running.pop(future)
                for files, text in future.result():
                    print(f"{files}:\n{text}", flush=True)
                    texts.append(text)
    return looked, texts


def in_lines(texts):
    """Each finding once, as one line; without any that is recognised, the last line of each text."""
    lines = []
    for text in texts:
        found = [match for match in map(FINDING.match, text.splitlines()) if match]
        for match in found:
            path = match["file"]
            # Headers are named from the build folder on.
            path = os.path.relpath(os.path.realpath(path), os.path.realpath(ROOT)) if os.path.isabs(path) else re.sub(r"^(\.\./)+", "", path)
            lines.append(f"{path}:{match['line']}: {match['what'].replace(',-warnings-as-errors', '')}")
        if not found:
            lines.append(text.splitlines()[-1])
    return sorted(set(lines))


def tidy(build, take_all, since, seconds):
    if not (build / "compile_commands.json").is_file():
        say(f"tidy: no {build}/compile_commands.json: meson setup makes it")
        return 2
    commands = commands_for_clang(build)
    if take_all:
        units, what = sorted(commands), "all files"
    else:
        since = since or base()
        files = changed(since) if since else None
        if files is None:
            say(f"tidy: skipped: git does not say what has changed{f' since {since}' if since else ''}")
            return 0
        units, what = units_of([f for f in files if TIDIED.match(f)], sorted(commands)), f"what changed since {since[:12]}"
    looked, texts = tidy_units(commands, units, seconds)
    lines = in_lines(texts)
    for line in lines[:MOST_LINES]:
        say(line)
    left = len(units) - looked
    say(f"tidy: {what}: {looked} of {len(units)} files looked at, {len(lines)} findings" +
        (f"; {left} left when {seconds} s were over: tools/check --lint looks at them" if left else ""))
    return 1 if lines else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    formatter = verbs.add_parser("format")
    formatter.add_argument("--fix", action="store_true")
    tidier = verbs.add_parser("tidy")
    tidier.add_argument("build", type=pathlib.Path)
    which = tidier.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true")
    which.add_argument("--since")
    tidier.add_argument("--seconds", type=int, default=0)
    arguments = parser.parse_args()
    program = "clang-format" if arguments.verb == "format" else "clang-tidy"
    if shutil.which(program) is None:
        say(f"no {program} (Debian package {program})")
        return 2
    if arguments.verb == "format":
        return format_all(arguments.fix)
    return tidy(arguments.build, arguments.all, arguments.since, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
