// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layouts of the packages of SystemVerilog against those of the crate.

use selvedge_rtl::Unit;
use selvedge_rtl::bits::Field;

/// Compares the fields of these structs, then those of a trace whose words have so many bits, with what the unit shows: a word in which
/// exactly one field is all ones.
pub fn compare(unit: &mut Unit, structs: &[&[(&str, Field)]], word_bits: usize, writes: usize) {
    let fields = structs.iter().flat_map(|fields| fields.iter());
    let mut expected: Vec<(&str, usize, usize)> = fields.map(|&(name, field)| (name, field.at, field.width)).collect();
    let write = 1 + 4 + 16 + 32 + 1 + 2 * word_bits;
    expected.extend([
        ("retire_valid", writes * write + 32, 1),
        ("retire_tag", writes * write, 32),
        ("valid", write - 1, 1),
        ("bank", write - 5, 4),
        ("address", write - 21, 16),
        ("tag", write - 53, 32),
        ("old_known", 2 * word_bits, 1),
        ("old_word", word_bits, word_bits),
        ("new_word", 0, word_bits),
    ]);
    for (number, &(name, at, width)) in expected.iter().enumerate() {
        unit.run(&[number as u32], 1);
        let seen = unit.answers().next().expect("answers at once");
        let ones: Vec<usize> =
            (0..32 * seen.words.len()).filter(|bit| seen.words[bit / 32] >> (bit % 32) & 1 == 1).collect();
        assert_eq!(ones, (at..at + width).collect::<Vec<_>>(), "{name}");
    }
    unit.run(&[expected.len() as u32], 1);
    assert!(unit.answers().all(|seen| seen.words.iter().all(|&word| word == 0)), "the package has more fields");
}
