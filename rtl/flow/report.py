# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stores the figures of the flow, and writes them as tables.

    rtl/flow/tools.sh python rtl/flow/report.py keep     copies $RTL_OUT/*.json to docs/results/rtl/
    rtl/flow/tools.sh python rtl/flow/report.py          writes docs/results/rtl/figures.md from docs/results/rtl/*.json

The tables come only from the stored files, so they can be regenerated without any tool.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import designs

KEPT = designs.ROOT / "docs/results/rtl"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Figures of the RTL

Made by `make rtl-report` from the files beside this one; not to be edited. What the scripts do and leave out:
[rtl/flow](../../../rtl/flow/synthesize.py), [timing](../../../rtl/flow/timing.py), [FPGA](../../../rtl/flow/place.py),
[gates](../../../rtl/flow/gates.py), [power](../../../rtl/flow/power.py). Plots: [area](area.svg), [modules](modules.svg),
[power](power.svg), [queues](queue.svg).

Logic and memory are always apart. A kGE is a thousand times the area of the library's smallest NAND with two inputs. `small` and `fast`
are two netlists of the same source: area and frequency of a row belong together. There is no layout, so wires have no delay.
Macros stand for the memories that they fit, those with one port; other memories have no area and no delay. Areas by module are of a
netlist that keeps its modules, and their sum is above `small`, which is optimised as a whole.
"""

POWER = """Typical corner. Recorded commands of rank 64 of 128 that exchange all to all, one behind the other, as fast as the netlist takes them; idle: none.
Without wires, tree of the clock and glitches.

"""
TRIPLED = """A unit for a frequency and for three times that: slow corner, `small` and `fast`. A unit is left out whose `small` does not reach a third of its `fast`.
Seed 000, figure 17: area 1.39 times, power 2.2 times.

"""
COVERAGE = """[coverage.py](../../../rtl/flow/coverage.py) says what counts. A bit that never changes is often spare, or of an address that no test uses.

"""


def table(head, rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in rows]) + "\n"


def kept():
    return [json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))]


def corner(name, data):
    return f"{data['voltage']:.2f} V, {data['temperature']:.0f} °C"


def areas(all_of_them, library):
    rows = []
    for one in all_of_them:
        area = one.get("area", {}).get(library)
        if area:
            macro = f"{area['macro_area_um2']:,.0f}" if area["macro_area_um2"] else "no macro" if area["memory_bits"] else ""
            rows.append([one["name"], *(f"{area[k]['kge']:.2f}" for k in ("small", "fast")), *(f"{area[k]['area_um2']:,.0f}" for k in ("small", "fast")),
                         f"{area['small']['flip_flops']:,}", f"{area['memory_bits']:,}", macro, one.get("note", "")])  # fmt: skip
    head = ["", "small, kGE", "fast, kGE", "small, µm²", "fast, µm²", "flip-flops", "memory, bits", "macros, µm²", ""]
    return table(head, rows)


def timings(all_of_them, library):
    rows = []
    for one in all_of_them:
        for name, kinds in one.get("timing", {}).get(library, {}).items():
            for kind, data in kinds.items():
                inside = [(p["period_ns"], c, p) for c, p in data["paths"].items() if c in ("register_register", "memory_register", "register_memory")]
                worst = max(inside, key=lambda path: path[0], default=None)
                path = f"`{worst[2]['from']}` → `{worst[2]['to']}`" if worst else ""
                memory = ", ".join(data["memory"]) or "none"
                rows.append([one["name"], kind, corner(name, data), data["frequency_mhz"], data["cells_alone_mhz"], data["with_ports_mhz"], memory, path])
    return table(["", "netlist", "corner", "MHz", "cells alone", "with ports", "memory", "longest path"], rows)


def powers(all_of_them, library):
    rows, accesses = [], []
    for one in all_of_them:
        for kind, data in one.get("power", {}).get(library, {}).items():
            traffic, idle, window = data["traffic"], data["idle"], data["window"]
            sram = lambda of: "no macro" if of["sram_mw"] is None else f"{of['sram_mw']:.2f}"
            rows.append([one["name"], kind, *(f"{traffic[f'{part}_mw']:.2f}" for part in ("logic", "clock", "registers", "gates")), sram(traffic),
                         f"{idle['logic_mw']:.2f}", sram(idle), f"{traffic['logic_leakage_mw'] * 1000:.1f}", f"{window['commands']:,}", f"{window['cycles']:,}",
                         window["toggles_per_net"]])  # fmt: skip
            if kind == "small":
                for name, (cell, count, reads, writes) in grouped(data["memories"]).items():
                    accesses.append([one["name"], f"`{name}`", cell or "no macro", count, f"{reads / window['cycles']:.3f}", f"{writes / window['cycles']:.3f}"])
    head = ["", "netlist", "logic", "of it clock", "registers", "gates", "SRAM", "idle: logic", "SRAM", "leakage of logic, µW", "commands", "cycles", "toggles a net and cycle"]
    return table(head, rows) + "\n" + table(["", "memory", "macro", "macros", "reads a cycle", "writes a cycle"], accesses) if rows else ""


def grouped(memories):
    """Memories by their name in the RTL; macros side by side have the same accesses: macro, count, reads, writes."""
    found = {}
    for one in memories:
        name = re.sub(r"(\.gen_(one|two))?\.u_memory(\.u_\d+)?$", "", one["memory"])
        found[name] = (one["cell"], found.get(name, (0, 0))[1] + 1, one["reads"], one["writes"])
    return found


def tripled(all_of_them, library):
    """A unit at a third of the frequency of `fast`, and at all of it: `small` serves the third if it reaches that."""
    rows = []
    for one in all_of_them:
        power, area = one.get("power", {}).get(library, {}), one.get("area", {}).get(library)
        timing = next(iter(sorted(one.get("timing", {}).get(library, {}).values(), key=lambda corner: corner["fast"]["voltage"])), None)
        if not timing or not {"small", "fast"} <= set(power):
            continue
        high = timing["fast"]["frequency_mhz"]
        low = high / 3
        if timing["small"]["frequency_mhz"] < low:
            continue
        at = lambda kind, mhz, part: power[kind]["traffic"][f"{part}_mw"] * mhz / power[kind]["frequency_mhz"]
        leak = lambda kind: power[kind]["traffic"]["logic_leakage_mw"]
        logic = (at("fast", high, "logic") + leak("fast")) / (at("small", low, "logic") + leak("small"))
        sums = [at(kind, mhz, "logic") + (power[kind]["traffic"]["sram_mw"] or 0) * mhz / power[kind]["frequency_mhz"] for kind, mhz in (("small", low), ("fast", high))]
        rows.append([one["name"], f"{low:.1f}", f"{high:.1f}", f"{area['fast']['kge'] / area['small']['kge']:.2f}", f"{sums[0]:.2f}", f"{sums[1]:.2f}",
                     f"{logic:.2f}", f"{sums[1] / sums[0]:.2f}"])  # fmt: skip
    return table(["", "MHz", "tripled", "area of logic, ratio", "mW with SRAM", "tripled", "power of logic, ratio", "with SRAM, ratio"], rows)


def unrolled(all_of_them, library):
    """The allocator by UnrollLevels."""
    rows = []
    for one in all_of_them:
        if not one["name"].startswith("allocator") or not one.get("area", {}).get(library):
            continue
        levels = re.sub(r"allocator(_unroll_)?", "", one["name"]) or "4"
        timing = sorted(one.get("timing", {}).get(library, {}).values(), key=lambda corner: corner["fast"]["voltage"])
        for kind in ("small", "fast"):
            power = one.get("power", {}).get(library, {}).get(kind)
            mw = [f"{power['traffic']['logic_mw']:.2f}", f"{power['traffic']['sram_mw']:.2f}", power["window"]["commands"], power["window"]["cycles"]] if power else [None] * 4
            rows.append([levels, kind, f"{one['area'][library][kind]['kge']:.2f}", *(f"{t[kind]['frequency_mhz']} ({t[kind]['cells_alone_mhz']})" for t in timing), *mw])
    corners = [f"MHz {corner(None, t['fast'])} (cells alone)" for t in timing] if rows else []
    return table(["UnrollLevels", "netlist", "kGE", *corners, "logic, mW", "SRAM, mW", "commands", "cycles"], rows) if len(rows) > 2 else ""


def modules(all_of_them, library):
    text = ""
    for one in all_of_them:
        area = one.get("area", {}).get(library)
        if area and not one.get("note"):
            rows = [[f"`{r['module']}`", r["instances"], f"{r['kge']:.2f}", f"{r['flip_flops']:,}"] for r in area["modules"]]
            text += f"\n**{one['name']}**\n\n" + table(["module", "instances", "kGE", "flip-flops"], rows)
    return text


def equivalences(all_of_them):
    rows = []
    for one in all_of_them:
        for library, data in one.get("equivalence", {}).items():
            said = "proved" if data["proved"] else "not finished"
            rows.append([one["name"], library, said, data.get("registers"), data.get("outputs"), data.get("constants"), data.get("removed")])
    return table(["", "cells", "RTL = netlist", "registers", "values compared", "constant registers", "unused registers"], rows)


def coverages(all_of_them):
    """Statements and toggles by file."""
    part = lambda pair: f"{pair[0]:,} of {pair[1]:,}" if pair[1] else ""
    percent = lambda pair: f"{100 * pair[0] / pair[1]:.1f}" if pair[1] else ""
    rows = [row for one in all_of_them for row in one.get("coverage", [])]
    if not rows:
        return ""
    whole = {"file": "all", **{kind: [sum(row[kind][place] for row in rows) for place in (0, 1)] for kind in ("statements", "toggles")}}
    return table(["", "statements", "%", "toggles", "%"],
                 [[f"`{row['file']}`", part(row["statements"]), percent(row["statements"]), part(row["toggles"]), percent(row["toggles"])] for row in [*rows, whole]])  # fmt: skip


def write():
    everything = kept()
    libraries = sorted({name for one in everything for name in one.get("area", {})})
    text = [HEAD]
    for library in libraries:
        text += [f"\n## Cells: {library}\n", areas(everything, library), "\n### Frequency\n", timings(everything, library)]
        power = powers(everything, library)
        if power:
            text += ["\n### Power at 100 MHz, in mW\n", POWER, power, "\n### Three times the frequency\n", TRIPLED, tripled(everything, library)]
        by_levels = unrolled(everything, library)
        if by_levels:
            text += ["\n### The allocator by UnrollLevels\n", by_levels]
    fpga = [[o["name"], f["device"], f["frequency_mhz"], *(f["used"].get(k, 0) for k in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D")), f"`{f['from']}` → `{f['to']}`"]
            for o in everything if (f := o.get("fpga"))]  # fmt: skip
    if fpga:
        text += ["\n## FPGA, after place and route\n", table(["", "device", "MHz", "LUT4", "flip-flops", "block memories", "multipliers", "longest path"], fpga)]
    text += ["\n## Equivalence\n", equivalences(everything)] if any(o.get("equivalence") for o in everything) else []
    covered = coverages(everything)
    text += ["\n## What the tests of the lockstep run\n", COVERAGE, covered] if covered else []
    for library in libraries:
        text += [f"\n## Area by module, {library}, `small`\n", modules(everything, library)]
    (KEPT / "figures.md").write_text("\n".join(part.rstrip("\n") for part in text if part) + "\n")


def main(words):
    KEPT.mkdir(parents=True, exist_ok=True)
    if words == ["keep"]:
        from synthesize import OUT

        for path in sorted(OUT.glob("*.json")):
            shutil.copy(path, KEPT / path.name)
    elif words:
        sys.exit(f"rtl: unknown arguments {' '.join(words)}; see the first lines of {Path(__file__).name}")
    write()


if __name__ == "__main__":
    main(sys.argv[1:])
