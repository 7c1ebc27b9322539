// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real processes as the ranks of a simulation.
//!
//! A rank is an unmodified program. Its libraries keep their NICs in shared segments, as in the live home, and work on
//! them themselves. They pass every command that leaves a NIC, and every wait, to the simulation through the rank's
//! page (`selvedge-sim-protocol`). This module maps the NICs of the ranks, works on them while their owners do not have
//! the turn, and copies bytes to and from the memory of the processes.
//!
//! A [`Launcher`] starts the processes and receives their requests.
//!
//! Invariants
//! 1. A segment is accepted as a rank's NIC only if it names the process that the launcher started for this rank.
//! 2. A rank that makes an invalid request is ended, with the reason; to the other ranks it is dead.
//! 3. The simulation numbers the NICs of a rank itself: by the number with which the NIC was opened; if a rank has
//!    several NICs of one number, the further ones get a multiple of [`NUMBERS`] more. A message goes from a NIC to one
//!    that was opened with the same number.
//! 4. A rank whose process has ended is dead from the beginning of its last turn on: its memory is gone.
//!
//! Costs: a NIC's segment is mapped once; memory is copied by cross-memory attach or in place, once for each payload.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_host::config::MEMBER_NI;
use selvedge_host::simulated::{Visited, command_from};
use selvedge_nic::portals::Verdict;
use selvedge_nic::tables::{Command, Side, kind};
use selvedge_nic::{Fault, Nic, Step};
use selvedge_sim_protocol::{PAYLOAD_BYTES_MAX, Published, Request, SimEnd};

use crate::node::ranks::MailboxState;
use crate::node::{Incoming, Meter, RankRequest, Ranks, RegisterSums, StartFlags, TimedRequest};
use crate::time::Time;

/// End of a rank's turn.
#[derive(Clone, Debug)]
pub enum TurnEnd {
    /// The rank made a request.
    Request(Request),
    /// The rank is in a call that returns when other ranks have made it.
    Blocked(&'static str),
    /// The rank has ended, with this exit code; 128 + the signal's number if a signal killed it.
    Ended(i32),
}

/// Starts the processes of a job and gives them their turns.
pub trait Launcher {
    fn size(&self) -> u32;

    /// Runs a rank from `now` until its turn ends; returns the time of this end. The first turn starts its process.
    fn run(&mut self, rank: u32, now: Time) -> (Time, TurnEnd);

    /// Kills a rank that does not have the turn; returns its exit code. A rank without a turn so far is never started.
    fn kill(&mut self, rank: u32) -> i32;

    /// Returns a rank that was [`TurnEnd::Blocked`] and may continue.
    fn take_released(&mut self) -> Option<u32>;

    /// Whether the job is to end before its ranks have ended.
    fn is_over(&self) -> bool;

    /// Returns the end of a rank's page and its process id, once it has been started.
    fn wire(&self, rank: u32) -> Option<(&SimEnd, u32)>;

