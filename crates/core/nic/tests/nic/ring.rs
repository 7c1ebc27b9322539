// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings against a plain queue, and against a hostile peer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use selvedge_nic::ring::{self, Envelope, Fault, Hints, INLINE_BYTES, Message, Producer};

/// The smallest ring that allows long messages.
type Ring = ring::Ring<8, 256>;
const RING_BYTES: usize = size_of::<Ring>();
const MESSAGE_BYTES_MAX: usize = Ring::MESSAGE_BYTES_MAX;

/// Stores to a line whose ownership is taken, as a hint may.
enum Stores {}

impl Hints for Stores {
    fn prefetch_read(_: &AtomicU64) {}
    fn prefetch_read_bytes(_: &AtomicU64, _: usize) {}
    fn take_ownership(word: &AtomicU64) {
        word.store(0, Relaxed);
    }
    fn opaque(value: u64) -> u64 {
        value
    }
}

/// A ring, and for each of its bytes the message whose payload it is.
struct Home {
    ring: Box<Ring>,
    bytes: Vec<u64>,
}

impl Home {
    fn new(taken: u64) -> Home {
        let home = Home { ring: Box::default(), bytes: vec![0; RING_BYTES] };
        home.ring.set_cursors(taken, 0);
        home
    }

    fn enqueue(&mut self, producer: &mut Producer, number: u64, portal: u8, length: usize, turn: u32) -> bool {
        let envelope = Envelope { portal, flags: number as u8, match_bits: number, header_data: !number };
        if length > INLINE_BYTES {
            let Some(reserved) = self.ring.reserve(producer, length) else { return false };
            self.bytes[reserved.offset..][..length].fill(number);
            self.ring.publish_reserved::<Stores>(producer, &envelope, length, turn, reserved);
        } else {
            if !self.ring.has_slot(producer) {
                return false;
            }
            let offset = self.ring.next_inline(producer);
            self.bytes[offset..][..length].fill(number);
            self.ring.publish::<Stores>(producer, &envelope, length, turn);
        }
        true
    }
}

/// Checks a message that was enqueued with these values.
fn check(bytes: &[u64], message: &Message, (number, portal, length): (u64, u8, usize)) {
    let expected = Envelope { portal, flags: number as u8, match_bits: number, header_data: !number };
    assert_eq!((message.envelope, message.length), (expected, length));
    assert!(bytes[message.offset..][..length].iter().all(|&of| of == number), "the payload of another message");
}

/// A peer may have stored anything: every returned range lies within the ring, and nothing loops.
fn read_all(ring: &Ring) {
    let within = |message: &Message| {
        assert!(message.length <= MESSAGE_BYTES_MAX);
        assert!(message.offset + message.length <= RING_BYTES, "outside of the ring");
    };
    for _ in 0..20 {
        if let Some(polled) = ring.poll() {
            ring.prefetch::<Stores>(polled);
        }
        let mut consumer = ring.consumer();
        match ring.next::<Stores>(&consumer) {
            Ok(Some(message)) => {
                within(&message);
                ring.dequeue(&mut consumer, &message);
            }
            Ok(None) => {}
            Err(Fault) => break,
        }
        let mut taken = 0;
        let mut take = |message: &Message| {
            within(message);
            taken += 1;
            true
        };
        let portal = (consumer.next_number() % 3) as u8;
        ring.dequeue_run::<false, Stores>(&mut consumer, portal, 100, &mut take);
        ring.dequeue_run::<true, Stores>(&mut consumer, portal, 100, &mut take);
        assert!(taken <= 200);
    }
}

