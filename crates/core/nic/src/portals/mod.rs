// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Portals unit: all of Portals 4.3's behaviour at both ends of an operation.
//!
//! The state is divided into parts. Each is a view with operations of its own, which [`Nic`](crate::Nic) makes:
//! `nic.counters()`. A view borrows the NIC, or only the tables that it needs. Its operations take the view by value,
//! so a call passes the view's pointers rather than its address, and the view compiles to nothing. The parts, each
//! above those that it calls:
//!
//! | part | files | |
//! |---|---|---|
//! | [`Heap`](heap::Heap) | [`heap`] | event rings and copies of I/O vectors |
//! | [`MatchQueue`](matching::MatchQueue) | [`matching`] | the index that finds the entry, or the header, that ordered lists would give |
//! | [`EventQueues`](event_queue::EventQueues) | [`event_queue`] | events, and flow control |
//! | [`Counters`](counters::Counters) | [`counters`], `armed` | counts, and the operations that wait for one |
//! | [`Grants`](grants::Grants) | [`grants`] | revocable permissions to put without the lock |
//! | [`Descriptors`](descriptors::Descriptors) | [`descriptors`] | binding and releasing memory descriptors |
//! | [`Lists`](lists::Lists) | [`lists`] | linking entries against unexpected headers; search; unlink |
//! | [`PortalTable`](portal_table::PortalTable) | [`portal_table`] | portal table entries |
//! | [`Receives`](receive::Receives) | [`receive`] | receives of an owner that takes its messages itself, without events |
//! | [`TriggeredOperations`](triggered::TriggeredOperations) | [`triggered`] | arming, firing and cancelling operations; freeing counters |
//! | [`Target`](deliver::Target) | [`deliver`], [`plain_put`], [`placement`] | a request at its target; the fast path of a put; a put whose payload comes later |
//! | [`Initiator`](respond::Initiator) | [`respond`] | the outcome of a request at its initiator: SEND, ACK and REPLY |
//! | `Recovery` | [`recover`] | rebuilding derived state after a process died in the middle of a change |
//!
//! Records, imported by the files of the parts:
//!
//! * [`constants`]: options, kinds of events, failures, with the values of the API.
//! * [`errors`]: errors of transitions.
//! * [`put`]: a plain put. [`entry`]: a program's description of an entry. [`posted`]: a posted receive. [`delivery`]:
//!   the result of a request.
//! * [`descriptor`]: a memory descriptor, as any thread reads it. [`action`]: a triggered operation, as a program arms
//!   it.
//! * [`plan`]: the effects of a request on the entry that it matched.
//! * [`search`]: terms and results of a search. [`event`]: an event, and its form in memory.
//! * [`operation`]: operations that functions allow, and conditional swaps. [`scatter`]: ranges of memory through I/O
//!   vectors.

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
