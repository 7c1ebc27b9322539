// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks of several jobs as those of one simulation.
//!
//! Ranks are numbered through all jobs, in their order. Each job keeps its own numbers, addresses and NICs: an address
//! means a NIC of the sender's job. So a program does not notice the others, and none can reach them.
//!
//! Costs: a search among the jobs for each call.

use selvedge_nic::portals::Verdict;
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Fault, Nic};
use selvedge_sim_protocol::Published;

use crate::node::ranks::MailboxState;
use crate::node::{Incoming, Meter, Ranks, RegisterSums, TimedRequest};
use crate::time::Time;

/// The ranks of several jobs.
pub struct Jobs<'r> {
    jobs: Vec<&'r mut dyn Ranks>,
    /// The first rank of each job.
    first: Vec<u32>,
    size: u32,
    /// The job of the rank that ran or was killed last.
    current: usize,
}

impl<'r> Jobs<'r> {
    pub fn new(jobs: Vec<&'r mut dyn Ranks>) -> Jobs<'r> {
        let mut size = 0;
        let first = jobs.iter().map(|job| {
            size += job.size();
            size - job.size()
        });
        let first = first.collect();
        Jobs { jobs, first, size, current: 0 }
    }

    /// Returns the job of a rank. A number beyond those of the ranks is an aggregation node, of the first job.
    #[inline]
    fn place(&self, rank: u32) -> usize {
        if rank >= self.size { 0 } else { self.first.partition_point(|first| *first <= rank).saturating_sub(1) }
    }

    /// Returns the job of a rank, and the rank's number in it.
    #[inline]
    fn of(&self, rank: u32) -> (&(dyn Ranks + 'r), u32) {
        let place = self.place(rank);
        (&*self.jobs[place], rank - self.first[place])
    }

    #[inline]
    fn of_mut(&mut self, rank: u32) -> (&mut (dyn Ranks + 'r), u32) {
        let place = self.place(rank);
        (&mut *self.jobs[place], rank - self.first[place])
    }
}

impl Ranks for Jobs<'_> {
    fn size(&self) -> u32 {
        self.size
    }

    fn job_size(&self, rank: u32) -> u32 {
        self.of(rank).0.size()
    }

    fn resume(&mut self, rank: u32, now: Time) -> TimedRequest {
        self.current = self.place(rank);
        let (job, rank) = self.of_mut(rank);
        job.resume(rank, now)
    }

    fn take_released(&mut self) -> Option<u32> {
        let first = self.first[self.current];
        self.jobs[self.current].take_released().map(|rank| rank + first)
    }

    fn take_fired(&mut self) -> Option<(u32, u32)> {
        let first = self.first[self.current];
        self.jobs[self.current].take_fired().map(|(rank, ni)| (rank + first, ni))
    }

    fn kill(&mut self, rank: u32) -> i32 {
        self.current = self.place(rank);
        let (job, rank) = self.of_mut(rank);
        job.kill(rank)
    }

    fn is_over(&self) -> bool {
        self.jobs.iter().any(|job| job.is_over())
    }

    fn find(&mut self, from: u32, target: u64, ni: u32) -> Option<(u32, u32)> {
        let place = self.place(from);
        let first = self.first[place];
        let found = self.jobs[place].find(from.saturating_sub(first), target, ni);
        found.map(|(rank, ni)| (rank + first, ni))
    }

    fn route(&mut self, from: u32, target: u64, ni: u32) -> Option<u32> {
        let place = self.place(from);
        let first = self.first[place];
        self.jobs[place].route(from.saturating_sub(first), target, ni).map(|rank| rank + first)
    }

    fn with_nic(&mut self, rank: u32, ni: u32, work: &mut dyn FnMut(&mut Nic<'_>)) -> bool {
        let (job, rank) = self.of_mut(rank);
        job.with_nic(rank, ni, work)
    }

    fn publish(&mut self, from: u32, (rank, ni): (u32, u32), message: &Published) -> bool {
        let from = self.of(from).1;
        let (job, rank) = self.of_mut(rank);
        job.publish(from, (rank, ni), message)
    }

    fn take_in(&mut self, from: u32, (rank, ni): (u32, u32), meter: &mut dyn Meter) {
        let from = self.of(from).1;
        let (job, rank) = self.of_mut(rank);
        job.take_in(from, (rank, ni), meter);
    }

    fn refused(&mut self, rank: u32) {
        let (job, rank) = self.of_mut(rank);
        job.refused(rank);
    }

    fn started(&mut self, rank: u32, at: Time) {
        let (job, rank) = self.of_mut(rank);
        job.started(rank, at);
    }

    fn reply(&mut self, rank: u32, value: bool) {
        let (job, rank) = self.of_mut(rank);
        job.reply(rank, value);
    }

    fn mailbox(&mut self, rank: u32, ni: u32, vpid: u16) -> Option<MailboxState> {
        let (job, rank) = self.of_mut(rank);
        job.mailbox(rank, ni, vpid)
    }

    fn sum_registers(&self, sums: &mut RegisterSums) {
        self.jobs.iter().for_each(|job| job.sum_registers(sums));
    }

    fn has_fired(&mut self, rank: u32, ni: u32) -> bool {
        let (job, rank) = self.of_mut(rank);
        job.has_fired(rank, ni)
    }

    fn fetch(&self, rank: u32) {
        let (job, rank) = self.of(rank);
        job.fetch(rank);
    }

    fn recycle(&mut self, from: u32, command: Box<Command>) {
        let (job, from) = self.of_mut(from);
        job.recycle(from, command);
    }

    fn deliver(
        &mut self,
        rank: u32,
        ni: u32,
        incoming: &Incoming<'_>,
        reply: &mut Vec<u8>,
        meter: &mut dyn Meter,
    ) -> Verdict {
        let (job, rank) = self.of_mut(rank);
        job.deliver(rank, ni, incoming, reply, meter)
    }

    fn gather(&mut self, rank: u32, ni: u32, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        let (job, rank) = self.of_mut(rank);
        job.gather(rank, ni, side, bytes, into)
    }

    fn member_ni(&self) -> u32 {
        self.jobs.first().map_or(0, |job| job.member_ni())
    }

    fn lose_aggregation_node(&mut self, rank: u32, address: u64) {
        let (job, rank) = self.of_mut(rank);
        job.lose_aggregation_node(rank, address);
    }

    fn scatter(&mut self, rank: u32, ni: u32, side: &Side, from: &[u8]) -> Result<(), Fault> {
        let (job, rank) = self.of_mut(rank);
        job.scatter(rank, ni, side, from)
    }
}
