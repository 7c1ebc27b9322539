// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live aggregation node: the members of one group on this machine share their requests, and each runs a replica of the node with them (seed
//! 001, section III-A: a node may be "a process in a server"; here it is every process that waits for a result).
//!
//! ```text
//! member 0 ─ request line, operand ─┬─> replica of member 0 ─> result
//! member 1 ─ request line, operand ─┼─> replica of member 1 ─> result
//! member n ─ request line, operand ─┴─> replica of member n ─> result
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`segment`] | what the members share: request lines and operands |
//! | `replica` | a member's own node ([`selvedge_nic::aggregation`]) |
//! | [`member`] | a process in the group: starts operations, waits, runs its replica |
//! | [`forming`] | how processes agree on a group |
//! | [`memory`] | the memory of the other members, for long vectors |
//! | [`collectives`], `carrying_on` | barrier, broadcast, reductions, gathers, scatter, by operations of the node |
//! | [`mod@log`] | what front doors say on standard error |
//! | [`queue`] | several of them under way |
//!
//! Invariants
//! 1. A line or an operand of operation `n` is written again for `n + 2 * credits`. A member starts operation `n + credits` only when its replica
//!    has taken all requests of `n`. A member that starts `n + 2 * credits` has taken every member's request for `n + credits`.
//!    So all replicas have read a line before its member writes it again.
//! 2. All replicas take the same requests in the same order, so all have the same result, to the bit.
//! 3. A process that dies ends the group: all members get [`Failure::Lost`](selvedge_nic::aggregation::Failure). There are no time-outs.
//! 4. Whatever another member writes, the worst effect here is a wrong result or a failed group.
//!
//! Costs: an operation of few bytes takes one transfer of a cache line between cores. A long vector is reduced by all members, each a part of it,
//! and read and written in the members' memory.

mod carrying_on;
pub mod collectives;
pub mod forming;
pub mod log;
pub mod member;
pub mod memory;
pub mod queue;
mod replica;
pub mod segment;

pub use carrying_on::Idle;
pub use collectives::{Buffer, Elements, Pending, What, part_of_window};
pub use forming::{Exchange, Forming, Heard, Process, SEVERAL_HOSTS};
pub use member::{Member, Notes};
pub use memory::know_mapped;
pub use queue::{Carries, Entry, Queue};
pub use segment::{Card, OpenError, Shape, SharedGroup};
