# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The waves of all nets of a mapped netlist, from a run of it with recorded commands.

Verilator runs the netlist (its cells by the functions in their Liberty file, as Yosys reads them; SRAM macros and memories by their
behaviour) and writes the waves of inputs, flip-flops and memories. The waves of all other nets follow from these by the cells'
functions. A wave is an integer with a bit for each cycle, so a gate is a few operations on long integers, and toggles are a count
of bits. `Netlist.check` compares both: a flip-flop's input in a cycle must be Verilator's state of it in the next.

There is no delay: a net changes at most once a cycle, so glitches are not seen. The recorded commands are those that crates/tools/rtl wrote
with SELVEDGE_RTL_PORTS set; the answers must be the same, in the same order.
"""

import hashlib
import json
import struct
import subprocess
import sys
from collections import defaultdict

import designs
import energy
import gates

COMMAND, ANSWER, OUTSIDE = 1, 2, 3
BENCH = designs.RTL / "flow/waves.cpp"


class Ports:
    """Inputs and outputs of a unit, as recorded by crates/tools/rtl."""

    def __init__(self, path):
        words = struct.unpack(f"<{path.stat().st_size // 4}I", path.read_bytes())
        if words[:1] != (0x53525450,):
            sys.exit(f"rtl: {path} holds no recorded ports")
        self.command_words, self.answer_words, self.outside_words = words[1:4]
        sizes = {COMMAND: self.command_words, ANSWER: self.answer_words, OUTSIDE: self.outside_words}
        self.commands, self.answers, self.outsides = [], [], []
        lists = {COMMAND: self.commands, ANSWER: self.answers, OUTSIDE: self.outsides}
        at = 4
        while at < len(words):
            kind, cycle = words[at : at + 2]
            lists[kind].append((cycle, words[at + 2 : at + 2 + sizes[kind]]))
            at += 2 + sizes[kind]


class Netlist:
    """A netlist of one module: cells of a library, macros and memories."""

    def __init__(self, design, folder, kind, cells, volts, load):
        module = json.loads((folder / f"{kind}.json").read_text())["modules"][design.top]
        self.design, self.volts, self.load = design, volts, load
        self.memories = json.loads((folder / f"{kind}.memories.json").read_text())
        self.ports = {name: (port["direction"], port["bits"]) for name, port in module["ports"].items()}
        self.kinds = cells
        self.instances = [(name, cell["type"], cell["connections"]) for name, cell in module["cells"].items()]
        boxes = {m["name"] for m in self.memories if not m["macro"]}
        unknown = {kind for _, kind, _ in self.instances} - set(cells) - boxes
        if unknown:
            sys.exit(f"rtl: {design.name} has cells without energy: {', '.join(sorted(unknown))}")
        self.directions = {m["name"]: {name: way for name, way, _ in m["ports"]} for m in self.memories}
        self.clock = self.ports[design.clock][1][0]
        # Instances: name, cell, pins. A box has its module's name instead of a cell.
        self.gates, self.registers, self.macros, self.boxes, self.clock_gates = [], [], [], [], []
        for name, kind, pins in self.instances:
            cell = cells.get(kind)
            where = self.boxes if cell is None else self.macros if cell.memory else self.clock_gates if cell.clock_gate else None
            where = where if where is not None else self.registers if cell.flip_flop else self.gates
            if cell is not None and cell.latch and not cell.clock_gate:
                sys.exit(f"rtl: {design.name} has a latch, {name}: there is no power of latches")
            where.append((name, cell or kind, pins))

    def source_nets(self):
        """Nets whose waves do not come from a gate: inputs, outputs of flip-flops, macros and memories."""
        nets = [bit for name, (way, bits) in self.ports.items() if way == "input" and name != self.design.clock for bit in bits]
        for _, cell, pins in self.registers:
            nets += [pins[pin][0] for pin in cell.pins if cell.pins[pin].direction == "output" and pin in pins]
        for _, cell, pins in self.macros:
            nets += [bit for pin, bits in pins.items() if self.pin(cell, pin).direction == "output" for bit in bits]
        for _, kind, pins in self.boxes:
            nets += [bit for pin, bits in pins.items() if self.directions[kind][pin] == "output" for bit in bits]
        return list(dict.fromkeys(bit for bit in nets if isinstance(bit, int)))

    @staticmethod
    def pin(cell, name):
        return cell.pins.get(name) or cell.pins[f"{name}[0]"]

    def verilog(self, sources):
        """The netlist with plain names, and with all sources in one output."""
        net = lambda bit: f"n{bit}" if isinstance(bit, int) else f"1'b{0 if bit == 'x' else bit}"
        wires = sorted({bit for _, _, pins in self.instances for bits in pins.values() for bit in bits if isinstance(bit, int)}
                       | {bit for _, bits in self.ports.values() for bit in bits if isinstance(bit, int)})  # fmt: skip
        head = [f"{way} logic [{len(bits) - 1}:0] {name}" for name, (way, bits) in self.ports.items()]
        text = ["module bench(", *(f"  {port}," for port in head), f"  output logic [{max(len(sources), 96) - 1}:0] sources_o);"]  # wide, as the program takes it
        text += [f"  wire n{bit};" for bit in wires]
        for name, (way, bits) in self.ports.items():
            for at, bit in enumerate(bits):
                text.append(f"  assign n{bit} = {name}[{at}];" if way == "input" else f"  assign {name}[{at}] = {net(bit)};")
        for number, (_, kind, pins) in enumerate(self.instances):
            joined = ", ".join(f".{pin}({{{', '.join(net(bit) for bit in reversed(bits))}}})" for pin, bits in pins.items() if bits)
            text.append(f"  {kind} u{number}({joined});")
        text += [f"  assign sources_o[{at}] = {net(bit)};" for at, bit in enumerate(sources)]
        return "\n".join(text + ["endmodule", ""])

    def models(self):
        """Behavioural macros, and memories of the RTL."""
        text = "".join(gates.memory_module(m) for m in self.memories if not m["macro"])
        for kind in sorted({kind for _, kind, _ in self.instances if kind in self.kinds}):
            cell = self.kinds[kind]
            if cell.clock_gate:
                clock, enable, out = clock_gate_pins(cell)
                text += f"module {kind}(input {clock}, {enable}, output {out}); reg e; always @* if (!{clock}) e = {enable}; assign {out} = {clock} & e; endmodule\n"
            elif cell.memory:
                buses = defaultdict(int)
                for pin in cell.pins:
                    buses[pin.split("[")[0]] += "[" in pin
                ports = [f"{self.pin(cell, bus).direction} {f'reg [{bits - 1}:0] ' if bus == 'A_DOUT' else f'[{bits - 1}:0] ' if bits else ''}{bus}" for bus, bits in buses.items()
                         if self.pin(cell, bus).direction in ("input", "output")]  # fmt: skip
                text += (f"module {kind}({', '.join(ports)});\n  reg [{buses['A_DIN'] - 1}:0] memory [0:{2 ** buses['A_ADDR'] - 1}];\n"
                         "  always @(posedge A_CLK) if (A_MEN) begin\n"
                         "    if (A_WEN) memory[A_ADDR] <= (memory[A_ADDR] & ~A_BM) | (A_DIN & A_BM);\n"
                         "    if (A_REN) A_DOUT <= memory[A_ADDR];\n  end\nendmodule\n")  # fmt: skip
        return text

    def build(self, folder, cells_verilog):
        """Builds the program that runs the netlist, if it does not exist. Returns it, and the nets whose waves it writes."""
        (folder / "build").mkdir(parents=True, exist_ok=True)
        sources = self.source_nets()
        has = [name for name in ("outside_i", "outside_o") if name in self.ports]
        texts = {
            "bench.v": self.verilog(sources),
            "models.v": self.models(),
            "width.h": f"#define SOURCES {len(sources)}\n" + "".join(f"#define {name.upper()}\n" for name in has),
        }
        shim = BENCH.parents[2] / "crates/tools/rtl/shim"
        # The run is short: compiling takes longer than better code would save. Verilator 5.006 misreads a tree of XNOR if it treats it as
        # an operation on constant bits.
        command = ["verilator", "--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal", "-Wno-lint", "-Wno-style",
                   "--top-module", "bench", "--prefix", "Vbench", "--Mdir", str(folder / "build"), "-fno-const-bit-op-tree", "-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0",
                   "-CFLAGS", f"-std=c++20 -I{folder} -I{shim} -DVL_TIME_CONTEXT", "-y", str(designs.RTL / "common"), str(cells_verilog),
                   str(folder / "models.v"), str(folder / "bench.v"), str(BENCH), "-o", "bench"]  # fmt: skip
        whole = [*command, *texts.values(), *(path.read_text() for path in (cells_verilog, BENCH, shim / "unit.hpp"))]
        stamp = hashlib.sha256("\0".join(whole).encode()).hexdigest()
        program, mark = folder / "build/bench", folder / "stamp"
        if program.exists() and mark.exists() and mark.read_text() == stamp:
            return program, sources
        for name, text in texts.items():
            (folder / name).write_text(text)
        said = subprocess.run(command, capture_output=True, text=True)
        (folder / "build.log").write_text(said.stdout + said.stderr)
        if said.returncode:
            sys.exit(f"rtl: Verilator on the netlist of {self.design.name}; see {folder / 'build.log'}")
        mark.write_text(stamp)
        return program, sources

    def run(self, program, sources, ports_file, folder, cycles, skip, mode="at-once"):
        """Waves of the sources in a window after `skip` commands, and the program's summary."""
        out = folder / "sources.bin"
        said = subprocess.run([str(program), str(ports_file), str(out), str(cycles), str(skip), mode], capture_output=True, text=True)
        if said.returncode:
            sys.exit(f"rtl: {self.design.name}: {said.stderr.strip() or said.returncode}")
        figures = json.loads(said.stdout)
        length = figures["bytes"]
        raw = out.read_bytes()
        waves = {bit: int.from_bytes(raw[at * length : (at + 1) * length], "little") for at, bit in enumerate(sources)}
        return Waves(self, waves, figures["cycles"]), figures


