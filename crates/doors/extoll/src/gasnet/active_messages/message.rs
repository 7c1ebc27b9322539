// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message as the program sends it, and as its handler receives it.

use super::wire::{Category, Encoded, Kind};

/// A message of the program.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub category: Category,
    pub handler: u8,
    pub arguments: &'a [i32],
    /// The payload: address and bytes.
    pub start: u64,
    pub bytes: u64,
    /// The address at the target, for a long message.
    pub destination: u64,
    /// Whether the source stays unchanged until the reply's handler runs: then the call does not wait for its reading.
    pub is_async: bool,
}

/// The message of a running handler. A request holds the reply until its handler has returned.
pub struct Token {
    pub source: u16,
    pub kind: Kind,
    pub(super) slot: u16,
    pub(super) reply: std::cell::Cell<Option<Encoded>>,
}

/// A message at its handler.
pub struct Delivery<'a> {
    pub token: &'a Token,
    pub category: Category,
    pub handler: u8,
    pub arguments: &'a [i32],
    pub payload: *mut u8,
    pub bytes: usize,
}

/// Runs the handler of a message. Called without a lock, on the thread that polls.
pub type Runner = fn(&Delivery<'_>);
