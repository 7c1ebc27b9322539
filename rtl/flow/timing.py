# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The frequency of the mapped netlists, by OpenSTA, in each corner of the library.

    rtl/flow/tools.sh --needs sta -- python rtl/flow/timing.py [NAME...]

Uses the netlists of synthesize.py. The longest path of each class (register to register, memory to register, register to memory,
from inputs, to outputs) is a period. Ports have no delay of their own. Memories are macros if the library has them (their
clock-to-data delay and setup count); otherwise they have no delay.

1. Wires have no resistance and no capacitance: there is no layout. Clocks have no skew.
2. `frequency_mhz` is of paths between registers and memories; `with_ports_mhz` counts inputs and outputs, too; `cells_alone_mhz`
   leaves out a memory's own times, and counts the logic before it.
3. The registers at its ends name a path; Yosys keeps their names as names of cells.
"""

import json
import os
import re
import subprocess
import sys

import designs
from liberty import Library
from synthesize import ABC, OUT, save

INSIDE = ("register_register", "memory_register", "register_memory")


def tcl(text):
    return "{" + text + "}"


def memory_pins(folder, kind, design, memories, netlist):
    """Clock pins and input pins of all memories in the netlist, as OpenSTA names them."""
    kinds = {m["macro"]["cell"] if m["macro"] else m["name"] for m in memories}
    clocks, inputs = [], []
    for name, cell in netlist["modules"][design.top]["cells"].items():
        if cell["type"] not in kinds:
            continue
        name = re.sub(r"([\[\]])", r"\\\1", name)
        for pin, direction in cell["port_directions"].items():
            if direction != "input" or "BIST" in pin or pin == "A_DLY":
                continue
            if pin.startswith("clk") or pin == "A_CLK":
                clocks.append(f"{name}/{pin}")
            else:
                wide = len(cell["connections"][pin]) > 1
                inputs.append(f"{name}/{pin}{'*' if wide else ''}")
    return clocks, inputs


def register(name, cells):
    """The RTL's name of a cell. Yosys names a cell after its output, followed by its type."""
    name = name.replace("\\", "")
    return next((name[: -len(kind)] for kind in sorted(cells, key=len, reverse=True) if name.endswith(kind) and name != kind), name)


def time(design, library, kind, corner):
    """The periods of all classes of paths, with the ends of the longest."""
    folder = OUT / design.name / library.name
    memories = json.loads((folder / f"{kind}.memories.json").read_text())
    netlist = json.loads((folder / f"{kind}.json").read_text())
    clocks, inputs = memory_pins(folder, kind, design, memories, netlist)
    libraries = [corner.path] + [m.path for m in library.macros_at(corner) if {x["macro"]["cell"] for x in memories if x["macro"]} & set(m.cells)]
    libraries += [folder / f"{m['name']}.lib" for m in memories if not m["macro"]]
    ports = netlist["modules"][design.top]["ports"]
    resets = [port for port in ports if re.fullmatch(r"rst\w*|resetn?", port)]
    buffers = corner.buffers()
    variables = {
        "liberties": " ".join(tcl(str(path)) for path in libraries),
        "netlist": str(folder / f"{kind}.v"),
        "top": design.top,
        "clock": design.clock,
        "resets": " ".join(resets),
        "memory_clocks": " ".join(tcl(pin) for pin in clocks),
        "memory_inputs": " ".join(tcl(pin) for pin in inputs),
        "driver": buffers[min(1, len(buffers) - 1)].name,
        "load_pf": f"{4 * buffers[0].input_capacitance / 1000:.5f}",
    }
    script = folder / f"{kind}.{corner.name}.tcl"
    script.write_text("".join(f"set {name} {tcl(value)}\n" for name, value in variables.items())
                      + f"source {tcl(str(designs.RTL / 'flow/timing.tcl'))}\n")  # fmt: skip
    said = subprocess.run(["sta", "-exit", "-no_splash", str(script)], capture_output=True, text=True)
    log = said.stdout + said.stderr
    (folder / f"{kind}.{corner.name}.log").write_text(log)
    found = {}
    for name, period, text in re.findall(r"^class (\w+) ([\d.]+)\n(.*?)^end$", log, flags=re.M | re.S):
        ends = re.findall(r"^(?:Startpoint|Endpoint): (\S+)", text, flags=re.M)
        gates = len(re.findall(r"^\s+-?[\d.]+\s+-?[\d.]+ [v^] \S+ \(", text, flags=re.M))
        arrival = float(re.search(r"([\d.]+)\s+data arrival time", text)[1])
        found[name] = {"period_ns": round(float(period), 3), "arrival_ns": round(arrival, 3), "from": register(ends[0], corner.cells),
                       "to": register(ends[1], corner.cells), "pins": gates}  # fmt: skip
    if not found or re.search(r"^Error", log, flags=re.M):
        sys.exit(f"rtl: OpenSTA found no path in {design.name}; see {script.with_suffix('.log')}")
    inside = max((found[name]["period_ns"] for name in INSIDE if name in found), default=None)
    alone = [found["register_register"]["period_ns"]] if "register_register" in found else []
    alone += [found["register_memory"]["arrival_ns"]] if "register_memory" in found else []
    return {
        "frequency_mhz": round(1000 / inside, 1) if inside else None,
        "cells_alone_mhz": round(1000 / max(alone), 1) if alone else None,
        "with_ports_mhz": round(1000 / max(path["period_ns"] for path in found.values()), 1),
        "voltage": corner.voltage,
        "temperature": corner.temperature,
        "memory": sorted({m["macro"]["cell"] if m["macro"] else "no delay" for m in memories}),
        "paths": found,
    }


def measure(design, library):
    for corner in library.corners:
        for kind in ABC:
            result = time(design, library, kind, corner)
            save(design.name, ["timing", library.name, corner.name, kind], result)
            worst = max((p for n, p in result["paths"].items() if n in INSIDE), key=lambda path: path["period_ns"], default=None)
            path = f"{worst['from']} -> {worst['to']}" if worst else "no path between registers"
            print(f"{design.name:24s} {kind:5s} {corner.voltage:.2f} V {corner.temperature:.0f} C: {result['frequency_mhz']} MHz, "
                  f"cells alone {result['cells_alone_mhz']}, with ports {result['with_ports_mhz']} MHz; {path}", flush=True)  # fmt: skip


def main(names):
    library = Library()
    for design in designs.chosen(designs.units() + designs.cores(), names):
        if not (OUT / design.name / library.name / "fast.json").exists():
            sys.exit(f"rtl: {design.name} has no netlist of {library.name}; run synthesize.py first")
        measure(design, library)


if __name__ == "__main__":
    main(sys.argv[1:])
