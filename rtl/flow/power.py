# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power of mapped netlists under recorded traffic, in the typical corner.

    rtl/flow/tools.sh --needs verilator -- python rtl/flow/power.py [NAME...]

Uses the netlists of synthesize.py; without names: those of all units with recorded traffic. TRAFFIC (target/rtl-flow/traffic) holds
the inputs of the units while a program ran, as UNIT.ports; traffic.sh records it. Each netlist runs the same commands back to back, as
fast as it accepts them (waves.py), and must give the same answers. In a window of WINDOW cycles, the toggles of each net and the
accesses of each memory are counted.

1. Energy of a cell is by the transitions of its pins and the conditions in its Liberty file, each evaluated in its own cycle
   (energy.py); of a net, half of its capacitance times the voltage's square for each toggle.
2. `clock` is the energy of clock pins, with their capacitance; `registers` the other energy of flip-flops, with the nets that they drive;
   `gates` that of all other cells with their nets. Leakage is separate, by the state of the inputs.
3. SRAM macros are separate: the energy of each read, write and toggle of a pin from the macro's Liberty file. Of a memory without a macro
   only accesses are counted.
4. Left out: wires, the tree of the clock, glitches (gates have no delay), the drivers of the inputs.
5. OpenSTA 2.0 does not compute this; docs/design/rtl-flow.md has the measurements.
"""

import os
import sys
from pathlib import Path

import designs
import energy
import gates
from liberty import Library
from synthesize import ABC, OUT, save
from waves import Netlist, Ports, clock_gate_pins

TRAFFIC = Path(os.environ.get("TRAFFIC") or OUT / "traffic").resolve()
# Cycles of the window; commands before it.
WINDOW = int(os.environ.get("WINDOW") or 8192)
SKIP = int(os.environ.get("SKIP") or 256)
# The frequency of the given powers. Energy of a cycle does not depend on it.
POWER_MHZ = 100
# Capacitance of pins of memories without a macro, as in memory.py's model of their timing.
BOX_PIN_PF = 0.003
# Recordings of units that run another unit's recording.
RECORDED = {"allocator_unroll_1": "allocator", "allocator_unroll_2": "allocator"}


class Loads:
    """Capacitance of each net, and the slew at it."""

    def __init__(self, netlist, waves, driver):
        self.of = {}
        for _, kind, pins in netlist.instances:
            cell = netlist.kinds.get(kind)
            for pin, bits in pins.items():
                if cell is not None:
                    way, capacitance = netlist.pin(cell, pin).direction, netlist.pin(cell, pin).capacitance
                else:
                    way, capacitance = netlist.directions[kind][pin], BOX_PIN_PF
                if way == "input":
                    for bit in bits:
                        self.of[bit] = self.of.get(bit, 0.0) + capacitance
        for way, bits in netlist.ports.values():
            for bit in bits if way == "output" else ():
                self.of[bit] = self.of.get(bit, 0.0) + netlist.load
        self.slews = {netlist.clock: 0.0}
        self.slews |= {pins[clock_gate_pins(cell)[2]][0]: 0.0 for _, cell, pins in netlist.clock_gates}
        for way, bits in netlist.ports.values():
            for bit in bits if way == "input" else ():
                self.slews.setdefault(bit, self.through(driver, {}, bit))
        for _, cell, pins in [*netlist.registers, *netlist.macros, *waves.order]:
            for pin, bits in pins.items():
                if netlist.pin(cell, pin).direction == "output":
                    for bit in bits:
                        self.slews[bit] = self.through(netlist.pin(cell, pin), pins, bit)

    def load(self, bit):
        return self.of.get(bit, 0.0)

    def slew(self, bit):
        return self.slews.get(bit, 0.0)

    def through(self, pin, pins, bit):
        """The slew at an output: the largest over its inputs, averaged over rise and fall."""
        slews = [sum(table.at(self.slew(pins[name][0]) if pins.get(name) else 0.0, self.load(bit)) for table in tables.values()) / 2
                 for names, tables in pin.arcs for name in names]  # fmt: skip
        return max(slews, default=0.0)


def conditions(powers, values, ones):
    """Each group with the wave of the cycles in which it holds."""
    known = {}
    rest = ones
    for power in powers:
        if power.when:
            known[power] = energy.function(power.when)(values, ones)
            rest &= ~known[power]
    return [(power, known.get(power, rest)) for power in powers]


def of_edges(powers, values, ones, rises, falls, slew):
    """The energy of an input pin that rises and falls in these cycles."""
    total = 0.0
    for power, wave in conditions(powers, values, ones):
        for table, edges in ((power.rise, rises), (power.fall, falls)):
            if table:
                total += table.at(slew) * (edges & wave).bit_count()
    return total


def of_output(pin, pins, values, toggled, ones, edges, loads, bit):
    """The energy within a cell when an output changes: the mean over the inputs that have changed in the same cycle."""
    total = 0.0
    for which, cycles in zip(("rise", "fall"), edges):
        count = cycles.bit_count()
        if not count or not pin.powers:
            continue
        found = []
        for power, wave in conditions_by_related(pin.powers, values, ones):
            table = getattr(power, which)
            if not table:
                continue
            for name in power.related or [None]:
                source = pins[name][0] if name and pins.get(name) else None
                cause = toggled(source) if source is not None else ones
                found.append((table.at(loads.slew(source), loads.load(bit)), (cycles & wave & cause).bit_count()))
        seen = sum(times for _, times in found)
        if seen:
            total += count * sum(each * times for each, times in found) / seen
        elif found:
            total += count * sum(each for each, _ in found) / len(found)
    return total


def conditions_by_related(powers, values, ones):
    """As `conditions`, with separate groups for each input."""
    by_related = {}
    for power in powers:
        by_related.setdefault(tuple(power.related), []).append(power)
    return [one for group in by_related.values() for one in conditions(group, values, ones)]


def leakage(cell, values, waves, clocks):
    """Leakage in nW, by the state of the pins."""
    if not cell.leakages:
        return cell.leakage
    total, cycles = 0.0, waves.cycles
    for level in (0, waves.ones) if clocks else (0,):
        values = {**values, **dict.fromkeys(clocks, level)}
        rest, sum_ = waves.ones, 0.0
        for when, value in cell.leakages:
            wave = (energy.function(when)(values, waves.ones) if when else waves.ones) & rest
            rest &= ~wave
            sum_ += value * wave.bit_count() / cycles
        total += sum_ + cell.leakage * rest.bit_count() / cycles
    return total / (2 if clocks else 1)


def count(netlist, waves, loads):
    """Energies of a cycle in pJ: of the clock, registers, gates, of each macro; leakages in nW; toggles; accesses."""
    ones, cycles = waves.ones, waves.cycles
    steps = cycles - 1
    half = netlist.volts**2 / 2
    edges = {bit: waves.edges(wave) for bit, wave in waves.of.items()}
    none = (0, 0)
    toggled = lambda bit: edges[bit][0] | edges[bit][1] if bit in edges else ones
    parts = dict.fromkeys(("clock_internal", "clock_nets", "registers_internal", "registers_nets", "gates_internal", "gates_nets"), 0.0)
    leaks = {"logic": 0.0, "macros": 0.0}

    def drive(cell, name, pins, values, part):
        """An output pin: within its cell, and its net."""
        bits = pins.get(name)
        if not bits or bits[0] not in edges:
            return
        rises, falls = edges[bits[0]]
        parts[f"{part}_internal"] += of_output(cell.pins[name], pins, values, toggled, ones, (rises, falls), loads, bits[0])
        parts[f"{part}_nets"] += (rises | falls).bit_count() * half * loads.load(bits[0])

    def enter(cell, name, pins, values):
        """An input pin."""
        bits = pins.get(name)
        if not bits or not cell.pins[name].powers:
            return 0.0
        rises, falls = edges.get(bits[0], none)
        return of_edges(cell.pins[name].powers, values, ones, rises, falls, loads.slew(bits[0]))

    def clocked(cell, name, pins, values):
        """A clock pin: pulses begin after a cycle, and end within the next."""
        pulse = waves.pulses[pins[name][0]] & (ones >> 1)
        parts["clock_internal"] += of_edges(cell.pins[name].powers, values, ones, pulse, (pulse << 1) & ones, 0.0)
        parts["clock_nets"] += 2 * pulse.bit_count() * half * cell.pins[name].capacitance

    for _, cell, pins in netlist.registers:
        clock = cell.flip_flop.attributes["clocked_on"]
        values = waves.values(cell, pins)
        values |= {name: energy_of_state(cell, pin, pins, waves) for name, pin in cell.pins.items() if pin.direction == "output"}
        clocked(cell, clock, pins, values)
        high = {**values, clock: ones}  # data changes behind the rising edge, while the clock is high
        for name, pin in cell.pins.items():
            if pin.direction == "output":
                drive(cell, name, pins, high, "registers")
            elif name != clock:
                parts["registers_internal"] += enter(cell, name, pins, high)
        leaks["logic"] += leakage(cell, values, waves, [clock])
    for _, cell, pins in netlist.clock_gates:
        clocked(cell, clock_gate_pins(cell)[0], pins, waves.values(cell, pins))
        leaks["logic"] += cell.leakage
    for _, cell, pins in netlist.gates:
        values = waves.values(cell, pins)
        for name, pin in cell.pins.items():
            if pin.direction == "output":
                drive(cell, name, pins, values, "gates")
            else:
                parts["gates_internal"] += enter(cell, name, pins, values)
        leaks["logic"] += leakage(cell, values, waves, [])
    memories = []
    for name, cell, pins in netlist.macros:
        one = macro(netlist, waves, loads, edges, cell, pins, parts)
        leaks["macros"] += cell.leakage
        memories.append({"memory": name, "cell": cell.name, **one})
    for name, kind, pins in netlist.boxes:
        memories.append({"memory": name, "cell": None, **box(waves, pins)})
        for pin, bits in pins.items():
            if netlist.directions[kind][pin] == "output":
                parts["registers_nets"] += sum((edges[bit][0] | edges[bit][1]).bit_count() * half * loads.load(bit) for bit in bits if bit in edges)
    nets = [bit for bit in waves.of if isinstance(bit, int)]
    return {
        "energy_pj": {name: part / steps for name, part in parts.items()},
        "leakage_nw": leaks,
        "memories": memories,
        "nets": len(nets),
        "toggles_per_net": round(sum((edges[bit][0] | edges[bit][1]).bit_count() for bit in nets) / steps / len(nets), 4),
    }


def energy_of_state(cell, pin, pins, waves):
    """The wave of a flip-flop's output, even if it is not connected."""
    name = next(name for name in cell.pins if cell.pins[name] is pin)
    if pins.get(name) and pins[name][0] in waves.of:
        return waves.of[pins[name][0]]
    other = next(other for other, one in cell.pins.items() if one.direction == "output" and pins.get(other) and pins[other][0] in waves.of)
    wave = waves.of[pins[other][0]]
    return wave if cell.pins[other].function == pin.function else waves.ones ^ wave


