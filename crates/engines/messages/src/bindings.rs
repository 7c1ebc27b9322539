// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bindings of an endpoint: the queues and counters at which its operations end.

use selvedge_nic::handle::NONE;

use crate::completion::CompletionQueue;
use crate::flags::{READ, RECV, SEND, WRITE};

/// Selects the transmit or the receive queue and counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Transmit,
    Receive,
}

/// Ordering between classes of operations (`msg_order`). Messages always keep their order, and so do atomics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Messages and accesses to registered memory.
    pub messages: bool,
    /// Reads, writes and atomics.
    pub accesses: bool,
}

impl Orders {
    pub const ALL: Orders = Orders { messages: true, accesses: true };
    pub const NONE: Orders = Orders { messages: false, accesses: false };
}

/// The bindings of an endpoint. The front door owns them. They outlive the endpoint's operations.
#[derive(Clone, Copy)]
pub struct Bindings {
    pub tx_queue: *mut CompletionQueue,
    pub rx_queue: *mut CompletionQueue,
    /// The endpoint's number in its transport.
    pub index: u16,
    /// The flags of its messages' envelopes in rings.
    pub ring_flags: u8,
    /// Completions name the sender of a message.
    pub names_sources: bool,
    /// The NIC's counters of sends, receives, reads and writes, and of others' reads and writes, or NONE.
    pub counters: [u32; 6],
    pub orders: Orders,
}

impl Bindings {
    /// An endpoint without queues and counters.
    pub fn new(names_sources: bool) -> Bindings {
        let (tx_queue, rx_queue) = (std::ptr::null_mut(), std::ptr::null_mut());
        Bindings {
            tx_queue,
            rx_queue,
            index: 0,
            ring_flags: 0,
            names_sources,
            counters: [NONE; 6],
            orders: Orders::ALL,
        }
    }

    /// The completion queue of this side, or null.
    #[inline(always)]
    pub fn queue(&self, side: Side) -> *mut CompletionQueue {
        match side {
            Side::Transmit => self.tx_queue,
            Side::Receive => self.rx_queue,
        }
    }

    /// The counter of an operation with these completion flags, or NONE.
    #[inline(always)]
    pub fn counter_for(&self, flags: u64) -> u32 {
        match flags & (SEND | RECV | READ | WRITE) {
            SEND => self.counters[0],
            RECV => self.counters[1],
            READ => self.counters[2],
            WRITE => self.counters[3],
            _ => NONE,
        }
    }
}
