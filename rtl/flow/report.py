# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Keeps the figures of the flow, and writes them as tables.

    rtl/flow/tools.sh python rtl/flow/report.py keep     copies $RTL_OUT/*.json to docs/rtl/
    rtl/flow/tools.sh python rtl/flow/report.py          writes docs/rtl/figures.md from docs/rtl/*.json

The tables come from the kept files alone, so they can be made anew without any tool.
"""

import json
import shutil
import sys
from pathlib import Path

import designs

KEPT = designs.ROOT / "docs/rtl"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Figures of the RTL

Made by `make rtl-report` from the files beside this one; not to be edited. What the scripts do and leave out:
[rtl/flow](../../rtl/flow/synthesize.py), [timing](../../rtl/flow/timing.py), [FPGA](../../rtl/flow/place.py),
[gates](../../rtl/flow/gates.py).

Logic and memory are always apart. A kGE is a thousand times the area of the library's smallest NAND with two inputs. `small` and `fast`
are two netlists of the same source: area and frequency of a row belong together. There is no layout, so wires have no delay.
Macros stand for the memories that they fit, those with one port; other memories have no area and no delay. Areas by module are of a
netlist that keeps its modules, and their sum is above `small`, which is optimised as a whole.
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


def write():
    everything = kept()
    libraries = sorted({name for one in everything for name in one.get("area", {})})
    text = [HEAD]
    for library in libraries:
        text += [f"\n## Cells: {library}\n", areas(everything, library), "\n### Frequency\n", timings(everything, library)]
    fpga = [[o["name"], f["device"], f["frequency_mhz"], *(f["used"].get(k, 0) for k in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D")), f"`{f['from']}` → `{f['to']}`"]
            for o in everything if (f := o.get("fpga"))]  # fmt: skip
    if fpga:
        text += ["\n## FPGA, after place and route\n", table(["", "device", "MHz", "LUT4", "flip-flops", "block memories", "multipliers", "longest path"], fpga)]
    text += ["\n## Equivalence\n", equivalences(everything)] if any(o.get("equivalence") for o in everything) else []
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
        sys.exit(f"rtl: unknown {' '.join(words)}; the first lines of {Path(__file__).name} say what there is")
    write()


if __name__ == "__main__":
    main(sys.argv[1:])
