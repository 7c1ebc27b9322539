// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links between processes of different hosts, and the home over them. Links carry packets of NICs
//! ([`selvedge_nic::packet`]) in order from one process to another, and do not interpret them. The home
//! ([`remote_hosts`]) joins them to NICs.
//!
//! Lower files first:
//!
//! | file | has |
//! |---|---|
//! | `ids`, [`address`], `random`, `tags` | names of processes and NICs; addresses of processes; random bytes; tags of 16 bytes |
//! | [`greeting`], `control_message` | messages and proofs of a greeting; those of an open link on its control connection |
//! | [`payload`], [`frame`] | payloads that are sent later, or read; the content of a message of libfabric |
//! | [`faults`], [`settings`], `sink` | a faulty network, for tests; settings; the user of the links |
//! | [`endpoint`] | libfabric: the only module that calls it |
//! | `errors`, `control` | errors of links; the TCP connection of a link |
//! | `retransmission`, `read_queue` | repetition of lost frames, with a check; packets whose payload is read, and those behind them |
//! | `outgoing`, `incoming` | the halves of a link |
//! | [`links`] | the links of a process: send, poll, peers that are lost, the progress thread |
//! | [`services`], `handshake` | numbers under which programs of other hosts find a service; requests for one |
//! | [`remote_hosts`] | the home of NICs whose job has several hosts, over links |
//! | [`session`], `session_cipher` | two processes that exchange messages after one has asked |
//!
//! The design is in `docs/design/hosts.md`.

pub mod address;
mod control;
mod control_message;
pub mod endpoint;
mod errors;
pub mod faults;
pub mod frame;
pub mod greeting;
mod handshake;
mod ids;
mod incoming;
pub mod links;
mod outgoing;
pub mod payload;
mod random;
mod read_queue;
pub mod remote_hosts;
mod retransmission;
pub mod services;
pub mod session;
mod session_cipher;
pub mod settings;
mod sink;
mod tags;

pub use address::{ADDRESS_BYTES, LinkAddress};
pub use errors::{LinkError, OpenError, SendError};
pub use faults::{Faults, FaultsError};
pub use ids::{NicName, PeerId};
pub use links::{Links, SendTiming};
pub use outgoing::PayloadWays;
pub use payload::{Lent, Source};
pub use random::fill_random;
pub use settings::{Check, Progress, Settings};
pub use sink::{PayloadEnd, Placement, ProgressCaller, Sink};
