// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of any length through channels, PALMS's virtual connections (seed 002, section 2.2.2), over VELO and RMA.
//!
//! A *host port* has a VPID, with its mailbox, its notification queue, and registered memory. A *channel* leads from
//! one host port to another. The target has a fixed number of them, which senders claim without its help, by fetch,
//! compare and add on its locks, as a daemon would assign routes.
//!
//! A message is cut into *pieces*. Each takes a credit of the channel, which is the number of a slot. Short messages
//! travel in VELO messages. Each piece of a longer one is a put into its slot of the target's receive area, and a VELO
//! message announces it, as ATOLL's hardware writes a payload and then a descriptor.
//!
//! Invariants
//! 1. A channel has at most `credits` pieces under way or unread. Its target has room for them in its mailbox, its
//!    notification queue and its receive area. So nothing is discarded because a mailbox is full.
//! 2. A sender without credits waits. A target that waits for something else still returns credits: it moves messages
//!    that its program has not requested to memory of the library, up to a limit. Beyond it the sender waits.
//! 3. Messages of one channel are received in order, because its pieces are attached in the order of their VELO
//!    messages. A piece that is a put is attached when its notification has arrived, too.
//! 4. Each claim of a channel has a new generation. Messages of an earlier generation are dropped.
//! 5. No process waits for another while it holds a resource that the other needs: returning credits takes no credit.
//! 6. One thread at a time uses a host port.
//!
//! | file | subject |
//! |---|---|
//! | [`wire`] | frames |
//! | [`vpids`], [`error`], [`locks`] | host ports and their VPIDs; errors; the locks by which channels are claimed |
//! | [`area`], [`shape`], [`sink`] | registered memory; numbers of channels and credits; memory of a waiting receive |
//! | [`inbound`], [`outbound`] | the receiver's and the sender's end of a channel |
//! | [`host_port`] | a host port |
//! | [`connect`], [`send`], [`receive`], [`build`] | its routes; its messages; messages that a program fills in place |
//!
//! Each file uses only those above it.

mod area;
pub mod build;
mod connect;
mod error;
mod host_port;
mod inbound;
mod locks;
mod outbound;
mod receive;
pub mod send;
mod shape;
pub mod sink;
mod vpids;
mod wire;

pub use error::{ChannelError, OpenError};
pub use host_port::{HostPort, Watermarks};
pub use inbound::{Received, SourceFilter};
