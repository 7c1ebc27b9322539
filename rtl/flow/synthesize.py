# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From SystemVerilog to cells: area by module, and mapped netlists.

    rtl/flow/tools.sh python rtl/flow/synthesize.py [NAME...]

Yosys reads with slang. Memories are outside (memory.py); clock gates become the library's cell if it has one. Each design has two
netlists, because abc trades area for frequency:

* `small`: area before all, carry chains by Brent-Kung, which abc's optimisation for area makes shorter and slower;
* `fast`: carry chains by Kogge-Stone, sums of products balanced for delay, then area recovered where TARGET_NS allows it. The
  frequency may be above or below that target. TARGET_NS=0.001 shows the script's limit.

Both end with buffers for fan-out and sizing, against a driving cell and a load. `small` is made once more with its
modules kept, for the table of areas by module.

The JSON goes to $RTL_OUT (target/rtl-flow)/NAME.json, the netlists beside it.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import designs
import memory
import yosys
from liberty import Library

OUT = Path(os.environ.get("RTL_OUT") or designs.ROOT / "target/rtl-flow").resolve()
# The delay that `fast` aims at in the slowest corner: 200 MHz with a fifth of the period left for wires.
TARGET_NS = float(os.environ.get("TARGET_NS") or 4.0)

ABC = {
    "small": "strash; &get -n; &fraig -x; &put; scorr; dc2; strash; &get -n; &dch -f; &nf; &put; topo; buffer -N 24; upsize {D}; dnsize {D}; stime -p",
    "fast": "strash; if -g -K 6 -C 16; strash; if -g -K 6; strash; dch -f; map -B 0.9 {D}; topo; buffer -c -G {G}; upsize {D}; dnsize {D}; stime -p",
}
# Drive limit of a buffer of `fast`, in percent of its own input. If too many buffers are needed, abc gives up; then the next is tried.
GAINS = (300, 1000, 3000)
GAVE_UP = "Buffering could not be completed"
# Loads of a net above which `fast` gives it a tree of buffers before abc, and loads of each buffer of the tree.
FANOUT_MOST, FANOUT_OF_BUFFER = 600, 24
TARGET_SMALL_NS = 1000
# Sets values that the RTL leaves undefined to 0, so that RTL and netlist can be compared: constants, and elements beyond a vector's end.
DEFINED = "proc; setundef -undriven -zero; setundef -zero; chtype -set $shift t:$shiftx"


