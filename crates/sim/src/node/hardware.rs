// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The resources of a node that messages share, and the times until which they are busy.

use std::collections::VecDeque;

use crate::machine::Machine;
use crate::time::Time;

/// A node's processor, the engines of its NIC, and its bus.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeHardware {
    /// When the processor has served its last interrupt.
    processor_free: Time,
    /// When the send and the receive engine are free; a NIC with one processor uses only the first.
    engines_free: [Time; 2],
    bus_read_free: Time,
    bus_write_free: Time,
    /// Messages that leave this node, one after the other. A short one does not overtake a long one whose payload is
    /// still being read.
    pub leaving: VecDeque<u32>,
    /// When the last injected packet, or the last message, has left the node.
    pub sent: Time,
    /// When the last message from this node to itself has arrived.
    pub looped: Time,
    /// When the last message was delivered: no message overtakes another.
    delivered: Time,
    /// Source ranks of arriving long messages, and the number of messages of each.
    streams: Vec<(u32, u32)>,
}

/// The engines of a NIC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Send,
    Receive,
}

impl NodeHardware {
    fn engine(&mut self, machine: &Machine, engine: Engine) -> &mut Time {
        let at = if machine.nic.processors == 1 { 0 } else { usize::from(engine == Engine::Receive) };
        &mut self.engines_free[at]
    }

    /// An engine processes an item that arrives at `at`; gives start and end. Idle firmware finds the item after half a
    /// turn of its polling loop, on average; busy firmware takes it when it has finished the previous one.
    pub fn work(&mut self, machine: &Machine, engine: Engine, at: Time, cost: Time) -> (Time, Time) {
        let free = self.engine(machine, engine);
        let start = (*free).max(at + machine.nic.polling_loop / 2);
        *free = start + cost;
        (start, *free)
    }

    /// Extends the last work of the receive engine, or of the processor in host mode.
    pub fn prolong(&mut self, machine: &Machine, interrupts: bool, cost: Time) {
        if interrupts {
            self.processor_free += cost;
        } else {
            *self.engine(machine, Engine::Receive) += cost;
        }
    }

    /// The processor serves an interrupt that is raised at `at`; gives start and end.
    pub fn serve(&mut self, at: Time, cost: Time) -> (Time, Time) {
        let start = self.processor_free.max(at);
        self.processor_free = start + cost;
        (start, self.processor_free)
    }

    /// DMA from memory to the NIC; gives the time at which the last byte has arrived.
    pub fn read(&mut self, machine: &Machine, at: Time, bytes: u64) -> Time {
        self.bus_read_free = self.bus_read_free.max(at) + Time::of_bytes(bytes, machine.host.dma_bytes_per_s);
        self.bus_read_free
    }

    /// More DMA from memory to the NIC, at `at` or later, for `time`; gives its start.
    pub fn read_on(&mut self, at: Time, time: Time) -> Time {
        let begins = self.bus_read_free.max(at);
        self.bus_read_free = begins + time;
        begins
    }

    /// DMA from the NIC to memory of bytes that arrive from `first` on; gives the time at which the last byte leaves
    /// the NIC.
    pub fn write(&mut self, machine: &Machine, first: Time, bytes: u64) -> Time {
        self.bus_write_free = self.bus_write_free.max(first) + Time::of_bytes(bytes, machine.host.dma_bytes_per_s);
        self.bus_write_free
    }

    /// The delivery time of a message that is ready at `at`: not before the previous delivery.
    pub fn in_order(&mut self, at: Time) -> Time {
        self.delivered = self.delivered.max(at);
        self.delivered
    }

    /// Assigns a stream to a long message from a rank. False: all streams of the NIC are in use by other sources.
    pub fn open_stream(&mut self, machine: &Machine, from: u32) -> bool {
        let most = machine.nic.streams_max as usize;
        if most == 0 {
            return true;
        }
        let full = self.streams.len() >= most;
        match self.streams.iter_mut().find(|(source, _)| *source == from) {
            Some((_, count)) => *count += 1,
            None if full => return false,
            None => self.streams.push((from, 1)),
        }
        true
    }

    /// Ends one long message of a rank; frees the stream after its last one.
    pub fn close_stream(&mut self, from: u32) {
        if let Some(at) = self.streams.iter().position(|(source, _)| *source == from) {
            self.streams[at].1 -= 1;
            if self.streams[at].1 == 0 {
                self.streams.swap_remove(at);
            }
        }
    }
}
