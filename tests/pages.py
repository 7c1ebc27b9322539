#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the commands of docs/tutorials and docs/guide to the letter, and compares their output with the pages.

A page is run from top to bottom in a folder of its own, with `bin` of the tree first in PATH. The folder is empty but
for links to what a clone has: `build` (the tree), `examples`, `machines`, `python`. Fenced blocks of a page:

    c, toml, ...   if the first line is a comment with the name of a file alone, the block is written to that file
    sh             is run by `bash -e`; it must end with 0 within 600 s
    text           follows an `sh` block: the whole output of those commands. A line `...` stands for any lines
    text example   is not compared
    text measured  the same as text, but every number stands for any number, with its unit of time, and every run of spaces
                   for any spaces

Comments of a page that readers do not see:

    <!-- needs: PROGRAM ... -->     programs without which the page is left out
    <!-- files of: PAGE -->         writes the files of another page of the folder first
    <!-- before: COMMANDS -->       commands of the test (one or more lines), such as those that make the reader's program
    <!-- not run: REASON -->        the next `sh` block is not run. Options of `selvedge` in it must exist
    <!-- long: TIME -->             the same without --long, because the block takes this time

usage: tests/pages.py [--long] [PAGE]...    the tree is build/, or the one that SELVEDGE_PREFIX names

Exit status: 1 if a page is wrong; 77 if none is, but some were left out.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BLOCK = re.compile(r"^```(\S[^\n]*)\n(.*?)^```$", re.M | re.S)
# A block, or a comment that stands for the test.
PART = re.compile(r"^```(?P<kind>\S[^\n]*)\n(?P<body>.*?)^```$|^<!-- (?P<mark>before|not run|long):\s(?P<words>.*?)\s*-->$", re.M | re.S)
OPTION = re.compile(r"(?<![\w=-])(--[a-z][a-z0-9-]+)")
FOLDERS = ["docs/tutorials", "docs/guide"]
FILE_NAME = re.compile(r"^(?:/\* ([\w.-]+) \*/|# ([\w.-]+))$")
FILES_OF = re.compile(r"^<!-- files of: (.*) -->$", re.M)
NEEDS = re.compile(r"^<!-- needs: (.*) -->$", re.M)
NUMBER = re.compile(r"(?:0x[0-9a-f]+|\d[\d,]*(?:\.\d+)?(?: (?:ps|ns|us|ms|s)\b)?)")
LIMIT_S = 600


def environment():
    tree = os.path.abspath(os.environ.get("SELVEDGE_PREFIX") or os.path.join(ROOT, "build"))
    if not os.access(os.path.join(tree, "bin/selvedge"), os.X_OK):
        sys.exit(f"pages: {tree}/bin/selvedge is missing; run make build, or set SELVEDGE_PREFIX")
    # The user's settings do not count.
    env = {name: value for name, value in os.environ.items() if not name.startswith("SELVEDGE_")}
    env["PATH"] = os.path.join(tree, "bin") + ":" + env["PATH"]
    env |= {"TREE": tree, "SELVEDGE_CONFIG": "/dev/null", "LC_ALL": "C"}
    # A test machine has few cores, and its user may be root: Open MPI refuses both by default.
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    env |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    return env


def pattern(line, is_measured):
    """The expression that a line of output must match as a whole."""
    line = line.rstrip()
    if not is_measured:
        return re.escape(line)
    parts = [re.escape(part) for part in NUMBER.split(line)]
    return re.sub(r"(\\ )+", " +", NUMBER.pattern.join(parts))


def difference(wanted, printed, is_measured):
    """The first wanted line that is not printed, or the first printed line that is not wanted; None if all are right."""
    lines = [line.rstrip() for line in printed.rstrip("\n").split("\n")]
    at, is_gap = 0, False
    for line in wanted.rstrip("\n").split("\n"):
        if line.strip() == "...":
            is_gap = True
            continue
        expression = re.compile(pattern(line, is_measured))
        while is_gap and at < len(lines) and not expression.fullmatch(lines[at]):
            at += 1
        if at == len(lines) or not expression.fullmatch(lines[at]):
            return f"wanted: {line}\n  printed: {'(nothing more)' if at == len(lines) else lines[at]}"
        at, is_gap = at + 1, False
    return None if is_gap or at == len(lines) else f"not wanted: {lines[at]}"