    /// Ends a rank that has made an invalid request; returns its exit code.
    fn accuse(&mut self, rank: u32, why: &str) -> i32;
}

/// Pause of a rank that reports a poll without success, but may have polled before the last change of its NICs.
const POLL_AGAIN: Time = Time::from_ns(100);

/// Upper bound of the numbers with which NICs are opened.
const NUMBERS: u32 = 1 << 16;

/// The ranks of a job that are processes.
pub struct Processes<L: Launcher> {
    launcher: L,
    /// By rank and the simulation's number of the NIC.
    nics: BTreeMap<(u32, u32), Visited>,
    /// By Portals id and the number with which the NIC was opened: the rank that has it, or had it last, and the
    /// simulation's number of the NIC.
    owners: BTreeMap<(u64, u32), (u32, u32)>,
    /// NICs (rank and number) with triggered operations that are due.
    fired: VecDeque<(u32, u32)>,
    /// Ranks whose NICs or memory have changed since their last poll without success.
    changed: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    /// Registers of closed NICs whose place another has taken.
    closed: RegisterSums,
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
            closed: RegisterSums::default(),
        }
    }

    pub fn launcher(&self) -> &L {
        &self.launcher
    }

    /// Returns the launcher, for the job's end.
    pub fn into_launcher(self) -> L {
        self.launcher
    }

    fn map_new_nics(&mut self, rank: u32) {
        let Some((wire, pid)) = self.launcher.wire(rank) else { return };
        for opened in wire.nics().into_iter().filter(|opened| opened.ni < NUMBERS) {
            if self.ended.contains(&rank) {
                // Messages are routed to this rank, even if no message went to the NIC while its process lived.
                self.owners.entry((opened.id, opened.ni)).or_insert((rank, opened.ni));
                continue;
            }
            let of_number =
                || self.nics.range((rank, 0)..=(rank, u32::MAX)).filter(|(at, _)| at.1 % NUMBERS == opened.ni);
            if of_number().any(|(_, nic)| nic.is_ready() && nic.id() == opened.id) {
                continue;
            }
            let taken = |number: &u32| self.nics.get(&(rank, *number)).is_some_and(Visited::is_ready);
            let Some(number) = (opened.ni..).step_by(NUMBERS as usize).find(|number| !taken(number)) else { continue };
            match Visited::open(&opened.path) {
                Ok(nic) if nic.owner_pid() == pid && nic.id() == opened.id && nic.number() == opened.ni => {
                    self.owners.insert((opened.id, opened.ni), (rank, number));
                    if let Some(before) = self.nics.insert((rank, number), nic) {
                        self.closed.add(before.registers());
                    }
                }
                Ok(_) => log::debug!("{}: not a NIC of rank {rank}", opened.path.display()),
                Err(error) => log::debug!("cannot map a NIC of rank {rank}: {error}"),
            }
        }
    }

    /// Maps the new NICs of the rank that has announced one with this id and number: one that lives, if two have. Ids of
    /// transports follow from ranks, so most searches end at once.
    fn map_announced(&mut self, (id, ni): (u64, u32)) {
        let likely = id as u32 % self.size().max(1);
        let announces = |rank: &u32| self.launcher.wire(*rank).is_some_and(|(wire, _)| wire.has_announced(id, ni));
        let all = || std::iter::once(likely).chain(0..self.size()).filter(announces);
        let living = all().find(|rank| !self.ended.contains(rank));
        if let Some(rank) = living.or_else(|| all().next()) {
            self.map_new_nics(rank);
        }
    }

    fn nic(&mut self, rank: u32, ni: u32) -> Option<&Visited> {
        if self.ended.contains(&rank) {
            return None;
        }
        if !self.nics.get(&(rank, ni)).is_some_and(Visited::is_ready) {
            self.map_new_nics(rank);
        }
        self.nics.get(&(rank, ni)).filter(|nic| nic.is_ready())
    }

    fn ids(&self, rank: u32) -> impl Iterator<Item = u64> + '_ {
        self.nics.range((rank, 0)..=(rank, u32::MAX)).map(|(_, nic)| nic.id())
    }

    /// Makes a message visible in a ring that a NIC of the rank `from` has claimed. False: no known NIC has claimed it.
    fn publish_for_known(&self, from: u32, (rank, ni): (u32, u32), message: &Published) -> bool {
        let nic = self.nics.get(&(rank, ni));
        nic.is_some_and(|nic| self.ids(from).any(|sender| nic.publish(sender, message)))
    }

    fn ask(&mut self, rank: u32, at: Time, asked: Request) -> RankRequest {
        match asked {
            Request::Start { ni, origin, command, payload, waits, or_refuse } => {
                match checked(&command[..], &payload) {
                    Ok(command) => {
                        let own = Ranks::find(self, rank, origin, ni).filter(|(owner, _)| *owner == rank);
                        let ni = own.map_or(ni, |(_, ni)| ni);
                        // Only an operation with a reply certainly changes a NIC.
                        let waits = waits && (command.has_reply() || command.kind == kind::RMA_LOCK);
                        RankRequest::Start {
                            ni,
                            command: Box::new(command),
                            payload: payload.into(),
                            flags: StartFlags { waits, or_refuse },
                        }
                    }
                    Err(why) => RankRequest::Ended { code: self.launcher.accuse(rank, why) },
                }
            }
            Request::Publish { ni, target, message } => RankRequest::Publish { ni, target, message },
            Request::SharesMemory { ni, target } => RankRequest::SharesMemory { ni, target },
            Request::Region { name, begins } => RankRequest::Region { name, begins },
            Request::Wait { until_ps } => RankRequest::Wait { until: Time(until_ps) },
            // A process that yields the processor may not have polled all of its NICs.
            Request::Poll { until_ps, .. } if self.changed.remove(&rank) => {
                RankRequest::Sleep { until: (at + POLL_AGAIN).min(Time(until_ps).max(at)) }
            }
            Request::Poll { until_ps, in_call } => RankRequest::Poll { until: Time(until_ps), in_call },
            Request::Sleep { until_ps } => {
                let until = Time(until_ps);
                if until <= at {
                    self.collect_fired(rank);
                }
                RankRequest::Sleep { until }
            }
        }
    }

    /// Records the NICs on which the rank's own calls have made triggered operations due.
    fn collect_fired(&mut self, rank: u32) {
        self.map_new_nics(rank);
        for (&(_, ni), nic) in self.nics.range((rank, 0)..=(rank, u32::MAX)) {
            let mut fired = false;
            nic.with(&mut |nic| fired = nic.has_fired());
            if fired {
                self.fired.push_back((rank, ni));
            }
        }
    }
}

