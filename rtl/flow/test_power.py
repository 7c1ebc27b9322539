# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the power: energies of a small library by hand, a counter's toggles, a macro's energy. test.py runs them."""

import json
import struct
import tempfile
import unittest
from pathlib import Path

import designs
import energy
import gates
import liberty
import power
import synthesize
import waves

# An inverter, a NAND whose energy depends on the pin that causes it, a flip-flop, a macro. Energies that are easy to add: pJ.
LIBRARY = """
library (tiny) {
  capacitive_load_unit (1,pf); nom_voltage : 2; leakage_power_unit : "1nW";
  type (address) { bit_width : 2; } type (word) { bit_width : 2; }
  power_lut_template (two) { variable_1 : input_transition_time; variable_2 : total_output_net_capacitance; index_1 ("0, 1"); index_2 ("0, 1"); }
  cell (INV) {
    cell_leakage_power : 5; leakage_power () { when : "A"; value : 9; }
    pin (A) { direction : input; capacitance : 0.5; }
    pin (Y) { direction : output; function : "!A";
      internal_power () { related_pin : "A"; rise_power (two) { values ("1, 2", "3, 4"); } fall_power (scalar) { values ("10"); } } }
  }
  cell (NAND) {
    cell_leakage_power : 1;
    pin (A) { direction : input; capacitance : 0.25; } pin (B) { direction : input; capacitance : 0.25; }
    pin (Y) { direction : output; function : "(A B)'";
      internal_power () { related_pin : "A"; rise_power (scalar) { values ("1"); } fall_power (scalar) { values ("1"); } }
      internal_power () { related_pin : "B"; rise_power (scalar) { values ("3"); } fall_power (scalar) { values ("3"); } } }
  }
  cell (FLOP) {
    cell_leakage_power : 2;
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (CK) { direction : input; clock : true; capacitance : 0.125;
      internal_power () { when : "D Q"; rise_power (scalar) { values ("4"); } fall_power (scalar) { values ("5"); } }
      internal_power () { rise_power (scalar) { values ("100"); } fall_power (scalar) { values ("0"); } } }
    pin (D) { direction : input; capacitance : 0.5; internal_power () { when : "CK"; rise_power (scalar) { values ("7"); } fall_power (scalar) { values ("8"); } } }
    pin (Q) { direction : output; function : "IQ"; internal_power () { related_pin : "CK"; rise_power (scalar) { values ("20"); } fall_power (scalar) { values ("30"); } } }
  }
  cell (SRAM) {
    cell_leakage_power : 50; memory () { type : ram; }
    pin (A_CLK) { direction : input; capacitance : 1;
      internal_power () { when : "A_MEN & A_WEN & !A_REN"; rise_power (scalar) { values ("80"); } fall_power (scalar) { values ("0"); } }
      internal_power () { when : "A_MEN & !A_WEN & A_REN"; rise_power (scalar) { values ("60"); } fall_power (scalar) { values ("0"); } } }
    pin (A_MEN) { direction : input; } pin (A_WEN) { direction : input; } pin (A_REN) { direction : input; }
    bus (A_DIN) { bus_type : word; direction : input; pin (A_DIN[1:0]) { internal_power () { when : "A_MEN"; rise_power (scalar) { values ("2"); } fall_power (scalar) { values ("3"); } } } }
    bus (A_DOUT) { bus_type : word; direction : output; }
  }
}
"""

# A counter: each command adds its value, and answers the sum.
COUNTER = """
module counter(input logic clk_i, rst_ni, command_valid_i, output logic command_ready_o, input logic [3:0] command_i,
               output logic answer_valid_o, output logic [3:0] answer_o);
  logic valid_q;
  assign {command_ready_o, answer_valid_o} = {1'b1, valid_q};
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin answer_o <= '0; valid_q <= 1'b0; end
    else begin valid_q <= command_valid_i; if (command_valid_i) answer_o <= answer_o + command_i; end
endmodule
"""


def tiny():
    with tempfile.NamedTemporaryFile("w", suffix=".lib") as file:
        file.write(LIBRARY)
        file.flush()
        return energy.cells(Path(file.name))


