#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks the source against the plan of ARCHITECTURE.md, "The house". Needs only Python 3.11.

    .ci/house.py             checks the rules below; exit status 1 names each breach
    .ci/house.py --figures   prints the figures, even if no rule is broken

Rules
1. Arrows between crates point down: a crate depends only on crates of lower folders, or of lower rows of its own folder.
2. The files of a crate that use each other in a cycle are at most six.
3. A handwritten file has at most 600 lines before its tests.
4. The `impl` blocks of one type stand in at most five files.

Tests, generated files and headers of others do not count. It reads text: macros and globs are not followed.
"""

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CYCLE_FILES_MAX = 6
FILE_LINES_MAX = 600
IMPL_FILES_MAX = 5

# Lower rows first. Crates of one row do not depend on each other.
ROWS = [
    "core/nic core/fabric",
    "core/manager core/fabric-manager",
    "homes/os homes/settings homes/document",
    "homes/job homes/libfabric homes/trace homes/sim-protocol homes/otf2",
    "homes/host",
    "homes/net homes/sim",
    "engines/process",
    "engines/messages engines/collectives",
    "engines/launcher",
    "doors/portals doors/shmem doors/fi doors/extoll doors/sharp doors/nccl doors/mpi-collectives",
    "preload/mpi preload/mpich preload/openmpi preload/sim-clocks preload/sim-pmix preload/sim-mpi",
    "tools/terminal",
    "tools/rtl tools/daemon",
    "tools/page",
    "tools/cli",
]
# Doors and preload libraries are C libraries: no other crate links them.
LEAVES = ("doors/", "preload/")

# Generated files, and interfaces that others define.
GENERATED = re.compile(
    r"^(registers/generated/|include/(shmem|shmemx|pshmem|portals4|selvedge_registers)\.h|include/sharp/"
    r"|crates/core/nic/src/registers/description\.rs)"
)
TESTS = re.compile(r"(^|/)(tests?|fixtures|examples)/|_tests?\.(rs|py)$|/tests?\.rs$|/testing\.rs$|(^|/)test_[^/]*\.py$")


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True)
    return sorted(path for path in listed.stdout.decode().split("\n") if path and (ROOT / path).is_file())


# ---- arrows between crates


def crates():
    """Maps folders below crates/ to (package name, names of the packages it depends on, without those of tests and examples)."""
    found = {}
    for manifest in sorted((ROOT / "crates").glob("*/*/Cargo.toml")):
        read = tomllib.loads(manifest.read_text())
        wanted = set()
        for table in [read, *read.get("target", {}).values()]:
            for kind in ("dependencies", "build-dependencies"):
                wanted |= set(table.get(kind, {}))
        found[str(manifest.parent.relative_to(ROOT / "crates"))] = (read["package"]["name"], wanted)
    return found


def arrows_up():
    row_of = {name: number for number, row in enumerate(ROWS) for name in row.split()}
    found = crates()
    folder_of = {name: folder for folder, (name, _) in found.items()}
    breaches = []
    for folder, (_, wanted) in found.items():
        if folder not in row_of:
            breaches.append(f"crates/{folder}: no row of .ci/house.py names it; add it where it belongs")
            continue
        for target in sorted(folder_of[name] for name in wanted if name in folder_of):
            if row_of.get(target, 0) >= row_of[folder] or target.startswith(LEAVES):
                breaches.append(f"crates/{folder} depends on crates/{target}, which is not below it")
    return breaches


# ---- files of a crate


def without_tests(text):
    """The lines before the unit tests, which are the last part of a file."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("#[cfg(test)]") or line.startswith("#[cfg(all(test"):
            rest = [later for later in lines[number + 1 :] if later and not later.startswith("#[")]
            if rest and re.match(r"(pub(\(crate\))? )?mod \w+ \{", rest[0]):
                return lines[:number]
    return lines[:-1] if lines and not lines[-1] else lines


def modules(root_file):
    """Maps module paths (tuples) to files, without tests."""
    found = {(): root_file}
    queue = [((), root_file)]
    while queue:
        path, file = queue.pop()
        text = "\n".join(without_tests(file.read_text()))
        # Folder of the file's `mod name;` modules.
        below = file.parent if file.name in ("mod.rs", "lib.rs", "main.rs") else file.parent / file.stem
        for attributes, name in re.findall(r"((?:^#\[[^\n]*\]\n)*)^(?:pub(?:\([a-z ]+\))? )?mod (\w+);", text, re.M):
            if "cfg(test)" in attributes:
                continue
            given = re.search(r'path = "([^"]+)"', attributes)
            places = [file.parent / given[1]] if given else [below / f"{name}.rs", below / name / "mod.rs"]
            for place in places:
                if place.is_file():
                    found[(*path, name)] = place.resolve()
                    queue.append(((*path, name), place.resolve()))
                    break
    return found


def use_paths(tree, before=()):
    """The full paths of a use tree, as tuples of (path, local name)."""
    tree = tree.strip()
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(tree):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(tree[start:at])
            start = at + 1
    parts.append(tree[start:])
    for part in filter(None, map(str.strip, parts)):
        if "{" in part:
            head, inner = part.split("{", 1)
            above = tuple(piece.strip() for piece in head.split("::") if piece.strip())
            yield from use_paths(inner.rsplit("}", 1)[0], (*before, *above))
        else:
            path, _, alias = part.partition(" as ")
            pieces = (*before, *(piece.strip() for piece in path.split("::") if piece.strip()))
            if pieces and pieces[-1] == "self":
                pieces = pieces[:-1]
            if pieces:
                yield pieces, (alias.strip() or pieces[-1])


