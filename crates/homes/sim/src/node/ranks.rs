// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between the simulation and the processes that it runs: real processes, or futures.
//!
//! Rules
//! 1. One rank runs at a time, and only during [`Ranks::resume`]. So a run is deterministic.
//! 2. A rank's request takes effect at [`TimedRequest::at`], not before the time at which the rank was resumed. The
//!    difference is the time of the program itself.
//! 3. The NICs belong to the ranks: the rank's own library can reach tables and memory. Invalid contents of a rank's
//!    memory only lead to an error of that rank.

use std::sync::atomic::Ordering;

use selvedge_nic::portals::{Request, Verdict};
use selvedge_nic::registers::{COUNT as REGISTERS, Register, Registers};
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Fault, Nic, Step};
use selvedge_sim_protocol::Published;

use crate::time::Time;

/// A payload. Up to 16 bytes, as in most counting puts and reductions, need no allocation.
pub type Bytes = smallvec::SmallVec<[u8; 16]>;

/// Options of an operation that a rank starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFlags {
    /// The rank continues when one of its NICs has changed after the NIC has the command.
    pub waits: bool,
    /// The library returns an error if the NIC refuses the command, instead of offering it again.
    pub or_refuse: bool,
}

/// A rank's request to the simulation at the end of its turn. It determines when the rank runs again.
#[derive(Clone, Debug)]
pub enum RankRequest {
    /// Start an operation on NIC number `ni`; its payload has been read. The rank continues when the host has handed
    /// the command over; if it `waits`, when one of its NICs has changed after that.
    Start { ni: u32, command: Box<Command>, payload: Bytes, flags: StartFlags },
    /// Make a message visible that the rank has written to a ring of the NIC `target`. It continues after the copy.
    Publish { ni: u32, target: u64, message: Published },
    /// Reply whether the rank shares memory with the NIC `target` ([`Ranks::reply`]). It continues at once.
    SharesMemory { ni: u32, target: u64 },
    /// Begin or end a region of the program. It continues at once.
    Region { name: String, begins: bool },
    /// Wait until one of its NICs changes, or until this time.
    Wait { until: Time },
    /// The rank has polled and found nothing. It polls again when one of its NICs has changed, after a pause, or at this
    /// time. `in_call`: it is in a call that returns only when its NICs have changed, so the pause may be long.
    Poll { until: Time, in_call: bool },
    /// Sleep until this time, whatever its NICs do.
    Sleep { until: Time },
    /// Compute until this time. Interrupts that its processor serves meanwhile delay it.
    Compute { until: Time },
    /// The rank is in a call that returns when other ranks have made it. [`Ranks::take_released`] ends it.
    Blocked { in_call: &'static str },
    /// The rank has ended.
    Ended { code: i32 },
}

/// A rank's request and its time.
#[derive(Clone, Debug)]
pub struct TimedRequest {
    pub at: Time,
    pub request: RankRequest,
}

/// Exit code of a rank that was killed: 128 + SIGKILL, as of a process.
pub const KILLED: i32 = 128 + 9;

/// A mailbox, as its program has left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxState {
    /// Number of this opening of its port.
    pub opening: u32,
    /// Slots freed since then.
    pub head: u64,
    pub slots: u64,
}

impl MailboxState {
    pub fn of(nic: &Nic<'_>, vpid: u16) -> Option<MailboxState> {
        let (port, pointers) =
            (nic.tables.ports.get(usize::from(vpid))?, nic.signals.port_pointers.get(usize::from(vpid))?);
        let head = pointers.mailbox_head.load(Ordering::Acquire);
        Some(MailboxState { opening: port.slot, head, slots: nic.signals.mailbox_slots(vpid) })
    }
}

/// The sum of each register over many NICs, in the order of [`Register::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterSums(pub [u64; REGISTERS]);

impl Default for RegisterSums {
    fn default() -> RegisterSums {
        RegisterSums([0; REGISTERS])
    }
}

impl RegisterSums {
    pub fn add(&mut self, registers: &Registers) {
        for (sum, register) in self.0.iter_mut().zip(Register::ALL) {
            *sum = sum.wrapping_add(registers.get(*register));
        }
    }

    /// Adds the sums over other NICs.
    pub fn join(&mut self, other: &RegisterSums) {
        for (sum, of_others) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(of_others);
        }
    }

    /// Takes away the sums of an earlier time.
    pub fn subtract(&mut self, before: &RegisterSums) {
        for (sum, before) in self.0.iter_mut().zip(before.0) {
            *sum = sum.wrapping_sub(before);
        }
    }

    /// Returns names and sums of the registers that are not zero.
    pub fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let all = Register::ALL.iter().map(|register| register.name()).zip(self.0);
        all.filter(|(_, sum)| *sum > 0)
    }
}

