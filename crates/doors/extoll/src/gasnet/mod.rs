// SPDX-License-Identifier: Apache-2.0 OR MIT
//! GASNet's core API (`include/gasnet.h`), over active messages of VELO and RMA (seed 002, section 8.7).
//!
//! One library serves programs of all three threading modes: it is always safe with threads, and a lock that no other thread wants
//! costs less than what a message costs.
//!
//! * [`active_messages`]: the engine; `engine`: that of this process. `handlers`: the table of handlers, and how they run.
//! * [`job`]: start, segments, end. [`messages`]: requests, replies, polls. [`locks`]: handler-safe locks, sections without
//!   interrupts. [`barrier`]: barriers. [`codes`]: error codes.

pub mod active_messages;
pub mod barrier;
pub mod codes;
mod engine;
mod handlers;
pub mod job;
pub mod locks;
pub mod messages;
