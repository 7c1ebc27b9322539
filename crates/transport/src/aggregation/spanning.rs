// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of processes of several hosts. Those of a host reduce in memory that they share ([`Member`]); the first of them, its leader, talks to the
//! tree ([`Group`]).
//!
//! ```text
//! host 0: members ─ reduce ─> leader ─┐                                      ┌─> leader ─ broadcast ─> members
//! host 1: members ─ reduce ─> leader ─┴─> aggregation nodes ─ results ─> ... ┴─> leader ─ broadcast ─> members
//! ```
//!
//! A broadcast and the like go the same way: from the root to its leader, down the tree, from the leaders to the members.
//!
//! Invariants
//! 1. All form the group or none: each step of forming is a gather of all processes.
//! 2. Operands are reduced in the order of the members of a host, and then of the hosts, which have the order of their first members. So results have
//!    the same bits in every run, with the same processes on the same hosts.
//! 3. What fails at a host or in the tree fails everywhere: a leader that hears of one end tells the other.
//!
//! Costs: two operations among the members of a host for each operation of the group, and one at their leader.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use selvedge_aggregator::words::JobName;
use selvedge_nic::aggregation::Failure;
use selvedge_shm::aggregation::{
    Buffer, Elements, Exchange, Forming, Heard, Idle, Member, Pending, Process, Shape, What, part_of_window,
};

use super::share::{Aggregation, NO_MANAGER};
use super::{Group, bits, takes};
use crate::settings::manager_name;

/// Version of what processes say here.
const VERSION: u64 = 1;

/// A group of processes of several hosts.
pub struct Spanning {
    rank: usize,
    size: usize,
    /// The members of each host. Hosts have the order of their first members.
    hosts: Vec<Vec<usize>>,
    /// This process's host, and its place among the members there.
    host: usize,
    place: usize,
    /// None: it is alone on its host.
    local: Option<Member>,
    /// The leader's.
    tree: Option<Group>,
    /// The most bytes of an operation that it carries out, and of an element.
    longest: u64,
    bytes: usize,
    failed: Option<Failure>,
}

/// An exchange among some of the processes of another, in which all take part.
struct Among<'a> {
    all: &'a mut dyn Exchange,
    who: &'a [usize],
}

