# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Selvedge's simulator from Python, and where the tree of the wheel is.

    simulate(machine, program)   runs `selvedge sim`, gives a Result
    study(scenario)              runs `selvedge study`, gives a Study
    Machine(name)                a machine whose keys can be read and changed
    machines(), programs(), patterns()      what `selvedge sim --list` shows
    prefix()                     the folder with bin, lib and include, for SELVEDGE_PREFIX or a build

Each function runs the command and reads its JSON. docs/guide/python.md shows them in use. Tables of pandas and plots of
matplotlib are made on demand; nothing else needs these packages.
"""
import os
import pathlib
import sys

from ._command import SelvedgeError, UnknownKey, prefix
from ._lists import machines, patterns, programs
from ._machine import Machine
from ._simulate import Result, simulate
from ._study import Study, study

__version__ = "0+source"

__all__ = [
    "Machine",
    "Result",
    "SelvedgeError",
    "Study",
    "UnknownKey",
    "machines",
    "patterns",
    "prefix",
    "programs",
    "simulate",
    "study",
]


def main() -> None:
    """Becomes the command of the name by which Python was started: the wheel's `selvedge`, `oshcc` and others."""
    name = pathlib.Path(sys.argv[0]).name
    command = prefix() / "bin" / name
    try:
        os.execv(command, [str(command), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {command}: {error.strerror}; install the wheel again")
