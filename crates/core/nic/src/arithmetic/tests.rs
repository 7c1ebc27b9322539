// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the arithmetic against wide integers and against the host's floating point. `gcc` has C's results.

use super::*;
use proptest::prelude::*;
use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::X87DoubleExtended;
use std::vec::Vec;

mod gcc;

pub(crate) fn applied(op: Operation, datatype: Datatype, target: &[u8], operand: &[u8]) -> Vec<u8> {
    let mut target = target.to_vec();
    apply(op, datatype, &mut target, operand);
    target
}

/// Ten bytes of value and six of padding.
pub(crate) fn slot(value: u128, padding: u8) -> [u8; 16] {
    let mut slot = value.to_le_bytes();
    slot[10..].fill(padding);
    slot
}

#[test]
fn numbers_are_those_of_the_header() {
    for value in 0..300 {
        let op = Operation::from_u32(value);
        assert_eq!(op.map(|op| op as u32), (value < 18).then_some(value));
        let datatype = Datatype::from_u32(value);
        assert_eq!(datatype.map(|datatype| datatype as u32), (value < 14).then_some(value), "of Portals");
        let datatype = Datatype::from_number(value);
        assert_eq!(datatype.map(|datatype| datatype as u32), (value < 16).then_some(value));
    }
    assert_eq!(Operation::from_u32(u32::MAX), None);
    assert_eq!(Operation::from_u32(9), Some(Operation::Bxor));
    assert_eq!(Operation::from_u32(11), Some(Operation::CompareSwap));
    assert_eq!(Operation::from_u32(17), Some(Operation::MaskedSwap));
    assert_eq!(Datatype::from_u32(6), Some(Datatype::Float));
    assert_eq!(Datatype::from_u32(9), Some(Datatype::Double));
    assert_eq!(Datatype::from_u32(13), Some(Datatype::LongDoubleComplex));
    let sizes: Vec<usize> = Datatype::ALL.iter().map(|datatype| datatype.size_bytes()).collect();
    assert_eq!(sizes, [1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 16, 32, 2, 2]);
    assert_eq!(sizes.iter().max(), Some(&Datatype::SIZE_BYTES_MAX));
}

/// A row for each operation, a column for each datatype, in the order of their numbers.
#[test]
fn operations_go_with_the_datatypes_of_the_table() {
    // i8 u8 i16 u16 i32 u32 float i64 u64 double float-complex double-complex long-double long-double-complex half bf16
    let table = [
        (Operation::Min, "xxxxxxxxxx..x.xx"),
        (Operation::Max, "xxxxxxxxxx..x.xx"),
        (Operation::Sum, "xxxxxxxxxxxxxxxx"),
        (Operation::Prod, "xxxxxxxxxxxxxxxx"),
        (Operation::Lor, "xxxxxx.xx......."),
        (Operation::Land, "xxxxxx.xx......."),
        (Operation::Bor, "xxxxxx.xx......."),
        (Operation::Band, "xxxxxx.xx......."),
        (Operation::Lxor, "xxxxxx.xx......."),
        (Operation::Bxor, "xxxxxx.xx......."),
    ];
    for (op, row) in table {
        for (datatype, cell) in Datatype::ALL.into_iter().zip(row.bytes()) {
            assert_eq!(reduces(op, datatype), cell == b'x', "{op:?} {datatype:?}");
        }
    }
    for op in &Operation::ALL[table.len()..] {
        assert!(Datatype::ALL.into_iter().all(|datatype| !reduces(*op, datatype)), "{op:?}");
    }
}

