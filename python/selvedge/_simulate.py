# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One simulation: `simulate` runs `selvedge sim`, and its Result holds the report.

The report's keys are those of docs/reference/output.md; it is `selvedge.sim.run/1` of a program, `selvedge.sim.traffic/1` of traffic.
"""
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._command import SelvedgeError, failure, optional, options, plain, run, split_unit
from ._machine import Machine

Program = Union[str, "os.PathLike[str]", Sequence[Any]]
Several = Union[str, Iterable[str]]


class Result:
    """The report of one simulation.

    Times are virtual, and all but `json["wall"]` is the same in every run with the same arguments.
    """

    def __init__(self, report: Dict[str, Any], output: str = "", exit_code: int = 0) -> None:
        self.json: Dict[str, Any] = report  #: the whole report
        self.output: str = output  #: standard output of the ranks of a real program
        self.exit_code: int = exit_code  #: exit status of the command: 124 at the time limit, 137 for a killed rank

    @property
    def machine(self) -> Dict[str, Any]:
        """`name`, `about`, `topology`, `nodes`, `routers`, `routing`, `figures` (each key with value and source)."""
        return dict(self.json["machine"])

    @property
    def messages(self) -> Dict[str, Any]:
        """Of a program: `delivered`, `payload_bytes`, `latency` (in `_ps`), `lost` and more; empty for traffic."""
        return dict(self.json.get("messages") or {})

    @property
    def network(self) -> Dict[str, Any]:
        """Of a program: `packet_hops`, `blocked`, `utilisation_mean` and more; empty for traffic."""
        return dict(self.json.get("network") or {})

    @property
    def jobs(self) -> List[Dict[str, Any]]:
        """With several jobs, a record for each: `name`, `results`, `slowdown` and more; else empty."""
        jobs = self.json.get("jobs") or {}
        return list(jobs["jobs"] if isinstance(jobs, dict) else jobs)

    @property
    def notes(self) -> List[Any]:
        """Remarks of the simulator on this run."""
        return list(self.json.get("notes") or [])

    @property
    def end(self) -> str:
        """How the run ended: `completed`, `stuck`, `interrupted`, `died` and so on; traffic is always `completed`."""
        return str(self.json.get("end", "completed"))

    @property
    def virtual_time_ps(self) -> Optional[int]:
        """The virtual time at the end, in picoseconds; None for traffic."""
        return self.json.get("virtual_time_ps")

    @property
    def hash(self) -> Optional[str]:
        """A hash of all events in order: equal hashes are equal runs; None for traffic."""
        return self.json.get("hash")

    @property
    def x(self) -> str:
        """The name of the first column: `bytes`, `ranks` and so on of a program, `load` of traffic."""
        return "load" if self._is_traffic() else str(self.json["results"]["x"])

    @property
    def columns(self) -> Dict[str, List[Any]]:
        """The results by column, x first, without pandas. All lists have one length; a missing value is None.

        A program has a column for each of its series, with the unit in its name, as `half round trip, us`. Traffic has a row for each
        load, and a column for each number of the report by its path, as `latency.mean_ns`.
        """
        if self._is_traffic():
            rows = [_flat(point) for point in self.json["results"]]
        else:
            rows = _rows(self.x, self.json["results"]["series"])
        names = list(dict.fromkeys([self.x, *(name for row in rows for name in row)]))
        return {name: [row.get(name) for row in rows] for name in names} if rows else {}

    @property
    def frame(self) -> Any:
        """The results as a pandas.DataFrame over x. `attrs` has `machine`, `schema`, and `units` by column.

        Raises SelvedgeError without pandas.
        """
        pandas = optional("pandas", "Result.frame", "frame")
        columns = self.columns
        frame = pandas.DataFrame(columns)
        if columns:
            frame = frame.set_index(self.x)
        units = {name: unit for name in columns for unit in [split_unit(name)[1]] if unit}
        frame.attrs = {"machine": self.machine["name"], "schema": self.json["schema"], "units": units}
        return frame

    def plot(self, y: Union[None, str, Sequence[str]] = None, ax: Any = None, **line: Any) -> Any:
        """Draws columns over x, and gives the matplotlib Axes.

        y      names of columns; default: all of the first one's unit for a program, `latency.mean_ns` for traffic
        ax     the Axes to draw on; default: new ones
        line   further arguments of `Axes.plot`

        Raises SelvedgeError without matplotlib, without results, or for a column that there is not.
        """
        columns = self.columns
        values = [name for name in columns if name != self.x]
        if not values:
            raise SelvedgeError("this run has no results to plot; programs that are not built in have none")
        if y is not None:
            chosen = [y] if isinstance(y, str) else list(y)
        elif self._is_traffic():
            chosen = ["latency.mean_ns"]
        else:
            chosen = [name for name in values if split_unit(name)[1] == split_unit(values[0])[1]]
        for name in chosen:
            if name not in columns:
                raise SelvedgeError(f"there is no column {name!r}; there are {', '.join(values)}")
        if ax is None:
            ax = optional("matplotlib.pyplot", "Result.plot", "plot").subplots()[1]
        label = line.pop("label", None)
        for name in chosen:
            points = [(x, value) for x, value in zip(columns[self.x], columns[name]) if value is not None]
            ax.plot([x for x, _ in points], [value for _, value in points], **{"marker": "o", **line}, label=label or split_unit(name)[0])
        positive = [x for x in columns[self.x] if x > 0]
        if positive and max(positive) >= 64 * min(positive):
            # Linear up to the smallest size, because 0 bytes have a place, too.
            ax.set_xscale("symlog", base=2, linthresh=min(positive))
        units = {split_unit(name)[1] for name in chosen}
        unit = units.pop() if len(units) == 1 else None
        ax.set_xlabel(self.x)
        ax.set_ylabel(f"{split_unit(chosen[0])[0]}, {unit}" if len(chosen) == 1 and unit else unit or ", ".join(chosen))
        ax.set_title(self.machine["name"])
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"<Result of {self.machine['name']}: {self.end}, {len(next(iter(self.columns.values()), []))} rows>"

    def _is_traffic(self) -> bool:
        return isinstance(self.json["results"], list)


def simulate(
    machine: Union[Machine, str, "os.PathLike[str]"],
    program: Optional[Program] = None,
    *,
    traffic: Optional[str] = None,
    load: Union[None, float, Iterable[float]] = None,
    ranks: Optional[int] = None,
    ranks_per_node: Optional[int] = None,
    sizes: Union[None, str, int, Iterable[Union[int, str]]] = None,
    seed: Optional[int] = None,
    parameters: Optional[Mapping[str, Any]] = None,
    fail_link: Optional[Several] = None,
    fail_router: Optional[Several] = None,
    fail_node: Optional[Several] = None,
    kill: Optional[Several] = None,
    loss: Optional[float] = None,
    corruption: Optional[float] = None,
    check: bool = True,
    timeout: Optional[float] = None,
    **more: Any,
) -> Result:
    """Runs a program or traffic on a machine, in virtual time.

    machine       a Machine, a name of `selvedge.machines()`, or the path of a TOML file
    program       the name of a built-in program, or a real one: a list of its path and arguments, or a path (with a `/`). A recorded
                  trace: `"replay"` with `parameters={"trace": FILE}`
    traffic       a pattern of `selvedge.patterns()`, with `load`, the share or shares of the injection channels that are busy
    ranks         the number of ranks, `-n`; `ranks_per_node` of them on each node
    sizes         bytes of messages, of programs that have it: `[0, 64]`, or `"1..64K"`
    seed          of all that is random
    parameters    parameters of the program by name; most may also be given as options
    fail_link     "A-B@TIME[-TIME]", one or several; also `fail_router`, `fail_node`, and `kill` with "RANK@TIME"
    loss          the probability that a link loses a packet; `corruption`: that it corrupts one
    check         whether an exit status other than 0 is an error; without, a run that wrote a report is a result
    timeout       the most seconds of real time
    more          every other option of `selvedge sim` by its name: `time_limit="10ms"`, `network="message"`, `html="page.html"`. True is
                  an option without a value, a list one that is given several times

    Raises SelvedgeError with the command's words. Its `report` is the JSON of a run that began and failed.
    """
    words = ["sim", *(machine if isinstance(machine, Machine) else Machine._unchecked(machine)).words()]
    after: List[str] = []
    if isinstance(program, str) and os.sep not in program:
        words.append(f"--program={program}")
    elif isinstance(program, (str, os.PathLike)):
        after = ["--", os.fspath(program)]
    elif program is not None:
        after = ["--", *(plain(word) for word in program)]
    words += options(
        {
            "traffic": traffic,
            "load": load,
            "np": ranks,
            "ranks-per-node": ranks_per_node,
            "sizes": sizes,
            "seed": seed,
            "param": dict(parameters or {}),
            "fail-link": fail_link,
            "fail-router": fail_router,
            "fail-node": fail_node,
            "kill": kill,
            "loss": loss,
            "corruption": corruption,
            **more,
        }
    )
    answer = run([*words, "--quiet"], after, timeout)
    if not isinstance(answer.report, dict) or "results" not in answer.report or (check and answer.status != 0):
        raise failure("sim", answer)
    return Result(answer.report, answer.output, answer.status)


def _flat(record: Mapping[str, Any], above: str = "") -> Dict[str, Any]:
    """Numbers and texts of a record by their paths; lists are left out."""
    flat: Dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{above}{name}."))
        elif not isinstance(value, list):
            flat[above + name] = value
    return flat


def _rows(x: str, series: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The points of all series, joined by x. Points of one series with the same x stay apart."""
    rows: Dict[Any, Dict[str, Any]] = {}
    for line in series:
        seen: Dict[float, int] = {}
        for at, value in line["points"]:
            seen[at] = seen.get(at, 0) + 1
            number = int(at) if float(at).is_integer() else at
            rows.setdefault((at, seen[at]), {x: number})[line["name"]] = value
    return [rows[place] for place in sorted(rows)]
