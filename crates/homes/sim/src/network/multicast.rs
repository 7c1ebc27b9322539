// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets from one node to many, which switches copy (seed 001, section III.D).
//!
//! # Model
//!
//! A packet travels along a tree of channels ([`MulticastTree`]). Each router makes one copy for each branch of the
//! tree there. Each copy asks for its own output, like any packet, and leaves when that has credits. The packet's room
//! in its buffer is free when all copies have left; until then the packets behind it wait. So every output needs
//! credits, and a copy whose output is blocked stops its buffer, but not the other copies. A copy takes no room of its
//! own: switches copy while they send.
//!
//! A packet to many nodes is a datagram: links never retransmit it. Its sender needs a reliability layer above.
//!
//! Deadlock: see [`MulticastTree`]. Needs cut-through switching and a deadlock-free routing ([`Network::can_cast`]).
//!
//! # Costs
//!
//! Those of a packet for each branch. A copy is an entry of the tables of packets and residents.

use selvedge_fabric::{MulticastTree, RouteState};

use super::packet::{Arrival, Loss, LossReason};
use super::slab::NONE;
use super::state::{Cast, Resident, State};
use super::trees::{self, Branch};
use super::{Network, NetworkConfig, Packet, Schedule, Switching};
use crate::time::Time;

impl Network {
    /// Whether packets to many nodes can be simulated: flits of a packet must not extend over several buffers, and
    /// cycles of copies are not detected.
    pub fn can_cast(config: &NetworkConfig, deadlock_free: bool) -> bool {
        config.switch.switching == Switching::CutThrough && deadlock_free
    }

    /// Adds a tree over this network's topology; returns its number.
    ///
    /// # Panics
    /// If [`Network::can_cast`] is false, which is a bug of the caller.
    pub fn add_tree(&mut self, tree: &MulticastTree) -> u32 {
        assert!(Network::can_cast(&self.config, self.routing.deadlock_free()), "a tree in a network that cannot cast");
        trees::append(&mut self.branches, tree, self.buffers.virtual_channels)
    }

    /// Returns the number of nodes that a tree leads to.
    pub fn tree_targets(&self, tree: u32) -> u32 {
        self.branches[tree as usize].targets
    }

    /// Like [`Network::inject`], for a packet to all targets of a tree that begins at its node. `packet.to` is not
    /// read. Each target yields an [`Arrival`], whose packet names it. Statistics count it once for each target.
    ///
    /// # Panics
    /// If there is no such tree, or the payload is longer than `packet_bytes`. Each is a bug of the caller.
    pub fn inject_cast(&mut self, now: Time, packet: Packet, tree: u32, queue: &mut impl Schedule) {
        assert!(packet.bytes <= self.config.link.packet_bytes, "{packet:?} is too long");
        let branch = self.branches[tree as usize];
        debug_assert_eq!(branch.output, self.topology.injection_channel(packet.from) * self.buffers.virtual_channels);
        self.statistics.injected += u64::from(branch.targets);
        if self.is_watched {
            self.observers.tell(|observer| observer.injected(now, &packet));
        }
        self.put_in_source(now, (packet, now), RouteState::default(), (Cast::Tree, tree), queue);
    }

    /// Copies the first packet of a buffer. The copies ask for their outputs.
    pub(super) fn copy(&mut self, now: Time, holder: u32, queue: &mut impl Schedule) {
        let Resident { packet, buffer, left, end_in, .. } = self.buffers.residents[holder];
        let flight = self.buffers.flights[packet];
        let Branch { first, count, .. } = self.branches[flight.output as usize];
        let here = &mut self.buffers.residents[holder];
        (here.state, here.copies, here.started) = (State::Copied, count as u16, now);
        self.buffers.flights.remove(packet);
        for place in first..first + count {
            let branch = self.branches[place as usize];
            let mut copied = flight;
            match branch.node {
                NONE => copied.output = place,
                node => {
                    copied.packet.to.0 = node;
                    (copied.output, copied.cast) = (NONE, Cast::Leaf);
                }
            }
            let packet = self.buffers.flights.insert(copied);
            let generation = self.buffers.next_generation();
            let copy = self.buffers.residents.insert(Resident {
                packet,
                next: NONE,
                next_waiter: NONE,
                buffer,
                output: NONE,
                generation,
                left,
                ready: left,
                asked: now,
                end_in,
                started: Time::ZERO,
                state: State::Queued,
                lost: false,
                copies: 0,
                holder,
            });
            let at_router = buffer < self.buffers.sources;
            let output = if at_router { self.buffers.staged(branch.output) } else { branch.output };
            self.request(now, copy, output, queue);
        }
    }

    /// Ends a copy that has left its router by `at`. The last one frees the buffer.
    pub(super) fn copy_left(&mut self, copy: u32, at: Time, queue: &mut impl Schedule) {
        let holder = self.buffers.residents[copy].holder;
        self.buffers.free_resident(copy);
        let here = &mut self.buffers.residents[holder];
        here.copies -= 1;
        here.started = here.started.max(at);
        if here.copies == 0 {
            let (buffer, flits, last) = (here.buffer, here.left, here.started);
            self.leave(holder, buffer, last, flits, true, queue);
        }
    }

    /// Loses a packet on a tree for all targets behind its branch.
    pub(super) fn lose_tree(&mut self, now: Time, packet: u32, why: LossReason) {
        let flight = self.buffers.flights[packet];
        self.buffers.flights.remove(packet);
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.lose(why, self.branches[flight.output as usize].targets.into());
        }
        let mut open = vec![flight.output];
        while let Some(place) = open.pop() {
            let branch = self.branches[place as usize];
            open.extend((branch.first..branch.first + branch.count).rev());
            if branch.node != NONE {
                let mut packet = flight.packet;
                packet.to.0 = branch.node;
                self.statistics.lost += 1;
                self.arrive(Arrival::Lost(Loss { packet, injected: flight.injected, at: now, why }));
            }
        }
    }
}

#[cfg(test)]
#[path = "multicast_tests.rs"]
mod tests;