def run(commands, folder, env):
    """Exit status and output. A session of its own, so that a limit also ends what the commands have started."""
    shell = subprocess.Popen(
        ["bash", "-e", "-c", commands], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
    try:
        printed, _ = shell.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, 9)
        printed, _ = shell.communicate()
        return 124, printed
    return shell.returncode, printed


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(body, folder):
    """Writes a block to the file that its first line names, if it names one."""
    named = FILE_NAME.match(body.split("\n", 1)[0])
    if named:
        with open(os.path.join(folder, named[1] or named[2]), "w", encoding="utf-8") as file:
            file.write(body)


def commands_of(body):
    """The commands of a block, each on one line, without comments and assignments before them."""
    body = re.sub(r'"[^"]*"', "QUOTED", re.sub(r"\\\n\s*", " ", body))
    for line in body.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line)
        for command in re.split(r"\||&&|;|\$\(", line):
            yield re.sub(r"^\s*(sudo|eval|\w+=\S*|\s)+", "", command).strip()


def unknown_option(body, env):
    """The first option of `selvedge` in a block that the command does not have; None if it has them all."""
    for command in commands_of(body):
        words = command.split()
        if not words or os.path.basename(words[0]) != "selvedge":
            continue
        # Options behind a program are those of the program.
        own = re.split(r"\s(?:--\s|\./|/)", " ".join(words[1:]))[0]
        if words[1:2] == ["mpirun"]:
            continue  # it passes the options that it does not know to the MPI's launcher
        subcommands = [word for word in own.split()[:2] if re.fullmatch(r"[a-z][a-z-]*", word)]
        known = run(" || ".join(f"selvedge {' '.join(subcommands[:count])} --help" for count in (2, 1)), ".", env)[1]
        for option in OPTION.findall(own):
            if option not in OPTION.findall(known):
                return f"selvedge {' '.join(subcommands)} has no option {option}"
    return None


def prepared(folder, env):
    """Links in a page's folder to what a clone has."""
    for name in ["examples", "machines", "python"]:
        os.symlink(os.path.abspath(name), os.path.join(folder, name))
    os.symlink(env["TREE"], os.path.join(folder, "build"))


def page(path, env, is_long):
    """The first fault of a page, which ends it, because later blocks build on earlier ones; None if it is right."""
    text = read(path)
    with tempfile.TemporaryDirectory(prefix="selvedge-page-") as folder:
        prepared(folder, env)
        for other in FILES_OF.findall(text):
            for block in BLOCK.finditer(read(os.path.join(os.path.dirname(path), other))):
                write(block[2], folder)
        printed, is_run = None, True
        for part in PART.finditer(text):
            line = text.count("\n", 0, part.start()) + 1
            if part["mark"] in ("not run", "long"):
                is_run = part["mark"] == "long" and is_long
                continue
            kind, body = ("sh", part["words"]) if part["mark"] else (part["kind"].strip(), part["body"])
            if kind == "sh" and not is_run:
                wrong, is_run = unknown_option(body, env), True
                if wrong:
                    return f"{path}:{line}: {wrong}"
            elif kind == "sh":
                status, printed = run(body, folder, env)
                if status != 0:
                    return f"{path}:{line}: exit status {status} of\n{body}\n{printed}"
            elif kind in ("text", "text measured"):
                if printed is None:
                    return f"{path}:{line}: a block of output follows no commands"
                wrong = difference(body, printed, kind == "text measured")
                if wrong:
                    return f"{path}:{line}: another output than the page's\n  {wrong}\nThe whole output:\n{printed}"
                printed = None
            else:
                write(body, folder)
    return None


def main():
    os.chdir(ROOT)
    env = environment()
    found = [f"{folder}/{name}" for folder in FOLDERS for name in sorted(os.listdir(folder)) if name.endswith(".md")]
    is_long = "--long" in sys.argv[1:]
    pages = [word for word in sys.argv[1:] if word != "--long"] or found
    is_wrong, left_out = False, []
    for path in pages:
        needs = " ".join(NEEDS.findall(read(path))).split()
        missing = [name for name in needs if not shutil.which(name, path=env["PATH"])]
        if missing:
            left_out.append(f"{path} needs {', '.join(missing)}")
            continue
        began = time.monotonic()
        fault = page(path, env, is_long)
        seconds = time.monotonic() - began
        print(f"pages: {fault}" if fault else f"pages: {path}: right, {seconds:.0f} s", flush=True)
        is_wrong = is_wrong or fault is not None
    for line in left_out:
        print(f"pages: left out: {line}")
    sys.exit(1 if is_wrong else 77 if left_out else 0)


main()