impl Exchange for Among<'_> {
    fn gather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        let all = self.all.gather(own)?;
        let of = |&rank: &usize| all.get(rank * own.len()..(rank + 1) * own.len()).ok_or("a process has said nothing");
        Ok(self.who.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// The name of the job of this process, as far as it has heard one.
static JOB: Mutex<Option<JobName>> = Mutex::new(None);

/// The job's name, if the process knows one; the first process of a group makes one.
fn own_job(is_first: bool) -> Option<JobName> {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    if job.is_none() && is_first {
        let mut bytes = [0; 16];
        selvedge_net::fill_random(&mut bytes).ok()?;
        let number = u128::from_le_bytes(bytes);
        *job = Some([number as u64, (number >> 64) as u64]);
    }
    *job
}

impl Spanning {
    /// Collective: agrees with the other processes on a group. `place`: a number of the process's host. The error says why there is none. `refuses`:
    /// why this one takes no part.
    pub fn form(
        (rank, size): (usize, usize),
        place: u64,
        shape: impl Fn(usize) -> Shape,
        refuses: Option<&'static str>,
        exchange: &mut dyn Exchange,
    ) -> Result<Spanning, String> {
        let refuses = refuses.or_else(|| manager_name().is_none().then_some(NO_MANAGER));
        let job = own_job(rank == 0 && refuses.is_none()).unwrap_or_default();
        let all = exchange.gather(&[VERSION, place, refuses.is_some().into(), job[0], job[1]])?;
        let all: Vec<[u64; 5]> = all.chunks_exact(5).filter_map(|words| words.try_into().ok()).collect();
        if let Some(reason) = refuses {
            return Err(reason.to_owned());
        }
        if all.len() != size || all.iter().any(|said| said[0] != VERSION) {
            return Err("its processes have several versions of this library".to_owned());
        }
        if let Some(other) = all.iter().position(|said| said[2] != 0) {
            return Err(format!("process {other} takes no part"));
        }
        let job = [all[0][3], all[0][4]];
        JOB.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(job);
        let hosts = hosts_of(all.iter().map(|said| said[1]));
        let at = |host: &Vec<usize>| host.iter().position(|&other| other == rank);
        let found = hosts.iter().enumerate().find_map(|(host, members)| Some((host, at(members)?)));
        let (host, own) = found.ok_or("a process has said nothing")?;
        let local = form_local((own, place), &hosts[host], shape, exchange)?;
        let leaders: Vec<usize> = hosts.iter().filter_map(|members| members.first().copied()).collect();
        let (local, why) = match local {
            Ok(local) => (local, None),
            Err(why) => (None, Some(why)),
        };
        let share = (own == 0).then(|| match why {
            Some(why) => Err(why),
            None => {
                let others = leaders.iter().map(|&leader| all[leader][1]).filter(|&other| other != place);
                Aggregation::of_job(job, &std::iter::once(place).chain(others).collect::<Vec<_>>())
            }
        });
        let among = &mut Among { all: exchange, who: &leaders };
        let formed = Group::form_with(share, (host, leaders.len()), among);
        // What leaders know of the tree.
        let own_words = match &formed {
            Ok(Some(group)) => [1, group.longest, group.bytes as u64],
            Ok(None) => [1, u64::MAX, u64::MAX],
            Err(_) => [0; 3],
        };
        let agreed = exchange.gather(&own_words)?;
        let tree = formed?;
        let least = |at: usize| agreed.iter().skip(at).step_by(3).copied().min().unwrap_or(0);
        if least(0) == 0 {
            return Err("the group did not form".to_owned());
        }
        let bytes = usize::try_from(least(2)).unwrap_or(usize::MAX);
        Ok(Spanning { rank, size, hosts, host, place: own, local, tree, longest: least(1), bytes, failed: None })
    }

    /// This member's number, and how many there are.
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// How many hosts its members are on.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Whether the group carries an operation out. All members say the same.
    pub fn takes(&self, operation: &Pending) -> bool {
        takes(operation, self.size, self.longest, self.bytes)
    }

    /// Carries an operation out, which the group takes ([`Spanning::takes`]). `idle` is called while it waits.
    pub fn complete(&mut self, operation: &Pending, idle: Idle<'_>) -> Result<(), Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let outcome = self.carry_out(operation, idle);
        if let Err(failure) = outcome {
            self.fail(failure);
        }
        outcome
    }

    /// An operation has failed: members of this host and the others hear it.
    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        if let Some(local) = &self.local {
            local.fail(failure);
        }
        // A leader that leaves in an operation fails the others' groups.
        self.tree = None;
    }

    fn carry_out(&mut self, operation: &Pending, idle: Idle<'_>) -> Result<(), Failure> {
        let (bytes, buffer) = (operation.bytes(), operation.buffer());
        match *operation.what() {
            What::Barrier => {
                self.among_own(Pending::barrier(), idle)?;
                self.among_leaders(Pending::barrier, idle)?;
                self.among_own(Pending::barrier(), idle)
            }
            What::Reduce { ref elements, root: None } => {
                self.reduce(elements, buffer, bytes, idle)?;
                self.spread(0, buffer.to, bytes, idle)
            }
            What::Reduce { ref elements, root: Some(root) } => {
                let (host, place) = self.place_of(root)?;
                let mut own = vec![0; if root == self.rank { 0 } else { bytes }];
                let to = if root == self.rank { buffer.to } else { own.as_mut_ptr() };
                self.reduce(elements, Buffer { from: buffer.from, to }, bytes, idle)?;
                if host == self.host && place != 0 { self.spread(0, to, bytes, idle) } else { Ok(()) }
            }
            What::ReduceScatter { ref elements, ref own } => {
                let mut all = vec![0; bytes];
                self.reduce(elements, Buffer { from: buffer.from, to: all.as_mut_ptr() }, bytes, idle)?;
                self.spread(0, all.as_mut_ptr(), bytes, idle)?;
                copy_part(&all, own.clone(), buffer.to)
            }
            What::Broadcast { root, own: None } => self.broadcast(root, buffer.to, bytes, idle),
            What::Broadcast { root, own: Some(ref own) } => {
                let mut all = vec![0; bytes];
                if root == self.rank {
                    // SAFETY: who made the operation has an operand of so many bytes.
                    unsafe { all.as_mut_ptr().copy_from_nonoverlapping(buffer.from, bytes) };
                }
                self.broadcast(root, all.as_mut_ptr(), bytes, idle)?;
                copy_part(&all, own.clone(), buffer.to)
            }
            What::Allgather { ref window, root } => {
                let window = window.clone().unwrap_or(0..bytes.saturating_mul(self.size));
                let all = self.gather(buffer.from, bytes, &window, idle)?;
                let wants = root.is_none_or(|root| root == self.rank);
                if wants { copy_part(&all, 0..all.len(), buffer.to) } else { Ok(()) }
            }
        }
    }

    /// The host of a member, and its place there.
    fn place_of(&self, member: usize) -> Result<(usize, usize), Failure> {
        let at = |members: &Vec<usize>| members.iter().position(|&other| other == member);
        let found = self.hosts.iter().enumerate().find_map(|(host, members)| Some((host, at(members)?)));
        found.ok_or(Failure::GroupMismatch)
    }

    /// Carries an operation out among the members of this host.
    fn among_own(&mut self, operation: Pending, idle: Idle<'_>) -> Result<(), Failure> {
        self.local.as_mut().map_or(Ok(()), |local| local.complete(operation, idle))
    }

    /// Carries an operation out among the leaders, if this process is one.
    fn among_leaders(&mut self, operation: impl FnOnce() -> Pending, idle: Idle<'_>) -> Result<(), Failure> {
        self.tree.as_mut().map_or(Ok(()), |tree| tree.complete(&operation(), idle))
    }

    /// Reduces the operands of all members. The result is at the leaders, in `buffer.to`, for which every member has room.
    fn reduce(&mut self, elements: &Elements, buffer: Buffer, bytes: usize, idle: Idle<'_>) -> Result<(), Failure> {
        let Buffer { from, to } = buffer;
        let is_alone = self.local.is_none();
        // SAFETY: who made the operation has an operand and room for a result of so many bytes.
        self.among_own(unsafe { Pending::reduce(elements, 0, buffer, bytes) }, idle)?;
        let from = if is_alone { from } else { to.cast_const() };
        // SAFETY: the same.
        self.among_leaders(|| unsafe { Pending::allreduce(elements, Buffer { from, to }, bytes) }, idle)
    }

    /// What a member of this host has reaches all members of this host.
    fn spread(&mut self, place: usize, memory: *mut u8, bytes: usize, idle: Idle<'_>) -> Result<(), Failure> {
        // SAFETY: who made the operation has so many bytes there.
        self.among_own(unsafe { Pending::broadcast(place, memory, bytes) }, idle)
    }

    /// What a member has reaches all.
    fn broadcast(&mut self, root: usize, memory: *mut u8, bytes: usize, idle: Idle<'_>) -> Result<(), Failure> {
        let (host, place) = self.place_of(root)?;
        let is_own = host == self.host;
        if is_own {
            self.spread(place, memory, bytes, idle)?;
        }
        // SAFETY: who made the operation has so many bytes there.
        self.among_leaders(|| unsafe { Pending::broadcast(host, memory, bytes) }, idle)?;
        if is_own { Ok(()) } else { self.spread(0, memory, bytes, idle) }
    }

    /// A window of all data, with that of each member at its place.
    fn gather(
        &mut self,
        from: *const u8,
        bytes: usize,
        window: &Range<usize>,
        idle: Idle<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let members = self.hosts[self.host].clone();
        let mut here = vec![0u8; if self.place == 0 { bytes.saturating_mul(members.len()) } else { 0 }];
        if self.local.is_none() {
            // SAFETY: who made the operation has an operand of so many bytes.
            unsafe { here.as_mut_ptr().copy_from_nonoverlapping(from, bytes) };
        }
        // SAFETY: the same; the leader has room for all.
        self.among_own(unsafe { Pending::gather(0, Buffer { from, to: here.as_mut_ptr() }, bytes) }, idle)?;
        let mut all = vec![0u8; window.len()];
        if self.place == 0 {
            for (place, &member) in members.iter().enumerate() {
                // The part of the window that the member has, and where that begins in its data.
                let part = part_of_window(window, bytes, member);
                let skipped = window.start.saturating_sub(member * bytes);
                let data = here.get(place * bytes + skipped..(place + 1) * bytes).unwrap_or_default();
                let to = all.get_mut(part).ok_or(Failure::GroupMismatch)?;
                to.copy_from_slice(data.get(..to.len()).ok_or(Failure::GroupMismatch)?);
            }
        }
        let (to, length, elements) = (all.as_mut_ptr(), all.len(), bits()?);
        // SAFETY: `all` has so many bytes.
        let reduction = || unsafe { Pending::allreduce(&elements, Buffer { from: to.cast_const(), to }, length) };
        self.among_leaders(reduction, idle)?;
        self.spread(0, to, length, idle)?;
        Ok(all)
    }
}

