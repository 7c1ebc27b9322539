# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The designs of the flow: the units of rtl/units.toml, and the processors that their area is compared with."""

import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "rtl"
# Modules that are memory. Their contents are never mapped to cells.
MEMORIES = ("ram_1rw", "ram_2r2w")


@dataclass
class Design:
    name: str
    top: str
    files: list
    folders: list = field(default_factory=list)  # where modules are looked for by name
    parameters: dict = field(default_factory=dict)
    defines: tuple = ()
    memories: tuple = MEMORIES
    clock: str = "clk_i"
    note: str = ""

    def slang(self, memories=True):
        """The arguments of read_slang. `memories`: leave memories and clock gates out, as black boxes."""
        words = ["--top", self.top, "--keep-hierarchy", "+libext+.sv", "+libext+.v"]
        words += [f"-G {name}={value}" for name, value in self.parameters.items()]
        words += [f"-y {folder}" for folder in self.folders] + [f"-D {define}" for define in self.defines]
        if memories:
            words += [f"--blackboxed-module {module}" for module in (*self.memories, "clock_gate")]
        return " ".join(words + [str(file) for file in self.files])


def units(trace=0, all_of_them=False):
    """The units to synthesise. `trace`: with the ports of the lockstep. `all_of_them`: also those only for tests."""
    found = []
    for unit in tomllib.loads((RTL / "units.toml").read_text())["unit"]:
        if not (unit.get("flow", True) or all_of_them) or unit["top"].endswith("_layout"):
            continue
        folder = RTL / unit["folder"]
        top = unit["top"] if trace else unit.get("measured", unit["top"])
        files = [RTL / "common/pac_pkg.sv", *(RTL / package for package in unit["packages"]), folder / f"{top}.sv"]
        parameters = {**unit.get("parameters", {}), "Trace": trace}
        found.append(Design(unit["name"], top, files, [RTL / "common", folder, *(RTL / used for used in unit.get("uses", []))], parameters))
    return found


def cores():
    """The processors. PyPI's packages hold their sources."""
    try:
        import pythondata_cpu_mor1kx as mor1kx
        import pythondata_cpu_picorv32 as picorv32
    except ImportError as error:
        sys.exit(f"rtl: {error.name} is missing; run this by rtl/flow/tools.sh")
    mor1kx = Path(mor1kx.data_location) / "rtl/verilog"
    picorv32 = Path(picorv32.data_location) / "picorv32.v"
    rams = ("mor1kx_simple_dpram_sclk", "mor1kx_true_dpram_sclk")
    caches = {f"FEATURE_{name}": '"ENABLED"' for name in ("INSTRUCTIONCACHE", "DATACACHE", "IMMU", "DMMU")}
    core = lambda name, note, parameters, memories=rams: Design(
        name, "mor1kx", sorted(mor1kx.glob("*.v")), parameters=parameters, memories=memories, clock="clk", note=note
    )
    return [
        core("mor1kx", "OR1K, cappuccino, as delivered: no caches, no MMU; register file outside", {}),
        core("mor1kx_caches", "the same with caches and MMUs, their memories outside", caches),
        Design("picorv32", "picorv32", [picorv32], memories=(), clock="clk", note="RV32I, register file of flip-flops"),
        Design("picorv32_no_registers", "picorv32", [picorv32], defines=("PICORV32_REGS=picorv32_regs",), memories=("picorv32_regs",),
               clock="clk", note="RV32I, register file outside"),
    ]  # fmt: skip


def chosen(designs, names):
    """The designs of these names, or all."""
    unknown = set(names) - {design.name for design in designs}
    if unknown:
        sys.exit(f"rtl: no design {', '.join(sorted(unknown))}; there are {', '.join(design.name for design in designs)}")
    return [design for design in designs if not names or design.name in names]
