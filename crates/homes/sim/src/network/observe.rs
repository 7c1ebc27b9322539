// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observers of a network: each packet injected, blocked, sent over a channel, delivered and lost.
//!
//! An observer changes nothing in the network. Without one, a network tests an empty list at each of these points.
//!
//! # Order
//!
//! Calls come in order of time. A packet is injected; at each channel it is blocked or not, then sent, as a whole or in
//! wormhole networks flit by flit; at last it arrives, delivered or lost. A packet that leaves a queue without being
//! sent is withdrawn. Of a packet to many nodes each copy is sent, and arrives, by itself.

use std::fmt::Debug;
use std::io;

use super::Packet;
use super::packet::Arrival;
use crate::time::Time;

/// A packet or flit that a channel begins to carry.
#[derive(Clone, Copy, Debug)]
pub struct Transmission<'a> {
    pub packet: &'a Packet,
    pub channel: u32,
    pub vc: u8,
    pub flits: u32,
    /// Bytes on the wire, with header and CRC, without repetitions.
    pub bytes: u64,
    pub head: bool,
    pub tail: bool,
    /// Of a head that was blocked: the time for which it waited.
    pub waited: Option<Time>,
    /// Whether it leaves a router, and not a node.
    pub from_router: bool,
    /// Beginning of the first attempt, and of the successful one.
    pub begin: Time,
    pub start: Time,
    pub end: Time,
    /// The channel loses it.
    pub lost: bool,
}

/// An observer of a network.
pub trait Observe: Debug {
    fn injected(&mut self, _now: Time, _packet: &Packet) {}

    /// A head has to wait for a channel. `at_router`: it does not wait at its node.
    fn blocked(&mut self, _now: Time, _channel: u32, _packet: &Packet, _at_router: bool) {}

    /// A blocked head no longer waits, and is not sent.
    fn withdrawn(&mut self, _now: Time, _channel: u32) {}

    fn sent(&mut self, _sent: &Transmission<'_>) {}

    fn arrived(&mut self, _arrival: &Arrival) {}

    /// The run is over.
    ///
    /// # Errors
    /// A file that could not be written, also earlier.
    fn end(&mut self, now: Time) -> io::Result<()>;
}

/// The observers of a network.
#[derive(Debug, Default)]
pub(super) struct Observers(Vec<Box<dyn Observe>>);

impl Observers {
    pub fn add(&mut self, observer: Box<dyn Observe>) {
        self.0.push(observer);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells each observer.
    #[cold]
    pub fn tell(&mut self, mut what: impl FnMut(&mut dyn Observe)) {
        self.0.iter_mut().for_each(|observer| what(&mut **observer));
    }

    /// Ends the observation, and drops the observers. Returns the first error of one.
    pub fn end(&mut self, now: Time) -> io::Result<()> {
        let ends = std::mem::take(&mut self.0).into_iter().map(|mut observer| observer.end(now));
        ends.fold(Ok(()), io::Result::and)
    }
}
