// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The share of each job in the fabric: packets, waiting times, and the channels that several jobs use.
//!
//! Jobs have nodes of their own, so the node that injects a packet names its job. Counts are sums, which do not depend
//! on the order of packets at different nodes.
//!
//! Costs: O(1) for each call; 8 bytes for each channel and job.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_fabric::Topology;

use crate::network::{Arrival, Observe, Packet, Transmission};
use crate::time::Time;

/// The packets of a job. An acknowledgement or a reply counts for the job, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobPackets {
    pub injected: u64,
    pub delivered: u64,
    pub lost: u64,
    /// Times that a head left a router.
    pub hops: u64,
    /// Heads that did not get a channel of a router at once, and the sum of the times for which they waited.
    pub blocked: u64,
    pub blocked_for: Time,
}

/// The fabric by job, at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricByJob {
    pub jobs: Vec<JobPackets>,
    /// Time for which each job kept each channel busy: by channel, then by job.
    busy: Vec<Time>,
}

impl FabricByJob {
    /// Returns the times for which the jobs kept a channel busy.
    pub fn of_channel(&self, channel: u32) -> &[Time] {
        let jobs = self.jobs.len();
        self.busy.get(channel as usize * jobs..(channel as usize + 1) * jobs).unwrap_or(&[])
    }

    /// Returns the channels that two jobs or more have used, the busiest first.
    pub fn shared(&self) -> Vec<u32> {
        let channels = self.busy.len().checked_div(self.jobs.len()).unwrap_or(0) as u32;
        let users = |channel: &u32| self.of_channel(*channel).iter().filter(|busy| **busy > Time::ZERO).count();
        let mut shared: Vec<u32> = (0..channels).filter(|channel| users(channel) > 1).collect();
        let busy = |channel: u32| self.of_channel(channel).iter().copied().sum::<Time>();
        shared.sort_by_key(|&channel| (std::cmp::Reverse(busy(channel)), channel));
        shared
    }
}

/// Counts packets by job.
#[derive(Debug)]
pub struct ByJob {
    /// The job of each endpoint; [`NO_JOB`]: none.
    job_of: Vec<u32>,
    counted: FabricByJob,
    /// Receives the counts at the end of the run.
    result: Arc<Mutex<FabricByJob>>,
}

/// The job of a node that belongs to none, such as one inside a switch.
const NO_JOB: u32 = u32::MAX;

impl ByJob {
    /// Counts on a network. `jobs`: the node of each rank of each job.
    pub fn new(topology: &Topology, jobs: &[Vec<u32>]) -> ByJob {
        let mut job_of = vec![NO_JOB; topology.nodes() as usize];
        for (job, placement) in (0..).zip(jobs) {
            let endpoints = placement.iter().flat_map(|node| topology.rails().of_node(*node));
            endpoints.for_each(|endpoint| job_of[endpoint.0 as usize] = job);
        }
        let busy = vec![Time::ZERO; topology.channels() as usize * jobs.len()];
        let counted = FabricByJob { jobs: vec![JobPackets::default(); jobs.len()], busy };
        ByJob { job_of, counted, result: Arc::default() }
    }

    /// Returns the place of the counts. They are there when the run has ended.
    pub fn result(&self) -> Arc<Mutex<FabricByJob>> {
        Arc::clone(&self.result)
    }

    fn job(&mut self, packet: &Packet) -> Option<(usize, &mut JobPackets)> {
        let job = *self.job_of.get(packet.from.0 as usize)? as usize;
        self.counted.jobs.get_mut(job).map(|packets| (job, packets))
    }
}

impl Observe for ByJob {
    fn injected(&mut self, _: Time, packet: &Packet) {
        if let Some((_, packets)) = self.job(packet) {
            packets.injected += 1;
        }
    }

    fn blocked(&mut self, _: Time, _: u32, packet: &Packet, at_router: bool) {
        if let Some((_, packets)) = self.job(packet).filter(|_| at_router) {
            packets.blocked += 1;
        }
    }

    fn sent(&mut self, sent: &Transmission<'_>) {
        let jobs = self.counted.jobs.len();
        let Some((job, packets)) = self.job(sent.packet) else { return };
        if sent.from_router && sent.head {
            packets.hops += 1;
            packets.blocked_for += sent.waited.unwrap_or(Time::ZERO);
        }
        self.counted.busy[sent.channel as usize * jobs + job] += sent.end - sent.begin;
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let Some((_, packets)) = self.job(arrival.packet()) else { return };
        match arrival {
            Arrival::Delivered(_) => packets.delivered += 1,
            Arrival::Lost(_) => packets.lost += 1,
        }
    }

    fn end(&mut self, _: Time) -> io::Result<()> {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.counted);
        Ok(())
    }
}