def synthesize(design, library, kind, flatten, folder, boxes=False):
    """Writes KIND.v and KIND.json (Yosys' netlist) to `folder`. Returns the memories.

    `boxes`: memories and clock gates stay black boxes, for simulation with the RTL's own, and both are returned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    corner = library.slow
    buffers = corner.buffers()
    constraints = folder / "abc.constr"
    constraints.write_text(f"set_driving_cell {buffers[min(1, len(buffers) - 1)].name}\nset_load {4 * buffers[0].input_capacitance:.2f}\n")
    target = TARGET_NS if kind == "fast" else TARGET_SMALL_NS
    script = folder / f"{kind}.abc"

    outside, memories = folder / f"{kind}.boxes.v", folder / f"{kind}.memories.json"

    def work(run, yosys_design):
        run(f"read_slang {design.slang()}")
        found = memory.shapes(yosys_design, (*design.memories, "clock_gate"))
        text, record = {}, []
        for shape in found:
            if shape.kind == "clock_gate" and not boxes:
                text |= clock_gate(shape, corner)
                continue
            fit = None if boxes else shape.macro(library.macros_at(corner))
            if fit:
                buffer = buffers[min(1, len(buffers) - 1)]
                text |= {fit[0].name: memory.macro_black_box(fit[0]), buffer.name: black_box(buffer), shape.name: shape.of_macros(*fit, buffer)}
            else:
                text[shape.name] = shape.black_box()
                if not boxes:
                    (folder / f"{shape.name}.lib").write_text(shape.liberty())
            macro = {"cell": fit[0].name, "count": fit[1], "area_um2": fit[0].area * fit[1]} if fit else None
            record.append({"name": shape.name, "kind": shape.kind, "parameters": shape.parameters, "ports": shape.ports, "bits": shape.bits, "count": shape.count, "macro": macro})
        memories.write_text(json.dumps(record))
        if kind == "fast":
            text.setdefault(tree_buffer(corner).name, black_box(tree_buffer(corner)))
        outside.write_text("".join(text.values()))
        if text:
            run(f"read_verilog {outside}")
        run(f"hierarchy -check -top {design.top}")
        if boxes:
            run(DEFINED)
        # A state machine keeps its encoding if the netlist is compared with the RTL register by register.
        run(f"synth {'-flatten ' if flatten else ''}{'-nofsm ' if boxes else ''}-top {design.top} -run coarse:fine")
        run("opt -fast -full; memory_map; opt -full")
        run(f"techmap -map +/techmap.v{' -map +/choices/kogge-stone.v' if kind == 'fast' else ''}")
        run("opt -fast; opt -full; opt_clean")
        run(f"dfflibmap -liberty {corner.path}")
        run("opt; simplemap; opt_clean")
        name_inverted(yosys_design, corner)
        if kind == "fast":
            split_fanout(yosys_design, corner)
        run(f"abc -liberty {corner.path} -constr {constraints} -script {script}")
        run("opt_clean")
        ties = [corner.tie(1), corner.tie(0)]
        if all(ties):
            run(f"hilomap -singleton -hicell {ties[0][0]} {ties[0][1]} -locell {ties[1][0]} {ties[1][1]}")
        run("delete t:$scopeinfo; clean")
        # Yosys knows the directions of the cells' pins only now, so registers can be named after their outputs.
        run(f"read_liberty -lib -overwrite -ignore_miss_func {corner.path}")
        run("rename -wire")
        run("check -mapped -assert")
        if boxes:
            run("splitnets")  # Verilator schedules whole nets, and bits of one may depend on each other
        run(f"write_verilog -noattr -noexpr -nohex -simple-lhs {folder / kind}.v")
        run(f"write_json {folder / kind}.json")

    log = folder / f"{kind}.log"
    for gain in GAINS if kind == "fast" else GAINS[:1]:
        lines = ABC[kind].replace("{D}", f"-D {max(1, round(target * 1000))}").replace("{G}", str(gain)).split("; ")
        script.write_text("\n".join(lines) + "\n")
        yosys.in_child(log, work)
        if GAVE_UP not in log.read_text(errors="replace"):
            return json.loads(memories.read_text())
    raise yosys.Failed(f"abc cannot buffer {design.name} ({log})")


def tree_buffer(corner):
    """The buffer for trees, of medium size."""
    buffers = corner.buffers()
    return buffers[len(buffers) // 2]


def black_box(buffer):
    return f"(* blackbox *) module {buffer.name}(input {buffer.inputs[0]}, output {buffer.outputs[0]}); endmodule\n"


def name_inverted(yosys_design, corner):
    """Names the registers that hold the inverse of a register of the RTL, because the library has no cell for its reset value.

    They are called `NAME~`. abc drops the inverter, and with it the register's name.
    """
    from pyosys import libyosys as ys

    def port(cell, pin):
        name = ys.IdString("\\" + pin)
        return cell.getPort(name) if cell.hasPort(name) else None

    for module in yosys_design.modules_.values():
        held = {}
        for cell in module.cells_.values():
            kind = corner.cells.get(str(cell.type)[1:])
            for pin in kind.outputs if kind and kind.flip_flops else []:
                signal = port(cell, pin)
                if signal is not None and signal.is_wire() and not signal.as_wire().name.isPublic():
                    held[str(signal.as_wire().name)] = signal.as_wire()
        for cell in list(module.cells_.values()):
            if str(cell.type) != "$_NOT_" or not port(cell, "A").is_wire() or not port(cell, "Y").is_chunk():
                continue
            wire, out = held.pop(str(port(cell, "A").as_wire().name), None), port(cell, "Y").as_chunk()
            if wire is not None and out.wire.name.isPublic():
                place = "" if out.wire.width == 1 else f"[{out.offset + out.wire.start_offset}]"
                module.rename(wire, ys.IdString(f"{out.wire.name}{place}~"))


def split_fanout(yosys_design, corner):
    """Puts trees of buffers after nets that drive more than FANOUT_MOST gates, such as the select of a message of 1,024 bits.

    abc would make a chain of them, 45 buffers long in the engine. It sees the buffers here as other cells, with outputs at time 0.
    """
    from pyosys import libyosys as ys

    cell_buffer = tree_buffer(corner)
    into, out = ys.IdString("\\" + cell_buffer.inputs[0]), ys.IdString("\\" + cell_buffer.outputs[0])
    for module in yosys_design.modules_.values():
        loads = {}
        for cell in module.cells_.values():
            if str(cell.type).startswith("$_"):
                for pin, signal in cell.connections_.items():
                    if str(pin) != "\\Y" and signal.is_chunk() and not signal.is_fully_const():
                        chunk = signal.as_chunk()
                        loads.setdefault((str(chunk.wire.name), chunk.offset), (signal, []))[1].append((cell, pin))
        for (name, place), (signal, pins) in loads.items():
            level = 0
            while len(pins) > (FANOUT_MOST if level == 0 else FANOUT_OF_BUFFER):
                parents = []
                for at in range(0, len(pins), FANOUT_OF_BUFFER):
                    number = f"{name}[{place}]$fanout{level}_{at // FANOUT_OF_BUFFER}"
                    wire = module.addWire(ys.IdString("$net" + number))
                    parent = module.addCell(ys.IdString("$buffer" + number), ys.IdString("\\" + cell_buffer.name))
                    parent.setPort(out, ys.SigSpec(wire))
                    parent.setPort(into, signal)
                    for cell, pin in pins[at : at + FANOUT_OF_BUFFER]:
                        cell.setPort(pin, ys.SigSpec(wire))
                    parents.append((parent, into))
                pins, level = parents, level + 1


def clock_gate(shape, corner):
    """The modules of a clock gate, by name: the library's cell, or a latch and an AND."""
    cell = corner.clock_gate()
    if cell is None:
        return {shape.name: shape.head(False) + " reg e; always @* if (!clk_i) e = enable_i; assign clk_o = clk_i & e; endmodule\n"}
    clock, enable = sorted(cell.inputs, key=lambda pin: "CLK" not in pin.upper() and pin.upper() not in ("CK", "CP"))
    out = cell.outputs[0]
    pins = f".{clock}(clk_i), .{enable}(enable_i), .{out}(clk_o)"
    box = f"(* blackbox *) module {cell.name}(input {clock}, input {enable}, output {out}); endmodule\n"
    return {cell.name: box, shape.name: shape.head(False) + f" {cell.name} u_gate({pins}); endmodule\n"}


