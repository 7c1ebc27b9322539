// SPDX-License-Identifier: Apache-2.0 OR MIT
//! librma2: ports, connections, commands, notifications, regions.
//!
//! * [`codes`]: error codes and their texts. [`port`]: ports and connections. [`post`]: commands. [`descriptors`]:
//!   commands that a program fills itself. [`notifications`]: probing, matching, reading. [`regions`]: registered
//!   memory;
//!   [`registration`]: its functions.

pub mod codes;
pub mod descriptors;
pub mod notifications;
pub mod port;
pub mod post;
pub mod regions;
pub mod registration;
