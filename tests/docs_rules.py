#!/usr/bin/env python3
"""Whether the documents hold together: their links, what sources cite of them, and the ids of conformance rules.

    docs_rules.py [ROOT]     prints every finding; exit 1 if there is one

Sources cite a section as `docs/nccl 2.3`, `docs/nccl G.4` or `docs/nccl appendix H`, a rule of the engine as
"design rule 3" and a conformance rule as "rule A4.3" or in a test's tag "rules: A4.2 A4.11".
"""
import pathlib
import re
import sys
import tomllib

FOLDERS = ("dataplane", "collective_model", "ctrl", "tools", "tests", "configs", "python")
SOURCES = {".h", ".hpp", ".cc", ".cpp", ".c", ".py", ".build", ".toml", ".sh"}
# Where conformance rules and rules of the engine are explained.
RULE_DOCUMENTS = ("docs/rocev2.md", "docs/rdma_cm.md")
DESIGN_RULES = "docs/design_rules.md"
CONFORMANCE = "tests/conformance/rules.toml"
# This check and its test write citations of documents that they make up.
OWN_FILES = {"tests/docs_rules.py", "tests/docs_test.py"}

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?:Appendix\s+)?([A-Z]\d*(?:\.\d+)+|[A-Z]\d+|\d+(?:\.\d+)*|[A-Z])\b")
# Folders of a machine, not of a repository.
OUTSIDE = re.compile(r"(?<![\w.\-/])/(?:home|root|mnt|media|srv|Users)\b(?:/[\w.\-/]*)?")
OLD_NAMES = {"docs/decisions/names.md"}  # lists paths that the tree does not have any more
OWN_PATH = re.compile(r"(?:%s|docs)/[\w./-]*\w" % "|".join(FOLDERS))

# From one word of a comment to the next, perhaps on the next line.
GAP = r"(?:[ \t]*\n[ \t]*(?:///?<?|#)?[ \t]*|[ \t]+)"
SECTION = r"(?:appendix%s[A-Z]|[A-Z]\d*(?:\.\d+)+|[A-Z]\d+|\d+(?:\.\d+)*)(?![\w])" % GAP
ASIDE = r"(?:%s\([a-z ]+\))?" % GAP
SEPARATOR = r"(?:-|,?%sand%s|,?%sto%s|,%s|%s)" % ((GAP,) * 6)
CITATION = re.compile(r"(?<![\w./])(docs/[\w./-]*\w)(?:#([\w-]+))?(?:%s(%s%s(?:%s%s%s)*))?" %
                      (GAP, SECTION, ASIDE, SEPARATOR, SECTION, ASIDE))
RULE = re.compile(r"\brules?:?%s(A\d+(?:\.\d+)?(?:%sA\d+(?:\.\d+)?)*)" % (GAP, SEPARATOR))
DESIGN_RULE = re.compile(r"\bdesign%srules?%s(\d+(?:(?:,%s|%sto%s|%sand%s)\d+)*)" % ((GAP,) * 7))


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def headings(text):
    return HEADING.findall(FENCE.sub("", text))


def anchors(text):
    seen, found = {}, set()
    for heading in headings(text):
        name = slug(heading)
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def sections(text):
    """Numbers of a document's sections, and all that they begin with: 2.3.1 makes 2.3 and 2 exist."""
    found = set()
    for heading in headings(text):
        number = NUMBER.match(heading)
        if number:
            parts = number.group(1).split(".")
            found |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    return found


def rule_ids(text):
    """Ids of conformance rules that a document explains: `**A4.3**`, or a heading of that number."""
    return set(re.findall(r"^\* \*\*(A\d+\.\d+)\*\*", text, re.MULTILINE)) | {
        s for s in sections(text) if re.fullmatch(r"A\d+(\.\d+)?", s)}


def read(path):
    return path.read_text(encoding="utf-8")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def documents(root):
    own = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    return [d for d in own if d.is_file()] + sorted((root / "docs").rglob("*.md"))


def sources(root):
    """Text files of the tree that may cite documents; test data are not among them."""
    files = [root / "meson.build"] + [f for folder in FOLDERS for f in sorted((root / folder).rglob("*"))]
    for file in files:
        name = file.relative_to(root).as_posix()
        if not file.is_file() or name in OWN_FILES or name.startswith("tests/data/"):
            continue
        if file.suffix in SOURCES:
            yield file
        elif not file.suffix:
            with file.open("rb") as opened:
                if opened.read(2) == b"#!":
                    yield file


