// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulation needs of the processes that it runs: real ones, or futures.
//!
//! Rules
//! 1. One rank runs at a time, and only while [`Ranks::resume`] is being executed: so a run is deterministic.
//! 2. What a rank asks for happens at the time at which it asks ([`Turn::at`], which never lies before the time at which it was
//!    resumed): what lies between is what the program itself took.
//! 3. The NICs belong to the ranks: tables and memory are where the rank's own library can reach them. Whatever a rank's memory
//!    holds, the worst that comes of it is an error of that rank.

use selvedge_nic::portals::{Request, Verdict};
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Fault, Nic, Step};

use crate::time::Time;

/// A payload. Most that is counted or reduced is a word or two, which lies in the record itself.
pub type Bytes = smallvec::SmallVec<[u8; 16]>;

/// What a rank asks of the simulation, which decides when it runs again.
#[derive(Clone, Debug)]
pub enum Ask {
    /// An operation of its NIC number `ni` starts; its payload has been read. The rank goes on as soon as the host is done with it;
    /// if it `waits`, not before one of its NICs has changed, too.
    Start { ni: u32, command: Box<Command>, payload: Bytes, waits: bool },
    /// Nothing to do until one of its NICs changes, or until this time.
    Wait { until: Time },
    /// It looked and found nothing. It will look again: when one of its NICs has changed, or after a while.
    Poll,
    /// Nothing to do until this time, whatever its NICs do.
    Sleep { until: Time },
    /// Inside a call that ends when others have made it, too; it is named by [`Ranks::take_released`] when it may go on.
    Blocked { in_call: &'static str },
    /// It has ended.
    Ended { code: i32 },
}

/// A request and its time.
#[derive(Clone, Debug)]
pub struct Turn {
    pub at: Time,
    pub ask: Ask,
}

/// Exit code of a rank that was killed: 128 and SIGKILL, as of a process.
pub const KILLED: i32 = 128 + 9;

/// Counts the steps of a transition, for the machine to price.
pub trait Meter {
    fn charge(&mut self, step: Step);
}

/// The ranks of a job, 0 to `size() - 1`.
pub trait Ranks {
    fn size(&self) -> u32;

    /// Lets a rank run from `now` until it asks for something. A rank that has ended is not resumed.
    fn resume(&mut self, rank: u32, now: Time) -> Turn;

    /// A rank that left [`Ask::Blocked`] since the last call.
    fn take_released(&mut self) -> Option<u32>;

    /// A NIC (rank and number) whose triggered operations its own rank's calls have made due since the last call.
    fn take_fired(&mut self) -> Option<(u32, u32)> {
        None
    }

    /// Kills a rank: it has no turn any more, no message finds it, and nothing of its NIC is set off. Its exit code.
    fn kill(&mut self, rank: u32) -> i32;

    /// Whether the job has been ended from outside: aborted, interrupted.
    fn is_over(&self) -> bool {
        false
    }

    /// The rank that a message from a NIC numbered `ni` to the Portals id `target` (nid << 32 | pid) is for, if it lives, and the
    /// number of that NIC.
    fn find(&mut self, target: u64, ni: u32) -> Option<(u32, u32)>;

    /// The rank that has or had that NIC: where messages to it go, for nobody knows from afar who lives.
    fn route(&mut self, target: u64, ni: u32) -> Option<u32>;

    /// Works on a rank's NIC, if it has that one.
    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool;

    /// Whether triggered operations of a rank's NIC are due.
    fn has_fired(&mut self, rank: u32, ni: u32) -> bool {
        let mut fired = false;
        self.with_nic(rank, ni, &mut |nic| fired = nic.has_fired());
        fired
    }

    /// A command that has been carried out; its box may be used again.
    fn recycle(&mut self, _: Box<Command>) {}

    /// Delivers a request to a rank's NIC, with its payload; what it fetches is appended to `reply`.
    fn deliver(
        &mut self,
        rank: u32,
        ni: u32,
        request: &Request,
        payload: &[u8],
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict;

    /// Reads the memory of a descriptor: what a triggered operation sends.
    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault>;

    /// Writes the memory of a descriptor: what a get or fetching atomic brought.
    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault>;
}