class Count:
    """Cells of a module or a netlist."""

    def __init__(self):
        self.area, self.cells, self.flip_flops, self.latches = 0.0, 0, 0, 0

    def add(self, cell, times=1):
        self.area += cell.area * times
        self.cells += times
        self.flip_flops += cell.flip_flops * times
        self.latches += cell.latches * times

    def json(self, gate_equivalent):
        return {"area_um2": round(self.area, 1), "kge": round(self.area / gate_equivalent / 1000, 3), "cells": self.cells,
                "flip_flops": self.flip_flops, "latches": self.latches}  # fmt: skip


def counts(path, top, library):
    """The whole netlist, and each module by its name in the source with all its instances, without its submodules."""
    cells = library.slow.cells
    modules = json.loads(Path(path).read_text())["modules"]
    total, by_module, unknown = Count(), {}, Counter()

    def walk(name):
        entry = by_module.setdefault(name.split("$")[0], [Count(), 0])
        entry[1] += 1
        count = entry[0]
        for cell in modules[name]["cells"].values():
            kind = cell["type"]
            if kind in cells:
                count.add(cells[kind])
                total.add(cells[kind])
            elif kind in modules and not modules[kind]["attributes"].get("blackbox"):
                walk(kind)
            elif kind.startswith("$") and kind != "$scopeinfo":
                unknown[kind] += 1

    walk(top)
    if unknown:
        sys.exit(f"rtl: {path} has cells that the library lacks: {dict(unknown)}")
    ge = library.slow.gate_equivalent
    table = [{"module": name, "instances": instances, **count.json(ge)} for name, (count, instances) in by_module.items()]
    return total.json(ge), sorted(table, key=lambda row: -row["area_um2"])


def save(name, section, value):
    """Puts a section of a design's figures into its JSON."""
    path = OUT / f"{name}.json"
    whole = json.loads(path.read_text()) if path.exists() else {"name": name}
    inner = whole
    for key in section[:-1]:
        inner = inner.setdefault(key, {})
    inner[section[-1]] = value
    OUT.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")


def measure(design, library):
    """All netlists of a design. Prints a line, and saves the areas."""
    folder = OUT / design.name / library.name
    memories = synthesize(design, library, "small", False, folder / "modules")
    _, table = counts(folder / "modules/small.json", design.top, library)
    areas = {"modules": table, "memories": memories, "memory_bits": sum(m["bits"] * m["count"] for m in memories)}
    areas["macro_area_um2"] = round(sum(m["count"] * m["macro"]["area_um2"] for m in memories if m["macro"]), 1)
    for kind in ABC:
        synthesize(design, library, kind, True, folder)
        areas[kind], _ = counts(folder / f"{kind}.json", design.top, library)
    save(design.name, ["area", library.name], areas)
    print(f"{design.name:24s} " + ", ".join(f"{kind} {areas[kind]['kge']:.2f} kGE" for kind in ABC) +
          f", {areas['small']['flip_flops']} flip-flops, {areas['memory_bits']} bits of memory", flush=True)  # fmt: skip
    return areas


def main(names):
    library = Library()
    return yosys.each(designs.chosen(designs.units() + designs.cores(), names), lambda design: measure(design, library))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