def inside(root, path):
    return path.resolve().is_relative_to(root.resolve())


def check_document(root, file):
    """Its links, its paths of this repository, and paths that are not of it."""
    text = read(file)
    name = file.relative_to(root).as_posix()
    prose = FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)
    unquoted = SPAN.sub(lambda m: " " * len(m.group()), prose)
    for link in LINK.finditer(unquoted):
        target, _, anchor = link.group(1).partition("#")
        line = line_of(prose, link.start())
        if re.match(r"[a-z]+:", link.group(1)):
            continue
        to = file.parent / target if target else file
        if not inside(root, to):
            yield name, line, f"{target} leads out of the repository"
        elif not to.exists():
            yield name, line, f"{target} does not exist"
        elif anchor and to.suffix == ".md" and anchor not in anchors(read(to)):
            yield name, line, f"{link.group(1)} names no heading"
    for span in SPAN.finditer(prose) if name not in OLD_NAMES else ():
        path = OWN_PATH.match(span.group(1))
        end = span.group(1)[path.end():] if path else "*"
        if path and (not end or end[0] in " /:#") and not (root / path.group()).exists():
            yield name, line_of(prose, span.start()), f"{path.group()} does not exist"
    for path in OUTSIDE.finditer(text):
        yield name, line_of(text, path.start()), f"{path.group()} is not in the repository"


class Cited:
    """What the tree's documents have that sources can cite."""

    def __init__(self, root):
        self.root = root
        self.rules = set()
        for name in RULE_DOCUMENTS:
            if (root / name).is_file():
                self.rules |= rule_ids(read(root / name))
        design = root / DESIGN_RULES
        self.design = set(re.findall(r"^#+ Rule (\d+)\b", read(design), re.MULTILINE)) if design.is_file() else set()

    def files(self, path):
        """The documents that a citation names: one file, or all of a folder."""
        place = self.root / path
        if place.is_dir():
            return sorted(place.rglob("*.md"))
        if not place.is_file():
            place = self.root / (path + ".md")
        return [place] if place.is_file() else []


def check_source(cited, file):
    text = read(file)
    name = file.relative_to(cited.root).as_posix()
    for citation in CITATION.finditer(text):
        path, anchor, numbers = citation.groups()
        line = line_of(text, citation.start())
        files = cited.files(path)
        if not files:
            yield name, line, f"{path} does not exist"
            continue
        texts = [read(f) for f in files if f.suffix == ".md"]
        if anchor and not any(anchor in anchors(t) for t in texts):
            yield name, line, f"{path}#{anchor} names no heading"
        known = set().union(*(sections(t) for t in texts))
        for number in re.findall(r"[A-Z]\d*(?:\.\d+)+|[A-Z]\d+|\d+(?:\.\d+)*|\b[A-Z]\b", numbers or ""):
            if number not in known:
                yield name, line, f"{path} has no section {number}"
    for rule in RULE.finditer(text):
        for number in re.findall(r"A\d+(?:\.\d+)?", rule.group(1)):
            if number not in cited.rules:
                yield name, line_of(text, rule.start()), f"no document explains rule {number}"
    for rule in DESIGN_RULE.finditer(text):
        for number in re.findall(r"\d+", rule.group(1)):
            if number not in cited.design:
                yield name, line_of(text, rule.start()), f"{DESIGN_RULES} has no rule {number}"


def check_conformance(root):
    """The list of conformance rules and the documents have the same ids."""
    if not (root / CONFORMANCE).is_file():
        return
    listed = {f"{section}.{number}" for section, rows in tomllib.loads(read(root / CONFORMANCE)).items()
              if section != "out_of_scope" for number in rows}
    explained = {r for r in Cited(root).rules if "." in r}
    for rule in sorted(listed - explained):
        yield CONFORMANCE, 1, f"no document explains rule {rule}"
    for rule in sorted(explained - listed):
        yield RULE_DOCUMENTS[0], 1, f"rule {rule} is not in {CONFORMANCE}"


def check(root):
    """[(file, line, what is wrong)]"""
    root = pathlib.Path(root)
    found = [f for document in documents(root) for f in check_document(root, document)]
    cited = Cited(root)
    found += [f for source in sources(root) for f in check_source(cited, source)]
    return found + list(check_conformance(root))


def main():
    found = check(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    for file, line, what in found:
        print(f"{file}:{line}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
