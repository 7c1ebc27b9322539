// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network interface (NIC) as a value.
//!
//! All of a NIC's state is plain fixed-size records in tables, linked by index and never by pointer. So the same
//! state can lie in a segment that processes share, in a simulator's heap, or be compared word by word with
//! hardware. All of its behaviour is `state + command or packet -> state + memory transfers, events, packets`.
//!
//! # Contract
//!
//! * A [`Nic`] is two views of one NIC's memory: [`Tables`], which whoever holds the NIC's lock changes, and
//!   [`Signals`], made of atomics, which anybody may read without the lock (counters, event queues, registers).
//! * A home (live, simulated, hardware) owns that memory, provides the lock, and gives a [`Bus`] to every
//!   transition: it moves bytes between the two processes' memories and prices the steps.
//! * Transitions never block, never allocate, never panic on what a packet, a command or a table holds, and every
//!   loop over a table is bounded by its capacity. A table that cannot have been written by this code is reported
//!   as [`Corrupt`]; a full one as [`Full`], with the state unchanged.
//! * A transition that needs a grant revoked gives [`Revoking`](portals::errors::Revoking), with the state unchanged but for the
//!   grants. Its home waits for their holders without the lock, and calls it again. A home that has no grants
//!   ([`Signals::grants`] is empty) never gets this.
//! * What a transition leaves to its home: waking sleepers, sending response packets, and executing the triggered
//!   commands that it moved to the fire queue ([`Nic::next_fired`]).
//!
//! No unsafe code, no I/O, no clock, no allocation; builds for a target without an operating system. That transitions allocate nothing
//! is tested with an allocator that counts (`tests/no_allocation.rs`), since a dependency brings the crate `alloc` in. Nothing here is
//! tuned for a processor; a home may be, through [`Bus::prefetch_write`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod atomics {
    //! The atomics of [`crate::ring`], which a model checker replaces with its own.
    pub use core::sync::atomic::{AtomicU64, Ordering};
}

pub mod buddy;
pub mod bus;
mod errors;
pub mod handle;
pub mod layout;
pub mod limits;
mod nic;
pub mod packet;
pub mod portals;
pub mod registers;
pub mod ring;
pub mod signals;
pub mod tables;

pub use bus::{Bus, Fault, Metered, NoMemory, Step};
pub use errors::{Corrupt, Full};
pub use layout::Layout;
pub use limits::Limits;
pub use nic::Nic;
pub use registers::Register;
pub use signals::Signals;
pub use tables::Tables;
