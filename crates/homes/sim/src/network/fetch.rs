// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetching the state of coming events into the cache.
//!
//! In a large network, an event touches some ten cache lines that no recent event has touched, and waits for each. So
//! the loop that takes events looks ahead: it names each event [`FETCHED_AHEAD`] places before its turn, once for each
//! step, and each step fetches the lines that those of the step before refer to. Nothing changes but the time that an
//! event takes: a record that another event reuses meanwhile is fetched in vain.

use selvedge_fabric::NodeId;
use selvedge_os::lines::about_to_write;

use super::buffers::Buffers;
use super::event::{Event, NetworkEvent};
use super::slab::NONE;

/// Places ahead at which the caller names an event, for each step. An event that handles another line in 100 ns runs
/// some ten events ahead of a memory access.
pub(crate) const FETCHED_AHEAD: [usize; 3] = [20, 13, 6];

#[inline(always)]
fn fetch<T>(record: Option<&T>) {
    if let Some(record) = record {
        about_to_write(std::ptr::from_ref(record).cast());
    }
}

impl Buffers {
    /// Fetches the state of an event.
    #[inline]
    pub fn fetch(&self, event: &NetworkEvent, step: usize) {
        match (event.0, step) {
            (Event::Ready { resident, .. }, 0) => fetch(self.residents.get(resident)),
            (Event::Ready { resident, generation }, _) => {
                let Some(here) = self.residents.get(resident) else { return };
                if here.generation != generation {
                    return;
                }
                let buffer = self.vcs.get(here.buffer as usize);
                if step == 1 {
                    fetch(self.residents.get(here.next));
                    fetch(buffer);
                    fetch(self.flights.get(here.packet));
                } else if let Some(buffer) = buffer {
                    fetch(self.links.get(buffer.channel as usize));
                    fetch(self.releases.get(buffer.releases.last()));
                }
            }
            (Event::Wake { channel }, 0) => {
                fetch(self.links.get(channel as usize));
                fetch(self.vcs.get((channel * self.virtual_channels) as usize));
            }
            (Event::Wake { channel }, _) => {
                let Some(out) = self.vcs.get((channel * self.virtual_channels) as usize) else { return };
                fetch(self.residents.get(if out.owner == NONE { out.waiters } else { out.owner }));
            }
            (Event::Arrive { packet } | Event::Lose { packet }, 0) => fetch(self.flights.get(packet)),
            _ => {}
        }
    }

    /// Fetches the state of an output.
    #[inline]
    pub fn fetch_output(&self, output: Option<u32>) {
        if let Some(output) = output {
            fetch(self.vcs.get(output as usize));
            fetch(self.links.get((output / self.virtual_channels) as usize));
        }
    }

    /// Returns the number of the message whose packet an event delivers.
    #[inline]
    pub fn delivered_by(&self, event: &NetworkEvent) -> Option<u64> {
        let Event::Arrive { packet } = event.0 else { return None };
        let packet = &self.flights.get(packet)?.packet;
        (!packet.header.is_control()).then_some(packet.message)
    }

    /// Fetches the state of a node that is about to inject a packet.
    #[inline]
    pub fn fetch_source(&self, node: NodeId) {
        // A message that is not sent yet has no node.
        if !self.layout().partition.nodes.contains(&node.0) {
            return;
        }
        let channel = self.injection(node);
        fetch(self.vcs.get(self.source(node) as usize));
        fetch(self.links.get(channel as usize));
        fetch(self.vcs.get(channel.saturating_mul(self.virtual_channels) as usize));
    }
}
