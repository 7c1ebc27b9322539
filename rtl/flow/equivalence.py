# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Proves RTL and netlist equal: a combinational proof over all registers and memories.

Both sides are flattened and written as JSON. Here every register bit becomes a free input (its value) and an output (its next
value), memories and clock gates likewise. This leaves two circuits without state, which abc's `cec` proves equal for all values.
That suffices: both start in the same state after reset (reset values and reset signals are compared, too), and equal states with
equal inputs give equal outputs and equal next states.

1. Registers are paired by the names of their nets, which synthesis keeps. The netlist may hold a bit inverted (the library has no
   cell for its reset value), hold two equal registers once, or replace one by a constant: the proof covers each case,
   since the next values and reset values must agree.
2. A register of the RTL that the netlist lacks is a free value. The proof fails if an output depends on it.
3. Undefined values of the RTL are 0 on both sides, as in simulation by synthesis' semantics.
"""

import json
import re
import subprocess
from pathlib import Path

import pyosys

REGISTERS = ("$dff", "$adff", "$aldff", "$dffsr", "$_DFF_P_", "$_DFF_PN0_", "$_DFF_PN1_", "$_DFF_PP0_", "$_DFF_PP1_")


class Side:
    """A flattened module as Yosys' JSON has it, cut at registers and at black boxes."""

    def __init__(self, path, module, boxes):
        data = json.loads(Path(path).read_text())
        self.whole, self.module, self.data = data, data["modules"][module], data
        self.data["modules"] = {module: self.module}
        self.names, self.bit_of = {}, {}  # bit: its names; name: its bit
        for name, net in self.module["netnames"].items():
            for place, bit in enumerate(net["bits"]):
                full = f"{name}[{place + net.get('offset', 0)}]"
                full = full[:-3] if len(net["bits"]) == 1 and full.endswith("[0]") else full
                if not net["hide_name"]:
                    self.names.setdefault(bit, []).append(full)
                    self.bit_of[full] = bit
        self.registers, self.boxes, self.inverses = {}, {}, {}
        for name, cell in list(self.module["cells"].items()):
            kind, pins = cell["type"], cell["connections"]
            if kind in boxes:
                self.boxes[name] = cell
                del self.module["cells"][name]
            elif kind in ("$scopeinfo",):
                del self.module["cells"][name]
            elif kind in REGISTERS:
                self.take(cell)
                del self.module["cells"][name]
            elif kind in ("$not", "$logic_not", "$_NOT_") and len(pins["A"]) == len(pins["Y"]):
                for bit, inverse in zip(pins["A"], pins["Y"]):
                    self.inverses.setdefault(bit, []).append(inverse)
            elif kind.startswith("$") and ("dff" in kind.lower() or "latch" in kind or kind in ("$mem_v2", "$sr", "$ff")):
                raise ValueError(f"{path}: a cell of type {kind}")

    def take(self, cell):
        """The bits of a register: next value, reset signal and whether it is active at 1, reset value."""
        kind, pins = cell["type"], cell["connections"]
        for place, q in enumerate(pins["Q"]):
            reset = None
            if kind == "$adff":
                value = cell["parameters"]["ARST_VALUE"][::-1][place]
                reset = (pins["ARST"][0], int(cell["parameters"]["ARST_POLARITY"], 2), value)
            elif kind == "$aldff":
                reset = (pins["ALOAD"][0], int(cell["parameters"]["ALOAD_POLARITY"], 2), pins["AD"][place])
            elif kind == "$dffsr":
                reset = self.set_or_clear(cell, place)
            elif kind.startswith("$_DFF_P") and kind != "$_DFF_P_":
                reset = (pins["R"][0], int(kind[7] == "P"), kind[8])
            self.registers[q] = (pins["D"][place], reset)

    def set_or_clear(self, cell, place):
        """The reset of a register with set and clear, one of which is never active."""
        live = []
        for pin, value in (("SET", "1"), ("CLR", "0")):
            signal, high = cell["connections"][pin][place], int(cell["parameters"][f"{pin}_POLARITY"], 2)
            if signal != str(1 - high):
                live.append((signal, high, value))
        if len(live) > 1:
            raise ValueError("a register with set and clear")
        return live[0] if live else None

    def write(self, path, inputs, outputs):
        """The combinational module: drivers of `inputs` are cut; `outputs` are (name, bit)."""
        ports = {n: p for n, p in self.module["ports"].items() if p["direction"] == "input"}
        for name, bits in inputs:
            ports[f"in:{name}"] = {"direction": "input", "bits": bits}
        for name, bits in outputs:
            ports[f"out:{name}"] = {"direction": "output", "bits": bits}
        self.module["ports"] = ports
        self.module["netnames"] = {}
        Path(path).write_text(json.dumps(self.data))


class Different(Exception):
    pass


