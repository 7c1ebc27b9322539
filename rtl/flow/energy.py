# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Energy of cells and SRAM macros from their Liberty file: of each transition of a pin, capacitances, leakage.

A group of `internal_power` holds while its `when` is true; a group without `when` holds while no other group of its pin does.
Tables are linear between their points, and constant beyond them. Energies are in pJ, powers in nW, times in ns, capacitances in pF.

`function` and `when` are compiled to functions of whole waves: integers that have a bit for each cycle (waves.py).
"""

import re
from bisect import bisect_right
from functools import lru_cache

import liberty

PREFIX = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "f": 1e-15, "": 1.0}


def numbers(text):
    return [float(word) for word in re.findall(r"[-+0-9.eE]+", text or "")]


class Table:
    """A table of one value, or over the slew of an input, or over a load, or over slew and load."""

    def __init__(self, group, templates):
        template = templates.get(group.arguments[0] if group.arguments else "", {})
        index = lambda place: numbers(group.attributes.get(f"index_{place}", template.get(f"index_{place}")))
        self.values = numbers(group.attributes.get("values"))
        self.slews, self.loads = index(1), index(2)
        if template.get("variable_1") == "total_output_net_capacitance":
            rows = [self.values[at : at + len(self.loads)] for at in range(0, len(self.values), len(self.loads) or 1)]
            self.values = [row[at] for at in range(len(rows[0])) for row in rows] if self.loads else self.values
            self.slews, self.loads = self.loads, self.slews
        self.cache = {}

    def at(self, slew, load=0.0):
        if len(self.values) == 1:
            return self.values[0]
        key = (slew, load)
        if key not in self.cache:
            row, along = place(self.slews or self.loads, slew if self.slews else load)
            if not self.slews or not self.loads:
                self.cache[key] = mix(self.values[row], self.values[row + 1], along)
            else:
                column, across = place(self.loads, load)
                first = row * len(self.loads) + column
                lines = [mix(self.values[at], self.values[at + 1], across) for at in (first, first + len(self.loads))]
                self.cache[key] = mix(*lines, along)
        return self.cache[key]


def place(points, value):
    """The point before a value, and the fraction of the way to the next, from 0 to 1."""
    at = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return at, min(max((value - points[at]) / (points[at + 1] - points[at]), 0.0), 1.0)


def mix(first, second, share):
    return first + (second - first) * share


def python_of(text):
    """A Liberty function as a Python expression, in which M is all ones."""
    tokens = re.findall(r"[A-Za-z_]\w*|[01]|[!'^*&+|()]", text)
    at = 0

    def peek():
        return tokens[at] if at < len(tokens) else None

    def factor():
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "!":
            result = f"(M^{factor()})"
        elif token == "(":
            result = f"({sums()})"
            at += 1
        else:
            result = {"0": "0", "1": "M"}.get(token, token)
        while peek() == "'":
            at += 1
            result = f"(M^{result})"
        return result

    def chain(inner, ends, sign, marks):
        nonlocal at
        parts = [inner()]
        while peek() is not None and peek() not in ends:
            at += peek() in marks
            parts.append(inner())
        return f"({sign.join(parts)})" if len(parts) > 1 else parts[0]

    def exclusive():
        nonlocal at
        parts = [factor()]
        while peek() == "^":
            at += 1
            parts.append(factor())
        return f"({'^'.join(parts)})" if len(parts) > 1 else parts[0]

    def products():
        return chain(exclusive, (")", "+", "|"), "&", ("*", "&"))

    def sums():
        return chain(products, (")",), "|", ("+", "|"))

    return sums()


@lru_cache(maxsize=None)
def function(text):
    """Compiles a Liberty function: takes waves by pin and all ones, returns the wave."""
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)))
    arguments = ", ".join(f"p[{name!r}]" for name in names)
    inner = f"(lambda {', '.join(names)}: {python_of(text)})({arguments})" if names else python_of(text)
    return eval(f"lambda p, M: {inner}")  # the text is made of pins and operators alone


class Power:
    """A group of internal_power."""

    def __init__(self, group, templates):
        edge = {name: (group.of(name) or group.of("power") or [None])[0] for name in ("rise_power", "fall_power")}
        self.rise, self.fall = (Table(edge[name], templates) if edge[name] else None for name in ("rise_power", "fall_power"))
        self.when = group.attributes.get("when")
        self.related = group.attributes.get("related_pin", "").split()


class Pin:
    def __init__(self, name, group, templates):
        read = lambda key: float(group.attributes.get(key, group.attributes.get("capacitance", 0)))
        self.name, self.direction = name, group.attributes.get("direction", "")
        self.is_clock = group.attributes.get("clock") == "true"
        self.capacitance = (read("rise_capacitance") + read("fall_capacitance")) / 2
        self.function = group.attributes.get("function")
        self.powers = [Power(power, templates) for power in group.of("internal_power")]
        self.arcs = []
        for arc in group.of("timing"):
            tables = {name: Table(arc.of(name)[0], templates) for name in ("rise_transition", "fall_transition") if arc.of(name)}
            if len(tables) == 2:
                self.arcs.append((arc.attributes.get("related_pin", "").split(), tables))


class Cell:
    """A cell: pins by name (those of a bus as BUS[3]), state, leakage."""

    def __init__(self, group, types, templates, power):
        self.name = group.arguments[0]
        self.memory = bool(group.of("memory"))
        self.clock_gate = "clock_gating_integrated_cell" in group.attributes
        self.pins = {}
        for pin in group.of("pin"):
            for name in pin.arguments:
                self.pins[name] = Pin(name, pin, templates)
        for bus in group.of("bus"):
            kind = types[bus.attributes["bus_type"]].attributes
            inner = (bus.of("pin") or [bus])[0]
            inner.attributes = {**bus.attributes, **inner.attributes}
            inner.groups = [*inner.groups, *(one for one in bus.groups if one is not inner and one.name != "pin")]
            pin = Pin(bus.arguments[0], inner, templates)
            for bit in range(int(kind["bit_width"])):
                self.pins[f"{bus.arguments[0]}[{bit}]"] = pin
        self.flip_flop = next(iter(group.of("ff")), None)
        self.latch = next(iter(group.of("latch")), None)
        self.leakage = float(group.attributes.get("cell_leakage_power", 0)) * power
        self.leakages = [(one.attributes.get("when"), float(one.attributes["value"]) * power) for one in group.of("leakage_power")]


def cells(path):
    """All cells of a Liberty file, and its voltage."""
    group = liberty.parse(path.read_text(errors="replace"))
    volts = float(group.attributes.get("nom_voltage", 1))
    scale, unit = group.attributes.get("capacitive_load_unit", "1 pf").split()
    farad = float(scale) * {"pf": 1.0, "ff": 1e-3}[unit.lower()]
    if farad != 1.0:
        raise ValueError(f"{path}: capacitances are not in pF")
    # Energy is in units of capacitance and voltage squared; leakage has its own unit.
    number, prefix = re.fullmatch(r"([\d.]+)\s*([a-z]?)W", group.attributes.get("leakage_power_unit", "1nW")).groups()
    types = {kind.arguments[0]: kind for kind in group.of("type")}
    power = float(number) * PREFIX[prefix] / 1e-9
    templates = {one.arguments[0]: one.attributes for kind in ("lu_table_template", "power_lut_template") for one in group.of(kind)}
    return {one.arguments[0]: Cell(one, types, templates, power) for one in group.of("cell")}, volts
