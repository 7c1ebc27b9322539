// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a node has once, and who uses it until when.

use std::collections::VecDeque;

use crate::machine::Machine;
use crate::time::Time;

/// A node's processor, the engines of its NIC, its bus.
#[derive(Clone, Debug, Default)]
pub(super) struct Station {
    /// The processor's part that serves interrupts.
    processor_free: Time,
    /// Sending, receiving; one engine where the NIC has one processor.
    engines_free: [Time; 2],
    bus_read_free: Time,
    bus_write_free: Time,
    /// Messages that leave this node, one after the other: a short one does not overtake a long one whose payload is still being read.
    pub leaving: VecDeque<u32>,
    /// When the last packet that was handed to the fabric, or the last message, has left, if nothing but its own kind is in its way.
    pub sent: Time,
    /// When the last message to the own node was there.
    pub looped: Time,
    /// When the last message was delivered: none overtakes another.
    delivered: Time,
    /// Ranks whose long messages are arriving, and how many of each.
    streams: Vec<(u32, u32)>,
}

/// The engines of a NIC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Send,
    Receive,
}

impl Station {
    fn engine(&mut self, machine: &Machine, engine: Engine) -> &mut Time {
        let at = if machine.nic.processors == 1 { 0 } else { usize::from(engine == Engine::Receive) };
        &mut self.engines_free[at]
    }

    /// Works on something that comes at `at`; gives when it begins and when it is done. Firmware that was idle finds it half a turn
    /// of its loop later; busy firmware comes round to it at the end of what it does.
    pub fn work(&mut self, machine: &Machine, engine: Engine, at: Time, cost: Time) -> (Time, Time) {
        let free = self.engine(machine, engine);
        let start = (*free).max(at + machine.nic.polling_loop / 2);
        *free = start + cost;
        (start, *free)
    }

    /// The engine, or the processor in host mode, turned out to need so much more.
    pub fn prolong(&mut self, machine: &Machine, interrupts: bool, cost: Time) {
        if interrupts {
            self.processor_free += cost;
        } else {
            *self.engine(machine, Engine::Receive) += cost;
        }
    }

    /// The processor serves something that comes at `at`.
    pub fn serve(&mut self, at: Time, cost: Time) -> (Time, Time) {
        let start = self.processor_free.max(at);
        self.processor_free = start + cost;
        (start, self.processor_free)
    }

    /// Bytes go from memory to the NIC: when the last is there.
    pub fn read(&mut self, machine: &Machine, at: Time, bytes: u64) -> Time {
        self.bus_read_free = self.bus_read_free.max(at) + Time::of_bytes(bytes, machine.host.dma_bytes_per_s);
        self.bus_read_free
    }

    /// More bytes follow, from `at` on, which take so long: when they begin.
    pub fn read_on(&mut self, at: Time, time: Time) -> Time {
        let begins = self.bus_read_free.max(at);
        self.bus_read_free = begins + time;
        begins
    }

    /// Bytes go from the NIC to memory, as they arrive from `first` on: when the last is on its way.
    pub fn write(&mut self, machine: &Machine, first: Time, bytes: u64) -> Time {
        self.bus_write_free = self.bus_write_free.max(first) + Time::of_bytes(bytes, machine.host.dma_bytes_per_s);
        self.bus_write_free
    }

    /// When something that could be delivered at `at` is.
    pub fn in_order(&mut self, at: Time) -> Time {
        self.delivered = self.delivered.max(at);
        self.delivered
    }

    /// A long message from a rank begins to arrive. False: there are as many sources as the NIC can tell apart.
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

    pub fn close_stream(&mut self, from: u32) {
        if let Some(at) = self.streams.iter().position(|(source, _)| *source == from) {
            self.streams[at].1 -= 1;
            if self.streams[at].1 == 0 {
                self.streams.swap_remove(at);
            }
        }
    }
}
