# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lists of machines, built-in programs and patterns of traffic, as `selvedge sim --list` has them."""
from typing import Any, Dict, List

from ._command import checked

Record = Dict[str, Any]


def machines() -> List[Record]:
    """The machines that come with Selvedge, and those of `machines/` in this folder: `name`, `about`, `file`, `error`.

    `error` is None, or says why a file is no machine. `pandas.DataFrame(machines())` is a table.
    """
    return list(checked(["sim", "--list"])["machines"])


def programs() -> List[Record]:
    """The built-in programs: `name`, `about`, `results_over` (the x of their results), `parameters`.

    A parameter has `name`, `option`, `default`, `about`, `kind` (the values that it takes).
    """
    return list(checked(["sim", "--list"])["programs"])


def patterns() -> List[Record]:
    """The patterns of traffic: `name`, as `simulate(machine, traffic=...)` takes it, and `about`."""
    return list(checked(["sim", "--list"])["patterns"])