def netlist(cells, volts, module):
    """A netlist from its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "k.json").write_text(json.dumps({"modules": {"top": module}}))
        Path(folder, "k.memories.json").write_text("[]")
        return waves.Netlist(designs.Design("t", "top", []), Path(folder), "k", cells, volts, 0.0)


def cell(kind, **pins):
    return {"type": kind, "connections": {pin: bits if isinstance(bits, list) else [bits] for pin, bits in pins.items()}}


def bits(text):
    """A wave, its first cycle first."""
    return int(text[::-1], 2)


class Energies(unittest.TestCase):
    """clk is net 1, a net 2."""

    def counted(self, cells_of, sources, cycles, outputs=()):
        cells, volts = tiny()
        ports = {"clk_i": {"direction": "input", "bits": [1]}, "a": {"direction": "input", "bits": [2]}, "o": {"direction": "output", "bits": list(outputs)}}
        one = netlist(cells, volts, {"ports": ports, "cells": cells_of})
        found = waves.Waves(one, {bit: bits(text) for bit, text in sources.items()}, cycles)
        return power.count(one, found, power.Loads(one, found, cells["INV"].pins["Y"])), found

    def test_functions(self):
        of = lambda text, **pins: energy.function(text)(pins, 0b1111)
        a, b, c = 0b0011, 0b0101, 0b0001
        for text, wave in (("!(A*B)", 0b1110), ("(A B)'+C", 0b1111), ("A^B&C", 0b0000), ("!A|B", 0b1101), ("1", 0b1111), ("(A'&B)", 0b0100)):
            self.assertEqual(of(text, A=a, B=b, C=c), wave, text)

    def test_tables_lie_between_their_points(self):
        table = tiny()[0]["INV"].pins["Y"].powers[0].rise
        self.assertEqual([table.at(0, 0), table.at(0, 1), table.at(1, 0), table.at(0.5, 0.5), table.at(9, 9)], [1, 2, 3, 2.5, 4])

    def test_two_inverters(self):
        # a: 0 1 1 0 1 in 5 cycles: rises twice, falls once. Two inverters in a row: net 3 has the second's pin as its load.
        found, _ = self.counted({"i": cell("INV", A=2, Y=3), "j": cell("INV", A=3, Y=4)}, {2: "01101"}, 5)
        half = 2 * 2 / 2
        self.assertAlmostEqual(found["energy_pj"]["gates_nets"], 3 * half * 0.5 / 4)
        # The first falls twice (10 each) and rises once, at a load of 0.5 and no slew: 1.5. The second rises twice (1) and falls once.
        self.assertAlmostEqual(found["energy_pj"]["gates_internal"], (2 * 10 + 1.5 + 2 * 1 + 10) / 4)
        # A is 1 in 3 of 5 cycles at the first, in 2 at the second; else it is the cell's own leakage.
        self.assertAlmostEqual(found["leakage_nw"]["logic"], (3 * 9 + 2 * 5) / 5 + (2 * 9 + 3 * 5) / 5)

    def test_the_pin_that_changes_counts(self):
        ports = {2: "01010", 5: "11110"}
        found, _ = self.counted({"n": cell("NAND", A=2, B=5, Y=3)}, ports, 5)
        # Y: 1 0 1 0 1. The first three changes are A's, the last both pins': (3 + 3 * ...) as the counts weigh them, for each edge.
        rises, falls = 2, 2
        by_rise = (1 * 2 + 3 * 1) / 3
        self.assertAlmostEqual(found["energy_pj"]["gates_internal"], (rises * by_rise + falls * 1) / 4)

    def test_a_flip_flop(self):
        # D: 0 1 1 0 0; Q follows: 0 0 1 1 0.
        found, wave = self.counted({"f": cell("FLOP", CK=1, D=2, Q=3)}, {2: "01100", 3: "00110"}, 5)
        self.assertEqual(wave.check(), 1)
        # Rising edges after cycles 0 to 3: D and Q are 1 only after cycle 2. Falling edges in cycles 1 to 4: only in cycle 2.
        self.assertAlmostEqual(found["energy_pj"]["clock_internal"], (4 + 3 * 100 + 5) / 4)
        self.assertAlmostEqual(found["energy_pj"]["clock_nets"], 2 * 2 * 0.125)
        self.assertAlmostEqual(found["energy_pj"]["registers_internal"], (7 + 8 + 20 + 30) / 4)

    def test_a_wrong_flip_flop_is_found(self):
        _, wave = self.counted({"f": cell("FLOP", CK=1, D=2, Q=3)}, {2: "01100", 3: "00100"}, 5)
        with self.assertRaisesRegex(SystemExit, "f does not hold what is before it"):
            wave.check()

    def test_a_macro(self):
        macro = cell("SRAM", A_CLK=1, A_MEN=2, A_WEN=3, A_REN=4, A_DIN=[5, "0"], A_DOUT=[6, 7])
        found, _ = self.counted({"m": macro}, {2: "11010", 3: "10000", 4: "01111", 5: "01110", 6: "00000", 7: "00000"}, 5)
        # After cycle 0 a write, after 1 and 3 reads. Its data rises while it is enabled, and falls while it is not: nothing.
        self.assertEqual([(m["reads"], m["writes"]) for m in found["memories"]], [(2, 1)])
        self.assertAlmostEqual(found["memories"][0]["energy_pj"], (80 + 2 * 60 + 2) / 4)
        self.assertEqual(found["leakage_nw"], {"logic": 0, "macros": 50})


class Counter(unittest.TestCase):
    """A netlist of osu018 that counts: bit k of the sum changes every 2 to the power of k commands that add 1."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(synthesize.OUT)
        source = cls.folder / "counter.sv"
        source.write_text(COUNTER)
        cls.design = designs.Design("counter", "counter", [source])
        cls.library = liberty.Library()
        synthesize.synthesize(cls.design, cls.library, "small", True, cls.folder / "counter" / cls.library.name)
        gates.GATES.mkdir(parents=True, exist_ok=True)
        cls.corner, cls.netlist, cls.driver = power.ready(cls.design, cls.library, "small")
        cls.program, cls.sources = cls.netlist.build(cls.folder / "counter/power", gates.cells(cls.library))

    def counted(self, values, cycles, wrong=False):
        words, total = [0x53525450, 1, 1, 0], 0
        for number, value in enumerate(values):
            total = (total + value) % 16
            words += [1, number, value, 2, number + 1, total ^ (wrong and number == 9)]
        ports = self.folder / "counter.ports"
        ports.write_bytes(struct.pack(f"<{len(words)}I", *words))
        found, run = self.netlist.run(self.program, self.sources, ports, self.folder, cycles, 4)
        self.assertEqual(found.check(), 5)
        return power.count(self.netlist, found, power.Loads(self.netlist, found, self.driver)), found, run

    def test_toggles_of_bits(self):
        figures, found, run = self.counted([1] * 200, 129)
        self.assertEqual((run["cycles"], run["commands"]), (129, 129))
        nets = self.netlist.ports["answer_o"][1]
        toggles = [sum(edge.bit_count() for edge in found.edges(found.of[bit])) for bit in nets]
        self.assertEqual(toggles, [128, 64, 32, 16])
        loads = power.Loads(self.netlist, found, self.driver)
        by_hand = sum(times * loads.load(bit) for times, bit in zip(toggles, nets)) * self.netlist.volts**2 / 2 / 128
        self.assertAlmostEqual(figures["energy_pj"]["registers_nets"], by_hand)

    def test_half_of_the_activity_takes_half(self):
        full, _, _ = self.counted([1] * 300, 257)
        half, _, _ = self.counted([1, 0] * 150, 257)
        for part in ("registers_nets", "registers_internal"):
            self.assertAlmostEqual(half["energy_pj"][part] * 2, full["energy_pj"][part], delta=full["energy_pj"][part] * 0.02, msg=part)
        self.assertEqual(half["energy_pj"]["clock_nets"], full["energy_pj"]["clock_nets"])

    def test_a_wrong_answer_is_found(self):
        with self.assertRaisesRegex(SystemExit, "answer 9 is not the recorded one"):
            self.counted([1] * 50, 40, wrong=True)
