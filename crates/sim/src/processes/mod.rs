// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real processes as the ranks of a simulation.
//!
//! A rank is an unmodified program. Its libraries keep their NICs in shared segments, as they do live, and work on them
//! themselves; what leaves a NIC, and every wait, they hand to the simulation over the rank's wire (`selvedge-sim-protocol`). This side
//! finds the ranks' NICs, works on them while their owners have not the turn, and moves bytes to and from their memory.
//!
//! Starting processes, and hearing of them while they have the turn, is for a [`Launcher`] to do.
//!
//! Invariants
//! 1. A NIC is believed to be a rank's if its segment names the process that the launcher started for it.
//! 2. A rank that asks for what cannot be is ended, with the reason; the others find it dead.
//! 3. To the engine, the NICs of a rank have numbers of their own: those that they were opened with, and, where a rank has several
//!    of one, a multiple of [`NUMBERS`] more. A message stays among those of one number.
//! 4. A rank whose process has ended, however it did, is dead from the time on at which its last turn began: its memory is gone.
//!
//! Costs: a NIC's segment is mapped once; memory is copied by cross-memory attach or in place, once for each payload.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_nic::portals::{Request, Verdict};
use selvedge_nic::tables::{Command, Side, kind};
use selvedge_nic::{Fault, Nic, Step};
use selvedge_shm::simulated::{Visited, command_from};
use selvedge_sim_protocol::{Asked, PAYLOAD_BYTES_MAX, SimEnd};

use crate::node::{Ask, Meter, Ranks, Turn};
use crate::time::Time;

/// What a rank did with its turn.
#[derive(Clone, Debug)]
pub enum Heard {
    /// It asks for something.
    Asked(Asked),
    /// It is inside a call that ends when others have made it, too.
    Blocked(&'static str),
    /// It has ended, with this code; 128 and the signal's number where a signal killed it.
    Ended(i32),
}

/// Who starts the processes and lets them run.
pub trait Launcher {
    fn size(&self) -> u32;

    /// Lets a rank run from a time until it gives the turn back, and says when that was. The first time starts its process.
    fn run(&mut self, rank: u32, now: Time) -> (Time, Heard);

    /// Kills a rank that has not the turn; its exit code. One that was never run is never started.
    fn kill(&mut self, rank: u32) -> i32;

    /// A rank that was [`Heard::Blocked`] and may go on.
    fn take_released(&mut self) -> Option<u32>;

    /// Whether the job is to end before its ranks have.
    fn is_over(&self) -> bool;

    /// The wire to a rank, and its process, once it has been started.
    fn wire(&self, rank: u32) -> Option<(&SimEnd, u32)>;

    /// Ends a rank that has done what cannot be; its exit code.
    fn accuse(&mut self, rank: u32, why: &str) -> i32;
}

/// When a rank looks again that says it found nothing, but may not have looked since something changed.
const LOOK_AGAIN: Time = Time::from_ns(100);

/// Numbers that NICs are opened with.
const NUMBERS: u32 = 1 << 16;

/// The ranks of a job that are processes.
pub struct Processes<L: Launcher> {
    launcher: L,
    /// By rank and the NIC's number here.
    nics: BTreeMap<(u32, u32), Visited>,
    /// By Portals id and the number that the NIC was opened with: whose it is, or whose it was last, and its number here.
    owners: BTreeMap<(u64, u32), (u32, u32)>,
    fired: VecDeque<(u32, u32)>,
    /// Ranks whose NICs or memory have changed since they last said that they found nothing.
    changed: BTreeSet<u32>,
    ended: BTreeSet<u32>,
}

impl<L: Launcher> Processes<L> {
    pub fn new(launcher: L) -> Processes<L> {
        Processes {
            launcher,
            nics: BTreeMap::new(),
            owners: BTreeMap::new(),
            fired: VecDeque::new(),
            changed: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    pub fn launcher(&self) -> &L {
        &self.launcher
    }

    /// The launcher, for the job's end.
    pub fn into_launcher(self) -> L {
        self.launcher
    }

    /// Attaches the NICs that a rank has open and that are not known.
    fn look_at_nics_of(&mut self, rank: u32) {
        let Some((wire, pid)) = self.launcher.wire(rank) else { return };
        for told in wire.nics().into_iter().filter(|told| told.ni < NUMBERS) {
            if self.ended.contains(&rank) {
                // Where messages to a NIC go that nobody has asked for while its process lived.
                self.owners.entry((told.id, told.ni)).or_insert((rank, told.ni));
                continue;
            }
            let of_number =
                || self.nics.range((rank, 0)..=(rank, u32::MAX)).filter(|(at, _)| at.1 % NUMBERS == told.ni);
            if of_number().any(|(_, nic)| nic.is_ready() && nic.id() == told.id) {
                continue;
            }
            let taken = |number: &u32| self.nics.get(&(rank, *number)).is_some_and(Visited::is_ready);
            let Some(number) = (told.ni..).step_by(NUMBERS as usize).find(|number| !taken(number)) else { continue };
            match Visited::open(&told.path) {
                Ok(nic) if nic.owner_pid() == pid && nic.id() == told.id && nic.number() == told.ni => {
                    self.owners.insert((told.id, told.ni), (rank, number));
                    self.nics.insert((rank, number), nic);
                }
                Ok(_) => log::debug!("{}: not a NIC of rank {rank}", told.path.display()),
                Err(error) => log::debug!("a NIC of rank {rank}: {error}"),
            }
        }
    }

    /// A rank's open NIC.
    fn nic(&mut self, rank: u32, ni: u32) -> Option<&Visited> {
        if self.ended.contains(&rank) {
            return None;
        }
        if !self.nics.get(&(rank, ni)).is_some_and(Visited::is_ready) {
            self.look_at_nics_of(rank);
        }
        self.nics.get(&(rank, ni)).filter(|nic| nic.is_ready())
    }

    fn ask(&mut self, rank: u32, at: Time, asked: Asked) -> Ask {
        match asked {
            Asked::Start { ni, origin, command, payload } => match checked(&command[..], &payload) {
                Ok(command) => {
                    let own = Ranks::find(self, origin, ni).filter(|(owner, _)| *owner == rank);
                    let ni = own.map_or(ni, |(_, ni)| ni);
                    Ask::Start { ni, command: Box::new(command), payload: payload.into(), waits: false }
                }
                Err(why) => Ask::Ended { code: self.launcher.accuse(rank, why) },
            },
            Asked::Wait { until_ps } => Ask::Wait { until: Time(until_ps) },
            // Not all who give the processor away have looked at everything.
            Asked::Poll if self.changed.remove(&rank) => Ask::Sleep { until: at + LOOK_AGAIN },
            Asked::Poll => Ask::Poll,
            Asked::Sleep { until_ps } => {
                let until = Time(until_ps);
                if until <= at {
                    self.look_what_is_due(rank);
                }
                Ask::Sleep { until }
            }
        }
    }

    /// The rank's own calls have made triggered operations due.
    fn look_what_is_due(&mut self, rank: u32) {
        self.look_at_nics_of(rank);
        for (&(_, ni), nic) in self.nics.range((rank, 0)..=(rank, u32::MAX)) {
            let mut fired = false;
            nic.with(&mut |nic| fired = nic.has_fired());
            if fired {
                self.fired.push_back((rank, ni));
            }
        }
    }
}

/// The command, if the simulation can do anything with it.
fn checked(bytes: &[u8], payload: &[u8]) -> Result<Command, &'static str> {
    let command = command_from(bytes).ok_or("it started an operation that is cut short")?;
    if !(kind::PUT..=kind::SWAP).contains(&command.kind) {
        return Err("it started an operation of an unknown kind");
    }
    if command.length > PAYLOAD_BYTES_MAX {
        return Err("it started an operation of more than 1 GiB, which simulated machines do not carry in one message");
    }
    if command.kind != kind::GET && payload.len() as u64 != command.length {
        return Err("it started an operation whose payload is not as long as it says");
    }
    Ok(command)
}

impl<L: Launcher> Ranks for Processes<L> {
    fn size(&self) -> u32 {
        self.launcher.size()
    }

