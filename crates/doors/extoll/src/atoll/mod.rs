// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libatoll: PALMS (`include/atoll.h`, `include/atollrun.h`; seed 002, section 2.2).
//!
//! * [`port`]: ports and connections. [`descriptors`]: messages that C holds. [`send`], [`receive`], [`utilities`]: the functions.
//! * [`atollrun`]: the start of a program. [`codes`]: error codes.

pub mod atollrun;
pub mod channels;
pub mod codes;
pub mod descriptors;
pub mod port;
pub mod receive;
pub mod send;
pub mod utilities;
