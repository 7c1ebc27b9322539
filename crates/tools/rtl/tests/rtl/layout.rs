// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layouts of the packages of SystemVerilog against those of the crate.

use selvedge_rtl::Unit;
use selvedge_rtl::bits::Field;

/// Compares the fields of these structs, then those of a trace with words of this width, with the words of the unit, in
/// each of which exactly one field is all ones. Returns all of them, the trace's last.
pub fn compare<'a>(
    unit: &mut Unit,
    structs: &[&[(&'a str, Field)]],
    word_bits: usize,
    writes: usize,
) -> Vec<(&'a str, Field)> {
    let fields = structs.iter().flat_map(|fields| fields.iter());
    let mut expected: Vec<(&str, Field)> = fields.copied().collect();
    let write = 1 + 4 + 16 + 32 + 1 + 2 * word_bits;
    expected.extend([
        ("retire_valid", Field { at: writes * write + 32, width: 1 }),
        ("retire_tag", Field { at: writes * write, width: 32 }),
        ("valid", Field { at: write - 1, width: 1 }),
        ("bank", Field { at: write - 5, width: 4 }),
        ("address", Field { at: write - 21, width: 16 }),
        ("tag", Field { at: write - 53, width: 32 }),
        ("old_known", Field { at: 2 * word_bits, width: 1 }),
        ("old_word", Field { at: word_bits, width: word_bits }),
        ("new_word", Field { at: 0, width: word_bits }),
    ]);
    for (number, &(name, Field { at, width })) in expected.iter().enumerate() {
        unit.run(&[number as u32], 1);
        let seen = unit.answers().next().expect("answers at once");
        let ones: Vec<usize> =
            (0..32 * seen.words.len()).filter(|bit| seen.words[bit / 32] >> (bit % 32) & 1 == 1).collect();
        assert_eq!(ones, (at..at + width).collect::<Vec<_>>(), "{name}");
    }
    unit.run(&[expected.len() as u32], 1);
    assert!(unit.answers().all(|seen| seen.words.iter().all(|&word| word == 0)), "the package has more fields");
    expected
}