def stripped(text):
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def uses(root_file):
    """Maps a file to the files of the same crate whose items it names. A re-export leads to the file that defines the item."""
    files = modules(root_file)
    text_of = {path: stripped("\n".join(without_tests(file.read_text()))) for path, file in files.items()}
    statements = {
        path: [(bool(public), *found) for public, tree in re.findall(r"^\s*(pub(?:\([a-z ]+\))? )?use ([^;]+);", text, re.M) for found in use_paths(tree)]
        for path, text in text_of.items()
    }

    def absolute(here, pieces):
        if pieces[0] == "crate":
            return pieces[1:]
        if pieces[0] == "self":
            return (*here, *pieces[1:])
        if pieces[0] == "super":
            while pieces and pieces[0] == "super":
                here, pieces = here[:-1], pieces[1:]
            return (*here, *pieces)
        return (*here, *pieces) if (*here, pieces[0]) in files else None

    def defined_in(path, depth=0):
        """The module that defines the item at an absolute path."""
        module = max((path[:length] for length in range(len(path) + 1) if path[:length] in files), key=len)
        rest = path[len(module) :]
        if rest and depth < 8:
            for public, pieces, name in statements[module]:
                if public and name == rest[0]:
                    target = absolute(module, pieces)
                    if target is not None and target != path:
                        return defined_in((*target, *rest[1:]), depth + 1)
        return module

    arrows = {}
    for here, text in text_of.items():
        targets = set()
        for public, pieces, _ in statements[here]:
            target = absolute(here, pieces)
            # A re-export only names an item; it uses nothing.
            if target is not None and not public:
                targets.add(defined_in(target))
        body = re.sub(r"^\s*(pub(?:\([a-z ]+\))? )?use [^;]+;", "", text, flags=re.M)
        for path in re.findall(r"\b((?:crate|super|self)(?:::\w+)+)", body):
            target = absolute(here, tuple(path.split("::")))
            if target is not None:
                targets.add(defined_in(target))
        arrows[here] = {target for target in targets if target != here}
    return files, arrows


def circles(arrows):
    """The strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(arrows[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10_000)
    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def cycles():
    """Files of each cycle of `use`, longest first."""
    found = []
    for folder in crates():
        for name in ("lib.rs", "main.rs"):
            root_file = ROOT / "crates" / folder / "src" / name
            if root_file.is_file():
                files, arrows = uses(root_file.resolve())
                # The file that declares all others does not count as a part of a cycle.
                arrows.pop((), None)
                arrows = {here: targets - {()} for here, targets in arrows.items()}
                for part in circles(arrows):
                    found.append([str(files[path].relative_to(ROOT)) for path in part])
    return sorted(found, key=lambda part: (-len(part), part))


def widest_impls():
    """Maps (type, crate) to the files with an inherent `impl` of the type."""
    found = defaultdict(set)
    for path in tracked():
        if path.startswith("crates/") and path.endswith(".rs") and not TESTS.search(path):
            crate = "/".join(path.split("/")[1:3])
            text = "\n".join(without_tests((ROOT / path).read_text()))
            for name in re.findall(r"^impl(?:<[^>{]*>)? (?:crate::)?(?:\w+::)*([A-Z]\w*)(?:<[^{]*>)?\s*(?:where[^{]*)?\{", text, re.M):
                found[crate, name].add(path)
    return found


def long_files():
    found = []
    for path in tracked():
        if Path(path).suffix in (".rs", ".c", ".h", ".sv", ".svh", ".py", ".sh", ".hpp") and not GENERATED.search(path) and not TESTS.search(path):
            lines = len(without_tests((ROOT / path).read_text()))
            if lines > FILE_LINES_MAX:
                found.append((lines, path))
    return sorted(found, reverse=True)


def main():
    figures = sys.argv[1:] == ["--figures"]
    if sys.argv[1:] and not figures:
        sys.exit(f"house: unknown argument {sys.argv[1]}; see the first lines of {Path(__file__).name}")
    up, found, long = arrows_up(), cycles(), long_files()
    wide = sorted(((len(files), name, crate) for (crate, name), files in widest_impls().items()), reverse=True)
    breaches = list(up)
    breaches += [f"{len(part)} files use each other in a cycle (at most {CYCLE_FILES_MAX}): {' '.join(part)}" for part in found if len(part) > CYCLE_FILES_MAX]
    breaches += [f"{path}: {lines} lines without tests (at most {FILE_LINES_MAX})" for lines, path in long]
    breaches += [f"crates/{crate}: impl {name} stands in {count} files (at most {IMPL_FILES_MAX})" for count, name, crate in wide if count > IMPL_FILES_MAX]
    if figures:
        print(f"crates: {len(crates())}; arrows up: {len(up)}; files above {FILE_LINES_MAX} lines: {len(long)}")
        print(f"cycles: {len(found)}; files in each: {' '.join(str(len(part)) for part in found)}")
        for part in found:
            print(f"  {len(part)}: {' '.join(part)}")
        print("widest impls:", ", ".join(f"{name} ({crate}) {count}" for count, name, crate in wide[:8]))
    for breach in breaches:
        print(f"house: {breach}", file=sys.stderr)
    if breaches:
        sys.exit(1)
    print("house: no arrow points up; no cycle, file or impl is too large")


if __name__ == "__main__":
    main()
