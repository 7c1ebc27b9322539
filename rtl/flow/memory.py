# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memories in a netlist: a name for each shape, SRAM macros in their place, or a model of their timing.

A memory is a black box of Yosys. `shapes` gives each shape a module, `ram_1rw_512x256_16` for 512 words of 256 bits with a write
mask of 16 bits a lane. Then it becomes, by shape,

1. macros side by side, if a `ram_1rw` fits one of the library's macros (ports of IHP's: RM_IHPSG13_1P_*), or
2. a cell without area, setup and delay, so that paths to and from it have only the delay of the logic.

The IHP macro has a write mask with a bit for each data bit, and reads or writes in a cycle. One inverter makes its read enable.
"""

import math

IHP_UNUSED = ("A_BIST_CLK", "A_BIST_EN", "A_BIST_MEN", "A_BIST_WEN", "A_BIST_REN", "A_BIST_ADDR", "A_BIST_DIN", "A_BIST_BM")


class Shape:
    """Memories of one shape: name, kind, parameters, ports as (name, direction, bits), count."""

    def __init__(self, kind, parameters, ports):
        self.kind, self.parameters, self.ports, self.count = kind, parameters, ports, 0
        if {"Words", "Width", "LaneW"} <= set(parameters):
            self.name = f"{kind}_{parameters['Words']}x{parameters['Width']}_{parameters['LaneW']}"
            self.bits = parameters["Words"] * parameters["Width"]
        else:
            widths = {name.lower(): bits for name, _, bits in ports}
            width = next((widths[n] for n in ("dout", "dout_a", "rdata1") if n in widths), max(widths.values()))
            address = next((widths[n] for n in ("raddr", "addr_a", "raddr1") if n in widths), 0)
            self.name = f"{kind}_{width}x{2**address}"
            self.bits = width * 2**address

    def head(self, lib):
        ports = ", ".join(f"{way} [{bits - 1}:0] {name}" if bits > 1 else f"{way} {name}" for name, way, bits in self.ports)
        return f"{'(* blackbox *) ' if lib else ''}module {self.name}({ports});"

    def black_box(self):
        return self.head(True) + " endmodule\n"

    def liberty(self):
        """A cell without area, setup, hold and delay."""
        clock = next(name for name, _, _ in self.ports if name.startswith("clk"))
        widths = sorted({bits for _, _, bits in self.ports if bits > 1})
        lines = [f"library ({self.name}) {{", 'time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA"; capacitive_load_unit (1,pf);']
        lines += ["delay_model : table_lookup; nom_voltage : 1; nom_temperature : 25; nom_process : 1;"]
        lines += [f"{kind}_threshold_pct_{edge} : {at};" for kind, at in (("input", 50), ("output", 50), ("slew_lower", 20), ("slew_upper", 80)) for edge in ("rise", "fall")]
        for bits in widths:
            lines.append(f"type (b{bits}) {{ base_type : array; data_type : bit; bit_width : {bits}; bit_from : {bits - 1}; bit_to : 0; }}")
        lines.append(f"cell ({self.name}) {{ area : 0;")
        zero = lambda names: " ".join(f'{name} (scalar) {{ values ("0"); }}' for name in names)
        for name, way, bits in self.ports:
            if name.startswith("clk"):
                lines.append(f"pin ({name}) {{ direction : input; clock : true; capacitance : 0.003; }}")
                continue
            if way == "input":
                kinds = ("setup_rising", "hold_rising")
                arcs = [f'timing () {{ related_pin : "{clock}"; timing_type : {kind}; {zero(("rise_constraint", "fall_constraint"))} }}' for kind in kinds]
                body = "direction : input; capacitance : 0.003; " + " ".join(arcs)
            else:
                names = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
                body = f'direction : output; timing () {{ related_pin : "{clock}"; timing_type : rising_edge; {zero(names)} }}'
            lines.append(f"pin ({name}) {{ {body} }}" if bits == 1 else f"bus ({name}) {{ bus_type : b{bits}; {body} }}")
        return "\n".join(lines + ["}", "}", ""])

    def macro(self, macros):
        """(cell, number side by side) of least area, or None."""
        if self.kind != "ram_1rw":
            return None
        fit = []
        for file in macros:
            for cell in file.cells.values():
                if {"A_ADDR", "A_DIN", "A_BM", "A_DOUT"} <= set(cell.buses) and 2 ** cell.buses["A_ADDR"] >= self.parameters["Words"]:
                    count = math.ceil(self.parameters["Width"] / cell.buses["A_DIN"])
                    fit.append((cell.area * count, cell.name, cell, count))
        return min(fit, key=lambda one: one[:2])[2:] if fit else None

    def of_macros(self, cell, count, buffer):
        """The module, made of macros.

        abc does not see the number of pins behind a port of this module (a lane of the write mask: 16 pins and more), so each macro
        has its own buffers before its mask and its address, as in a layout.
        """
        lane, width = self.parameters["LaneW"], self.parameters["Width"]
        bits, address = cell.buses["A_DIN"], cell.buses["A_ADDR"]
        used = (self.parameters["Words"] - 1).bit_length()
        text = [self.head(False)]
        text.append(f"  wire [{count * bits - 1}:0] data = data_i, mask, out; assign data_o = out[{width - 1}:0];")
        text.append(f"  wire [{address - 1}:0] place = {{ {'' if address == used else f'{address - used}' + chr(39) + 'b0, '}address_i }};")
        pins = (buffer.inputs[0], buffer.outputs[0])
        buffered = lambda name, source, result: f"  {buffer.name} {name}(.{pins[0]}({source}), .{pins[1]}({result}));"
        for at in range(count):
            text.append(f"  wire [{address - 1}:0] place_{at};")
            text += [buffered(f"u_{at}_place_{bit}", f"place[{bit}]", f"place_{at}[{bit}]") for bit in range(address)]
            for number in sorted({place // lane for place in range(at * bits, min((at + 1) * bits, width))}):
                text.append(f"  wire lane_{at}_{number};")
                text.append(buffered(f"u_{at}_lane_{number}", f"lanes_i[{number}]" if lane < width else "lanes_i", f"lane_{at}_{number}"))
        for at in range(count * bits):
            text.append(f"  assign mask[{at}] = {f'lane_{at // bits}_{at // lane}' if at < width else chr(49) + chr(39) + 'b0'};")
        for at in range(count):
            part = f"[{(at + 1) * bits - 1}:{at * bits}]"
            unused = ", ".join(f".{pin}(1'b0)" if pin not in cell.buses else f".{pin}({cell.buses[pin]}'b0)" for pin in IHP_UNUSED)
            text.append(
                f"  {cell.name} u_{at}(.A_CLK(clk_i), .A_MEN(enable_i), .A_WEN(write_i), .A_REN(!write_i), .A_DLY(1'b1), "
                f".A_ADDR(place_{at}), .A_DIN(data{part}), .A_BM(mask{part}), .A_DOUT(out{part}), {unused});"
            )
        return "\n".join(text + ["endmodule", ""])


def macro_black_box(cell):
    """The macro itself, as a black box."""
    buses = [f"{'output' if name == 'A_DOUT' else 'input'} [{bits - 1}:0] {name}" for name, bits in cell.buses.items()]
    pins = [f"input {pin}" for pin in ("A_CLK", "A_MEN", "A_WEN", "A_REN", "A_DLY") + IHP_UNUSED if pin not in cell.buses]
    return f"(* blackbox *) module {cell.name}({', '.join(buses + pins)}); endmodule\n"


def shapes(design, kinds):
    """Sets the type of each memory of Yosys' `design` to its shape's module. Returns the shapes."""
    from pyosys import libyosys as ys

    found = {}
    boxes = {kind: design.module(ys.IdString("\\" + kind)) for kind in kinds}
    for module in list(design.modules_.values()):
        for cell in module.cells_.values():
            kind = str(cell.type)[1:]
            if kind not in kinds:
                continue
            parameters = {str(name)[1:]: value.as_int() for name, value in cell.parameters.items() if value.size() <= 32}
            ports = []
            for name, signal in cell.connections_.items():
                wire = boxes[kind].wire(name)
                ports.append((str(name)[1:], "input" if wire.port_input else "output", signal.size()))
            shape = Shape(kind, parameters, sorted(ports))
            shape = found.setdefault(shape.name, shape)
            shape.count += 1
            cell.type = ys.IdString("\\" + shape.name)
            for name in list(cell.parameters):
                cell.unsetParam(name)
    return list(found.values())
