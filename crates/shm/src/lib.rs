// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared-memory home: NICs in segments that processes of one machine share.
//!
//! A job is a directory of segments, one NIC each. To send, a core maps the target's segment and **runs the target's
//! NIC itself**, under that NIC's lock: match, move the bytes, count, fire what was triggered. Progress is thus
//! independent of what the target's program does. In the host-based mode the packet waits in the target's mailbox
//! until its own program calls in; both are the same transitions of `selvedge-nic`.
//!
//! | file | what |
//! |---|---|
//! | [`segment`] | a NIC's memory as a file: header, creation, attachment, its views |
//! | [`lock`] | the NIC's lock, and what happens when its holder has died |
//! | [`endpoint`] | a NIC as this process sees it: its own, or a peer's with the memory behind it |
//! | [`memory`] | moving bytes between processes: in place, by cross-memory attach; the `Bus` |
//! | [`mailbox`] | packets that wait for the owner |
//! | [`engine`] | an operation from command to completion; triggered operations; the owner's progress |
//! | [`rings`] | where senders enqueue small messages for an owner that polls |
//! | [`express`] | the put of programs in a hurry: no command, one lock |
//! | [`grants`] | puts without the lock, by permissions that can be revoked |
//! | [`direct`] | an operation done at once, told by its result |
//! | [`wait`] | spinning, sleeping, waking |
//! | [`interface`] | a process's NIC, opened and closed |
//! | [`inspect`] | a look at a NIC from outside, for tools |
//! | [`arena`] | memory that peers reach in place (`selvedge_alloc`); [`extents`]: its free pages |
//! | [`symmetric`] | memory that lies alike in all processes of a job, the program's static data with it |
//! | [`simulated`] | the same NIC where time is virtual: what the rank leaves to its simulator, and what that does |
//! | [`window`] | a peer's memory and counters, for who stores there itself |
//! | [`os`] | what is needed of Linux |
//!
//! Rules of locking and death (docs/design/death.md has the reasons)
//! 1. A thread holds at most one NIC's lock, never across a system call that can block, nor while it runs the
//!    program's code, nor while it waits for the holders of grants.
//! 2. The lock names its holder. Whoever finds the holder dead takes the lock over and rebuilds the tables.
//! 3. Whatever a peer's segment holds, the worst that it does to this process is an error.

pub mod arena;
pub mod direct;
pub mod endpoint;
pub mod engine;
pub mod express;
pub mod extents;
pub mod grants;
pub mod inspect;
pub mod interface;
pub mod lock;
pub mod mailbox;
pub mod memory;
pub mod os;
pub mod rings;
pub mod segment;
pub mod simulated;
pub mod symmetric;
pub mod wait;
pub mod window;

pub use interface::{Interface, OpenError};

/// Who runs a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whoever sends.
    Nic,
    /// Only its owner's program, when it calls in.
    Host,
}

/// How the memory of another process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// In place in the shared arena, else by cross-memory attach, else through the owner's mailbox.
    Auto,
    /// In place only; other memory is refused.
    Shared,
    /// By cross-memory attach only.
    Cma,
    /// Through the owner's mailbox only.
    Bounce,
}

/// What a process says of how its NICs live.
#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    pub path: Path,
    /// How long a wait spins before it sleeps.
    pub spin_ns: u64,
    /// The longest that a sleep lasts: where peers store to memory without waking its owner, the owner must look itself.
    pub nap_ns: u64,
    /// The job's directory.
    pub directory: std::path::PathBuf,
}
