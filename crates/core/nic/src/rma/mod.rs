// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RMA unit of seed 002, section 7.5: puts, gets, locks and notifications, between network logical addresses.
//!
//! ```text
//! descriptor ─ requester ─> command ─> completer (put) ─────────────> notification
//!                                 └──> responder (get, lock) ─> completer at the initiator ─> notification
//! ```
//!
//! * [`command`]: codes, notification bits, options; table 7-2.
//! * [`descriptor`]: a program's command. [`prototype`]: the same on the prototype. [`notification`]: its result.
//! * [`requester`]: from a descriptor to a command, with the local address translated.
//! * [`target`]: a command at its target: completer and responder.
//! * [`origin`]: the outcome at the initiator: requester and completer.
//! * [`locks`]: fetch, compare and add. [`queue`]: notification queues.
//!
//! [`Rma`] uses [`Locks`], which use [`Notifications`], and [`Atu`](crate::atu::Atu).
//!
//! Invariants
//! 1. A refused command touches no memory and no lock. Its initiator always gets an error notification, which names the
//!    unit that refused it.
//! 2. The bytes of a put are in memory before its notification can be read. The last word of a put that both processes
//!    map is stored after all others, so that a program may poll it.
//! 3. Each access is translated when it happens. After a region is deregistered no command reaches its memory.

pub mod command;
pub mod descriptor;
pub mod locks;
pub mod notification;
pub mod origin;
pub mod prototype;
pub mod queue;
pub mod requester;
pub mod target;

pub use command::{code, error, mode, modifier, options, spec};
pub use descriptor::{Descriptor, DescriptorError, Operation};
pub use locks::{LateAnswer, LockRequest, LockResult, Locks, NoLock};
pub use notification::Notification;
pub use queue::Notifications;
pub use requester::{RequestError, Requester, Rma};
