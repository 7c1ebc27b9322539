// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of messages: one producer, one consumer, in memory that both share.
//!
//! A [`Ring`] has cursors, slots of two cache lines, and an area for payload that a slot does not hold. The producer
//! writes slots and payload; the consumer writes the cursors. A message of up to [`INLINE_BYTES`] lies in its slot alone;
//! a slot's first line has room for [`FIRST_LINE_BYTES`] of it. This module has the layout and every rule for the cursors.
//! It never touches payload: it gives positions as byte offsets into the ring, and the home copies.
//!
//! Invariants
//! 1. The producer stores a slot's header word last, with release, and the word holds the message's number. The consumer
//!    loads it first, with acquire. So a message is there as a whole or not at all, also where its producer died.
//! 2. Only the consumer stores the cursors, with release, after it has read the message. The producer loads them with acquire
//!    before it writes there again, so it never overwrites a message that has not been dequeued.
//! 3. Whatever a hostile peer stores in a slot or a cursor, every offset and length that this module gives lies within the
//!    ring, every loop is bounded, and a message that no producer writes is a [`Fault`].
//! 4. `payload_head` is stored before `head`. A consumer that dies between the two leaves a message that is read again as
//!    a whole, as nothing is enqueued over a slot before `head` moves.
//!
//! | file | what |
//! |---|---|
//! | [`layout`] | layout, and where all lies in it |
//! | [`hints`] | hints to the processor and the compiler |
//! | [`producer`] | room, and publishing |
//! | [`consumer`] | polling, checking, dequeuing |
//!
//! Cost: a poll is one load of each of two lines; a short message moves one line or two.

pub mod consumer;
mod hints;
mod layout;
pub mod producer;

pub use consumer::{Consumer, Fault, Message, PolledHeader};
pub use hints::{Hints, NoHints};
pub use layout::{Cursors, Envelope, FIRST_LINE_BYTES, INLINE_BYTES, Ring, Slot, VERSION};
pub use producer::{Producer, Reserved};