/// Invariant 1, for every combination: one that is refused changes nothing, and a partial element stays.
#[test]
fn refused_combinations_and_partial_elements_change_nothing() {
    let noise: Vec<u8> = (0..96u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
    for op in Operation::ALL {
        for datatype in Datatype::ALL {
            let size = datatype.size_bytes();
            for bytes in 0..=3 * size {
                let before = &noise[..bytes];
                let operand: Vec<u8> = before.iter().map(|byte| !byte).collect();
                let after = applied(op, datatype, before, &operand);
                let whole = bytes / size * size;
                assert_eq!(after[whole..], before[whole..], "{op:?} {datatype:?} {bytes}");
                if !reduces(op, datatype) && op != Operation::Swap {
                    assert_eq!(after, before, "{op:?} {datatype:?} {bytes}");
                }
            }
        }
    }
}

#[test]
fn slices_of_different_length_work_up_to_the_shorter() {
    assert_eq!(applied(Operation::Sum, Datatype::Uint8, &[1, 2, 3], &[10, 10]), [11, 12, 3]);
    assert_eq!(applied(Operation::Sum, Datatype::Uint8, &[1, 2], &[10, 10, 10]), [11, 12]);
    assert_eq!(applied(Operation::Swap, Datatype::DoubleComplex, &[1; 32], &[2; 31])[14..18], [2, 2, 1, 1]);
}

#[test]
fn eight_bit_integers_exhaustively() {
    for target in 0..=255u8 {
        for operand in 0..=255u8 {
            for datatype in [Datatype::Int8, Datatype::Uint8] {
                let (wide_target, wide_operand) = (widened(datatype, &[target]), widened(datatype, &[operand]));
                for op in Operation::ALL {
                    if let Some(expected) = integer_reference(op, wide_target, wide_operand) {
                        let mut result = [target];
                        apply(op, datatype, &mut result, &[operand]);
                        assert_eq!(result, [expected as u8], "{op:?} {datatype:?} {target} {operand}");
                    }
                }
            }
        }
    }
}

fn integer_reference(op: Operation, target: i128, operand: i128) -> Option<i128> {
    Some(match op {
        Operation::Min => target.min(operand),
        Operation::Max => target.max(operand),
        Operation::Sum => target + operand,
        Operation::Prod => target.wrapping_mul(operand),
        Operation::Lor => i128::from(target != 0 || operand != 0),
        Operation::Land => i128::from(target != 0 && operand != 0),
        Operation::Lxor => i128::from((target != 0) != (operand != 0)),
        Operation::Bor => target | operand,
        Operation::Band => target & operand,
        Operation::Bxor => target ^ operand,
        Operation::Swap => operand,
        _ => return None,
    })
}
pub(crate) const INTEGERS: [Datatype; 8] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
];

/// The integer in these bytes, sign-extended if the datatype is signed.
pub(crate) fn widened(datatype: Datatype, bytes: &[u8]) -> i128 {
    let signed = matches!(datatype, Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64);
    let fill = if signed && bytes[bytes.len() - 1] & 0x80 != 0 { 0xff } else { 0 };
    let mut wide = [fill; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// Random bytes in which extreme values are more frequent than by chance.
pub(crate) fn edgy_bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        3 => any::<u64>(),
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => Just(1),
        1 => Just(0x8000_0000_0000_0000),
        1 => Just(0x7fff_ffff_ffff_ffff),
        1 => Just(0x8080_8080_8080_8080),
    ];
    proptest::collection::vec(word, len.div_ceil(8))
        .prop_map(move |words| words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect())
}

const EDGES: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    5e-324,
    -5e-324,
    f64::MIN_POSITIVE,
];

pub(crate) fn edgy_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => any::<u64>().prop_map(f64::from_bits),
        3 => -1e3..1e3f64,
        3 => proptest::sample::select(&EDGES[..]),
    ]
}

fn double(op: Operation, target: f64, operand: f64) -> f64 {
    let bytes = applied(op, Datatype::Double, &target.to_le_bytes(), &operand.to_le_bytes());
    f64::from_le_bytes(bytes.try_into().unwrap())
}

