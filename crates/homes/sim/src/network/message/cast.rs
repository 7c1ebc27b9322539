// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message to many nodes, in the model of whole messages: like `multicast.rs`, without credits; links that are down lose it.
//!
//! Cost: O(channels of the tree) for each message.

use selvedge_fabric::{MulticastTree, NodeId};

use super::super::slab::NONE;
use super::super::{LossReason, trees};
use super::{ArrivalTimes, Departure, HopSpan, MessageNetwork, VcBuffer};
use crate::time::Time;

impl MessageNetwork {
    /// Adds a tree over this network's topology; returns its number. It is never removed.
    pub fn add_tree(&mut self, tree: &MulticastTree) -> u32 {
        let place = trees::append(&mut self.branches, tree, self.virtual_channels);
        self.branches_served.resize(self.branches.len(), Time::ZERO);
        place
    }

    /// Sends a message of one packet to all targets of a tree that begins at its node: like [`MessageNetwork::send`],
    /// but `departure.to` is not read. At a branching the message continues over each channel as it becomes free. It
    /// leaves a buffer when the last channel has taken it. Source back-pressure is not modelled.
    pub fn send_cast(&mut self, now: Time, departure: &Departure, tree: u32) -> Vec<(NodeId, ArrivalTimes)> {
        let buffer = u64::from(self.config.link.buffer_flits);
        let flits = departure.flits;
        let mut arrivals = Vec::with_capacity(self.branches[tree as usize].targets as usize);
        // Branches, each with its predecessor: times at which head and tail have come from there, the time at which the
        // previous message has left that buffer, and the buffer, if this message is the last in it.
        let mut open = vec![(tree, departure.head, departure.tail, Time::ZERO, NONE)];
        let mut next = 0;
        while let Some(&(place, head, tail, behind, from)) = open.get(next) {
            next += 1;
            let branch = self.branches[place as usize];
            let schedule = &mut self.schedules[(branch.output / self.virtual_channels) as usize];
            let vc_buffer = &mut self.vc_buffers[branch.output as usize];
            let served = &mut self.branches_served[place as usize];
            let flit_time = schedule.flit_time;
            let time = (flit_time * flits).saturating_sub(self.config.part(flit_time, departure.missing));
            let follows = head >= vc_buffer.began;
            let (start, tail) = if place == tree {
                schedule.free_at = tail;
                (head, tail)
            } else {
                let mut at = head.max(behind);
                if branch.node != NONE {
                    at = at.max(*served);
                } else if follows && vc_buffer.left + schedule.latency > at {
                    let room = flit_time * buffer.saturating_sub(flits);
                    at = at.max(vc_buffer.entered).max((vc_buffer.left + schedule.latency).saturating_sub(room));
                }
                let start = schedule.reserve(now, at, time);
                if !self.outages.is_empty()
                    && self.outages.meets(branch.output / self.virtual_channels, start, start + time)
                {
                    self.lose(branch.targets, LossReason::LinkDown);
                    continue;
                }
                self.statistics.requests += 1;
                self.statistics.hops += 1;
                self.statistics.blocked += u64::from(start > head);
                self.statistics.blocked_ps += start.saturating_sub(head).0;
                (start, tail.max(start + time))
            };
            schedule.counted.packets += 1;
            schedule.counted.flits += flits;
            schedule.counted.busy += time;
            let latency = schedule.latency;
            if branch.node != NONE {
                *served = start + time;
                let (head, tail) = (start + latency, tail + latency);
                arrivals.push((NodeId(branch.node), ArrivalTimes { head, first: tail, tail, left: departure.tail }));
            } else {
                let through = latency + self.config.switch.latency;
                let behind = if follows { vc_buffer.left } else { Time::ZERO };
                if follows {
                    *vc_buffer = VcBuffer { began: start, entered: tail, left: vc_buffer.left.max(tail + through) };
                }
                let own = if follows { branch.output } else { NONE };
                let behind_it = branch.first..branch.first + branch.count;
                open.extend(behind_it.map(|next| (next, start + through, tail + through, behind, own)));
            }
            if from != NONE {
                let before = &mut self.vc_buffers[from as usize];
                before.left = before.left.max(tail);
            }
            if self.config.trace {
                let Departure { message, from, .. } = *departure;
                let to = if branch.node == NONE { from } else { NodeId(branch.node) };
                let end = if place == tree { tail } else { start + time };
                self.spans.push(HopSpan {
                    message,
                    from,
                    to,
                    channel: branch.output / self.virtual_channels,
                    start,
                    end,
                });
            }
        }
        let targets = arrivals.len() as u64;
        self.statistics.injected += targets;
        self.statistics.delivered += targets;
        self.statistics.delivered_bytes += departure.bytes * targets;
        arrivals
    }
}
