// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Active messages over VELO and RMA (seed 002, section 8.7): requests and replies that run handlers at their targets.
//!
//! Each node has two ports. The mailbox of the first takes requests, that of the second replies and control messages.
//! The first port's VPID owns the registered memory, and its notification queue announces puts.
//!
//! Invariants
//! 1. A node has at most `credits` requests under way to another node. Each holds a credit, which includes slots of
//!    bounce memory: one at the target for its payload, one here for the reply's. The reply, or a control message in
//!    its place, returns the credit.
//! 2. So mailboxes, notification queues and bounce memory have room for all messages, and none is discarded because a
//!    mailbox is full. A reply never waits for a handler of another node.
//! 3. A handler's reply is sent when the handler has returned. So nothing overwrites the payload of a request while its
//!    handler runs.
//! 4. A message whose payload is a put runs its handler when both have arrived, in any order.
//! 5. No lock is held while a handler runs. Locks are taken in the order reader, barrier, peer; reader, staging.
//!
//! | file | subject |
//! |---|---|
//! | [`wire`], [`message`], [`error`] | wire format; messages as the program has them; errors |
//! | [`barrier`], [`memory`], [`arrivals`] | values: barriers with names; segments, bounce and staging memory; the state of the reader |
//! | [`engine`] | this node's active messages, and their start |
//! | [`payload`], [`reader`], [`call`] | puts; arrivals; requests, replies, polls, waits |
//!
//! Each file uses only those above it.

mod arrivals;
pub mod barrier;
mod call;
mod engine;
mod error;
mod memory;
mod message;
mod payload;
mod reader;
pub mod wire;

pub use engine::ActiveMessages;
pub use error::{OpenError, SendError};
pub use memory::LONG_BYTES_MAX;
pub use message::{Delivery, Message, Token};
