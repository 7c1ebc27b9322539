// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port: one end of a cable, and the hellos by which the two ends find each other (seed 002, section 2.3, "Linkport
//! management").
//!
//! # Invariants
//!
//! 1. The state follows from facts: carrier, settings, the last hello, a block with an end. [`LinkPort::evaluate`] is
//!    the only place that sets it.
//! 2. A port echoes the end that it hears in the states one way and up, and in no other. So a port is up only while the
//!    other end can be.
//! 3. The session grows with each fall, and a hello that is older than the last one is ignored. So no frame from before
//!    a fall has an effect after it.
//! 4. A hello of another host neither replaces nor disturbs a neighbour that is still heard.
use crate::config::Timing;
use crate::event::{Block, Event};
use crate::id::{End, HostId};
use crate::wire::{Echo, Hello};
use alloc::vec::Vec;
use selvedge_fabric::Port;

/// Drops of a link that have no consequence.
const DROPS_FREE: u32 = 3;
/// Hellos are sent this many times less often where none arrive.
const QUIET_FACTOR: u64 = 10;

/// The state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No carrier, or disabled.
    #[default]
    Down,
    Blocked(Block),
    /// Nothing is heard.
    Probing,
    /// The other end is heard; it does not hear this one.
    OneWay,
    Up,
}

/// Counters of a port, since the manager was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub frames_sent: u64,
    pub frames_received: u64,
    /// Frames that were damaged, malformed, of another version, or from another sender than the neighbour.
    pub frames_refused: u64,
    /// Hellos of the neighbour that did not arrive, by their numbers.
    pub hellos_lost: u64,
    /// Announcements that were sent again.
    pub repeats: u64,
    pub drops: u64,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    end: End,
    mtu: u32,
    at_ns: u64,
    number: u32,
    sent_ns: u64,
    is_echo: bool,
}

/// One end of a cable.
#[derive(Clone, Debug)]
pub struct LinkPort {
    own: End,
    state: State,
    pub(crate) is_enabled: bool,
    pub(crate) is_drained: bool,
    expected: Option<(HostId, Port)>,
    pub(crate) counters: Counters,
    /// MTU while there is a carrier.
    carrier: Option<u32>,
    heard: Option<Heard>,
    last: Option<(HostId, Port)>,
    block: Option<(Block, u64)>,
    /// A hello of another end than the one heard.
    stranger: Option<End>,
    noted_crowd: bool,
    noted_mtu: Option<(u32, u32)>,
    noted_one_way: bool,
    noted_quiet: bool,
    one_way_since_ns: u64,
    quiet_since_ns: u64,
    refused_event_ns: Option<u64>,
    next_hello_ns: u64,
    number: u32,
    drops: u32,
    dropped_ns: u64,
    rtt_ns: Option<u64>,
}

impl LinkPort {
    pub(crate) fn new(own: End) -> LinkPort {
        LinkPort {
            own,
            state: State::Down,
            is_enabled: true,
            is_drained: false,
            expected: None,
            counters: Counters::default(),
            carrier: None,
            heard: None,
            last: None,
            block: None,
            stranger: None,
            noted_crowd: false,
            noted_mtu: None,
            noted_one_way: false,
            noted_quiet: false,
            one_way_since_ns: 0,
            quiet_since_ns: 0,
            refused_event_ns: None,
            next_hello_ns: 0,
            number: 0,
            drops: 0,
            dropped_ns: 0,
            rtt_ns: None,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn number(&self) -> Port {
        self.own.port
    }

    /// This end, as its frames name it.
    pub(crate) fn end(&self) -> End {
        self.own
    }

    /// The other end, if it is heard.
    pub fn neighbour(&self) -> Option<End> {
        self.heard.map(|heard| heard.end)
    }

    /// The other end, if the link is up.
    pub fn up(&self) -> Option<End> {
        self.neighbour().filter(|_| self.state == State::Up)
    }

    /// MTU of this end; None: there is no carrier.
    pub fn carrier(&self) -> Option<u32> {
        self.carrier
    }

    /// The smaller MTU of both ends, if the other one is heard.
    pub fn mtu(&self) -> Option<u32> {
        Some(self.carrier?.min(self.heard?.mtu))
    }

    /// Round trip of hellos, smoothed.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.rtt_ns
    }

    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Whether the link is used only where no other path leads.
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) fn set_carrier(&mut self, now_ns: u64, mtu: Option<u32>) {
        if mtu.is_none() || self.carrier.is_none() {
            self.forget(now_ns);
        }
        self.carrier = mtu;
    }

