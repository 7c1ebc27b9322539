# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Values as TOML, for keys of machines and for scenarios. Reading TOML is the command's."""
import json
import os
import re
from typing import Any, Mapping

class Written(str):
    """A value that is TOML already."""


BARE = re.compile(r"[A-Za-z0-9_-]+")


def value(given: Any) -> str:
    """One value, on one line. Raises TypeError for a type that TOML has not."""
    if isinstance(given, Written):
        return str(given)
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (str, os.PathLike)):
        # TOML's basic strings have JSON's escapes; beyond those it forbids DEL.
        return json.dumps(os.fspath(given), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, int):
        return str(given)
    if isinstance(given, float):
        return repr(given)
    if isinstance(given, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {value(part)}" for name, part in given.items()) + " }" if given else "{}"
    if hasattr(given, "item") and not hasattr(given, "__len__"):  # a number of NumPy
        return value(given.item())
    if hasattr(given, "__iter__"):
        return "[" + ", ".join(value(part) for part in given) + "]"
    raise TypeError(f"{given!r}: a value is text, a number, True, False, a list or a dict")


def key(name: str) -> str:
    """A key. Dots separate its parts, as in `set.link.latency_ns`."""
    return ".".join(part if BARE.fullmatch(part) else json.dumps(part) for part in name.split("."))


def document(given: Mapping[str, Any]) -> str:
    """A file: a line for each key of the outermost level."""
    return "".join(f"{key(name)} = {value(part)}\n" for name, part in given.items())
