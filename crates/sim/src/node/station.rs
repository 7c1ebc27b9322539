// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a node has once, and who uses it until when.

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
    /// When the last message was delivered: none overtakes another.
    delivered: Time,
    /// Ranks whose long messages are arriving.
    pub streams: Vec<u32>,
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

    /// A long message from a rank begins to arrive. False: there are as many as the NIC can tell apart.
    pub fn open_stream(&mut self, machine: &Machine, from: u32) -> bool {
        let most = machine.nic.streams_max as usize;
        if most == 0 {
            return true;
        }
        if self.streams.len() >= most && !self.streams.contains(&from) {
            return false;
        }
        self.streams.push(from);
        true
    }

    pub fn close_stream(&mut self, machine: &Machine, from: u32) {
        if machine.nic.streams_max == 0 {
            return;
        }
        if let Some(at) = self.streams.iter().position(|other| *other == from) {
            self.streams.swap_remove(at);
        }
    }
}
