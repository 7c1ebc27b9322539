# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Coverage of the RTL by the tests of the lockstep: statements and toggles, by module.

    rtl/flow/tools.sh --needs verilator -- python rtl/flow/coverage.py [FOLDER...]   without: the units of all folders of rtl/

Builds the units with Verilator's counts in its own target folder, runs the tests of crates/tools/rtl, and adds up the counts of the
units. A point of a module that several units have (each with its own parameters) counts once.

* A statement is a block that runs or does not: a branch of `if` and `case`, an `always` block. Functions of packages are listed by
  their package.
* A toggle is a bit of a signal that has changed. Verilator leaves out signals of more than 256 bits. Spare bits, and those of
  addresses that no test reaches, never change.

PROPTEST_CASES (50) bounds the random histories of each test, because units with counts are slow: the C++ compiler builds them without
optimisation, which would take an hour.

The table is by module; `coverage.txt` in $RTL_OUT names each statement that never ran. The JSON goes to $RTL_OUT/coverage.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import designs
from synthesize import OUT

KINDS = {"v_line": "statements", "v_branch": "statements", "v_toggle": "toggles"}
# Modules that exist only for tests: layouts and the tops of units.
TESTS_ONLY = re.compile(r"(_layout|_unit|_unit_pkg)$")


def points(paths):
    """Sums the counts of all files by (kind, file, line, column, what)."""
    counts = defaultdict(int)
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            if not line.startswith("C '"):
                continue
            keys, count = line[3:].rsplit("' ", 1)
            point = dict(part.split("\2", 1) for part in keys.split("\1") if part)
            kind = KINDS.get(point.get("page", "").split("/")[0])
            file = Path(point["f"]).resolve()
            if kind and designs.RTL in file.parents and not TESTS_ONLY.search(file.stem):
                counts[kind, file, int(point["l"]), int(point.get("n", 0)), point.get("o", "")] += int(count)
    return counts


def run(folders):
    """Runs the tests with counts. Returns the files of counts."""
    folder = OUT / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "SELVEDGE_RTL_COVERAGE": str(folder), "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
    environment.setdefault("PROPTEST_CASES", "50")
    environment["CARGO_TARGET_DIR"] = str(designs.ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "coverage")
    if folders:
        environment["SELVEDGE_RTL_FOLDERS"] = " ".join(folders)
    tests = [f"{one}::" for one in folders]
    words = ["cargo", "test", "--locked", "--profile", "checked", "-p", "selvedge-rtl", "--test", "rtl", "--", *tests]
    if subprocess.run(words, cwd=designs.ROOT, env=environment).returncode:
        sys.exit("rtl: a test fails, or the units do not build; there is no coverage")
    return sorted(folder.glob("*.dat"))


def tables(counts):
    """Rows of the JSON, and the statements that never ran."""
    modules = defaultdict(lambda: {"statements": [0, 0], "toggles": [0, 0]})
    never = []
    for (kind, file, line, _, what), count in counts.items():
        row = modules[str(file.relative_to(designs.RTL))][kind]
        row[0] += count > 0
        row[1] += 1
        if kind == "statements" and not count:
            never.append((file.relative_to(designs.ROOT), line, what))
    return [{"file": file, **row} for file, row in sorted(modules.items())], sorted(never)


def main(folders):
    rows, never = tables(points(run(folders)))
    if not rows:
        sys.exit("rtl: the tests left no counts")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "coverage.txt").write_text("".join(f"{file}:{line}: {what}\n" for file, line, what in never))
    (OUT / "coverage.json").write_text(json.dumps({"name": "coverage", "coverage": rows}, indent=1) + "\n")
    for kind in ("statements", "toggles"):
        seen, whole = (sum(row[kind][place] for row in rows) for place in (0, 1))
        print(f"{kind}: {seen} of {whole} ({100 * seen / whole:.1f} %)")


if __name__ == "__main__":
    main(sys.argv[1:])
