// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation unit: a node of the trees that reduce data inside the network, and a member of their groups (seed
//! 001, section III).
//!
//! ```text
//! members ─ Request ─> node ─ Request ─> parent ... root
//!         <─ Result ──      <─ Result ──
//! ```
//!
//! * [`message`]: messages (figures 2 and 3). [`failure`]: reasons for failures.
//! * [`records`]: the tables, and their limits.
//! * [`jobs`]: jobs, quotas, trees, set by the manager. [`groups`]: formation and end of groups.
//! * [`node`]: incoming messages. [`sends`]: outgoing messages. [`operations`]: requests, results. [`reduction`]:
//!   arithmetic.
//! * [`member`]: a process that has joined a group. [`own`]: a node with tables of its own.
//!
//! The transport is reliable and keeps the order between two NICs. The node handles neither loss nor reordering;
//! duplicates may arrive.
//!
//! Invariants
//! 1. `distributed <= resulted <= sent <= collected <= distributed + 2 * credits` in each group; at a root `sent` is
//!    `collected`.
//! 2. A group's records and operands are reserved from before its children are informed of it until all have left.
//! 3. A refused message changes nothing. A full table is a refusal.
//! 4. With [`options::ORDERED`](records::options) a result does not depend on the order of arrival.
//!
//! Costs: a request O(bytes), and with an order O(bytes) for each operand that waited behind it; a join O(groups +
//! children), the last one O(children²). No allocation, except by a new [`OwnNode`].

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
