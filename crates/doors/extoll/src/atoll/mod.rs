// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libatoll: PALMS (`include/atoll.h`, `include/atollrun.h`; seed 002, section 2.2).
//!
//! * [`channels`]: messages between host ports. [`objects`]: the objects that C holds. [`port`]: ports and connections.
//!   [`descriptors`]: fields of messages. [`send`], [`receive`], [`utilities`]: the functions.
//! * [`atollrun`]: the start of a program. [`codes`]: error codes.

pub mod atollrun;
pub mod channels;
pub mod codes;
pub mod descriptors;
pub mod objects;
pub mod port;
pub mod receive;
pub mod send;
pub mod utilities;
