// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs of a value and an index against C's layout, and against binary128, in which every value is exact.

use super::super::tests::{edgy_bytes, widened};
use super::*;
use core::cmp::Ordering;
use core::mem::offset_of;
use proptest::prelude::*;
use rustc_apfloat::{Float as _, FloatConvert as _, ieee};
use std::vec::Vec;

const INDICES: [Datatype; 4] = [Datatype::Int32, Datatype::Uint32, Datatype::Int64, Datatype::Uint64];

fn pairs() -> Vec<Located> {
    let of = |value: Datatype| INDICES.into_iter().filter_map(move |index| Located::new(value, index));
    Datatype::ALL.into_iter().flat_map(of).collect()
}

/// Value, index, where the index lies, size: as the x86-64 ABI lays out C's structs.
#[test]
fn layout_is_that_of_c() {
    use Datatype::*;
    let table = [
        (Int8, Int32, 4, 8),
        (Int8, Int64, 8, 16),
        (Uint8, Uint64, 8, 16),
        (Half, Int32, 4, 8),
        (Bfloat16, Uint64, 8, 16),
        (Uint16, Int32, 4, 8),
        (Int16, Int32, 4, 8),
        (Uint32, Uint32, 4, 8),
        (Int32, Int64, 8, 16),
        (Int32, Int32, 4, 8),
        (Float, Int64, 8, 16),
        (Float, Int32, 4, 8),
        (Uint64, Uint64, 8, 16),
        (Int64, Int32, 8, 16),
        (Double, Uint64, 8, 16),
        (Double, Int32, 8, 16),
        (LongDouble, Int64, 16, 32),
        (LongDouble, Int32, 16, 32),
    ];
    for (value, index, offset, size) in table {
        let pair = Located::new(value, index).unwrap();
        assert_eq!((pair.index_offset_bytes(), pair.size_bytes()), (offset, size), "{pair:?}");
        assert_eq!((pair.value(), pair.index()), (value, index));
    }
    assert_eq!(pairs().iter().map(|pair| pair.size_bytes()).max(), Some(Located::SIZE_BYTES_MAX));

    #[repr(C)]
    struct InC<V, I> {
        value: V,
        index: I,
    }
    #[repr(C, align(16))]
    struct LongDoubleInC([u8; 16]);
    macro_rules! in_c {
        ($($value:ident $type:ty, $index:ident $type_of_index:ty;)*) => {$(
            let pair = Located::new($value, $index).unwrap();
            assert_eq!(pair.index_offset_bytes(), offset_of!(InC<$type, $type_of_index>, index));
            assert_eq!(pair.size_bytes(), size_of::<InC<$type, $type_of_index>>());
            assert_eq!(offset_of!(InC<$type, $type_of_index>, value), 0);
        )*};
    }
    in_c! {
        Int16 i16, Int32 i32;
        Int32 i32, Int32 i32;
        Float f32, Int32 i32;
        Int64 i64, Int32 i32;
        Double f64, Int32 i32;
        Uint8 u8, Uint64 u64;
        LongDouble LongDoubleInC, Int32 i32;
    }
}

#[test]
fn only_pairs_with_an_order_and_an_index_exist() {
    for value in Datatype::ALL {
        for index in Datatype::ALL {
            let complex =
                matches!(value, Datatype::FloatComplex | Datatype::DoubleComplex | Datatype::LongDoubleComplex);
            assert_eq!(Located::new(value, index).is_some(), !complex && INDICES.contains(&index));
        }
    }
    for op in Operation::ALL {
        assert_eq!(Located::reduces(op), op == Operation::Min || op == Operation::Max);
    }
}

