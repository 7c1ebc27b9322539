# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reads Liberty files: cells with area, kind and pins. Also finds the library of a run.

`LIBERTY` is a file or a folder of files. Files of standard cells are corners of one library; files of SRAM macros belong to the
corner of the same voltage and temperature. Without `LIBERTY` it is osu018 of Debian's package qflow-tech-osu018.

1. The slowest corner, of the lowest voltage, maps the logic.
2. A gate equivalent (GE) is the area of the smallest NAND with two inputs.
"""

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[(){};:,]|[^\s(){};:,"]+')


@dataclass
class Group:
    """`name (arguments) { attributes; groups }`"""

    name: str
    arguments: list
    attributes: dict = field(default_factory=dict)
    groups: list = field(default_factory=list)

    def of(self, name):
        return [group for group in self.groups if group.name == name]


def parse(text):
    """The outermost group of a Liberty text. Tables of numbers stay text."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
    tokens = TOKEN.findall(text)
    root = Group("", [])
    stack = [root]
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token == "}":
            stack.pop()
        elif at + 1 < len(tokens) and tokens[at + 1] == ":":
            end = at + 2
            while tokens[end] not in ";}" and not (end > at + 2 and tokens[end + 1 : end + 2] in ([":"], ["("])):
                end += 1
            stack[-1].attributes[token] = " ".join(tokens[at + 2 : end]).strip('"')
            at = end - 1 if tokens[end] != ";" else end
        elif at + 1 < len(tokens) and tokens[at + 1] == "(":
            end = tokens.index(")", at)
            arguments = [word.strip('"') for word in tokens[at + 2 : end] if word != ","]
            at = end
            if at + 1 < len(tokens) and tokens[at + 1] == "{":
                group = Group(token, arguments)
                stack[-1].groups.append(group)
                stack.append(group)
                at += 1
            else:
                stack[-1].attributes[token] = " ".join(arguments)
        at += 1
    return root.groups[0]


@dataclass
class Cell:
    name: str
    area: float
    flip_flops: int  # bits
    latches: int
    clock_gate: bool
    memory: bool
    functions: dict  # of outputs
    inputs: list
    outputs: list
    buses: dict  # widths
    input_capacitance: float  # the largest of a pin, in fF
    drive: float = 0.0  # the most that an output may drive, in the library's unit; 0: the library does not say


def cell_of(group, types, to_femtofarad):
    pins = group.of("pin")
    bits = lambda bus: int(types[bus.attributes["bus_type"]].attributes["bit_width"])
    capacitances = [float(pin.attributes.get("capacitance", 0)) for pin in pins if pin.attributes.get("direction") == "input"]
    return Cell(
        name=group.arguments[0],
        area=float(group.attributes.get("area", 0)),
        flip_flops=len(group.of("ff")),
        latches=len(group.of("latch")),
        clock_gate="clock_gating_integrated_cell" in group.attributes,
        memory=bool(group.of("memory")),
        functions={p.arguments[0]: p.attributes["function"] for p in pins if "function" in p.attributes and "three_state" not in p.attributes},
        inputs=[p.arguments[0] for p in pins if p.attributes.get("direction") == "input"],
        outputs=[p.arguments[0] for p in pins if p.attributes.get("direction") == "output"],
        buses={bus.arguments[0]: bits(bus) for bus in group.of("bus")},
        input_capacitance=max(capacitances, default=0) * to_femtofarad,
        drive=max((float(pin.attributes.get("max_capacitance", 0)) for pin in pins if pin.attributes.get("direction") == "output"), default=0.0),
    )


class Liberty:
    """A Liberty file."""

    def __init__(self, path):
        self.path = Path(path)
        group = parse(self.path.read_text(errors="replace"))
        self.name = group.arguments[0]
        scale, unit = group.attributes.get("capacitive_load_unit", "1 pf").split()
        to_femtofarad = float(scale) * {"pf": 1000, "ff": 1}[unit.lower()]
        types = {kind.arguments[0]: kind for kind in group.of("type")}
        self.cells = {c.arguments[0]: cell_of(c, types, to_femtofarad) for c in group.of("cell")}
        conditions = (group.of("operating_conditions") or [group])[0].attributes
        self.voltage = float(conditions.get("voltage", group.attributes.get("nom_voltage", 0)))
        self.temperature = float(conditions.get("temperature", group.attributes.get("nom_temperature", 0)))

    @property
    def macros(self):
        return all(cell.memory for cell in self.cells.values())

    def smallest(self, shapes):
        """The smallest cell with one output of one of these functions, written without spaces and outer parentheses."""
        found = [
            cell
            for cell in self.cells.values()
            if len(cell.functions) == 1 and not cell.flip_flops and bare(next(iter(cell.functions.values())), cell) in shapes
        ]
        if not found:
            sys.exit(f"rtl: {self.path} has no cell of function {' or '.join(shapes)}")
        return min(found, key=lambda cell: cell.area)

    @property
    def gate_equivalent(self):
        return self.smallest(("!(0*1)", "(0*1)'", "!0+!1")).area

    def buffers(self):
        """Buffers by area, without delay cells, which drive no more than a smaller buffer."""
        cells = (c for c in self.cells.values() if len(c.inputs) == 1 and [bare(f, c) for f in c.functions.values()] == ["0"])
        found = []
        for cell in sorted(cells, key=lambda cell: cell.area):
            if not found or not cell.drive or cell.drive > found[-1].drive:
                found.append(cell)
        return found

    def tie(self, value):
        """Cell and pin of a constant, or None."""
        for cell in self.cells.values():
            for pin, function in cell.functions.items():
                if bare(function, cell) == str(value) and not cell.inputs:
                    return cell.name, pin
        return None

    def clock_gate(self):
        """The smallest clock gate without test pins, or None."""
        gates = [cell for cell in self.cells.values() if cell.clock_gate and len(cell.inputs) == 2]
        return min(gates, key=lambda cell: cell.area, default=None)


def bare(function, cell):
    """A function with the cell's inputs as 0, 1, ... in their order, with `*`, `+`, `!`, and without outer parentheses."""
    text = re.sub(r"\s*([&|*+!()'^])\s*", r"\1", function.strip()).replace("&", "*").replace("|", "+")
    text = re.sub(r"\s+", "*", text)
    for place, pin in enumerate(sorted(cell.inputs)):
        text = re.sub(rf"\b{re.escape(pin)}\b", str(place), text)
    while text.startswith("(") and text.endswith(")") and closes(text) == len(text) - 1:
        text = text[1:-1]
    return text


def closes(text):
    """Index of the parenthesis that closes the one at 0."""
    depth = 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return at
    return -1


class Library:
    """The cells of a run: corners, slowest first, each with its macros."""

    def __init__(self):
        path = Path(os.environ.get("LIBERTY") or OSU018)
        files = sorted(path.glob("*.lib")) if path.is_dir() else [path]
        if not files or not files[0].exists():
            sys.exit(f"rtl: no Liberty file in {path}; install qflow-tech-osu018 (Debian), or set LIBERTY")
        read = [Liberty(file) for file in files]
        self.corners = sorted((file for file in read if not file.macros), key=lambda file: file.voltage)
        self.macros = [file for file in read if file.macros]
        self.slow = self.corners[0]
        self.name = os.path.commonprefix([corner.name for corner in self.corners]).rstrip("_")

    def macros_at(self, corner):
        return [file for file in self.macros if (file.voltage, file.temperature) == (corner.voltage, corner.temperature)]