    /// Brings the link up with the other end, as if both had just heard each other.
    pub(crate) fn join(&mut self, now_ns: u64, mtu: u32, other: End, timing: &Timing) {
        self.carrier = Some(mtu);
        self.heard = Some(Heard { end: other, mtu, at_ns: now_ns, number: 0, sent_ns: now_ns, is_echo: true });
        (self.last, self.state) = (Some((other.host, other.port)), State::Up);
        (self.quiet_since_ns, self.next_hello_ns) = (now_ns, now_ns + timing.hello_ns);
    }

    /// Forgets the other end, blocks and drops; the next hello is due at once.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        self.forget(now_ns);
        (self.drops, self.rtt_ns) = (0, None);
    }

    fn forget(&mut self, now_ns: u64) {
        (self.heard, self.stranger) = (None, None);
        if !matches!(self.block, Some((Block::Unstable { .. }, _))) {
            self.block = None;
        }
        (self.noted_crowd, self.noted_quiet, self.noted_one_way) = (false, false, false);
        (self.quiet_since_ns, self.next_hello_ns) = (now_ns, now_ns);
    }

    /// Takes a hello that arrived.
    pub(crate) fn hear(&mut self, now_ns: u64, from: End, hello: &Hello, timing: &Timing, events: &mut Vec<Event>) {
        self.expire(now_ns, timing);
        let port = self.own.port;
        if from.host == self.own.host {
            let block = match from.boot == self.own.boot {
                true => Block::Loop { port: from.port },
                false => Block::SameHost { boot: from.boot },
            };
            return self.block_unless_heard(now_ns, block, timing);
        }
        if let Some(heard) = self.heard {
            if (heard.end.host, heard.end.port) != (from.host, from.port) {
                self.stranger = Some(from);
                return;
            }
            if heard.end.boot == from.boot {
                let Some(missed) = ahead(hello.number, heard.number) else { return };
                self.counters.hellos_lost += if missed < 1000 { u64::from(missed) } else { 0 };
            }
            if let Some(other) = self.stranger.take().filter(|_| !self.noted_crowd) {
                self.noted_crowd = true;
                events.push(Event::Crowded { port, neighbour: from, other });
            }
        }
        if self.block.is_some_and(|(block, _)| !matches!(block, Block::Unstable { .. })) {
            self.block = None;
        }
        let echo = hello.echo.filter(|echo| echo.end == self.own);
        self.heard = Some(Heard {
            end: from,
            mtu: hello.mtu,
            at_ns: now_ns,
            number: hello.number,
            sent_ns: hello.sent_ns,
            is_echo: echo.is_some(),
        });
        (self.quiet_since_ns, self.noted_quiet) = (now_ns, false);
        if let Some(rtt) = echo.and_then(|echo| now_ns.checked_sub(echo.sent_ns)?.checked_sub(echo.held_ns)) {
            self.rtt_ns = Some(self.rtt_ns.map_or(rtt, |old| old - old / 8 + rtt / 8));
        }
        self.note(from, events);
    }

    /// Sets the neighbour that the cable should lead to. Returns an event if it leads to another one.
    pub(crate) fn expect(&mut self, expected: Option<(HostId, Port)>) -> Option<Event> {
        self.expected = expected;
        let found = self.heard.map(|heard| (heard.end.host, heard.end.port))?;
        let expected = expected.filter(|&expected| expected != found)?;
        Some(Event::Miswired { port: self.own.port, expected, found })
    }

    /// Compares the other end with the one before, with the one expected, and with this one.
    fn note(&mut self, from: End, events: &mut Vec<Event>) {
        let port = self.own.port;
        let found = (from.host, from.port);
        if self.last != Some(found) {
            if let Some(before) = self.last {
                events.push(Event::Moved { port, before, after: found });
            }
            if let Some(expected) = self.expected.filter(|&expected| expected != found) {
                events.push(Event::Miswired { port, expected, found });
            }
            (self.last, self.noted_mtu) = (Some(found), None);
        }
        if let (Some(own), Some(heard)) = (self.carrier, self.heard) {
            if own != heard.mtu && self.noted_mtu != Some((own, heard.mtu)) {
                self.noted_mtu = Some((own, heard.mtu));
                events.push(Event::MtuDiffers { port, own, other: heard.mtu });
            }
        }
    }

    /// Counts a frame that was refused. Returns whether an event is due: they are rare, however many frames come.
    pub(crate) fn refuse(&mut self, now_ns: u64, block: Option<Block>, timing: &Timing) -> bool {
        self.counters.frames_refused += 1;
        self.expire(now_ns, timing);
        if let Some(block) = block {
            self.block_unless_heard(now_ns, block, timing);
        }
        let is_due = self.refused_event_ns.is_none_or(|last| now_ns - last >= timing.drops_ns);
        if is_due {
            self.refused_event_ns = Some(now_ns);
        }
        is_due
    }

    fn block_unless_heard(&mut self, now_ns: u64, block: Block, timing: &Timing) {
        if self.heard.is_none() && self.carrier.is_some() {
            self.block = Some((block, now_ns + QUIET_FACTOR * 2 * timing.hello_ns + timing.silence_ns));
            self.quiet_since_ns = now_ns;
        }
    }

    fn expire(&mut self, now_ns: u64, timing: &Timing) {
        self.heard = self.heard.filter(|heard| now_ns < heard.at_ns + timing.silence_ns);
        self.block = self.block.filter(|&(_, until_ns)| now_ns < until_ns);
    }

    /// Sets the state that follows from the facts. A link that falls often is blocked for a while.
    pub(crate) fn evaluate(&mut self, now_ns: u64, timing: &Timing) {
        let before = self.state;
        self.expire(now_ns, timing);
        let fall = before == State::Up && self.follows() != State::Up;
        if fall {
            self.own.session = self.own.session.wrapping_add(1);
        }
        if fall && self.is_enabled {
            self.counters.drops += 1;
            self.drops = if now_ns - self.dropped_ns > timing.drops_ns { 1 } else { self.drops + 1 };
            self.dropped_ns = now_ns;
            if self.drops > DROPS_FREE {
                let pause_ns = timing.silence_ns << (self.drops - DROPS_FREE - 1).min(10);
                let until_ns = now_ns + pause_ns.min(timing.drops_ns);
                self.block = Some((Block::Unstable { drops: self.drops }, until_ns));
            }
        }
        self.state = self.follows();
        if self.state != before && self.state == State::OneWay {
            self.one_way_since_ns = now_ns;
        }
        if self.state == State::Up {
            self.noted_one_way = false;
        }
    }

    fn follows(&self) -> State {
        match (self.block, self.heard) {
            _ if !self.is_enabled || self.carrier.is_none() => State::Down,
            (Some((block, _)), _) => State::Blocked(block),
            (None, None) => State::Probing,
            (None, Some(heard)) if heard.is_echo => State::Up,
            (None, Some(_)) => State::OneWay,
        }
    }

    /// Events of states that last.
    pub(crate) fn note_lasting(&mut self, now_ns: u64, timing: &Timing, events: &mut Vec<Event>) {
        let port = self.own.port;
        let lasts = self.state == State::OneWay && now_ns - self.one_way_since_ns > 2 * timing.silence_ns;
        if let Some(neighbour) = self.neighbour().filter(|_| lasts && !self.noted_one_way) {
            self.noted_one_way = true;
            events.push(Event::OneWay { port, neighbour });
        }
        if self.is_quiet(now_ns, timing) && !self.noted_quiet {
            self.noted_quiet = true;
            events.push(Event::NoManager { port });
        }
    }

    fn is_quiet(&self, now_ns: u64, timing: &Timing) -> bool {
        self.state == State::Probing && now_ns - self.quiet_since_ns > timing.quiet_ns
    }

    pub(crate) fn is_hello_due(&self, now_ns: u64) -> bool {
        self.state != State::Down && now_ns >= self.next_hello_ns
    }

    /// The next hello of the port.
    pub(crate) fn hello(&mut self, now_ns: u64, timing: &Timing) -> Hello {
        let factor = if self.is_quiet(now_ns, timing) { QUIET_FACTOR } else { 1 };
        self.next_hello_ns = now_ns + factor * timing.hello_ns;
        self.number = self.number.wrapping_add(1);
        let heard = self.heard.filter(|_| matches!(self.state, State::OneWay | State::Up));
        let echo = heard.map(|heard| Echo {
            end: heard.end,
            sent_ns: heard.sent_ns,
            held_ns: now_ns.saturating_sub(heard.at_ns),
        });
        Hello { mtu: self.carrier.unwrap_or(0), number: self.number, sent_ns: now_ns, echo }
    }

    /// The time at which something is due without an input.
    pub(crate) fn due_ns(&self, timing: &Timing) -> u64 {
        if self.state == State::Down {
            return u64::MAX;
        }
        let silence_ns = self.heard.map_or(u64::MAX, |heard| heard.at_ns + timing.silence_ns);
        let block_ns = self.block.map_or(u64::MAX, |(_, until_ns)| until_ns);
        self.next_hello_ns.min(silence_ns).min(block_ns)
    }
}

/// The hellos between two numbers; None: the first one is not newer than the second.
fn ahead(number: u32, before: u32) -> Option<u32> {
    number.wrapping_sub(before).checked_sub(1).filter(|&missed| missed < u32::MAX / 2)
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
