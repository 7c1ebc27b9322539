// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments as programs: each function makes a run and gives what its ranks measured by their own clocks.
//!
//! | file | what |
//! |---|---|
//! | `pairs` | two ranks: ping-pong, streams, both ways at once, receives that do not match |
//! | `groups` | collectives out of messages, one after another |
//! | `queues` | many senders and one receiver: unexpected messages, long messages at once |
//! | `patterns` | what benchmarks send |
//! | `puts` | one-sided: counting puts against flags and barriers |

pub(super) mod groups;
pub(super) mod pairs;
pub(super) mod patterns;
pub(super) mod puts;
pub(super) mod queues;

/// `count` bytes that say who sent them and what they are.
pub(super) fn payload(sender: u32, kind: u32, count: usize) -> Vec<u8> {
    let seed = sender.wrapping_mul(0x9e37_79b9) ^ kind.wrapping_mul(0x85eb_ca6b);
    (0..count as u32).map(|at| (seed.wrapping_add(at.wrapping_mul(0x0101_6b55)) >> 13) as u8).collect()
}