/// Returns the command. `Err`: the reason why it is invalid.
fn checked(bytes: &[u8], payload: &[u8]) -> Result<Command, &'static str> {
    let command = command_from(bytes).ok_or("it started a truncated operation")?;
    // Ranks may not send the messages of aggregation nodes.
    if !matches!(command.kind, kind::PUT..=kind::AGGREGATION_REQUEST | kind::AGGREGATION_UP) {
        return Err("it started an operation of an unknown kind");
    }
    if command.length > PAYLOAD_BYTES_MAX {
        return Err("it started an operation of more than 1 GiB; simulated machines do not carry that in one message");
    }
    if command.has_payload() && payload.len() as u64 != command.length {
        return Err("it started an operation whose payload does not have the length of its command");
    }
    Ok(command)
}

impl<L: Launcher> Ranks for Processes<L> {
    fn size(&self) -> u32 {
        self.launcher.size()
    }

    fn resume(&mut self, rank: u32, now: Time) -> TimedRequest {
        let (at, end) = self.launcher.run(rank, now);
        let request = match end {
            TurnEnd::Request(asked) => self.ask(rank, at, asked),
            TurnEnd::Blocked(in_call) => RankRequest::Blocked { in_call },
            TurnEnd::Ended(code) => RankRequest::Ended { code },
        };
        if matches!(request, RankRequest::Ended { .. }) {
            self.ended.insert(rank);
        }
        TimedRequest { at, request }
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

    fn find(&mut self, _: u32, target: u64, ni: u32) -> Option<(u32, u32)> {
        let name = (target, ni % NUMBERS);
        if !self.owners.contains_key(&name) {
            self.map_announced(name);
        }
        let (rank, number) = *self.owners.get(&name)?;
        if self.nic(rank, number).is_some_and(|nic| nic.id() == target) {
            return Some((rank, number));
        }
        // Another process, or another NIC of the process, may have the id now.
        self.map_announced(name);
        let (rank, number) = *self.owners.get(&name)?;
        self.nic(rank, number).is_some_and(|nic| nic.id() == target).then_some((rank, number))
    }

    fn route(&mut self, from: u32, target: u64, ni: u32) -> Option<u32> {
        let living = self.find(from, target, ni);
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
        incoming: &Incoming<'_>,
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict {
        self.changed.insert(rank);
        let Some(nic) = self.nic(rank, ni) else { return Verdict::Initiator(Fault::Gone) };
        let Incoming { request, payload, token } = *incoming;
        nic.deliver(request, payload, token, reply, &mut |step: Step| meter.charge(step))
    }

    fn member_ni(&self) -> u32 {
        MEMBER_NI
    }

    fn lose_aggregation_node(&mut self, rank: u32, address: u64) {
        self.with_nic(rank, MEMBER_NI, &mut |nic| nic.member().lose(address));
    }

    fn publish(&mut self, from: u32, (rank, ni): (u32, u32), message: &Published) -> bool {
        self.changed.insert(rank);
        if self.nic(rank, ni).is_none() {
            return false;
        }
        // A NIC of the sender may be new.
        if self.publish_for_known(from, (rank, ni), message) {
            return true;
        }
        self.map_new_nics(from);
        self.publish_for_known(from, (rank, ni), message)
    }

    fn take_in(&mut self, from: u32, (rank, ni): (u32, u32), meter: &mut dyn Meter) {
        let senders: Vec<u64> = self.ids(from).collect();
        if let Some(nic) = self.nic(rank, ni) {
            nic.take_in(&senders, &mut |step| meter.charge(step));
        }
    }

    fn reply(&mut self, rank: u32, value: bool) {
        if let Some((page, _)) = self.launcher.wire(rank) {
            page.reply(value.into());
        }
    }

    fn refused(&mut self, rank: u32) {
        if let Some((page, _)) = self.launcher.wire(rank) {
            page.refuse();
        }
    }

    fn started(&mut self, rank: u32, at: Time) {
        if let Some((page, _)) = self.launcher.wire(rank) {
            page.reply(at.0);
        }
    }

    /// Reading the mailbox changes nothing, so the length of the rank's polls stays.
    fn mailbox(&mut self, rank: u32, ni: u32, vpid: u16) -> Option<MailboxState> {
        let mut found = None;
        self.nic(rank, ni)?.with(&mut |nic| found = MailboxState::of(nic, vpid));
        found
    }

    fn sum_registers(&self, sums: &mut RegisterSums) {
        sums.clone_from(&self.closed);
        self.nics.values().for_each(|nic| sums.add(nic.registers()));
    }

    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        self.nic(rank, ni).ok_or(Fault::Gone)?.gather(side, bytes, into)
    }

    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault> {
        self.nic(rank, ni).ok_or(Fault::Gone)?.scatter(side, from)
    }
}