def macro(netlist, waves, loads, edges, cell, pins, parts):
    """Accesses of a macro, and its energy a cycle."""
    values, ones, steps = waves.values(cell, pins), waves.ones, waves.cycles - 1
    clock = "A_CLK"
    pulse = ones >> 1
    enabled, write, read = (values[name] & pulse for name in ("A_MEN", "A_WEN", "A_REN"))
    total = of_edges(cell.pins[clock].powers, values, ones, pulse, (pulse << 1) & ones, 0.0)
    parts["clock_nets"] += 2 * steps * netlist.volts**2 / 2 * cell.pins[clock].capacitance
    for name, bits in pins.items():
        pin = netlist.pin(cell, name)
        for bit in bits:
            rises, falls = edges.get(bit, (0, 0))
            if pin.direction == "input" and name != clock:
                total += of_edges(pin.powers, values, ones, rises, falls, loads.slew(bit))
            elif pin.direction == "output" and bit in edges:
                total += of_edges(pin.powers, values, ones, rises, falls, 0.0)
                parts["registers_nets"] += (rises | falls).bit_count() * netlist.volts**2 / 2 * loads.load(bit)
    return {"reads": (enabled & read & ~write).bit_count(), "writes": (enabled & write).bit_count(), "energy_pj": total / steps}


