// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live aggregation node: the members of one group on this machine share their requests, and each feeds them to its
//! own replica of the node (seed 001, section III-A: a node may be "a process in a server"; here it is every process
//! that waits for a result).
//!
//! ```text
//! member 0 ─ request line, operand ─┬─> replica of member 0 ─> result
//! member 1 ─ request line, operand ─┼─> replica of member 1 ─> result
//! member n ─ request line, operand ─┴─> replica of member n ─> result
//! ```
//!
//! | file | subject |
//! |---|---|
//! | [`segment`] | the memory that the members share: request lines and operands |
//! | [`memory`] | the memory of the other members, for long vectors |
//! | `replica` | a member's own node ([`selvedge_nic::aggregation`]) |
//! | [`member`] | a process in the group: starts operations, waits, runs its replica |
//! | [`formation`] | agreement on a group |
//! | [`collectives`] | barrier, broadcast, reductions, gathers, scatter, as values |
//! | `progress_engine`, `member_progress` | how a process's side of a group advances them; how a member does |
//! | [`queue`] | outstanding operations of a process's side of a group |
//! | [`mod@log`] | messages of front doors on standard error |
//!
//! Each file uses only files above it, and `log`.
//!
//! Invariants
//! 1. Operation `n + 2 * credits` overwrites the lines and operands of operation `n`. A member starts operation `n +
//!    credits` only after its replica has taken all requests of `n`. A member that starts `n + 2 * credits` has taken
//!    every member's request for `n + credits`. So all replicas have read a line before its member overwrites it.
//! 2. All replicas take the same requests in the same order, so all have the same result, to the bit.
//! 3. A dead process ends the group: all members get [`Failure::Lost`](selvedge_nic::aggregation::Failure). No
//!    time-outs.
//! 4. Another member's writes can at worst give a wrong result here or fail the group.
//!
//! Costs: an operation of few bytes takes one transfer of a cache line between cores. For a long vector, each member
//! reduces a part in the members' memory.

pub mod collectives;
pub mod formation;
pub mod log;
pub mod member;
mod member_progress;
pub mod memory;
mod progress_engine;
pub mod queue;
mod replica;
pub mod segment;

pub use collectives::{Buffer, Collective, Elements, Pending, part_of_window};
pub use formation::{Bootstrap, FormError, Formation, Participant, RoundResult};
pub use member::{InlineWords, Member};
pub use memory::register_mapped_memory;
pub use progress_engine::{ProgressEngine, ProgressHook, QueueEntry};
pub use queue::Queue;
pub use segment::{OpenError, SegmentHandle, Shape, SharedGroup};
