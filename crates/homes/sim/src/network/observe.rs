// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observers of a network: each packet injected, blocked, sent over a channel, delivered and lost.
//!
//! An observer changes nothing in the network. Without one, a network tests one flag at each of these points.
//!
//! # Order
//!
//! Calls come in order of time. A packet is injected; at each channel it is blocked or not, then sent, as a whole or in
//! wormhole networks flit by flit; at last it arrives, delivered or lost. A packet that leaves a queue without being
//! sent is withdrawn. Of a packet to many nodes each copy is sent, and arrives, by itself.

use std::fmt::Debug;
use std::io;

use super::Packet;
use selvedge_fabric::link::Control;

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

/// A transmission that failed: one flit was lost or corrupted.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub channel: u32,
    /// Flits of the packet that had crossed before, and those that crossed before the failing one.
    pub across: u32,
    pub good: u32,
    pub start: Time,
    /// The flit was lost; otherwise its CRC is wrong.
    pub lost: bool,
    /// The failing flit and those after it are sent again. `None`: the link has no retransmission.
    pub repeated_at: Option<Time>,
}

/// An observer of a network.
pub trait Observe: Debug + Send {
    fn injected(&mut self, _now: Time, _packet: &Packet) {}

    /// A head has to wait for a channel. `at_router`: it does not wait at its node.
    fn blocked(&mut self, _now: Time, _channel: u32, _packet: &Packet, _at_router: bool) {}

    /// A blocked head no longer waits, and is not sent.
    fn withdrawn(&mut self, _now: Time, _channel: u32) {}

    fn sent(&mut self, _sent: &Transmission<'_>) {}

    fn arrived(&mut self, _arrival: &Arrival) {}

    /// Before a packet or flit is sent with success: an attempt that failed.
    fn failed(&mut self, _attempt: &Attempt) {}

    /// Credits reach the sender of a channel at `at`, which may be later than other calls' times.
    fn returned(&mut self, _at: Time, _channel: u32, _vc: u8, _flits: u32) {}

    /// Flits have left the buffer at the end of a channel by `at`, which may be later than other calls' times.
    fn taken(&mut self, _at: Time, _channel: u32, _vc: u8, _flits: u32) {}

    /// A channel fails, or is repaired.
    fn link(&mut self, _now: Time, _channel: u32, _is_up: bool) {}

    /// Whether it wants the control characters of a channel.
    fn wants_controls(&self, _channel: u32) -> bool {
        false
    }

    /// The control characters that have reached the sender of a channel, at the end of the run.
    fn controls(&mut self, _channel: u32, _vc: u8, _seen: &[(Time, Control)]) {}

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

    /// Tells each observer.
    #[cold]
    pub fn tell(&mut self, mut what: impl FnMut(&mut dyn Observe)) {
        self.0.iter_mut().for_each(|observer| what(&mut **observer));
    }

    /// Whether one of them wants the control characters of a channel.
    pub fn want_controls(&self, channel: u32) -> bool {
        self.0.iter().any(|observer| observer.wants_controls(channel))
    }

    /// Ends the observation, and drops the observers. Returns the first error of one.
    pub fn end(&mut self, now: Time) -> io::Result<()> {
        let ends = std::mem::take(&mut self.0).into_iter().map(|mut observer| observer.end(now));
        ends.fold(Ok(()), io::Result::and)
    }
}
