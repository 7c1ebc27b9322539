# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The mapped netlist in place of the RTL: for the lockstep, and proved equivalent.

    rtl/flow/tools.sh python rtl/flow/gates.py [NAME...]             without names: the units to synthesise
    SELVEDGE_RTL_NETLISTS=$PWD/target/rtl-flow/gates cargo test --profile checked -p selvedge-rtl

In $RTL_OUT/gates (target/rtl-flow/gates) each unit gets NAME.v, a netlist with the trace port; cells.v has the cells by their
functions in the Liberty file; memories are those of the RTL. The build script of crates/tools/rtl takes a unit from there instead of its
sources, so the lockstep runs the same tests, histories and seeds.

Then both are proved equal (equivalence.py). EQUIVALENCE_SECONDS (300) ends an attempt.
"""

import json
import os
import sys

import designs
import equivalence
import memory
import yosys
from liberty import Library
from synthesize import DEFINED, OUT, save, synthesize

SECONDS = int(os.environ.get("EQUIVALENCE_SECONDS") or 300)
GATES = OUT / "gates"


def cells(library):
    """The cells as Verilog, by their functions."""
    path = GATES / "cells.v"

    def work(run, _):
        run(f"read_liberty -ignore_miss_func -ignore_buses {library.slow.path}")
        run(f"write_verilog -noattr {path}")

    yosys.in_child(GATES / "cells.log", work)
    return path


def memory_module(m):
    """The module of a memory or a clock gate in the netlist, around the RTL's."""
    ports = ", ".join(f"{way} [{bits - 1}:0] {name}" if bits > 1 else f"{way} {name}" for name, way, bits in m["ports"])
    names = {k: v for k, v in m["parameters"].items() if k in ("Words", "Width", "LaneW", "Trace")}
    parameters = ", ".join(f".{name}({value})" for name, value in names.items())
    pins = ", ".join(f".{name}({name})" for name, _, _ in m["ports"])
    return f"module {m['name']}({ports}); {m['kind']} #({parameters}) u_memory({pins}); endmodule\n"


def netlist(design, library):
    """Writes NAME.v for the lockstep."""
    folder = OUT / design.name / library.name / "trace"
    memories = synthesize(design, library, "small", True, folder, boxes=True)
    text = (folder / "small.v").read_text()
    text += "".join(memory_module(m) for m in memories)
    (GATES / f"{design.name}.v").write_text(text)
    return folder


def equivalent(design, library, folder):
    """Proves RTL and netlist equal. Returns the figures of the proof."""
    result = folder / "equivalence.json"
    boxes = folder / "small.boxes.v"

    def work(run, yosys_design):
        run(f"read_slang {design.slang()}")
        kinds = [shape.name for shape in memory.shapes(yosys_design, (*design.memories, "clock_gate"))]
        run(f"read_verilog -overwrite -lib {boxes}")
        run(f"hierarchy -check -top {design.top}; {DEFINED}; flatten; memory_map; dffunmap; opt_clean; write_json {folder}/gold.json")
        run(f"design -reset; read_verilog {GATES / 'cells.v'}; read_verilog -lib {boxes}; read_verilog {folder}/small.v")
        run(f"hierarchy -check -top {design.top}; proc; flatten; dffunmap; opt_expr; opt_clean; write_json {folder}/gate.json")
        figures = equivalence.prove(folder, folder / "gold.json", folder / "gate.json", design.top, kinds, run, SECONDS)
        result.write_text(json.dumps(figures))

    yosys.in_child(folder / "equivalence.log", work, SECONDS + 60)
    return json.loads(result.read_text())


def measure(design, library):
    folder = netlist(design, library)
    try:
        result = equivalent(design, library, folder)
        said = f"{result['registers']} registers, {result['outputs']} values proved equal" if result["proved"] else "not proved in time"
    except yosys.TimedOut:
        result = {"proved": False}
        said = f"not finished within {SECONDS} s"
    save(design.name, ["equivalence", library.name], result)
    print(f"{design.name:24s} {said}", flush=True)


def main(names):
    library = Library()
    GATES.mkdir(parents=True, exist_ok=True)
    cells(library)
    return yosys.each(designs.chosen(designs.units(trace=1, all_of_them=bool(names)), names), lambda design: measure(design, library))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
