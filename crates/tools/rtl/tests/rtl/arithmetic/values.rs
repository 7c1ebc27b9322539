// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operands for the tests of the arithmetic: the corners of each type, and random values that are often near them.

use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::arithmetic::Datatype;

/// Bits of exponent and of fraction, for a floating-point type.
fn float(datatype: Datatype) -> Option<(u32, u32)> {
    match datatype {
        Datatype::Half => Some((5, 10)),
        Datatype::Bfloat16 => Some((8, 7)),
        Datatype::Float => Some((8, 23)),
        Datatype::Double => Some((11, 52)),
        _ => None,
    }
}

/// The corners of a type.
pub fn corners(datatype: Datatype) -> Vec<u64> {
    let bits = 8 * datatype.size_bytes() as u32;
    let ones = u64::MAX >> (64 - bits);
    let Some((exponent_bits, fraction_bits)) = float(datatype) else {
        let top = 1 << (bits - 1);
        return vec![0, 1, 2, ones, ones - 1, top, top - 1, top + 1, 0x55, ones / 3];
    };
    let fraction = (1u64 << fraction_bits) - 1;
    let half = 1u64 << (fraction_bits - 1);
    let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
    let one = (infinity >> 1) & infinity;
    let magnitudes = [
        0,
        1,
        fraction,
        fraction + 1,
        fraction + 2,
        2 * (fraction + 1),
        one,
        one + 1,
        one - 1,
        one + half,
        // As many powers of two above 1 as there are digits, and one more.
        one + (u64::from(fraction_bits) << fraction_bits),
        one + (u64::from(fraction_bits + 1) << fraction_bits).min(infinity - one - 1),
        infinity - 1,
        infinity - 1 - fraction / 2,
        infinity,
        infinity + 1,
        infinity + half,
        infinity + fraction,
    ];
    magnitudes.iter().flat_map(|&magnitude| [magnitude, magnitude | 1 << (bits - 1)]).collect()
}

/// A value of this type from a random number: 0 gives 0, others are often near corners or near each other.
pub fn element(datatype: Datatype, draw: u64) -> u64 {
    let bits = 8 * datatype.size_bytes() as u32;
    let ones = u64::MAX >> (64 - bits);
    let corners = corners(datatype);
    let (kind, draw) = (draw % 8, draw / 8);
    let corner = corners[draw as usize % corners.len()];
    let random = mix(draw) & ones;
    let Some((exponent_bits, fraction_bits)) = float(datatype) else {
        return match kind {
            0..3 => corner,
            3 => corner.wrapping_add(random & 7) & ones,
            4 => random & random.rotate_right(9) & 0xff & ones,
            _ => random,
        };
    };
    let fraction = random & ((1 << fraction_bits) - 1);
    let sign = random & 1 << (bits - 1);
    let middle = (1u64 << (exponent_bits - 1)) - 1;
    match kind {
        0 | 1 => corner,
        // Near 1, so that sums cancel and round.
        2 | 3 => sign | (middle - 4 + mix(random) % 9) << fraction_bits | fraction,
        // Near 1, with runs of equal bits, which make ties.
        4 => {
            let run = ((1u64 << fraction_bits) - 1) << (mix(random) % u64::from(fraction_bits + 1));
            sign | (middle - 2 + mix(random) / 64 % 5) << fraction_bits | run & ((1 << fraction_bits) - 1)
        }
        // Near the smallest.
        5 => sign | (mix(random) % 4) << fraction_bits | fraction,
        // Near the largest.
        6 => sign | (2 * middle + 1 - mix(random) % 4) << fraction_bits | fraction,
        _ => random,
    }
}

/// Bytes of elements from a seed: 0 gives zeros.
pub fn operand(reduction: &Reduction, size: usize, bytes: usize, seed: u64) -> Vec<u8> {
    let datatype = |number: u8| Datatype::from_number(number.into()).expect("it reduces");
    let mut draw = seed;
    let mut next = || {
        draw = if seed == 0 { 0 } else { mix(draw) };
        draw
    };
    let mut operand = Vec::with_capacity(bytes);
    while operand.len() < bytes {
        let value = element(datatype(reduction.datatype), next());
        if reduction.index == 0 {
            operand.extend(&value.to_le_bytes()[..size]);
        } else {
            // Padding is not zero, so that a write to it is found.
            let mut half = vec![seed as u8; size / 2];
            let value_bytes = datatype(reduction.datatype).size_bytes();
            half[..value_bytes].copy_from_slice(&value.to_le_bytes()[..value_bytes]);
            operand.extend(&half);
            let mut half = vec![!seed as u8; size / 2];
            let index = datatype(reduction.index - 1);
            half[..index.size_bytes()].copy_from_slice(&element(index, next()).to_le_bytes()[..index.size_bytes()]);
            operand.extend(&half);
        }
    }
    operand
}

/// A permutation of 64 bits with 0 fixed (the finaliser of a hash).
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let value = (value ^ value >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    value ^ value >> 33
}
