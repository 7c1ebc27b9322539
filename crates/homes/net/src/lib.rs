// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links between processes of different hosts. They carry packets of NICs ([`selvedge_nic::packet`]), in order, from one process to
//! another, and know nothing of what the packets mean.
//!
//! | file | what |
//! |---|---|
//! | [`links`], `links/connections` | the links of a process: send, poll, peers that are lost; how links are made and end |
//! | [`address`], [`greeting`] | where a process is found, and how two prove that they belong together |
//! | [`frame`] | what one message of libfabric carries |
//! | [`endpoint`] | libfabric: the only file that calls it |
//! | `outgoing`, `incoming`, `control` | the halves of a link, and its TCP connection |
//! | [`payload`] | payloads that leave later than the call that sends them, and those that are read |
//! | `read_queue` | packets whose payload is read from the sender's memory, and those behind them |
//! | `retransmission`, `control_message` | with a check: what is lost is repeated; what the halves say to each other |
//! | `forked` | what a forked child must not hold |
//! | [`services`], `handshake` | numbers under which programs of other hosts find something; how one asks |
//! | [`session`] | two processes that talk after one has asked |
//! | [`faults`] | a faulty network, for tests |
//! | `progress` | the thread that makes progress while the program computes |
//!
//! The design is in `docs/design/hosts.md`.

pub mod address;
mod control;
mod control_message;
pub mod endpoint;
pub mod faults;
mod forked;
pub mod frame;
pub mod greeting;
mod handshake;
mod incoming;
pub mod links;
mod outgoing;
pub mod payload;
mod progress;
mod read_queue;
mod retransmission;
pub mod services;
pub mod session;
pub mod settings;

pub use address::{ADDRESS_BYTES, LinkAddress};
pub use faults::{Faults, FaultsError};
pub use frame::NicName;
pub use links::{Links, OpenError, PeerId, SendError, Sink, When, Who, fill_random};
pub use payload::{Lent, Source};
pub use progress::spawn;
pub use read_queue::Placement;
pub use settings::{Check, Progress, Settings};