/// Receives the steps of a transition; the machine defines their costs.
pub trait Meter {
    fn charge(&mut self, step: Step);
}

/// A request at its target.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    pub request: &'a Request,
    pub payload: &'a [u8],
    /// Names the request in a late answer of a unit that keeps it.
    pub token: u64,
}

/// The ranks of a job, or of several jobs ([`crate::jobs::Jobs`]): 0 to `size() - 1`.
pub trait Ranks {
    fn size(&self) -> u32;

    /// Returns the number of ranks in the job of a rank.
    fn job_size(&self, _rank: u32) -> u32 {
        self.size()
    }

    /// Runs a rank from `now` until it makes a request. A rank that has ended is not resumed.
    fn resume(&mut self, rank: u32, now: Time) -> TimedRequest;

    /// Returns a rank that has left [`RankRequest::Blocked`] since the last call.
    fn take_released(&mut self) -> Option<u32>;

    /// Returns a NIC (rank, number) on which calls of its rank have made triggered operations due since the last call.
    fn take_fired(&mut self) -> Option<(u32, u32)> {
        None
    }

    /// Kills a rank: it has no further turn, messages to it are refused, and its NIC fires no triggered operation.
    /// Returns its exit code.
    fn kill(&mut self, rank: u32) -> i32;

    /// Whether the job has been aborted or interrupted.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the living rank that receives messages from a NIC numbered `ni` of the rank `from` to the Portals id
    /// `target` (nid << 32 | pid), and the number of its NIC. Both ranks are of one job.
    fn find(&mut self, from: u32, target: u64, ni: u32) -> Option<(u32, u32)>;

    /// Returns the rank that has or had that NIC. Messages are routed to its node, even if it is dead.
    fn route(&mut self, from: u32, target: u64, ni: u32) -> Option<u32>;

    /// Calls `work` with a rank's NIC. False: the rank has no such NIC.
    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool;

    /// Makes a message of the rank `from` visible in a ring of a rank's NIC. False: no such ring.
    fn publish(&mut self, _from: u32, _to: (u32, u32), _message: &Published) -> bool {
        false
    }

    /// Delivers the messages of the rank `from` in rings of a rank's NIC, before a message that bypasses the rings.
    fn take_in(&mut self, _from: u32, _to: (u32, u32), _meter: &mut dyn Meter) {}

    /// Reports a refusal by the NIC: the rank's library returns an error at the next turn ([`StartFlags::or_refuse`]).
    fn refused(&mut self, _rank: u32) {}

    /// Reports when the host of a waiting rank has started its operation; this is before its next turn.
    fn started(&mut self, _rank: u32, _at: Time) {}

    /// Replies to a rank's question, before its next turn.
    fn reply(&mut self, _rank: u32, _value: bool) {}

    /// Returns a mailbox of a rank's NIC. `None`: no such mailbox.
    fn mailbox(&mut self, rank: u32, ni: u32, vpid: u16) -> Option<MailboxState> {
        let mut found = None;
        self.with_nic(rank, ni, &mut |nic| found = MailboxState::of(nic, vpid));
        found
    }

    /// Adds the registers of all present and former NICs.
    fn sum_registers(&self, _sums: &mut RegisterSums) {}

    /// Whether triggered operations of a rank's NIC are due.
    fn has_fired(&mut self, rank: u32, ni: u32) -> bool {
        let mut fired = false;
        self.with_nic(rank, ni, &mut |nic| fired = nic.has_fired());
        fired
    }

    /// Fetches a rank's record, which is about to change, into the cache.
    fn fetch(&self, _rank: u32) {}

    /// Takes a finished command for a rank that has started one; its box may be reused.
    fn recycle(&mut self, _rank: u32, _: Box<Command>) {}

    /// Delivers a request to a rank's NIC. Fetched bytes are appended to `reply`.
    fn deliver(
        &mut self,
        rank: u32,
        ni: u32,
        incoming: &Incoming<'_>,
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict;

    /// Reads the payload of a triggered operation from the memory of a descriptor.
    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault>;

    /// Returns the number of the NIC with which ranks are members of aggregation groups.
    fn member_ni(&self) -> u32 {
        0
    }

    /// Reports that the fabric has lost a message between a rank and the aggregation node with this address.
    fn lose_aggregation_node(&mut self, _rank: u32, _address: u64) {}

    /// Writes the reply of a get or a fetching atomic into the memory of a descriptor.
    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault>;
}
