# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the flow itself: the Liberty reader, memories, the proof of equivalence and its detection of a wrong gate, power
(test_power.py).

    rtl/flow/tools.sh --needs osu018 sta verilator -- python rtl/flow/test.py
"""

import json
import os
import re
import tempfile
import unittest
from collections import Counter as Counts
from pathlib import Path

WORK = tempfile.TemporaryDirectory()
os.environ["RTL_OUT"] = WORK.name
os.environ.pop("LIBERTY", None)

import designs  # noqa: E402
import equivalence  # noqa: E402
import gates  # noqa: E402
import liberty  # noqa: E402
import memory  # noqa: E402
import synthesize  # noqa: E402
import timing  # noqa: E402
import yosys  # noqa: E402
from test_power import Counter, Energies  # noqa: E402, F401

# Registers of both reset values, one without reset, two equal ones, a constant one, an unread one; a memory.
SOURCE = """
module sample(input logic clk_i, rst_ni, input logic [7:0] a_i, b_i, output logic [7:0] sum_o, output logic [15:0] word_o);
  logic [7:0] a_q, again_q, ones_q, free_q, never_q;
  logic zero_q;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin a_q <= '0; again_q <= '0; ones_q <= '1; zero_q <= 1'b0; end
    else begin a_q <= a_i; again_q <= a_i; ones_q <= ones_q ^ b_i; zero_q <= 1'b0; end
  always_ff @(posedge clk_i) begin free_q <= free_q + ones_q; never_q <= b_i; end
  assign sum_o = (a_q & again_q) + (zero_q ? b_i : free_q);
  ram_1rw #(.Words(16), .Width(16), .LaneW(16)) u_ram(.clk_i, .enable_i(a_q[0]), .write_i(a_q[1]), .address_i(a_q[7:4]), .lanes_i(1'b1),
      .data_i({free_q, ones_q}), .data_o(word_o), .old_data_o());