proptest! {
    #[test]
    fn integers_match_wide_arithmetic(target in edgy_bytes(24), operand in edgy_bytes(24), shift in 0..8usize) {
        for datatype in INTEGERS {
            let size = datatype.size_bytes();
            for op in Operation::ALL {
                let result = applied(op, datatype, &target[shift..], &operand[shift..]);
                let elements = result.chunks_exact(size).zip(target[shift..].chunks_exact(size));
                for ((result, target), operand) in elements.zip(operand[shift..].chunks_exact(size)) {
                    match integer_reference(op, widened(datatype, target), widened(datatype, operand)) {
                        Some(expected) => prop_assert_eq!(result, &expected.to_le_bytes()[..size]),
                        None => prop_assert_eq!(result, target),
                    }
                }
            }
        }
    }

    #[test]
    fn doubles_match_the_host(target in edgy_double(), operand in edgy_double()) {
        let expected = |value: f64| if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
        prop_assert_eq!(double(Operation::Sum, target, operand).to_bits(), expected(target + operand));
        prop_assert_eq!(double(Operation::Prod, target, operand).to_bits(), expected(target * operand));
        prop_assert_eq!(double(Operation::Swap, target, operand).to_bits(), operand.to_bits());
        let (min, max) = (double(Operation::Min, target, operand), double(Operation::Max, target, operand));
        // `f64::min` may give either zero. Another test checks the bits of zeros and NaN.
        prop_assert!(min == target.min(operand) || target.is_nan() && operand.is_nan());
        prop_assert!(max == target.max(operand) || target.is_nan() && operand.is_nan());    }

    #[test]
    fn elements_are_independent(bytes in edgy_bytes(192)) {
        let (target, operand) = bytes.split_at(96);
        for op in Operation::ALL {
            for datatype in Datatype::ALL {
                let size = datatype.size_bytes();
                let alone: Vec<u8> = target
                    .chunks_exact(size)
                    .zip(operand.chunks_exact(size))
                    .flat_map(|(target, operand)| applied(op, datatype, target, operand))
                    .collect();
                prop_assert_eq!(applied(op, datatype, target, operand), alone);
            }
        }
    }

    #[test]
    fn floats_match_the_host(target: u32, operand: u32) {
        let single = |op| {
            let bytes = applied(op, Datatype::Float, &target.to_le_bytes(), &operand.to_le_bytes());
            u32::from_le_bytes(bytes.try_into().unwrap())
        };
        let expected = |value: f32| if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
        let (left, right) = (f32::from_bits(target), f32::from_bits(operand));
        prop_assert_eq!(single(Operation::Sum), expected(left + right));
        prop_assert_eq!(single(Operation::Prod), expected(left * right));
        prop_assert_eq!(single(Operation::Swap), operand);
    }

    /// The integers are so small that sums and products are exact.
    #[test]
    fn long_doubles_agree_with_integers(target in -(1i64 << 31)..1 << 31, operand in -(1i64 << 31)..1 << 31) {
        let wide = |value: i64| X87DoubleExtended::from_i128(i128::from(value)).value.to_bits();
        let long = |op| applied(op, Datatype::LongDouble, &slot(wide(target), 0), &slot(wide(operand), 0));
        prop_assert_eq!(long(Operation::Sum), slot(wide(target + operand), 0));
        prop_assert_eq!(long(Operation::Min), slot(wide(target.min(operand)), 0));
        prop_assert_eq!(long(Operation::Max), slot(wide(target.max(operand)), 0));
        if target != 0 && operand != 0 {
            prop_assert_eq!(long(Operation::Prod), slot(wide(target * operand), 0));
        }
    }

    /// For any bytes, also encodings that are invalid for an x87: no panic, and the padding stays.
    #[test]
    fn long_doubles_of_any_bits_keep_the_padding((target, operand) in edgy_long_doubles()) {
        for op in Operation::ALL {
            for datatype in [Datatype::LongDouble, Datatype::LongDoubleComplex] {
                let after = applied(op, datatype, &target, &operand);
                prop_assert_eq!(&after[10..16], &target[10..16]);
                prop_assert_eq!(&after[26..], &target[26..]);
            }
        }
    }
}

/// Two pairs of slots with any bits, and often an exponent at an edge.
pub(crate) fn edgy_long_doubles() -> impl Strategy<Value = ([u8; 32], [u8; 32])> {
    let exponent = proptest::sample::select(&[0u16, 1, 2, 0x3fff, 0x7ffe, 0x7fff, 0xffff][..]);
    let exponents = proptest::array::uniform4(proptest::option::of(exponent));
    (any::<[u8; 32]>(), any::<[u8; 32]>(), exponents).prop_map(|(mut target, mut operand, exponents)| {
        for (at, pair) in [8, 24].into_iter().zip(exponents.chunks_exact(2)) {
            for (slots, exponent) in [&mut target, &mut operand].into_iter().zip(pair) {
                if let Some(exponent) = exponent {
                    slots[at..at + 2].copy_from_slice(&exponent.to_le_bytes());
                }
            }
        }
        (target, operand)
    })
}

/// Invariants 4 and 5.
#[test]
fn nan_and_zeros() {
    let other_nan = f64::from_bits(0xfff8_0000_0000_1234);
    let bits = |op, target, operand| double(op, target, operand).to_bits();
    for op in [Operation::Min, Operation::Max] {
        assert_eq!(bits(op, f64::NAN, 3.0), 3f64.to_bits());
        assert_eq!(bits(op, 3.0, other_nan), 3f64.to_bits());
        assert_eq!(bits(op, other_nan, f64::NAN), other_nan.to_bits(), "both NaN: the target stays");
    }
    assert_eq!(bits(Operation::Min, 0.0, -0.0), (-0f64).to_bits());
    assert_eq!(bits(Operation::Min, -0.0, 0.0), (-0f64).to_bits());
    assert_eq!(bits(Operation::Max, 0.0, -0.0), 0);
    assert_eq!(bits(Operation::Max, -0.0, 0.0), 0);
    assert_eq!(bits(Operation::Sum, other_nan, 1.0), 0x7ff8_0000_0000_0000);
    assert_eq!(bits(Operation::Sum, f64::INFINITY, f64::NEG_INFINITY), 0x7ff8_0000_0000_0000);
    assert_eq!(bits(Operation::Prod, f64::INFINITY, 0.0), 0x7ff8_0000_0000_0000);
    // Operands of 8 bytes have a path of their own. A pair of elements gives the same result.
    let pair = applied(Operation::Sum, Datatype::Double, &[other_nan.to_le_bytes(); 2].concat(), &[0; 16]);
    assert_eq!(pair, [0x7ff8_0000_0000_0000u64.to_le_bytes(); 2].concat());
}