/// The value of an element, exactly.
fn exact(datatype: Datatype, bytes: &[u8]) -> ieee::Quad {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u128::from_le_bytes(wide);
    let mut loses = false;
    match datatype {
        Datatype::Half => ieee::Half::from_bits(bits).convert(&mut loses).value,
        Datatype::Bfloat16 => ieee::BFloat::from_bits(bits).convert(&mut loses).value,
        Datatype::Float => ieee::Single::from_bits(bits).convert(&mut loses).value,
        Datatype::Double => ieee::Double::from_bits(bits).convert(&mut loses).value,
        Datatype::LongDouble => ieee::X87DoubleExtended::from_bits(bits & (u128::MAX >> 48)).convert(&mut loses).value,
        _ => ieee::Quad::from_i128(widened(datatype, bytes)).value,
    }
}

/// Values at edges. For a long double, with padding.
fn values(datatype: Datatype) -> Vec<Vec<u8>> {
    let bits: &[u128] = match datatype {
        Datatype::Half => &[0, 0x8000, 0x3c00, 0xbc00, 1, 0x7c00, 0xfc00, 0x7e00, 0xfe01],
        Datatype::Bfloat16 => &[0, 0x8000, 0x3f80, 0xbf80, 1, 0x7f80, 0xff80, 0x7fc0, 0xffc1],
        Datatype::Float => {
            &[0, 0x8000_0000, 0x3f80_0000, 0xbf80_0000, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0001]
        }
        Datatype::Double => &[
            0,
            1 << 63,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            1,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0xfff8_0000_0000_0001,
        ],
        Datatype::LongDouble => &[
            0,
            0x1234_5678_9abc_8000_0000_0000_0000_0000,
            0x3fff_8000_0000_0000_0000,
            0xbfff_8000_0000_0000_0000,
            1,
            0x7fff_8000_0000_0000_0000,
            0x7fff_c000_0000_0000_0000,
            0x3fff_4000_0000_0000_0000,
        ],
        _ => &[0, 1, u128::MAX, 1 << 7, 0x7f, 1 << 15, 0x7fff, 1 << 31, 0x7fff_ffff, 1 << 63, u128::MAX >> 65],
    };
    bits.iter().map(|bits| bits.to_le_bytes()[..datatype.size_bytes()].to_vec()).collect()
}

/// A pair as C lays it out, with this byte as the padding.
fn in_memory(pair: Located, value: &[u8], index: &[u8], padding: u8) -> Vec<u8> {
    let align = value.len().max(index.len());
    let mut bytes = value.to_vec();
    bytes.resize(value.len().next_multiple_of(index.len()), padding);
    bytes.extend(index);
    bytes.resize(bytes.len().next_multiple_of(align), padding);
    if pair.value == Datatype::LongDouble {
        bytes[10..16].fill(padding);
    }
    bytes
}

fn takes(op: Operation, pair: Located, target: (&[u8], &[u8]), operand: (&[u8], &[u8])) -> bool {
    let (old, new) = (exact(pair.value, target.0), exact(pair.value, operand.0));
    match new.partial_cmp(&old) {
        Some(Ordering::Less) => op == Operation::Min,
        Some(Ordering::Greater) => op == Operation::Max,
        Some(Ordering::Equal) => widened(pair.index, operand.1) < widened(pair.index, target.1),
        None => old.is_nan() && !new.is_nan(),
    }
}

#[test]
fn every_pair_of_edges() {
    for pair in pairs() {
        let (values, indices) = (values(pair.value), values(pair.index));
        let sides: Vec<(&[u8], &[u8])> =
            values.iter().flat_map(|value| indices.iter().map(move |index| (&value[..], &index[..]))).collect();
        for target in &sides {
            let (mut targets, mut operands) = (Vec::from([0]), Vec::from([0, 0, 0]));
            for operand in &sides {
                targets.extend(in_memory(pair, target.0, target.1, 0x77));
                operands.extend(in_memory(pair, operand.0, operand.1, 0x99));
            }
            assert_eq!(targets.len(), 1 + sides.len() * pair.size_bytes());
            for op in [Operation::Min, Operation::Max] {
                let mut results = targets.clone();
                apply_located(op, pair, &mut results[1..], &operands[3..]);
                for (operand, result) in sides.iter().zip(results[1..].chunks_exact(pair.size_bytes())) {
                    let taken = if takes(op, pair, *target, *operand) { operand } else { target };
                    let expected = in_memory(pair, taken.0, taken.1, 0x77);
                    assert_eq!(result, expected, "{op:?} {pair:?} {target:x?} {operand:x?}");
                }
            }
        }
    }
}

