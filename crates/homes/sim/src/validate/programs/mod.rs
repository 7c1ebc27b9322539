// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments as programs: each function makes a run and returns measurements by the ranks' clocks.
//!
//! | file | subject |
//! |---|---|
//! | `pairs` | two ranks: ping-pong, streams, both ways at once, receives that do not match |
//! | `aggregation` | reductions in the switches, and by the hosts |
//! | `extoll` | operations of the EXTOLL units |
//! | `interfaces` | commands of many programs at one NIC |
//! | `groups` | collectives by messages, one after another |
//! | `queues` | many senders and one receiver: unexpected messages, long messages at once |
//! | `patterns` | the communication of benchmarks |
//! | `puts` | one-sided: counting puts, flags and barriers |

pub(super) mod aggregation;
pub(super) mod extoll;
pub(super) mod groups;
pub(super) mod interfaces;
pub(super) mod pairs;
pub(super) mod patterns;
pub(super) mod puts;
pub(super) mod queues;

/// Returns `count` bytes that identify their sender and their kind.
pub(super) fn payload(sender: u32, kind: u32, count: usize) -> Vec<u8> {
    let seed = sender.wrapping_mul(0x9e37_79b9) ^ kind.wrapping_mul(0x85eb_ca6b);
    (0..count as u32).map(|at| (seed.wrapping_add(at.wrapping_mul(0x0101_6b55)) >> 13) as u8).collect()
}