/// Invariant 5, for every pair of values at an edge, among them NaN of several bits and both zeros: enough pairs to run
/// the vectorised loop, at an odd address.
#[test]
fn minimum_and_maximum_are_one_of_the_two_to_the_bit() {
    let doubles = [f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(0xfff8_0000_0000_1234), 1.5, -1.5]
        .into_iter()
        .chain(EDGES)
        .map(|value| value.to_bits().into())
        .collect::<Vec<u128>>();
    let double = |bits: u128| f64::from_bits(bits as u64);
    check_extremes(
        Datatype::Double,
        &doubles,
        |left, right| double(left) < double(right),
        |bits| double(bits).is_nan(),
    );

    let floats = [0x7f80_0001, 0xffc0_1234, 0x7fc0_0000, 0, 0x8000_0000, 1, 0x8000_0001, 0x7f7f_ffff, 0xff7f_ffff]
        .into_iter()
        .chain([f32::INFINITY, f32::NEG_INFINITY, 1.0, -1.0, 1.5, f32::MIN_POSITIVE].map(f32::to_bits))
        .map(u128::from)
        .collect::<Vec<u128>>();
    let float = |bits: u128| f32::from_bits(bits as u32);
    check_extremes(Datatype::Float, &floats, |left, right| float(left) < float(right), |bits| float(bits).is_nan());

    let long_doubles = [0, 1, 0x3fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000]
        .into_iter()
        .chain([0x7fff_a000_0000_0000_0001, 0x3fff_4000_0000_0000_0000])
        .flat_map(|bits| [bits, bits | 1 << 79])
        .collect::<Vec<u128>>();
    let long = X87DoubleExtended::from_bits;
    check_extremes(
        Datatype::LongDouble,
        &long_doubles,
        |left, right| long(left) < long(right),
        |bits| long(bits).is_nan(),
    );
}

/// Checks the minimum and maximum of all pairs. `less` compares as C does. Bits are those of a value as an integer.
pub(super) fn check_extremes(
    datatype: Datatype,
    values: &[u128],
    less: impl Fn(u128, u128) -> bool,
    nan: impl Fn(u128) -> bool,
) {
    let size = datatype.size_bytes();
    let value_bits = if datatype == Datatype::LongDouble { 80 } else { 8 * size };
    let negative = |bits: u128| bits >> (value_bits - 1) == 1;
    let pairs = || values.iter().flat_map(|target| values.iter().map(move |operand| (*target, *operand)));
    let memory = |side: fn((u128, u128)) -> u128| -> Vec<u8> {
        let bytes = pairs().map(side).flat_map(|bits| bits.to_le_bytes().into_iter().take(size));
        std::iter::once(0).chain(bytes).collect()
    };
    let (targets, operands) = (memory(|pair| pair.0), memory(|pair| pair.1));
    for op in [Operation::Min, Operation::Max] {
        let results = applied(op, datatype, &targets[1..], &operands[1..]);
        for ((target, operand), result) in pairs().zip(results.chunks_exact(size)) {
            let takes = match (nan(target), nan(operand)) {
                (_, true) => false,
                (true, false) => true,
                (false, false) if less(operand, target) => op == Operation::Min,
                (false, false) if less(target, operand) => op == Operation::Max,
                (false, false) => negative(operand) == (op == Operation::Min),
            };
            let expected = if takes { operand } else { target };
            assert_eq!(result, &expected.to_le_bytes()[..size], "{op:?} {datatype:?} {target:#x} {operand:#x}");
        }
    }
}

#[test]
fn complex_sums_and_swaps_go_part_by_part() {
    let pair = |real: f64, imaginary: f64| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
    let result = applied(Operation::Sum, Datatype::DoubleComplex, &pair(1.5, -2.0), &pair(2.25, f64::INFINITY));
    assert_eq!(result, pair(3.75, f64::INFINITY));
    let one = 0x3fff_8000_0000_0000_0000;
    let (target, operand) = ([slot(one, 1), slot(0, 2)].concat(), [slot(one, 3), slot(one, 4)].concat());
    let sum = applied(Operation::Sum, Datatype::LongDoubleComplex, &target, &operand);
    assert_eq!(sum, [slot(0x4000_8000_0000_0000_0000, 1), slot(one, 2)].concat());
    let swap = applied(Operation::Swap, Datatype::LongDoubleComplex, &target, &operand);
    assert_eq!(swap, [slot(one, 1), slot(one, 2)].concat());
}
