// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::arithmetic::tests::{INTEGERS, edgy_bytes, edgy_double, edgy_long_doubles, slot, widened};
use proptest::prelude::*;
use std::vec::Vec;

const FAMILIES: [Family; 3] = [Family::Atomic, Family::FetchAtomic, Family::Swap];

/// The specification's table: a row for each operation, a column for each datatype, in the order of the header.
#[test]
fn allowed_is_the_table_of_the_specification() {
    // i8 u8 i16 u16 i32 u32 float i64 u64 double float-complex double-complex long-double long-double-complex half bf16
    let table = [
        (Operation::Min, "xxxxxxxxxx..x..."),
        (Operation::Max, "xxxxxxxxxx..x..."),
        (Operation::Sum, "xxxxxxxxxxxxxx.."),
        (Operation::Prod, "xxxxxxxxxxxxxx.."),
        (Operation::Lor, "xxxxxx.xx......."),
        (Operation::Land, "xxxxxx.xx......."),
        (Operation::Bor, "xxxxxx.xx......."),
        (Operation::Band, "xxxxxx.xx......."),
        (Operation::Lxor, "xxxxxx.xx......."),
        (Operation::Bxor, "xxxxxx.xx......."),
        (Operation::Swap, "xxxxxxxxxxxxxx.."),
        (Operation::CompareSwap, "xxxxxxxxxxxxxx.."),
        (Operation::CompareSwapNe, "xxxxxxxxxxxxxx.."),
        (Operation::CompareSwapLe, "xxxxxxxxxx..x..."),
        (Operation::CompareSwapLt, "xxxxxxxxxx..x..."),
        (Operation::CompareSwapGe, "xxxxxxxxxx..x..."),
        (Operation::CompareSwapGt, "xxxxxxxxxx..x..."),
        (Operation::MaskedSwap, "xxxxxx.xx......."),
    ];
    assert_eq!(table.map(|(op, _)| op), Operation::ALL);
    for (op, row) in table {
        for (datatype, cell) in Datatype::ALL.into_iter().zip(row.bytes()) {
            for family in FAMILIES {
                let of_family = (op as u8 >= Operation::Swap as u8) == (family == Family::Swap);
                assert_eq!(allowed(family, op, datatype), of_family && cell == b'x', "{family:?} {op:?} {datatype:?}");
            }
        }
    }
}

