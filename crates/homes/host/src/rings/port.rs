// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings for one port of a NIC (VELO), and their reader.
//!
//! A message to a port needs no matching. So the port's reader dequeues straight from the rings that were claimed for
//! the port. It takes no lock, because no other code dequeues there.
//!
//! Invariants
//! 1. A port is open for rings from [`Rings::open_port`] to [`Rings::close_port`]. Each time it has another generation,
//!    and a ring belongs to one generation. So a message to a closed port never reaches a later port with its number.
//! 2. A sender stores its claim and then loads the port's routing word. The owner stores that word and then loads the
//!    claims, each with a full fence between. So either the sender finds the port closed, or the owner finds the claim.
//! 3. Only its reader clears the rings of an open port. So the reader may cache the set of its rings.
//! 4. A reader takes a number of messages from one ring before another has its turn.
//!
//! Cost: a poll loads the word of all claims, and one word from each of two lines for each ring of the port.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use selvedge_nic::ring::Consumer;

use super::{Lines, RINGS, RingMessage, Rings, Sender, routing};

/// Ports that may have rings. Messages to other ports take other ways.
pub const PORTS: usize = 64;
/// Messages from one ring before another has its turn.
const BATCH: u32 = 16;

/// A port in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    number: u16,
    /// The routing word while it is open.
    open: u32,
}

impl Port {
    fn new(number: u16, generation: u32) -> Port {
        Port { number, open: generation.wrapping_mul(routing::GENERATION) | routing::OPEN }
    }

    /// Returns the port's name in claims; never 0.
    fn word(self) -> u64 {
        u64::from(self.open) << 32 | (u64::from(self.number) + 1)
    }

    /// Returns the port that a claim names. Peers may have stored any word.
    fn from_word(word: u64) -> Option<Port> {
        let number = u16::try_from((word as u32).checked_sub(1)?).ok()?;
        Some(Port { number, open: (word >> 32) as u32 })
    }
}

impl Rings {
    /// Opens a port for rings, in a generation that it has not had recently. None: this port cannot have rings.
    pub fn open_port(&self, number: u16, generation: u32) -> Option<Port> {
        let port = Port::new(number, generation);
        self.header().ports.get(usize::from(number))?.store(port.open, SeqCst);
        Some(port)
    }

    /// Closes a port: its senders find its rings closed. Calls `unread` for each message that is lost in them, and
    /// returns their number. The owner calls it under the NIC's lock.
    pub fn close_port(&self, port: Port, mut unread: impl FnMut(&RingMessage)) -> u64 {
        let Some(word) = self.header().ports.get(usize::from(port.number)) else { return 0 };
        word.store(routing::CLOSED, SeqCst);
        // Invariant 2.
        fence(SeqCst);
        let mut lost = 0;
        self.each_of(self.claimed(), port, |index| {
            // A sender that has not looked yet may add more, which are discarded later.
            let (waiting, mut reader) = (self.ring(index).waiting(), self.reader(index));
            lost += waiting;
            for _ in 0..waiting {
                let Ok(Some(message)) = reader.poll() else { break };
                unread(&message);
                reader.dequeue(&message);
            }
        });
        self.clear_ports(None);
        lost
    }

    /// Clears the rings whose senders have ended or given them up: those of this open port that are empty, and those of
    /// closed ports. The port's reader calls it, under the NIC's lock.
    pub fn clear_ports(&self, own: Option<Port>) {
        self.clear_where(|index, word| match Port::from_word(word) {
            Some(port) if self.is_open(port) => own == Some(port) && !self.has_message(index),
            Some(_) => self.discard(index),
            None => false,
        });
    }

