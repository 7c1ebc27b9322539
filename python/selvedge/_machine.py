# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine: a known one or a file, with changes that a run gets by `--set`.

Keys and values are those of docs/reference/machines.md; names end in their units. The command checks every change. Values come from
`selvedge sim --describe`, which runs once and again after a change, and proves that the routing cannot lock up: milliseconds on most
machines, minutes on those of a million nodes. Changing keys does not need it.
"""
import json
import os
import pathlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

from . import _toml
from ._command import SelvedgeError, UnknownKey, checked

Name = Union[str, "os.PathLike[str]"]


class Section:
    """A section of a machine: its keys are attributes, as in `machine.link.latency_ns`."""

    def __init__(self, machine: "Machine", name: str) -> None:
        object.__setattr__(self, "_machine", machine)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        return self._machine[f"{self._name}.{key}"]

    def __setattr__(self, key: str, value: Any) -> None:
        self._machine[f"{self._name}.{key}"] = value

    def __dir__(self) -> List[str]:
        below = f"{self._name}."
        return sorted({key[len(below) :].partition(".")[0] for key in self._machine if key.startswith(below)})

    def __repr__(self) -> str:
        below = f"{self._name}."
        return "\n".join(f"{key} = {self._machine[key]!r}" for key in self._machine if key.startswith(below))


class Machine:
    """A machine by its name (`selvedge.machines()`) or the path of its TOML file.

    `machine["link.latency_ns"]` and `machine.link.latency_ns` are the same. `changes` are made at once, as `update` makes them.

    Raises SelvedgeError if there is no such machine, or a change does not fit.
    """

    def __init__(self, name: Name, changes: Optional[Mapping[str, Any]] = None) -> None:
        self._path = os.fspath(name)
        self._changes: Dict[str, str] = {}
        self._description: Any = None
        self._check(changes or {})

    @classmethod
    def _unchecked(cls, name: Name) -> "Machine":
        """A machine that the command checks when it runs."""
        machine: Machine = object.__new__(cls)
        machine._path, machine._changes, machine._description = os.fspath(name), {}, None
        return machine

    @property
    def path(self) -> str:
        """The name or path by which the machine was made."""
        return self._path

    @property
    def changes(self) -> Dict[str, str]:
        """The keys that were changed, with their values in TOML."""
        return dict(self._changes)

    @property
    def description(self) -> Any:
        """The JSON of `selvedge sim --describe`: latencies of the empty machine, freedom from deadlock, and more."""
        if self._description is None:
            self._description = checked(["sim", *self.words(), "--describe"])
        return self._description

    @property
    def name(self) -> str:
        """The name in the machine's file."""
        return str(self.description["machine"]["name"])

    @property
    def about(self) -> str:
        """A line about the machine."""
        return str(self.description["machine"]["about"])

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(self.description["machine"]["nodes"])

    def words(self) -> List[str]:
        """The options of `selvedge sim` that give this machine."""
        return [f"--machine={self._path}", *(f"--set={key}={value}" for key, value in self._changes.items())]

    def source(self, key: str) -> Optional[str]:
        """Where the value of a key comes from, as the machine's file says; None if it does not."""
        figure = self._figures().get(key)
        if figure is None:
            raise self._unknown(key)
        return figure["source"]  # type: ignore[no-any-return]

    def update(self, changes: Mapping[str, Any]) -> None:
        """Changes keys together, such as a topology and the routing that fits it. Nothing changes if the command refuses one.

        A value is text, a number, a list, or `{"value": 20, "source": "data sheet"}`.
        """
        self._check(changes)

    def copy(self) -> "Machine":
        """A machine with the same changes, which can be changed by itself."""
        other = Machine._unchecked(self._path)
        other._changes, other._description = dict(self._changes), self._description
        return other

    def __getitem__(self, key: str) -> Any:
        """The value of a key, or a Section. None if the file has no such key and the command's default holds.

        Raises UnknownKey, with the command's words, for a key that no such machine can have.
        """
        figures = self._figures()
        if key in figures:
            return _read(figures[key]["value"])
        if any(known.startswith(f"{key}.") for known in figures):
            return Section(self, key)
        unknown = self._unknown(key)
        if unknown.status is not None:
            raise unknown
        return None if "." in key else Section(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check({key: value})

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures())

    def __contains__(self, key: object) -> bool:
        return key in self._figures()

    def __len__(self) -> int:
        return len(self._figures())

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        if not key.startswith("_"):
            raise SelvedgeError(f"{key}: a machine's keys are in sections, as in machine.link.latency_ns = 20")
        object.__setattr__(self, key, value)

    def __dir__(self) -> List[str]:
        # Completion in a notebook must not wait for a description.
        figures = self._figures() if self._description is not None else {}
        return sorted({*object.__dir__(self), *(key.partition(".")[0] for key in figures)})

    def __repr__(self) -> str:
        changes = ", ".join(f"{key!r}: {value}" for key, value in self._changes.items())
        return f"Machine({self._path!r}{f', {{{changes}}}' if changes else ''})"

    def _figures(self) -> Dict[str, Any]:
        return {figure["key"]: figure for figure in self.description["machine"]["figures"]}

    def _check(self, changes: Mapping[str, Any]) -> None:
        before, described = self._changes, self._description
        self._changes = {**before, **{key: _toml.value(value) for key, value in changes.items()}}
        self._description = None
        try:
            _load(self.words())
        except SelvedgeError as error:
            self._changes, self._description = before, described
            if any(_is_unknown(key, str(error)) for key in changes):
                raise UnknownKey(str(error), error.status) from None
            raise

    def _unknown(self, key: str) -> UnknownKey:
        """The error of a key without a value. Its status is None if the command knows the key."""
        try:
            _load([*self.words(), f"--set={key if '.' in key else key + '.key'}=0"])
        except SelvedgeError as error:
            if _is_unknown(key, str(error)):
                return UnknownKey(str(error), error.status)
        return UnknownKey(f"{key} is not in {pathlib.PurePath(self._path).name}: the command's default holds")


def _load(words: List[str]) -> None:
    """Lets the command read a machine and check it, without the proof of --describe."""
    try:
        checked(["sim", *words], ["--routes", "0", "1"])
    except SelvedgeError as error:
        # The machine was read, but has no second node.
        if "sim: --routes" not in str(error):
            raise


def _is_unknown(key: str, words: str) -> bool:
    names = [key.rpartition(".")[2], key.partition(".")[0]]
    return "no such key" in words or "SECTION.KEY" in words or any(f"unknown field `{name}`" in words for name in names)


def _read(value: Any) -> Any:
    """A value of the description: a whole number as int, a list from its text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