#[test]
fn refused_operations_and_partial_pairs_change_nothing() {
    let noise: Vec<u8> = (0..96u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
    for pair in pairs() {
        for op in Operation::ALL {
            for bytes in 0..=3 * pair.size_bytes() {
                let before = &noise[..bytes];
                let operand: Vec<u8> = before.iter().map(|byte| !byte).collect();
                let mut after = before.to_vec();
                apply_located(op, pair, &mut after, &operand);
                let whole = if Located::reduces(op) { bytes / pair.size_bytes() * pair.size_bytes() } else { 0 };
                assert_eq!(after[whole..], before[whole..], "{op:?} {pair:?} {bytes}");
            }
        }
    }
}

#[test]
fn lowest_index_of_the_best_value() {
    let pair = Located::new(Datatype::Double, Datatype::Int32).unwrap();
    let found = |op, pairs: &[(f64, i32)]| {
        let element = |(value, index): (f64, i32)| in_memory(pair, &value.to_le_bytes(), &index.to_le_bytes(), 0);
        let mut result = element(pairs[0]);
        pairs[1..].iter().for_each(|next| apply_located(op, pair, &mut result, &element(*next)));
        let value = f64::from_le_bytes(result[..8].try_into().unwrap());
        (value, i32::from_le_bytes(result[8..12].try_into().unwrap()))
    };
    let values = [(3.0, 2), (1.5, 7), (1.5, 4), (f64::NAN, 0), (9.0, 5), (9.0, 3), (9.0, 6)];
    assert_eq!(found(Operation::Min, &values), (1.5, 4));
    assert_eq!(found(Operation::Max, &values), (9.0, 3));
    assert_eq!(found(Operation::Min, &[(f64::NAN, 0), (2.0, 9)]), (2.0, 9));
    assert_eq!(found(Operation::Max, &[(f64::NAN, 3), (f64::NAN, 1)]).1, 3, "of two NaNs the target stays");
    assert_eq!(found(Operation::Min, &[(0.0, 1), (-0.0, 2)]).1, 1, "zeros are equal");
}

proptest! {
    #[test]
    fn any_bits_match_binary128(bytes in edgy_bytes(128), of_both: bool) {
        let (target, operand) = bytes.split_at(64);
        for pair in pairs() {
            // Equal values are rare among random ones.
            let mut operand = operand.to_vec();
            if of_both {
                operand[..pair.value.size_bytes()].copy_from_slice(&target[..pair.value.size_bytes()]);
            }
            for op in [Operation::Min, Operation::Max] {
                let mut results = target.to_vec();
                apply_located(op, pair, &mut results, &operand);
                let elements = target.chunks_exact(pair.size_bytes()).zip(operand.chunks_exact(pair.size_bytes()));
                for (result, (target, operand)) in results.chunks_exact(pair.size_bytes()).zip(elements) {
                    let (value, index) = (pair.value.size_bytes(), pair.index.size_bytes());
                    let at = pair.index_offset_bytes();
                    let parts = |bytes: &'_ [u8]| (bytes[..value].to_vec(), bytes[at..at + index].to_vec());
                    let (old, new) = (parts(target), parts(operand));
                    let takes = takes(op, pair, (&old.0, &old.1), (&new.0, &new.1));
                    let mut expected = target.to_vec();
                    if takes {
                        let written = if pair.value == Datatype::LongDouble { 10 } else { value };
                        expected[..written].copy_from_slice(&new.0[..written]);
                        expected[at..at + index].copy_from_slice(&new.1);
                    }
                    prop_assert_eq!(result, &expected[..], "{:?} {:?}", op, pair);
                }
            }
        }
    }
}