/// For every combination: one that is not allowed changes nothing, and only the first element does.
#[test]
fn refused_combinations_and_partial_elements_change_nothing() {
    let noise: Vec<u8> = (0..96u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
    for op in Operation::ALL {
        for datatype in Datatype::ALL {
            let size = datatype.size_bytes();
            for bytes in 0..=3 * size {
                let before = &noise[..bytes];
                let operand: Vec<u8> = before.iter().map(|byte| !byte).collect();
                let mut swapped = before.to_vec();
                let written = apply_swap(op, datatype, &mut swapped, &operand, &operand);
                let possible = bytes >= size && allowed(Family::Swap, op, datatype);
                assert!(possible || !written, "{op:?} {datatype:?} {bytes}");
                if !written {
                    assert_eq!(swapped, before);
                }
                assert_eq!(swapped[size.min(bytes)..], before[size.min(bytes)..], "only the first element");
            }
        }
    }
}

#[test]
fn eight_bit_integers_exhaustively() {
    for target in 0..=255u8 {
        for operand in 0..=255u8 {
            for datatype in [Datatype::Int8, Datatype::Uint8] {
                let (wide_target, wide_operand) = (widened(datatype, &[target]), widened(datatype, &[operand]));
                for op in Operation::ALL {
                    if let Some(holds) = comparison_reference(op, wide_operand.partial_cmp(&wide_target)) {
                        let mut swapped = [target];
                        assert_eq!(apply_swap(op, datatype, &mut swapped, &[0xa5], &[operand]), holds);
                        assert_eq!(swapped, if holds { [0xa5] } else { [target] });
                    }
                }
            }
        }
    }
}

/// The operators of C, written independently of the code under test.
fn comparison_reference(op: Operation, comparand_to_target: Option<Ordering>) -> Option<bool> {
    use Ordering::{Equal, Greater, Less};
    let holds_for: &[Option<Ordering>] = match op {
        Operation::CompareSwap => &[Some(Equal)],
        Operation::CompareSwapNe => &[Some(Less), Some(Greater), None],
        Operation::CompareSwapLe => &[Some(Less), Some(Equal)],
        Operation::CompareSwapLt => &[Some(Less)],
        Operation::CompareSwapGe => &[Some(Greater), Some(Equal)],
        Operation::CompareSwapGt => &[Some(Greater)],
        _ => return None,
    };
    Some(holds_for.contains(&comparand_to_target))
}

proptest! {
    #[test]
    fn integers_compare_as_wide_ones(target in edgy_bytes(8), operand in edgy_bytes(8)) {
        for datatype in INTEGERS {
            let size = datatype.size_bytes();
            let (target, operand) = (&target[..size], &operand[..size]);
            let order = widened(datatype, operand).partial_cmp(&widened(datatype, target));
            let new: Vec<u8> = target.iter().map(|byte| !byte).collect();
            for op in Operation::ALL {
                if let Some(holds) = comparison_reference(op, order) {
                    let mut swapped = target.to_vec();
                    prop_assert_eq!(apply_swap(op, datatype, &mut swapped, &new, operand), holds);
                    prop_assert_eq!(&swapped[..], if holds { &new[..] } else { target });
                }
            }
        }
    }

    #[test]
    fn masked_swap_takes_the_bits_of_the_mask(bytes in edgy_bytes(24)) {
        for datatype in INTEGERS {
            let size = datatype.size_bytes();
            let (target, operand, mask) = (&bytes[..size], &bytes[8..8 + size], &bytes[16..16 + size]);
            let mut result = target.to_vec();
            prop_assert!(apply_swap(Operation::MaskedSwap, datatype, &mut result, operand, mask));
            for bit in 0..8 * size {
                let of = |bytes: &[u8]| bytes[bit / 8] >> (bit % 8) & 1;
                prop_assert_eq!(of(&result), if of(mask) == 1 { of(operand) } else { of(target) });
            }
        }
    }
    #[test]
    fn doubles_compare_as_the_host_does(target in edgy_double(), operand in edgy_double()) {
        for op in Operation::ALL {
            let mut swapped = target.to_le_bytes();
            let new = 7f64.to_le_bytes();
            let written = apply_swap(op, Datatype::Double, &mut swapped, &new, &operand.to_le_bytes());
            if let Some(holds) = comparison_reference(op, operand.partial_cmp(&target)) {
                prop_assert_eq!(written, holds);
                prop_assert_eq!(swapped, if holds { new } else { target.to_le_bytes() });
            }
        }
    }

    /// For any bytes, also encodings that are invalid for an x87: no panic, and the padding stays.
    #[test]
    fn long_doubles_of_any_bits_keep_the_padding((target, operand) in edgy_long_doubles()) {
        for op in Operation::ALL.into_iter().filter(|op| *op != Operation::MaskedSwap) {
            for datatype in [Datatype::LongDouble, Datatype::LongDoubleComplex] {
                let mut swapped = target;
                apply_swap(op, datatype, &mut swapped, &operand, &operand);
                prop_assert_eq!(&swapped[10..16], &target[10..16]);
                prop_assert_eq!(&swapped[26..], &target[26..]);
            }
        }
    }
}

#[test]
fn conditional_swaps_compare_values_not_bits() {
    const ONE: u128 = 0x3fff_8000_0000_0000_0000;
    const NAN: u128 = 0x7fff_c000_0000_0000_0000;
    const MINUS_ZERO: u128 = 0x8000_0000_0000_0000_0000;
    let long = |op, target: u128, comparand: u128| {
        let mut slot_of_target = slot(target, 0x11);
        let written =
            apply_swap(op, Datatype::LongDouble, &mut slot_of_target, &slot(ONE, 0x22), &slot(comparand, 0x33));
        assert_eq!(slot_of_target, slot(if written { ONE } else { target }, 0x11));
        written
    };
    assert!(long(Operation::CompareSwap, 0, MINUS_ZERO), "padding and the zero's sign do not count");
    assert!(!long(Operation::CompareSwap, NAN, NAN));
    assert!(long(Operation::CompareSwapNe, NAN, NAN));
    assert!(!long(Operation::CompareSwapLe, ONE, NAN) && !long(Operation::CompareSwapGe, ONE, NAN));
    assert!(long(Operation::CompareSwapLt, ONE, 0) && !long(Operation::CompareSwapLt, 0, ONE));
    assert!(long(Operation::CompareSwapGt, 0, ONE) && !long(Operation::CompareSwapGt, ONE, ONE));
    assert!(long(Operation::CompareSwapGe, ONE, ONE) && long(Operation::CompareSwapLe, ONE, ONE));

    let pair = |real: f32, imaginary: f32| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
    let complex = |op, target: Vec<u8>, comparand: Vec<u8>| {
        apply_swap(op, Datatype::FloatComplex, &mut target.clone(), &[0; 8], &comparand)
    };
    assert!(complex(Operation::CompareSwap, pair(1.0, 0.0), pair(1.0, -0.0)));
    assert!(!complex(Operation::CompareSwap, pair(1.0, 2.0), pair(1.0, 3.0)));
    assert!(complex(Operation::CompareSwapNe, pair(1.0, 2.0), pair(1.0, 3.0)));
    assert!(complex(Operation::CompareSwapNe, pair(1.0, f32::NAN), pair(1.0, f32::NAN)));
    assert!(!complex(Operation::CompareSwapLe, pair(1.0, 2.0), pair(1.0, 2.0)), "complex numbers have no order");
}
