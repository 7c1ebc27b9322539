# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `selvedge`: where it is, how it is run, its errors, and packages that are optional."""
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple


class SelvedgeError(Exception):
    """The command failed, or cannot be found or used as asked.

    The text is the command's own.

    status   its exit status, as in `selvedge sim --help`; None if it did not run
    report   its JSON, if it wrote one before it failed, such as that of a run whose ranks are stuck
    """

    def __init__(self, words: str, status: Optional[int] = None, report: Any = None) -> None:
        super().__init__(words)
        self.status = status
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownKey(SelvedgeError, KeyError, AttributeError):
    """A machine has no such key. The text names the keys that there are."""


class Answer(NamedTuple):
    """The end of a command: exit status, JSON (None if it wrote none), output, and words on standard error."""

    status: int
    report: Any
    output: str
    words: str


def prefix() -> pathlib.Path:
    """The folder with bin, lib, include and share: that of the wheel, else SELVEDGE_PREFIX, else around PATH's `selvedge`.

    Raises SelvedgeError if there is none.
    """
    beside = pathlib.Path(__file__).resolve().parent / "tree"
    if (beside / "bin" / "selvedge").is_file():
        return beside
    named = os.environ.get("SELVEDGE_PREFIX")
    if named:
        if not (pathlib.Path(named) / "bin" / "selvedge").is_file():
            raise SelvedgeError(f"SELVEDGE_PREFIX={named}: it has no bin/selvedge; name the tree of `make build` or of an installation")
        return pathlib.Path(named).resolve()
    found = shutil.which("selvedge")
    if found:
        return pathlib.Path(found).resolve().parent.parent
    raise SelvedgeError("selvedge is not in PATH; install the wheel selvedge-nic, or set SELVEDGE_PREFIX to a built tree")


def run(words: Sequence[str], after: Sequence[str] = (), timeout: Optional[float] = None) -> Answer:
    """Runs `selvedge WORDS --json FILE AFTER`. `timeout` is in seconds of real time.

    Raises SelvedgeError if the command cannot start or takes too long. Its exit status is the caller's to judge.
    """
    command = str(prefix() / "bin" / "selvedge")
    with tempfile.TemporaryDirectory(prefix="selvedge-") as folder:
        file = pathlib.Path(folder) / "report.json"
        line = [command, *words, "--json", str(file), *after]
        try:
            started = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise SelvedgeError(f"{command}: {error.strerror}") from error
        with started:
            try:
                output, complaints = started.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as error:
                _end(started)
                raise SelvedgeError(f"selvedge {words[0]} took longer than timeout={error.timeout:g} s; give a larger one, or None") from None
            except BaseException:
                _end(started)
                raise
        report = json.loads(file.read_text("utf-8")) if file.is_file() else None
    return Answer(started.returncode, report, output.decode("utf-8", "replace"), complaints.decode("utf-8", "replace").strip())


def _end(started: "subprocess.Popen[bytes]") -> None:
    """Ends a command as Ctrl-C does, so that it ends its ranks; after five seconds by force."""
    started.send_signal(signal.SIGINT)
    try:
        started.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()


def checked(words: Sequence[str], after: Sequence[str] = (), timeout: Optional[float] = None) -> Any:
    """The JSON of `selvedge WORDS`. Raises SelvedgeError if its exit status is not 0."""
    answer = run(words, after, timeout)
    if answer.status != 0:
        raise failure(words[0], answer)
    return answer.report


def failure(name: str, answer: Answer) -> SelvedgeError:
    """The error of a command that failed."""
    words = answer.words or f"selvedge {name} ended with exit status {answer.status}"
    return SelvedgeError(words, answer.status, answer.report)


# Options that the command takes several times, with one value each. Lists of other options are joined by commas.
REPEATED = frozenset(
    "background dump-link env fail-link fail-node fail-router job kill link-correction link-fault param set statistics".split()
)


UNIT = re.compile(r"(.*?)(?:_(ps|ns|us|ms|s|bytes))?((?:_per_[a-z]+)*)", re.DOTALL)


def options(given: "dict[str, Any]") -> List[str]:
    """The command's words for options by their names in Python.

    `time_limit="1ms"` is `--time-limit=1ms`, True an option without a value; None and False leave it out. A list is an option several
    times, or values with commas between them. A dict is NAME=VALUE, several times.
    """
    words: List[str] = []
    for name, value in given.items():
        long = name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(f"--{long}")
        elif isinstance(value, dict):
            words += [f"--{long}={key}={plain(part)}" for key, part in value.items()]
        elif long in REPEATED and not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
            words += [f"--{long}={plain(part)}" for part in value]
        else:
            words.append(f"--{long}={plain(value)}")
    return words


def plain(value: Any) -> str:
    """A value as the command reads it. A list, a range or an array has commas between its values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if hasattr(value, "__iter__"):
        return ",".join(plain(part) for part in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def split_unit(name: str) -> Tuple[str, Optional[str]]:
    """The name of a series or column, and its unit: us of "latency, us", ns of "mean_ns", bytes/s of "accepted_bytes_per_s"."""
    text, comma, unit = name.rpartition(", ")
    if comma:
        return text, unit
    text, unit, rate = UNIT.fullmatch(name).groups()  # type: ignore[union-attr]  # the pattern fits every name
    if not unit and not rate:
        return name, None
    return text, (unit or "1") + rate.replace("_per_", "/")


def optional(package: str, purpose: str, extra: str) -> Any:
    """A package that the interface does not require. Raises SelvedgeError with the remedy if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise SelvedgeError(f"{purpose} needs {name}: pip install {name}, or install 'selvedge-nic[{extra}]'") from error
