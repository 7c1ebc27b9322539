// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Portals unit: all of Portals 4.3's behaviour at both ends of an operation.
//!
//! Transitions, as methods of [`Nic`](crate::Nic):
//!
//! * [`resources`]: making and freeing descriptors, counters, queues, portal table entries, heap blocks.
//! * [`matching`]: the index that finds the entry, or the unexpected header, that ordered lists would give.
//! * [`lists`]: linking entries against unexpected headers; search; unlink.
//! * [`deliver`]: a request at its target, from the match to the counter.
//! * [`placement`]: the same for a put whose payload comes later: the match, and then the events.
//! * [`plain_put`]: the fast path, for a put that changes only memory and a counter or a queue.
//! * [`receive`]: receives of an owner that takes its messages itself, without events.
//! * [`respond`]: the outcome of a request at its initiator: SEND, ACK and REPLY.
//! * [`grants`]: puts without the lock, by permissions that can be revoked.
//! * [`event_queue`], [`counters`], [`triggered`]: events, counts, and the operations that a count triggers.
//! * [`recover`]: rebuilding derived state after a process died in the middle of a change.
//!
//! Records. The files of transitions import these, and not each other:
//!
//! * [`constants`]: options, kinds of events, failures, with the values of the API.
//! * [`errors`]: why a transition was refused.
//! * [`put`]: a plain put. [`entry`]: a program's description of an entry. [`delivery`]: the result of a request.
//! * [`plan`]: what a request does to the entry that it matched.
//! * [`search`]: what a search compares, and what it finds. [`event`]: an event, and its form in memory.
//! * [`operation`]: what functions allow, and conditional swaps. [`scatter`]: ranges of memory through I/O vectors.

pub mod action;

mod armed;
pub mod constants;
pub mod counters;
pub mod deliver;
pub mod delivery;
pub mod descriptor;
pub mod descriptors;
pub mod entry;
pub mod errors;
pub mod event;
pub mod event_queue;
pub mod grants;
pub mod heap;
pub mod lists;
pub mod matching;
pub mod operation;
pub mod placement;
pub mod plain_put;
mod plan;
pub mod portal_table;
pub mod posted;
pub mod put;
pub mod receive;
pub mod recover;
pub mod respond;
pub mod scatter;
pub mod search;
pub mod triggered;

pub use crate::tables::Request;
pub use constants::{ack, event_kind, fail, list, options};
pub use delivery::{Delivery, Verdict};
pub use entry::EntrySpec;
pub use event::Event;
pub use placement::{Placed, Placement};
pub use posted::{Posted, Receive};
pub use put::Put;