fn nasty() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..300u64,
        (0..64u32).prop_map(|bit| 1 << bit),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        // Headers, as a sender would write them: number, portal table index, length.
        (0..20u64, 0..3u64, 0..600u64).prop_map(|(number, portal, length)| number | portal << 32 | length << 48),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_is_a_queue(
        steps in proptest::collection::vec((0..6u8, 0..2u8, 0..=MESSAGE_BYTES_MAX, 0..3u32), 1..120),
        taken in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 20), 0..1000u64],
    ) {
        let mut home = Home::new(taken);
        let mut producer = home.ring.producer();
        let (mut queue, mut sent) = (VecDeque::<(u64, u8, usize)>::new(), 1);
        for (step, portal, length, turn) in steps {
            let length = if turn == 0 { length } else { length % (INLINE_BYTES + 1) };
            let polled = home.ring.poll().map(|polled| (polled.portal(), polled.is_long()));
            prop_assert_eq!(polled, queue.front().map(|&(_, portal, length)| (portal, length > INLINE_BYTES)));
            prop_assert_eq!(home.ring.dequeued() == producer.tail(), queue.is_empty());
            if step < 3 {
                let is_there = home.enqueue(&mut producer, sent, portal, length, turn);
                prop_assert!(is_there || !queue.is_empty(), "an empty ring has room for every message");
                prop_assert!(is_there || length > INLINE_BYTES || queue.len() == 8);
                if is_there {
                    queue.push_back((sent, portal, length));
                    sent += 1;
                }
                continue;
            }
            let mut consumer = home.ring.consumer();
            if step == 3 {
                let message = home.ring.next::<Stores>(&consumer).expect("no fault");
                prop_assert_eq!(message.is_some(), !queue.is_empty());
                if let Some(message) = message {
                    check(&home.bytes, &message, queue.pop_front().expect("there"));
                    home.ring.dequeue(&mut consumer, &message);
                }
                continue;
            }
            let most = length as u64 % 5;
            let is_long = step == 5;
            let mut got = 0;
            let mut take = |message: &Message| {
                check(&home.bytes, message, queue[got]);
                got += 1;
                true
            };
            match is_long {
                true => home.ring.dequeue_run::<true, Stores>(&mut consumer, portal, most, &mut take),
                false => home.ring.dequeue_run::<false, Stores>(&mut consumer, portal, most, &mut take),
            }
            let is_of_run = |&&(_, of, length): &&(u64, u8, usize)| of == portal && (length > INLINE_BYTES) == is_long;
            let run = queue.iter().take(most as usize).take_while(is_of_run).count();
            // A run ends where numbers start over; the next continues there.
            prop_assert!(got == run || (got < run && taken > 1 << 31), "{} of {}", got, run);
            queue.drain(..got);
        }
    }

    #[test]
    fn whatever_a_sender_stores_the_reader_stays_within_the_ring(
        words in proptest::collection::vec((0..2 + 8 * 16usize, nasty()), 0..60),
        taken in nasty(),
    ) {
        let home = Home::new(taken);
        for (at, word) in words {
            home.ring.words().nth(at).expect("a ring has more words").store(word, Relaxed);
        }
        read_all(&home.ring);
    }

    /// The reader's process is hostile: its sender may only lose messages.
    #[test]
    fn whatever_a_reader_stores_the_sender_stays_within_the_ring(
        steps in proptest::collection::vec((0..4u8, nasty(), 0..=MESSAGE_BYTES_MAX + 9, 0..2u32), 0..60),
        taken in nasty(),
    ) {
        let mut home = Home::new(taken);
        let mut producer = home.ring.producer();
        for (number, (step, word, length, turn)) in steps.into_iter().enumerate() {
            match step {
                0 => home.ring.words().nth(number % 2).expect("a cursor").store(word, Relaxed),
                // The model checks the offsets.
                _ => drop(home.enqueue(&mut producer, number as u64, 1, length, turn)),
            }
        }
        read_all(&home.ring);
    }
}

#[test]
fn a_message_that_no_sender_writes_is_a_fault() {
    let home = Home::new(0);
    let store = |at: usize, word: u64| home.ring.words().nth(at).expect("a word").store(word, Relaxed);
    let next = || home.ring.next::<Stores>(&home.ring.consumer()).map(|message| message.is_some());
    store(2, 1 | 9 << 32 | (MESSAGE_BYTES_MAX as u64 + 1) << 48);
    assert_eq!(next(), Err(Fault));
    store(2, 1 | 9 << 32 | 200 << 48);
    store(5, 7 * Ring::PAYLOAD_BYTES - 199);
    assert_eq!(next(), Err(Fault), "it ends past the payload area");
    store(5, 7 * Ring::PAYLOAD_BYTES - 200);
    assert_eq!(next(), Ok(true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// A home may show messages later, in order. The consumer then finds the same messages.
    #[test]
    fn nobody_finds_a_message_that_was_not_shown(
        steps in proptest::collection::vec((0..3u8, 0..=MESSAGE_BYTES_MAX), 1..120),
    ) {
        let mut home = Home::new(0);
        let mut producer = home.ring.producer();
        let (mut unseen, mut shown, mut sent) = (VecDeque::new(), VecDeque::new(), 1);
        for (step, length) in steps {
            match step {
                0 => {
                    let length = if length % 2 == 0 { length } else { length % (INLINE_BYTES + 1) };
                    let envelope = Envelope { portal: 1, flags: sent as u8, match_bits: sent, header_data: !sent };
                    let is_long = length > INLINE_BYTES;
                    let reserved = if is_long { home.ring.reserve(&mut producer, length) } else { None };
                    if is_long && reserved.is_none() || !home.ring.has_slot(&mut producer) {
                        continue;
                    }
                    let offset = reserved.map_or(home.ring.next_inline(&producer), |reserved| reserved.offset);
                    home.bytes[offset..][..length].fill(sent);
                    let message = home.ring.publish_unseen(&mut producer, &envelope, length, reserved);
                    unseen.push_back((message, (sent, 1, length)));
                    sent += 1;
                }
                1 => {
                    if let Some((message, what)) = unseen.pop_front() {
                        home.ring.show(message);
                        shown.push_back(what);
                    }
                }
                _ => {
                    let mut consumer = home.ring.consumer();
                    let message = home.ring.next::<Stores>(&consumer).expect("no fault");
                    prop_assert_eq!(message.is_some(), !shown.is_empty());
                    if let Some(message) = message {
                        check(&home.bytes, &message, shown.pop_front().expect("there"));
                        home.ring.dequeue(&mut consumer, &message);
                    }
                }
            }
        }
    }
}
