// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of messages: one producer, one consumer, in memory that both share.
//!
//! A [`Ring`] has cursors, slots of two cache lines, and a payload area. The producer writes the slots and the payload.
//! The consumer writes the cursors. A message of up to [`INLINE_BYTES`] lies in its slot alone, and the slot's first
//! line has room for [`FIRST_LINE_BYTES`] of it. The payload of a longer message lies in the payload area. These files
//! have the layout of a ring and the rules for its cursors. They never touch payload: they return positions as byte
//! offsets into the ring, and the home copies.
//!
//! Invariants
//! 1. The producer stores a slot's header word last, with release. The word holds the message's number. The consumer
//!    loads the word first, with acquire. So the consumer sees a whole message or none, even if the producer died.
//! 2. Only the consumer stores the cursors: with release, after it has read the message. The producer loads them with
//!    acquire before it writes to the same place again. So it never overwrites a message that has not been dequeued.
//! 3. A hostile peer may store anything in a slot or a cursor. Still every offset and length that these files return
//!    lies within the ring, every loop is bounded, and a message that no producer writes is a [`Fault`].
//! 4. `payload_head` is stored before `head`. If the consumer dies between these stores, the message is read again as a
//!    whole, because the producer does not reuse the slot before `head` moves.
//!
//! | file | subject |
//! |---|---|
//! | [`layout`] | slots, cursors, payload area, and positions in them |
//! | [`hints`] | hints to the processor and the compiler |
//! | [`producer`] | room, publishing |
//! | [`consumer`] | polling, checking, dequeuing |
//!
//! Cost: a poll loads one word from each of two lines. A short message moves one line or two.

pub mod consumer;
mod hints;
mod layout;
pub mod producer;

pub use consumer::{Consumer, Fault, Message, PolledHeader};
pub use hints::{Hints, NoHints};
pub use layout::{Cursors, Envelope, FIRST_LINE_BYTES, INLINE_BYTES, Ring, Slot, VERSION};
pub use producer::{Producer, Reserved, Unseen};