    fn resume(&mut self, rank: u32, now: Time) -> Turn {
        let (at, heard) = self.launcher.run(rank, now);
        let ask = match heard {
            Heard::Asked(asked) => self.ask(rank, at, asked),
            Heard::Blocked(in_call) => Ask::Blocked { in_call },
            Heard::Ended(code) => Ask::Ended { code },
        };
        if matches!(ask, Ask::Ended { .. }) {
            self.ended.insert(rank);
        }
        Turn { at, ask }
    }

    fn kill(&mut self, rank: u32) -> i32 {
        self.ended.insert(rank);
        self.launcher.kill(rank)
    }

    fn take_released(&mut self) -> Option<u32> {
        self.launcher.take_released()
    }

    fn take_fired(&mut self) -> Option<(u32, u32)> {
        self.fired.pop_front()
    }

    fn is_over(&self) -> bool {
        self.launcher.is_over()
    }

    fn find(&mut self, target: u64, ni: u32) -> Option<(u32, u32)> {
        let name = (target, ni % NUMBERS);
        if !self.owners.contains_key(&name) {
            (0..self.size()).for_each(|rank| self.look_at_nics_of(rank));
        }
        let (rank, number) = *self.owners.get(&name)?;
        if self.nic(rank, number).is_some_and(|nic| nic.id() == target) {
            return Some((rank, number));
        }
        // Another process, or another NIC of it, may have the id by now.
        (0..self.size()).for_each(|rank| self.look_at_nics_of(rank));
        let (rank, number) = *self.owners.get(&name)?;
        self.nic(rank, number).is_some_and(|nic| nic.id() == target).then_some((rank, number))
    }

    fn route(&mut self, target: u64, ni: u32) -> Option<u32> {
        let living = self.find(target, ni);
        living.or_else(|| self.owners.get(&(target, ni % NUMBERS)).copied()).map(|(rank, _)| rank)
    }

    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool {
        self.changed.insert(rank);
        let Some(nic) = self.nic(rank, ni) else { return false };
        nic.with(work);
        true
    }

    fn deliver(
        &mut self,
        rank: u32,
        ni: u32,
        request: &Request,
        payload: &[u8],
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict {
        self.changed.insert(rank);
        let Some(nic) = self.nic(rank, ni) else { return Verdict::Initiator(Fault::Gone) };
        nic.deliver(request, payload, reply, &mut |step: Step| meter.charge(step))
    }

    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        self.nic(rank, ni).ok_or(Fault::Gone)?.gather(side, bytes, into)
    }

    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault> {
        self.nic(rank, ni).ok_or(Fault::Gone)?.scatter(side, from)
    }
}
