#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks of comments and documents that a script can make. CONTRIBUTING.md, "Rules for words", has the rules.

1. No `///` or `//!` comment opens with What, Who, Whom, That which or So many.
2. A handwritten page has at most 250 lines. Its lines have at most 100 columns, tables and code excepted.
3. No cell of a table has more than 80 characters.
4. Every link to a file of the repository leads to one, and its heading exists.
5. docs/README.md lists every page below docs/.
6. docs/reference/versions.md has the numbers of the source.

Usage: .ci/prose.py            refuses what breaks a rule
       .ci/prose.py --figures  also prints counts
"""
import os
import re
import subprocess
import sys

OPENING = re.compile(r"//[/!] *(What|Who|Whom|That which|So many)\b")
PAGE_LINES_MAX = 250
COLUMNS_MAX = 100
CELL_CHARS_MAX = 80
# Pages that a program makes say so at the top.
MADE = re.compile(r"\b(Made|Written) by `")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], capture_output=True, text=True, check=True)
    return sorted(path for path in listed.stdout.split("\n") if path and os.path.isfile(path))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def comments(faults):
    """Doc comments whose first line opens with a word that says nothing."""
    count = 0
    for path in tracked("*.rs"):
        before = ""
        for number, line in enumerate(read(path).split("\n"), 1):
            line = line.strip()
            marker = line[:3]
            is_first = not before.startswith(marker) or before == marker
            if marker in ("///", "//!") and is_first:
                count += 1
                if OPENING.match(line):
                    faults.append(f"{path}:{number}: open with a noun or a verb: {line}")
            before = line
    return count


def slug(heading):
    """The name by which GitHub links a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    found, seen = set(), {}
    for heading in re.findall(r"^#+ +(.*)$", read(path), re.M):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def shown(cell):
    """A cell as a reader sees it: a link is its text."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)


def page(path, faults):
    text = read(path)
    lines = text.rstrip("\n").split("\n")
    is_made = bool(MADE.search("\n".join(lines[:12])))
    if not is_made and len(lines) > PAGE_LINES_MAX:
        faults.append(f"{path}: {len(lines)} lines; split it: a page has at most {PAGE_LINES_MAX}")
    fenced = is_part = False
    for number, line in enumerate(lines, 1):
        if line.startswith("<!-- "):
            is_part = "made by `" in line
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or is_made or is_part:
            continue
        elif line.lstrip().startswith("|"):
            for cell in cells(line):
                if len(shown(cell)) > CELL_CHARS_MAX:
                    faults.append(f"{path}:{number}: a cell of {len(shown(cell))} characters; make it a list: {cell[:60]}")
        elif len(line) > COLUMNS_MAX and " " in line.strip()[: COLUMNS_MAX].lstrip("-*# "):
            faults.append(f"{path}:{number}: {len(line)} columns; wrap at {COLUMNS_MAX}")
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(target):
            faults.append(f"{path}: the link {link} leads nowhere")
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            faults.append(f"{path}: {target} has no heading #{anchor}")
    return len(text.split())


def index(pages, faults):
    listed = read("docs/README.md") if os.path.exists("docs/README.md") else ""
    for path in pages:
        name = os.path.relpath(path, "docs")
        if path.startswith("docs/") and name != "README.md" and f"]({name})" not in listed:
            faults.append(f"docs/README.md does not list {name}")


# The text of docs/reference/versions.md before a number in parentheses, and the file and the constant of that number.
VERSIONS = [
    ("**Segment of a NIC** ", "crates/homes/host/src/segment.rs", "VERSION"),
    ("and its tables ", "crates/core/nic/src/registers/description.rs", "VERSION"),
    ("**Rings** between two processes ", "crates/core/nic/src/ring/layout.rs", "VERSION"),
    ("**Page of links** ", "crates/homes/host/src/links.rs", "VERSION"),
    ("**Links between hosts**: greeting ", "crates/homes/net/src/greeting.rs", "VERSION"),
    (", packets ", "crates/core/nic/src/packet.rs", "VERSION"),
    ("the release, and a number of its own ", "crates/engines/launcher/src/hosts/wire.rs", "PROTOCOL"),
    ("**Simulator and rank** ", "crates/homes/sim-protocol/src/page.rs", "VERSION"),
    ("**Frames of the fabric's daemons** ", "crates/core/fabric-manager/src/wire.rs", "VERSION"),
    ("**Aggregation manager and nodes** ", "crates/engines/collectives/src/service/wire.rs", "VERSION"),
    ("**The manager's saved state** ", "crates/core/manager/src/saved.rs", "VERSION"),
    ("**Share of a job in aggregation nodes** ", "crates/core/manager/src/grant.rs", "VERSION"),
]


def versions(faults):
    path = "docs/reference/versions.md"
    text = " ".join(read(path).split())
    for before, source, constant in VERSIONS:
        number = re.search(rf"^(?:pub(?:\([a-z]+\))? )?const {constant}: u\d+ = (\d+);", read(source), re.M)
        if not number:
            faults.append(f"{source} has no constant {constant}")
        elif f"{before}({number[1]})" not in text:
            faults.append(f"{path}: '{before}' is not followed by ({number[1]}), which {source} has")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    faults = []
    openings = comments(faults)
    pages = tracked("*.md")
    words = sum(page(path, faults) for path in pages)
    index(pages, faults)
    versions(faults)
    if "--figures" in sys.argv[1:]:
        print(f"doc comments: {openings}; pages: {len(pages)}, {words} words")
    for fault in faults:
        print(f"prose: {fault}", file=sys.stderr)
    if faults:
        sys.exit(f"prose: {len(faults)} faults")
    print("prose: comments open with what they are about; pages are short, and their links lead somewhere")


main()