def box(waves, pins):
    """Accesses of a memory without a macro."""
    last = waves.ones >> 1
    sums = lambda name: sum((waves.of[bit] & last).bit_count() for bit in pins[name])
    if "enable_i" in pins:
        writes = (waves.of[pins["enable_i"][0]] & waves.of[pins["write_i"][0]] & last).bit_count()
        return {"reads": sums("enable_i") - writes, "writes": writes, "energy_pj": None}
    return {"reads": sums("read_i"), "writes": sums("write_i"), "energy_pj": None}


def milliwatts(figures):
    """Powers at POWER_MHZ: logic, its parts, and macros."""
    pj = figures["energy_pj"]
    by = lambda part: (pj[f"{part}_internal"] + pj[f"{part}_nets"]) * POWER_MHZ / 1000
    macros = [m["energy_pj"] for m in figures["memories"] if m["energy_pj"] is not None]
    found = {part: round(by(part), 4) for part in ("clock", "registers", "gates")}
    return {
        "logic_mw": round(sum(by(part) for part in ("clock", "registers", "gates")), 4),
        **{f"{part}_mw": value for part, value in found.items()},
        "sram_mw": round(sum(macros) * POWER_MHZ / 1000, 4) if macros else None,
        "logic_leakage_mw": round(figures["leakage_nw"]["logic"] / 1e6, 5),
        "sram_leakage_mw": round(figures["leakage_nw"]["macros"] / 1e6, 5) if macros else None,
    }