    /// Dequeues all messages of a ring without a sender and a reader. False if it contains malformed data.
    fn discard(&self, index: usize) -> bool {
        let mut reader = self.reader(index);
        loop {
            match reader.poll() {
                Ok(Some(message)) => reader.dequeue(&message),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn is_open(&self, port: Port) -> bool {
        let word = self.header().ports.get(usize::from(port.number));
        word.is_some_and(|word| word.load(SeqCst) == port.open)
    }

    /// Calls `run` for each of these rings that was claimed for the port.
    fn each_of(&self, rings: u64, port: Port, mut run: impl FnMut(usize)) {
        for index in (0..RINGS).filter(|index| rings & 1 << index != 0) {
            if self.header().claims[index].port.load(SeqCst) == port.word() {
                run(index);
            }
        }
    }

    /// Claims a ring for messages to a port, for the process of this word and id. None if the port is not open for
    /// rings, or all rings are claimed, or there is no memory for another one.
    pub fn claim_for(self, number: u16, word: u64, id: u64) -> Option<Sender> {
        let open = self.header().ports.get(usize::from(number))?.load(SeqCst);
        if open % routing::GENERATION != routing::OPEN {
            return None;
        }
        let index = self.claim_index(word, id, Port { number, open }.word())?;
        let sender = Sender::new(self, index, |header| &header.ports[usize::from(number)], open);
        // Invariant 2. If the sender is dropped, it gives its ring up.
        fence(SeqCst);
        sender.is_open().then_some(sender)
    }
}

/// The reader of a port's rings.
#[derive(Debug)]
pub struct PortReader {
    port: Port,
    /// All claimed rings at the last search for the port's own.
    seen: u64,
    own: u64,
    /// The current ring. It is claimed for this port while `left` is not 0.
    at: usize,
    /// Messages that may follow from it before another's turn.
    left: u32,
    consumer: Consumer,
}

impl PortReader {
    /// Makes the reader of an open port. A port has one.
    pub fn new(port: Port) -> PortReader {
        PortReader { port, seen: 0, own: 0, at: 0, left: 0, consumer: Consumer::default() }
    }

    /// Returns the port that it reads.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Whether there is a message. Then [`PortReader::next`] returns it.
    #[inline(always)]
    pub fn has_message(&mut self, rings: &Rings) -> bool {
        if rings.claimed() != self.seen {
            self.look_for_own(rings);
        }
        if self.left == 0 && !self.turn_to_next(rings) {
            return false;
        }
        if rings.ring(self.at).has_next(&self.consumer) {
            return true;
        }
        self.consumer.rest();
        self.own & self.own.wrapping_sub(1) != 0 && self.turn_to_another(rings)
    }

    /// Returns the next message, after [`PortReader::has_message`] has found one. It stays until
    /// [`PortReader::dequeue`].
    #[inline(always)]
    pub fn next(&mut self, rings: &Rings) -> Option<RingMessage> {
        let ring = rings.ring(self.at);
        match ring.next::<Lines>(&self.consumer) {
            Ok(message) => message.map(|message| RingMessage::of(ring, message)),
            Err(_) => {
                self.cut_off(rings);
                None
            }
        }
    }

    /// Moves on to a ring of the port that has a message. False if there is none.
    #[inline(never)]
    fn turn_to_another(&mut self, rings: &Rings) -> bool {
        (1..self.own.count_ones()).any(|_| self.turn_to_next(rings) && rings.ring(self.at).has_next(&self.consumer))
    }

    /// Moves on to the port's next ring, round robin. False if the port has no ring.
    #[inline(never)]
    fn turn_to_next(&mut self, rings: &Rings) -> bool {
        let later = self.own & u64::MAX.checked_shl(self.at as u32 + 1).unwrap_or(0);
        let next = if later != 0 { later } else { self.own };
        if next == 0 {
            return false;
        }
        self.at = next.trailing_zeros() as usize % RINGS;
        self.left = BATCH;
        self.consumer = rings.ring(self.at).consumer();
        true
    }

    /// Dequeues the last message that [`PortReader::next`] returned.
    #[inline(always)]
    pub fn dequeue(&mut self, rings: &Rings, message: &RingMessage) {
        self.left = self.left.saturating_sub(1);
        rings.ring(self.at).dequeue(&mut self.consumer, message.message());
    }

    /// Clears rings that are no longer used. The caller holds the NIC's lock.
    pub fn clear(&mut self, rings: &Rings) {
        rings.clear_ports(Some(self.port));
        self.look_for_own(rings);
    }

    #[cold]
    fn look_for_own(&mut self, rings: &Rings) {
        (self.seen, self.own, self.left) = (rings.claimed(), 0, 0);
        rings.each_of(self.seen, self.port, |index| self.own |= 1 << index);
    }

    /// Stops reading from the ring of the last message, because it contains malformed data.
    #[cold]
    pub fn cut_off(&mut self, rings: &Rings) {
        let sender = rings.sender(self.at);
        log::warn!("the ring of process {sender} contains data that is not a message; the ring is closed");
        rings.close(self.at);
        self.look_for_own(rings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rings::Envelope;
    use selvedge_os::process::Identity;
    use selvedge_os::testing::{Child, Folder};

    fn sender(folder: &Folder, number: u16) -> Option<Sender> {
        let word = Identity::own().to_word();
        Rings::open(&folder.join(""), 3, 9, word).expect("no lack").expect("there").claim_for(number, word, 5)
    }

    fn send(sender: &mut Sender, number: u64) -> bool {
        let envelope = Envelope { match_bits: number, ..Envelope::default() };
        sender.enqueue_with(&envelope, 0, 0, |_| {})
    }

    fn take(reader: &mut PortReader, rings: &Rings) -> Option<u64> {
        let message = reader.has_message(rings).then(|| reader.next(rings))??;
        reader.dequeue(rings, &message);
        Some(message.envelope.match_bits)
    }

    #[test]
    fn messages_reach_their_port_in_order_and_all_senders_have_a_turn() {
        let folder = Folder::new();
        let own = Rings::create(&folder.join(""), 3, 9).expect("made");
        assert!(sender(&folder, 2).is_none(), "the port is not open");
        let mut readers = [2, 5].map(|number| PortReader::new(own.open_port(number, 7).expect("a port")));
        assert_eq!(take(&mut readers[0], &own), None);
        let mut senders = [2, 5, 2].map(|number| sender(&folder, number).expect("a ring"));
        for number in 0..100 {
            for (which, sender) in (0..).zip(&mut senders) {
                assert!(send(sender, which << 32 | number));
            }
        }
        assert_eq!((0..100).map(|_| take(&mut readers[1], &own)).collect::<Option<Vec<_>>>(), {
            Some((0..100).map(|number| 1 << 32 | number).collect())
        });
        assert_eq!(take(&mut readers[1], &own), None);
        let taken: Vec<u64> = std::iter::from_fn(|| take(&mut readers[0], &own)).collect();
        for which in [0, 2] {
            let own = taken.iter().filter(|&&message| message >> 32 == which).map(|message| message & 0xffff_ffff);
            assert!(own.eq(0..100), "sender {which}");
        }
        let turns = taken.windows(2).filter(|pair| pair[0] >> 32 != pair[1] >> 32).count();
        assert!(turns >= 2 * (100 / BATCH as usize), "one sender waits for all messages of another");
    }

    #[test]
    fn a_port_that_is_opened_again_gets_nothing_that_was_sent_to_it_before() {
        let folder = Folder::new();
        let own = Rings::create(&folder.join(""), 3, 9).expect("made");
        let port = own.open_port(2, 7).expect("a port");
        let mut first = sender(&folder, 2).expect("a ring");
        assert!(send(&mut first, 1) && send(&mut first, 2) && first.is_open());
        assert_eq!(take(&mut PortReader::new(port), &own), Some(1));
        let mut unread = Vec::new();
        assert_eq!(own.close_port(port, |message| unread.push(message.envelope.match_bits)), 1, "lost messages");
        assert_eq!(unread, [2]);
        assert!(first.is_closed() && !first.is_open());
        // The sender has not looked at the routing word.
        assert!(send(&mut first, 3));
        let mut reader = PortReader::new(own.open_port(2, 8).expect("a port"));
        assert!(first.is_closed() && !reader.has_message(&own));
        drop(first);
        reader.clear(&own);
        assert_eq!(own.claimed(), 0, "the ring of a closed port is free when its sender has gone");
        let mut second = sender(&folder, 2).expect("a ring");
        assert!(send(&mut second, 4));
        assert_eq!(take(&mut reader, &own), Some(4));
        assert_eq!(take(&mut reader, &own), None);
    }

    #[test]
    fn a_ring_is_kept_until_its_messages_are_read() {
        let folder = Folder::new();
        let own = Rings::create(&folder.join(""), 3, 9).expect("made");
        let mut reader = PortReader::new(own.open_port(0, 1).expect("a port"));
        let mut sender = sender(&folder, 0).expect("a ring");
        assert!(send(&mut sender, 9));
        drop(sender);
        reader.clear(&own);
        own.clear_dead();
        assert_eq!(take(&mut reader, &own), Some(9));
        reader.clear(&own);
        assert_eq!(own.claimed(), 0);
    }

    /// A sender may be killed at any instruction. Its messages are read whole and in order; then its ring is free.
    #[test]
    fn a_sender_that_is_killed_leaves_whole_messages_and_a_ring_for_others() {
        let folder = Folder::new();
        let own = Rings::create(&folder.join(""), 3, 9).expect("made");
        let (owner, directory) = (Identity::own().to_word(), folder.join(""));
        let mut reader = PortReader::new(own.open_port(2, 7).expect("a port"));
        for round in 0..20u64 {
            let child = Child::fork(|| {
                let rings = Rings::open(&directory, 3, 9, owner).expect("no lack").expect("there");
                let mut sender = rings.claim_for(2, Identity::own().to_word(), 6).expect("a ring");
                let mut number = 0u64;
                loop {
                    let (envelope, bytes) = (Envelope { match_bits: number, ..Envelope::default() }, [number; 13]);
                    // SAFETY: both have this many bytes.
                    let fill =
                        |to: *mut u8| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<u8>(), to, 104) };
                    number += u64::from(sender.enqueue_with(&envelope, 104, round as u32, fill));
                }
            });
            let mut next = 0u64;
            let mut take = |reader: &mut PortReader| {
                let Some(message) = reader.has_message(&own).then(|| reader.next(&own)).flatten() else { return false };
                let mut bytes = [0u64; 13];
                // SAFETY: there is room for 104 bytes, and the message has that many.
                unsafe { message.copy_part::<false>(bytes.as_mut_ptr().cast(), 104) };
                assert_eq!((message.length, message.envelope.match_bits, bytes), (104, next, [next; 13]));
                reader.dequeue(&own, &message);
                next += 1;
                true
            };
            let wanted = 100 + 37 * round;
            for _ in 0..wanted {
                while !take(&mut reader) {
                    std::hint::spin_loop();
                }
            }
            child.kill();
            assert_eq!(child.exit_code(), None);
            while take(&mut reader) {}
            reader.clear(&own);
            assert_eq!(own.claimed(), 0, "round {round}");
        }
    }
}
