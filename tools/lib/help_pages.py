#!/usr/bin/env python3
"""Manual pages and bash completion, made from what programs print for --help (CLI11's layout, or any text).

    help_pages.py man SECTION VERSION NAME COMMAND...         roff on standard output
    help_pages.py completion NAME COMMAND...                  a bash completion script on standard output

COMMAND prints the help when --help is added. Subcommands are asked for theirs.
"""
import re
import subprocess
import sys

HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")
COLUMN = 30  # where CLI11 begins an option's description
# Options after which a file name, and nothing else, is expected.
TAKES_FILE = re.compile(r"(?<!no )\bfiles?\b|pcapng|\(JSON\)|\(CSV\)|\*\.svg|UNIX socket", re.IGNORECASE)


class Help:
    """What a program says of itself."""

    def __init__(self, command):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
        lines = done.stdout.rstrip().splitlines()
        usage = next((i for i, line in enumerate(lines) if line.startswith("Usage: ")), None)
        self.plain = None if usage is not None else done.stdout.rstrip()
        self.description = " ".join(lines[:usage]) if usage is not None else ""
        self.usage = lines[usage].split(" ", 2)[-1] if usage is not None else ""
        self.sections = {}  # heading -> [(what, description)]
        self.footer = []
        entries = None
        for line in lines[usage + 1:] if usage is not None else []:
            heading = HEADING.match(line)
            if heading:
                entries = self.sections.setdefault(heading.group(1), [])
            elif not line.startswith("  ") and line:
                entries = None
                self.footer.append(line)
            elif self.footer:
                self.footer.append(line)
            elif entries is not None and line.strip():
                self.entry(entries, line)

    @staticmethod
    def entry(entries, line):
        if line[:COLUMN].strip() == "":
            what, described = entries.pop()
            entries.append((what, f"{described} {line.strip()}".strip()))
            return
        what, _, described = line.strip().partition("  ")
        entries.append((what, described.strip()))

    def options(self):
        """[(all its names, the value that follows or "", description)]"""
        found = []
        for what, described in self.sections.get("Options", []):
            names, _, value = what.partition(" ")
            found.append((names.split(","), value, described))
        return found

    def subcommands(self):
        return [what for what, _ in self.sections.get("Subcommands", [])]


def roff(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def roff_body(asked, level):
    out = []
    for heading, entries in asked.sections.items():
        if heading == "Subcommands":
            continue
        out.append(f"{level} {heading.upper() if level == '.SH' else heading}")
        for what, described in entries:
            out += [".TP", "\\fB" + roff(what) + "\\fR", roff(described)]
    if asked.footer:
        out += [".PP", ".nf", *(roff(line) for line in asked.footer), ".fi"]
    return out


def man(section, version, name, command):
    asked = Help(command)
    summary = (asked.description or asked.plain.splitlines()[0]).split(". ")[0].rstrip(".")
    out = [f'.TH "{name.upper()}" "{section}" "" "understudy {version}" "User Commands"', ".SH NAME",
           f"{roff(name)} \\- {roff(summary)}"]
    if asked.plain is not None:
        out += [".SH USAGE", ".nf", *(roff(line) for line in asked.plain.splitlines()), ".fi"]
        return out
    out += [".SH SYNOPSIS", f"\\fB{roff(name)}\\fR {roff(asked.usage)}", ".SH DESCRIPTION", roff(asked.description)]
    out += roff_body(asked, ".SH")
    for sub in asked.subcommands():
        more = Help([*command, sub])
        # CLI11 prints the whole call: only what follows the subcommand is wanted.
        usage = more.usage.partition(f"{sub} ")[2]
        out += [f'.SH "{name.upper()} {sub.upper()}"', f"\\fB{roff(f'{name} {sub}')}\\fR {roff(usage)}", ".PP", roff(more.description)]
        out += roff_body(more, ".SS")
    return out


def words_of(asked):
    return " ".join(name for names, _, _ in asked.options() for name in names)


def values_of(asked):
    """(options that want a file name, options that want another value)"""
    files, others = [], []
    for names, value, described in asked.options():
        if value:
            (files if value == "TEXT:FILE" or TAKES_FILE.search(described) else others).extend(names)
    return files, others


def completion(name, command):
    asked = Help(command)
    function = "_" + re.sub(r"\W", "_", name)
    everything = {"": asked} | {sub: Help([*command, sub]) for sub in asked.subcommands()}
    out = [f"# Completion of {name} for bash, made from its --help.", f"{function}() {{",
           "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} sub= options= files= others= w",
           "  COMPREPLY=()"]
    if len(everything) > 1:
        subs = "|".join(asked.subcommands())
        out += ["  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do", f"    case $w in {subs}) sub=$w && break ;; esac", "  done"]
    out.append("  case $sub in")
    for sub, of_sub in everything.items():
        files, others = values_of(of_sub)
        pattern = sub or '""'
        out.append(f'    {pattern}) options="{words_of(of_sub)}" files=" {" ".join(files)} " others=" {" ".join(others)} " ;;')
    out += ["  esac",
            "  case $word in -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) && return ;; esac",
            "  case $others in *\" $before \"*) return ;; esac"]
    if len(everything) > 1:
        out.append('  if [ -z "$sub" ]; then COMPREPLY=($(compgen -W "'
                   + " ".join(asked.subcommands()) + '" -- "$word")) && return; fi')
    out += ["  compopt -o filenames 2>/dev/null", "  mapfile -t COMPREPLY < <(compgen -f -- \"$word\")", "}",
            f"complete -F {function} {name}"]
    return out


def main(arguments):
    if len(arguments) >= 5 and arguments[0] == "man":
        out = man(arguments[1], arguments[2], arguments[3], arguments[4:])
    elif len(arguments) >= 3 and arguments[0] == "completion":
        out = completion(arguments[1], arguments[2:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(line for line in out if line is not None))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