/// The processes of each host, whose numbers are given in the order of the processes.
fn hosts_of(places: impl Iterator<Item = u64>) -> Vec<Vec<usize>> {
    let (mut known, mut hosts): (Vec<u64>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for (rank, place) in places.enumerate() {
        match known.iter().position(|&other| other == place) {
            Some(host) => hosts[host].push(rank),
            None => {
                known.push(place);
                hosts.push(vec![rank]);
            }
        }
    }
    hosts
}

/// Forms the live group of a host's processes `who`. The inner error says why there is none. All processes of all hosts take part in each
/// gather, whatever becomes of their own group.
fn form_local(
    (rank, place): (usize, u64),
    who: &[usize],
    shape: impl Fn(usize) -> Shape,
    exchange: &mut dyn Exchange,
) -> Result<Result<Option<Member>, String>, String> {
    let process = Process { rank, size: who.len(), place, refuses: None };
    let mut heard = (who.len() > 1).then(|| Ok(Heard::Again(Forming::new(process, shape(who.len())))));
    for _ in 0..Forming::ROUNDS {
        let mut words = [0; Forming::WORDS_MAX];
        let said = match &heard {
            Some(Ok(Heard::Again(forming))) => forming.words(),
            _ => &[],
        };
        let count = said.len();
        words[..count].copy_from_slice(said);
        let all = Among { all: exchange, who }.gather(&words)?;
        heard = match heard {
            Some(Ok(Heard::Again(forming))) => {
                let own: Vec<u64> = all.chunks(words.len()).flat_map(|words| &words[..count]).copied().collect();
                let conclusion = forming.conclude(&own);
                Some(forming.hear(&conclusion))
            }
            other => other,
        };
    }
    Ok(match heard {
        None => Ok(None),
        Some(Ok(Heard::Formed(member))) => Ok(Some(*member)),
        Some(Ok(Heard::Again(_))) => Err("the group of its host did not form".to_owned()),
        Some(Err(why)) => Err(why),
    })
}

fn copy_part(all: &[u8], part: Range<usize>, to: *mut u8) -> Result<(), Failure> {
    let part = all.get(part).ok_or(Failure::GroupMismatch)?;
    // SAFETY: who made the operation has room for this part.
    unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_order_of_their_first_members() {
        assert_eq!(hosts_of([9, 4, 9, 5, 4].into_iter()), [vec![0, 2], vec![1, 4], vec![3]]);
    }

    #[test]
    fn an_exchange_among_some_has_what_these_say() {
        struct Known;
        impl Exchange for Known {
            fn gather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
                Ok((0..4 * own.len() as u64).collect())
            }
        }
        let mut among = Among { all: &mut Known, who: &[1, 3] };
        assert_eq!(among.gather(&[0, 0]), Ok(vec![2, 3, 6, 7]));
        let mut among = Among { all: &mut Known, who: &[4] };
        assert!(among.gather(&[0]).is_err());
    }
}