endmodule
"""


# Constructs that Yosys recodes, or decides freely: a state machine, an element beyond a vector's end.
MACHINE = """
module machine(input logic clk_i, rst_ni, input logic [2:0] a_i, output logic [2:0] state_o, output logic bit_o);
  logic [2:0] state_q, at_q;
  logic [4:0] word_q;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin state_q <= 3'd0; at_q <= '0; word_q <= '0; end
    else begin
      at_q <= a_i;
      word_q <= {word_q[3:0], a_i[0]};
      case (state_q)
        3'd0: if (a_i[0]) state_q <= 3'd1;
        3'd1: if (a_i[1]) state_q <= 3'd2; else state_q <= 3'd4;
        3'd2: state_q <= a_i[2] ? 3'd3 : 3'd0;
        3'd3: state_q <= 3'd4;
        3'd4: if (a_i[0]) state_q <= 3'd0;
        default: state_q <= 3'd0;
      endcase
    end
  assign state_o = {state_q == 3'd4, state_q == 3'd1, state_q == 3'd3};
  assign bit_o = word_q[at_q];
endmodule
"""

# A select of 700 bits.
WIDE = """
module wide(input logic clk_i, select_i, input logic [699:0] a_i, b_i, output logic [699:0] word_o);
  logic select_q;
  always_ff @(posedge clk_i) begin select_q <= select_i; word_o <= select_q ? a_i : b_i; end
endmodule
"""


def design_of(name, text):
    source = Path(WORK.name) / f"{name}.sv"
    source.write_text(text)
    return designs.Design(name, name, [source], [designs.RTL / "common"])


class LibertyReader(unittest.TestCase):
    def test_functions_are_compared_by_shape(self):
        cell = liberty.Cell("x", 1, 0, 0, False, False, {}, ["B", "A"], ["Y"], {}, 0)
        for text in ("(!(A B))", "!(A & B)", "( ! ( A*B ) )", "(!(A&B))"):
            self.assertEqual(liberty.bare(text, cell), "!(0*1)")
        self.assertEqual(liberty.bare("(A)*(B)", cell), "(0)*(1)")

    def test_attributes_groups_and_comments(self):
        group = liberty.parse('library (l) { /* c { */ a : "b c"; unit (1,pf); cell (X) { area : 2.5; pin (Y) { function : "A"; } } }')
        self.assertEqual((group.arguments, group.attributes["a"], group.attributes["unit"]), (["l"], "b c", "1 pf"))
        self.assertEqual(group.of("cell")[0].of("pin")[0].attributes, {"function": "A"})

    def test_osu018(self):
        library = liberty.Library()
        self.assertEqual(library.slow.smallest(("!(0*1)",)).name, "NAND2X1")
        self.assertEqual([c.name for c in library.slow.cells.values() if c.flip_flops], ["DFFNEGX1", "DFFPOSX1", "DFFSR"])
        self.assertIsNone(library.slow.clock_gate())


class Netlists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.design = design_of("sample", SOURCE)
        cls.library = liberty.Library()
        gates.GATES.mkdir(parents=True, exist_ok=True)
        gates.cells(cls.library)
        cls.folder = gates.netlist(cls.design, cls.library)

    def test_areas_and_memories(self):
        areas = synthesize.measure(self.design, self.library)
        self.assertEqual(areas["memory_bits"], 256)
        # a_q once, ones_q, free_q; neither again_q, which is equal, nor zero_q and never_q.
        self.assertEqual((areas["small"]["flip_flops"], areas["small"]["latches"]), (24, 0))
        self.assertLess(areas["small"]["kge"], areas["fast"]["kge"])
        timing.measure(self.design, self.library)
        paths = json.loads((synthesize.OUT / "sample.json").read_text())["timing"][self.library.name]
        path = next(iter(paths.values()))["fast"]["paths"]["register_register"]
        self.assertRegex(path["to"], r"^(free|ones)_q\[\d\]~?$")

    def test_netlist_is_proved_equal(self):
        result = gates.equivalent(self.design, self.library, self.folder)
        self.assertEqual((result["proved"], result["registers"], result["constants"]), (True, 32, 1))

    def test_encodings_and_undefined_values_are_kept(self):
        design = design_of("machine", MACHINE)
        self.assertTrue(gates.equivalent(design, self.library, gates.netlist(design, self.library))["proved"])

    def test_a_wide_select_has_a_tree_of_buffers(self):
        design, folder = design_of("wide", WIDE), Path(WORK.name) / "wide"
        synthesize.synthesize(design, self.library, "fast", True, folder)
        loads = Counts()
        cells = json.loads((folder / "fast.json").read_text())["modules"]["wide"]["cells"]
        self.assertEqual(sum("$fanout" in name for name in cells), 32)  # 30 for 24 gates each, 2 for those
        for cell in cells.values():
            inputs = set(self.library.slow.cells[cell["type"]].inputs) - {"CLK"}
            loads.update(bit for pin, bits in cell["connections"].items() if pin in inputs for bit in bits)
        self.assertLess(loads.most_common(1)[0][1], 100)

    def test_a_wrong_gate_is_found(self):
        netlist = self.folder / "small.v"
        right = netlist.read_text()
        gate = next(kind for kind in ("NAND2X1", "NOR2X1") if kind in right)
        netlist.write_text(right.replace(gate, "NOR2X1" if gate == "NAND2X1" else "NAND2X1", 1))
        try:
            with self.assertRaisesRegex(yosys.Failed, "differ"):
                gates.equivalent(self.design, self.library, self.folder)
        finally:
            netlist.write_text(right)

    def test_a_wrong_reset_value_is_found(self):
        source = self.design.files[0]
        source.write_text(SOURCE.replace("ones_q <= '1", "ones_q <= '0"))
        try:
            with self.assertRaisesRegex(yosys.Failed, "ones_q.* after reset"):
                gates.equivalent(self.design, self.library, self.folder)
        finally:
            source.write_text(SOURCE)

    def test_an_error_in_the_source_is_shown(self):
        source = Path(WORK.name) / "wrong.sv"
        source.write_text("module wrong(input logic a_i, output logic b_o); assign b_o = c; endmodule\n")
        with self.assertRaisesRegex(yosys.Failed, "wrong.sv:1"):
            synthesize.synthesize(designs.Design("wrong", "wrong", [source]), self.library, "small", True, Path(WORK.name) / "wrong")

    def test_macros_cover_a_memory(self):
        shape = memory.Shape("ram_1rw", {"Words": 300, "Width": 96, "LaneW": 16}, [("clk_i", "input", 1), ("address_i", "input", 9)])
        cell = liberty.Cell("M", 5, 0, 0, False, True, {}, [], [], {"A_ADDR": 9, "A_DIN": 64, "A_BM": 64, "A_DOUT": 64}, 0)
        file = type("File", (), {"cells": {"M": cell}})
        self.assertEqual(shape.macro([file])[1], 2)
        buffer = liberty.Cell("BUF", 1, 0, 0, False, False, {}, ["A"], ["X"], {}, 0)
        text = shape.of_macros(cell, 2, buffer)
        self.assertEqual(len(re.findall(r"BUF \w+\(\.A\(lanes_i\[5\]\), \.X\(lane_1_5\)\)", text)), 1)
        self.assertEqual(len(re.findall(r"assign mask\[\d+\] = lane_1_5;", text)), 16)
        self.assertEqual(len(re.findall(r"BUF \w+\(\.A\(place\[8\]\), ", text)), 2)
        self.assertIsNone(memory.Shape("ram_1rw", {"Words": 600, "Width": 64, "LaneW": 16}, []).macro([file]))


if __name__ == "__main__":
    unittest.main()
