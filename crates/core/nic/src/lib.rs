// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network interface (NIC) as a value.
//!
//! All state of a NIC is plain records of fixed size in tables, linked by index and never by pointer. So the same state
//! can lie in a segment that processes share, or in a simulator's heap, or be compared word by word with hardware. All
//! behaviour is transitions: `state + command or packet -> state + memory transfers, events, packets`.
//!
//! # Contract
//!
//! * A [`Nic`] is two views of one NIC's memory. Only the holder of the NIC's lock uses the [`Tables`]. Any thread may
//!   read the [`Signals`] without the lock: atomics for counters, event queues, descriptors and registers.
//! * A home (live, simulated, hardware) owns that memory, provides the lock, and gives a [`Bus`] to every transition.
//!   The bus moves bytes between the two processes' memories and prices the steps.
//! * A transition never blocks or allocates. It never panics, whatever a packet, a command or a table holds. Every loop
//!   over a table is bounded by the table's capacity. A table that this code cannot have written is reported as
//!   [`Corrupt`]. A full table is reported as [`Full`], with the state unchanged.
//! * A transition that needs a grant revoked returns [`Revoking`](portals::errors::Revoking). Only the grants have
//!   changed then. The home waits for the holders of the grants without the lock, and calls the transition again. A
//!   home without grants ([`Signals::grants`] is empty) never gets this error.
//! * The home wakes sleepers, sends response packets, and executes the triggered commands that a transition moved to
//!   the fire queue ([`TriggeredOperations::next_fired`](portals::triggered::TriggeredOperations::next_fired)).
//!
//! This crate has no unsafe code, no I/O, no clock, and no allocation except by a new [`aggregation::OwnNode`]. It
//! builds for a target without an operating system. A test with a counting allocator checks that transitions allocate
//! nothing (`tests/no_allocation.rs`). Nothing here is tuned for a processor; a home may be, through
//! [`Bus::prefetch_write`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod atomics {
    //! The atomics of [`crate::ring`], which a model checker replaces.
    pub use core::sync::atomic::{AtomicU64, Ordering};
}

pub mod aggregation;
pub mod arithmetic;
pub mod atu;
pub mod buddy;
pub mod bus;
mod errors;
pub mod handle;
pub mod layout;
pub mod limits;
mod nic;
pub mod packet;
pub mod pending;
pub mod portals;
pub mod registers;
pub mod ring;
pub mod rma;
pub mod signals;
pub mod tables;
pub mod tap;
pub mod units;
pub mod velo;

pub use bus::{Asker, Bus, Fault, Metered, NoMemory, Payload, Step};
pub use errors::{Corrupt, Full};
pub use layout::Layout;
pub use limits::Limits;
pub use nic::Nic;
pub use registers::Register;
pub use signals::Signals;
pub use tables::Tables;
