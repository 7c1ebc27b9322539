// SPDX-License-Identifier: Apache-2.0 OR MIT
//! GASNet's core API (`include/gasnet.h`), over active messages of VELO and RMA (seed 002, section 8.7).
//!
//! One library serves all three threading modes: it is thread-safe, as an uncontended lock costs less than a message.
//!
//! * [`active_messages`]: the engine; `engine`: that of this process. `handlers`: the table of handlers, and their
//!   calls.
//! * [`job`]: start, segments, end. [`messages`]: requests, replies, polls. [`locks`]: handler-safe locks, sections
//!   without interrupts. [`barrier`]: barriers. [`codes`]: error codes.

pub mod active_messages;
pub mod barrier;
pub mod codes;
mod engine;
mod handlers;
pub mod job;
pub mod locks;
pub mod messages;