def clock_gate_pins(cell):
    """Clock, enable, output."""
    inputs = [name for name, pin in cell.pins.items() if pin.direction == "input"]
    clock = next(name for name in inputs if "CLK" in name.upper() or name.upper() in ("CK", "CP"))
    return clock, next(name for name in inputs if name != clock), next(name for name, pin in cell.pins.items() if pin.direction == "output")


class Waves:
    """The waves of all nets over a number of cycles."""

    def __init__(self, netlist, sources, cycles):
        self.netlist, self.cycles, self.ones = netlist, cycles, (1 << cycles) - 1
        self.of = {"0": 0, "1": self.ones, "x": 0, "z": 0, **sources}
        self.order = []
        self.follow()
        # Clock nets: the cycles that a pulse follows.
        self.pulses = {netlist.clock: self.ones}
        for _, cell, pins in netlist.clock_gates:
            clock, enable, out = clock_gate_pins(cell)
            self.pulses[pins[out][0]] = self.of[pins[enable][0]]

    def follow(self):
        """Gates in the order of their inputs."""
        drivers = {}
        for gate in self.netlist.gates:
            for pin, bits in gate[2].items():
                if gate[1].pins[pin].direction == "output" and bits:
                    drivers[bits[0]] = gate
        done = set()
        for gate in self.netlist.gates:
            stack = [(gate, False)]
            while stack:
                (name, cell, pins), ready = stack.pop()
                if name in done:
                    continue
                if ready:
                    done.add(name)
                    self.order.append((name, cell, pins))
                    values = {pin: self.of[bits[0]] for pin, bits in pins.items() if cell.pins[pin].direction == "input"}
                    for pin, bits in pins.items():
                        if cell.pins[pin].direction == "output" and bits:
                            self.of[bits[0]] = energy.function(cell.pins[pin].function)(values, self.ones)
                    continue
                stack.append(((name, cell, pins), True))
                for pin, bits in pins.items():
                    if cell.pins[pin].direction == "input" and bits[0] in drivers and drivers[bits[0]][0] not in done:
                        stack.append((drivers[bits[0]], False))

    def check(self):
        """Checks that each flip-flop holds its input a cycle later. Returns the number of compared flip-flops."""
        last = self.ones >> 1
        for name, cell, pins in self.netlist.registers:
            values = self.values(cell, pins)
            state, bits = next((pin.function, pins[key][0]) for key, pin in cell.pins.items() if pin.direction == "output" and pins.get(key))
            held = self.of[bits] if state in ("IQ", cell.flip_flop.arguments[0]) else self.ones ^ self.of[bits]
            after = energy.function(cell.flip_flop.attributes["next_state"])(values, self.ones)
            pulse = self.pulses[pins[cell.flip_flop.attributes["clocked_on"]][0]]
            if any(energy.function(cell.flip_flop.attributes[which])(values, self.ones) for which in ("clear", "preset") if which in cell.flip_flop.attributes):
                sys.exit(f"rtl: {name} is reset within the window")
            if ((after & pulse) | (held & ~pulse)) & last != held >> 1:
                sys.exit(f"rtl: {name} does not hold what is before it")
        return len(self.netlist.registers)

    def values(self, cell, pins):
        """Waves by pin, for pins with one bit. Unconnected pins are 0."""
        found = {name: 0 for name in cell.pins if "[" not in name}
        found |= {pin: self.of[bits[0]] for pin, bits in pins.items() if len(bits) == 1 and bits[0] in self.of}
        return found

    def edges(self, wave):
        """The cycles in which a wave has risen, and fallen, since the previous cycle."""
        changed = (wave ^ (wave << 1)) & self.ones & ~1
        return changed & wave, changed & ~wave
