# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Studies of many simulations: `study` runs `selvedge study`, and Study holds its table (JSON `selvedge.study/1`)."""
import os
import pathlib
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Union

from . import _toml
from ._command import SelvedgeError, failure, optional, options, run, split_unit
from ._machine import Machine


class Study:
    """The table of a study."""

    def __init__(self, report: Dict[str, Any]) -> None:
        self.json: Dict[str, Any] = report  #: `name`, `cells`, `axes`, `columns`, `rows`, `failed`, `missing`

    @property
    def axes(self) -> List[str]:
        """The columns that are settings: case and swept keys."""
        return list(self.json["axes"])

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """A record for each cell, or for each point of its results, by column."""
        return list(self.json["rows"])

    @property
    def failed(self) -> List[Dict[str, Any]]:
        """The cells that failed: `values`, `exit_code`, `error`."""
        return list(self.json["failed"])

    @property
    def missing(self) -> int:
        """The number of cells that have not run."""
        return int(self.json["missing"])

    @property
    def frame(self) -> Any:
        """The table as a pandas.DataFrame, settings first. `attrs` has `name`, `axes`, `schema`, and `units` by column.

        Raises SelvedgeError without pandas.
        """
        pandas = optional("pandas", "Study.frame", "frame")
        columns = list(dict.fromkeys([*self.json["axes"], *self.json["columns"]]))
        columns += [name for row in self.rows for name in row if name not in columns]
        frame = pandas.DataFrame(self.rows, columns=list(dict.fromkeys(columns)))
        units = {name: unit for name in frame.columns for unit in [split_unit(name)[1]] if unit}
        frame.attrs = {"name": self.json["name"], "axes": self.axes, "schema": self.json["schema"], "units": units}
        return frame

    def __repr__(self) -> str:
        return f"<Study {self.json['name']!r}: {self.json['cells']} cells, {len(self.failed)} failed, {self.missing} missing>"


def study(
    scenario: Union[str, "os.PathLike[str]", Mapping[str, Any]],
    *,
    folder: Union[None, str, "os.PathLike[str]"] = None,
    jobs: Optional[int] = None,
    check: bool = True,
    timeout: Optional[float] = None,
    **more: Any,
) -> Study:
    """Runs every combination of a scenario's settings. Finished cells in the folder are kept, and not run again.

    scenario   the path of a TOML file, or its contents as a dict: `{"run": {...}, "case": [...], "sweep": {...}}`. `machine` of `run`
               and of a case may be a Machine
    folder     of the results. Default: beside the file; of a dict: none, so that nothing is kept. Paths in a dict lead from there
    jobs       simulations at once; default: one on each core
    check      whether failed or missing cells are an error; without, they are listed in the result
    timeout    the most seconds of real time; finished cells are kept
    more       every other option of `selvedge study` by its name: `slurm=True`

    Raises SelvedgeError with the command's words. Its `report` is the table if cells failed.
    """
    if isinstance(scenario, Mapping):
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="selvedge-study-") as made:
                return study(scenario, folder=made, jobs=jobs, check=check, timeout=timeout, **more)
        place = pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        file = place / "scenario.toml"
        file.write_text(_toml.document({"name": "study", **_with_machines(scenario)}), "utf-8")
    else:
        file = pathlib.Path(scenario)
    words = ["study", *options({"folder": folder, "jobs": jobs, **more}), "--quiet"]
    answer = run(words, ["--", str(file)], timeout)
    if not isinstance(answer.report, dict) or "rows" not in answer.report or (check and answer.status != 0):
        error = failure("study", answer)
        errors = [f"{cell['values']}: {cell['error']}" for cell in (answer.report or {}).get("failed", [])]
        raise SelvedgeError("\n".join([str(error), *errors]), error.status, error.report)
    return Study(answer.report)


def _with_machines(scenario: Mapping[str, Any]) -> Dict[str, Any]:
    """The scenario with the path of each Machine, and its changes as `set`."""
    parts = dict(scenario)
    if "run" in parts:
        parts["run"] = _settings(parts["run"])
    if "case" in parts:
        parts["case"] = [_settings(case) for case in parts["case"]]
    return parts


def _settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    settings = dict(given)
    machine = settings.get("machine")
    if isinstance(machine, Machine):
        path = machine.path
        settings["machine"] = os.path.abspath(path) if os.path.isfile(path) else path
        settings.update({f"set.{key}": _toml.Written(value) for key, value in machine.changes.items()})
    return settings
