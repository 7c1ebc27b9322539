// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation unit: a node of the trees that reduce data inside the network, and a member of their groups (seed 001, section III).
//!
//! ```text
//! members ─ Request ─> node ─ Request ─> parent ... root
//!         <─ Result ──      <─ Result ──
//! ```
//!
//! * [`message`]: what travels (figures 2 and 3). [`failure`]: why something failed.
//! * [`records`]: the tables, and their limits.
//! * [`jobs`]: what the manager sets: jobs, their quotas, trees. [`groups`]: how groups form and end.
//! * [`node`]: what arrives. [`operations`]: requests and results. [`reduction`]: arithmetic. [`sends`]: what the home is to send.
//! * [`member`]: the other end: a process that has joined a group. [`own`]: a node with tables of its own.
//!
//! The transport is reliable and keeps the order between two NICs. The node handles neither loss nor reordering; a message may come twice.
//!
//! Invariants
//! 1. `distributed <= resulted <= sent <= collected <= distributed + 2 * credits` in each group; at a root `sent` is `collected`.
//! 2. A group's records and operands are reserved before its children hear that it is formed, and until all have left.
//! 3. A message that is refused changes nothing. A full table is a refusal.
//! 4. With [`options::ORDERED`](records::options) a result depends on the operands and on the children's order, never on the order of arrival.
//!
//! Costs: a request O(bytes), and with an order as much for each operand that waited behind it; a join O(groups + children), a node's last
//! join O(children²) for their order. No allocation, but when an [`OwnNode`] is made.

pub mod failure;
pub mod groups;
pub mod jobs;
pub mod member;
pub mod message;
pub mod node;
pub mod operations;
pub mod own;
pub mod records;
pub mod reduction;
pub mod sends;

pub use failure::Failure;
pub use jobs::Quota;
pub use member::{Member, Membership, StartError};
pub use message::{Message, MessageError};
pub use node::{Node, Refusal};
pub use own::OwnNode;
pub use records::{Limits, Tables};
pub use sends::{Send, SendId};