def ready(design, library, kind):
    """The netlist with the energies of the typical corner."""
    corner = library.corners[-1]
    macros = library.macros_at(corner)
    cells, volts = energy.cells(corner.path)
    for file in macros:
        cells |= energy.cells(file.path)[0]
    buffers = corner.buffers()
    netlist = Netlist(design, OUT / design.name / library.name, kind, cells, volts, 4 * buffers[0].input_capacitance / 1000)
    driver = cells[buffers[min(1, len(buffers) - 1)].name]
    return corner, netlist, driver.pins[buffers[min(1, len(buffers) - 1)].outputs[0]]


def measure(design, library, kind, ports):
    """The power of a netlist under traffic, and idle."""
    corner, netlist, driver = ready(design, library, kind)
    folder = OUT / design.name / library.name / "power" / kind
    program, sources = netlist.build(folder, gates.cells(library))
    skip = min(SKIP, len(Ports(ports).commands) // 4)
    result = {"frequency_mhz": POWER_MHZ, "corner": corner.name, "window": {}}
    for name, mode in (("traffic", "at-once"), ("idle", "idle")):
        waves, run = netlist.run(program, sources, ports, folder, WINDOW if name == "traffic" else 512, skip, mode)
        compared = waves.check()
        figures = count(netlist, waves, Loads(netlist, waves, driver))
        result[name] = milliwatts(figures)
        if name == "traffic":
            result["parts_pj"] = {part: round(value, 4) for part, value in figures["energy_pj"].items()}
            result["window"] = {"cycles": run["cycles"], "commands": run["commands"], "answers_compared": run["answers_compared"], "flip_flops_compared": compared,
                                "nets": figures["nets"], "toggles_per_net": figures["toggles_per_net"]}  # fmt: skip
            result["memories"] = [{**m, "energy_pj": round(m["energy_pj"], 4) if m["energy_pj"] is not None else None} for m in figures["memories"]]
            total = result[name]["logic_mw"] + (result[name]["sram_mw"] or 0)
            result["pj_per_command"] = round(total / POWER_MHZ * 1000 * run["cycles"] / max(1, run["commands"]), 2)
    save(design.name, ["power", library.name, kind], result)
    said = result["traffic"]
    sram = f", SRAM {said['sram_mw']:.3f} mW" if said["sram_mw"] is not None else ", no macro"
    print(f"{design.name:24s} {kind:5s} {POWER_MHZ} MHz: logic {said['logic_mw']:.3f} mW{sram}; idle {result['idle']['logic_mw']:.3f}; "
          f"leakage {said['logic_leakage_mw'] * 1000:.1f} uW; {run_words(result['window'])}", flush=True)  # fmt: skip
    return result


def run_words(window):
    return f"{window['commands']} commands in {window['cycles']} cycles, {window['toggles_per_net']} toggles a net and cycle"


def main(names):
    library = Library()
    gates.GATES.mkdir(parents=True, exist_ok=True)
    found = [d for d in designs.chosen(designs.units(), names) if names or (TRAFFIC / f"{RECORDED.get(d.name, d.name)}.ports").exists()]
    for design in found:
        ports = TRAFFIC / f"{RECORDED.get(design.name, design.name)}.ports"
        if not ports.exists():
            sys.exit(f"rtl: {ports} is missing; rtl/flow/traffic.sh records it")
        for kind in ABC:
            if not (OUT / design.name / library.name / f"{kind}.json").exists():
                sys.exit(f"rtl: {design.name} has no netlist of {library.name}; run synthesize.py first")
            measure(design, library, kind, ports)


if __name__ == "__main__":
    main(sys.argv[1:])