def cut(gold, gate):
    """Pairs both sides. Returns inputs and outputs of each, in the same order."""
    fresh = 1 + max((b for m in (gold, gate) for c in m.module["cells"].values() for bits in c["connections"].values() for b in bits if isinstance(b, int)), default=1)
    fresh = max(fresh, *(b for m in (gold, gate) for b in [*m.names, *m.registers, 1] if isinstance(b, int))) + 1
    inputs, outputs = ([], []), ([], [])
    extra = []  # inverters and buffers to add on the gold side: (cell type, from, to)
    for name, port in gold.module["ports"].items():
        if port["direction"] == "output":
            outputs[0].append((name, port["bits"]))
            outputs[1].append((name, gate.module["ports"][name]["bits"]))
    for name, cell in sorted(gold.boxes.items()):
        other = gate.boxes.get(name)
        if other is None:
            raise Different(f"the netlist has no {name}")
        for pin, way in cell["port_directions"].items():
            target = inputs if way == "output" else outputs
            for side, bits in zip(target, (cell["connections"][pin], other["connections"].get(pin, []))):
                side.append((f"{name}.{pin}", bits))
    shared = {}  # register bit of the netlist: the fresh net of its value on the gold side
    pairs = constants = removed = 0
    for q, (d, reset) in gold.registers.items():
        names = gold.names.get(q, [])
        inverse_names = [name for inverse in gold.inverses.get(q, []) for name in gold.names.get(inverse, [])]
        found, invert = partner(names, inverse_names, gate)
        bit = found
        name = names[0] if names else ""
        if bit in ("0", "1"):
            constants += 1
            extra.append(("$_BUF_", bit, q))
            outputs[0].append((f"next:{name}", [d]))
            outputs[1].append((f"next:{name}", [bit]))
            if reset and reset[2] != bit:
                raise Different(f"{name} is constant {bit} in the netlist, but {reset[2]} after reset")
            continue
        if bit not in gate.registers:
            # Synthesis has removed it. It is a free value of the RTL, on which no output may depend.
            inputs[0].append((f"value:{name or q}", [q]))
            inputs[1].append((f"value:{name or q}", [fresh]))
            fresh, removed = fresh + 1, removed + 1
            continue
        pairs += 1
        other_d, other_reset = gate.registers[bit]
        if bit not in shared:
            shared[bit] = fresh
            inputs[0].append((f"value:{name}", [fresh]))
            inputs[1].append((f"value:{name}", [bit]))
            fresh += 1
        extra.append(("$_NOT_" if invert else "$_BUF_", shared[bit], q))
        if invert:
            extra.append(("$_NOT_", d, fresh))
            d, fresh = fresh, fresh + 1
        outputs[0].append((f"next:{name}", [d]))
        outputs[1].append((f"next:{name}", [other_d]))
        if reset:
            value = reset[2] if not invert else {"0": "1", "1": "0"}.get(reset[2], reset[2])
            if other_reset is None or other_reset[2] != value:
                raise Different(f"{name} is {reset[2]} after reset; the netlist's is not")
            outputs[0].append((f"{name}.reset{reset[1]}", [reset[0]]))
            if other_reset[1] != reset[1]:
                gate.module["cells"][f"reset${fresh}"] = inverter("$_NOT_", other_reset[0], fresh)
                outputs[1].append((f"{name}.reset{reset[1]}", [fresh]))
                fresh += 1
            else:
                outputs[1].append((f"{name}.reset{reset[1]}", [other_reset[0]]))
    for place, (kind, a, y) in enumerate(extra):
        gold.module["cells"][f"pair${place}"] = inverter(kind, a, y)
    return inputs, outputs, {"registers": pairs, "constants": constants, "removed": removed}


def partner(names, inverse_names, gate):
    """The netlist's bit for a register of these names, and whether it is the inverse (synthesize.py calls it `NAME~`).

    `inverse_names`: nets of the RTL that are its inverse; the netlist may have the register there.
    """
    for name in names:
        bit = gate.bit_of.get(name)
        if bit in gate.registers or bit in ("0", "1"):
            return bit, False
        for inverse in (f"{name}~", f"{name}~[0]"):
            if gate.bit_of.get(inverse) in gate.registers:
                return gate.bit_of[inverse], True
    for name in inverse_names:
        if gate.bit_of.get(name) in gate.registers:
            return gate.bit_of[name], True
    return None, False


def inverter(kind, a, y):
    return {"hide_name": 0, "type": kind, "parameters": {}, "attributes": {}, "port_directions": {"A": "input", "Y": "output"},
            "connections": {"A": [a], "Y": [y]}}  # fmt: skip


def prove(folder, gold_json, gate_json, top, boxes, run, seconds):
    """Runs the proof. Returns a dictionary of figures; raises Different with the first output that differs. `run` runs Yosys."""
    gold, gate = Side(gold_json, top, boxes), Side(gate_json, top, boxes)
    inputs, outputs, result = cut(gold, gate)
    for side, name, i, o in ((gold, "gold", inputs[0], outputs[0]), (gate, "gate", inputs[1], outputs[1])):
        side.write(folder / f"cut_{name}.json", i, o)
        run(f"design -reset; read_json {folder}/cut_{name}.json; hierarchy -top {top}; setundef -undriven -zero; setundef -zero")
        run(f"opt_clean; techmap; simplemap; setundef -zero; aigmap; opt_clean; write_aiger -symbols {folder}/cut_{name}.aig")
    abc = Path(pyosys.__file__).parent / "yosys-abc"
    said = subprocess.run([abc, "-c", f"cec -n -T {seconds} cut_gold.aig cut_gate.aig"], cwd=folder, capture_output=True, text=True).stdout
    (folder / "cec.log").write_text(said)
    result["outputs"] = sum(len(bits) for _, bits in outputs[0])
    if "Networks are equivalent" in said:
        return {"proved": True, **result}
    if "NOT EQUIVALENT" in said:
        names = symbols(folder / "cut_gold.aig")
        differ = re.findall(r"po(\d+)", next((line for line in said.splitlines() if line.startswith("Verification failed")), ""))
        raise Different(f"{', '.join(names.get(int(one), one) for one in differ)} differ ({folder}/cec.log)")
    if "UNDECIDED" not in said.upper():
        raise Different(f"abc has not decided ({folder}/cec.log)")
    return {"proved": False, **result}


def symbols(path):
    """Names of the outputs of an AIGER file, by number."""
    lines = re.findall(rb"^o(\d+) (.*)$", Path(path).read_bytes(), flags=re.M)
    return {int(number): name.decode(errors="replace").removeprefix("out:") for number, name in lines}
