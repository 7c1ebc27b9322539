// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared-memory home: NICs in segments that processes of one machine share.
//!
//! A job is a directory of segments, one NIC each. To send, a core maps the target's segment and **runs the target's
//! NIC itself**, under that NIC's lock: it matches, moves the bytes, counts, and fires triggered operations. So
//! progress does not depend on the target's program. In the host-based mode the packet waits in the sender's ring at
//! the target until the target's program calls in. Both modes use the same transitions of `selvedge-nic`.
//!
//! | file | subject |
//! |---|---|
//! | [`segment`] | a NIC's memory as a file: header, creation, attachment, its views |
//! | [`lock`] | the NIC's lock, and recovery when its holder has died |
//! | [`endpoint`] | a NIC as this process sees it: its own, or a peer's with the peer's memory |
//! | [`memory`] | moving bytes between processes: directly mapped, or by cross-memory attach; the `Bus` |
//! | [`packets`] | packets in rings, for the owner |
//! | [`engine`] | an operation from command to completion; triggered operations; the owner's progress |
//! | [`rings`] | rings for small messages to an owner that polls |
//! | [`plain_put`] | the shortest put: no command, one lock |
//! | [`grants`] | puts without the lock, by permissions that can be revoked |
//! | [`direct`] | an operation that completes in the call and returns its outcome |
//! | [`wait`] | spinning, sleeping, waking |
//! | [`backoff`] | polls that yield the core, and pauses between retries |
//! | [`interface`] | a process's NIC, opened and closed |
//! | `backend`, `home` | the trait of homes; the choice of a home |
//! | `shared_memory` | the live home, whose code is in most files here |
//! | [`config`], [`errors`] | settings of a process's NICs; errors |
//! | `peer_files` | memory files of a process, as its peers map them |
//! | `packet_queue`, `routes` | records of packets, and of puts under grants |
//! | [`links`] | counters of this process's links, in a page that tools read |
//! | [`inspect`], [`snapshot`] | reads a NIC, and all jobs, from outside, for tools |
//! | [`record`] | writes the transitions of NICs to files |
//! | [`arena`] | memory that peers map directly (`selvedge_alloc`) |
//! | [`symmetric`] | memory with the same layout in all processes of a job, including the program's static data |
//! | [`simulated`] | the NIC in virtual time: the rank's half and the simulator's half |
//! | [`window`] | a peer's memory and counters, for front ends that store there themselves |
//!
//! Rules of locking and death (docs/design/death.md has the reasons)
//! 1. A thread holds at most one NIC's lock. It does not hold it across a system call that can block, while it runs the
//!    program's code, or while it waits for the holders of grants.
//! 2. The lock names its holder. A process that finds the holder dead takes the lock over and rebuilds the tables.
//! 3. Whatever a peer's segment contains, the worst effect on this process is an error.

pub mod arena;
pub mod backend;
pub mod backoff;
pub mod config;
mod deferred_replies;
pub mod direct;
pub mod endpoint;
pub mod engine;
pub mod errors;
pub mod grants;
pub mod home;
pub mod inspect;
pub mod interface;
pub mod links;
pub mod lock;
pub mod memory;
pub mod outbox;
mod owner;
mod packet_queue;
pub mod packets;
pub mod peer_files;
mod peers;
pub mod plain_put;
pub mod record;
mod refused_messages;
pub mod remote_hosts;
pub mod rings;
mod routes;
pub mod segment;
mod shared_memory;
pub mod simulated;
pub mod snapshot;
pub mod symmetric;
pub mod wait;
pub mod wait_list;
pub mod window;

pub use config::{Config, Mode, Path};
pub use errors::{OpenError, StartError, WaitEnd};
pub use interface::Interface;
pub use shared_memory::SharedMemory;
