// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ring itself, not a copy of it, under every interleaving and every reordering that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p selvedge-nic --test loom_ring --release`
#![cfg(loom)]

/// The model checker's atomics, under the name that `selvedge_nic` uses.
mod atomics {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}
#[allow(dead_code, unused_imports)]
#[path = "../src/ring/mod.rs"]
mod ring;

use atomics::{AtomicU64, Ordering::Relaxed};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use ring::{Envelope, Hints, INLINE_BYTES, Message, NoHints, Producer};

/// Two slots, and room for four long messages.
type Ring = ring::Ring<2, 64>;
const LONG_BYTES: usize = INLINE_BYTES + 24;

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

/// A ring, and the payload of its messages, which is plain memory: the model checker finds every race on it.
struct Shared {
    ring: Ring,
    payload: Vec<UnsafeCell<u64>>,
}

// SAFETY: the model checker finds unsynchronised accesses.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// As if `head` messages and `payload_head` bytes had passed.
    fn new(head: u64, payload_head: u64) -> Arc<Shared> {
        let payload = (0..size_of::<Ring>() / 64 + 1).map(|_| UnsafeCell::new(0)).collect();
        let shared = Shared { ring: Ring::new(), payload };
        shared.ring.set_cursors(head, payload_head);
        Arc::new(shared)
    }

    /// Enqueues message `number`. False: there is no room.
    fn enqueue(&self, producer: &mut Producer, number: u64, is_long: bool) -> bool {
        let envelope = Envelope { portal: 3, flags: 1, match_bits: number, header_data: !number };
        let fill = |offset: usize| self.payload[offset / 64].with_mut(|word| unsafe { *word = number });
        if is_long {
            let Some(reserved) = self.ring.reserve(producer, LONG_BYTES) else { return false };
            fill(reserved.offset);
            self.ring.publish_reserved::<Stores>(producer, &envelope, LONG_BYTES, 0, reserved);
        } else {
            if !self.ring.has_slot(producer) {
                return false;
            }
            fill(self.ring.next_inline(producer));
            self.ring.publish::<Stores>(producer, &envelope, 8, 0);
        }
        true
    }

    /// The number of a message, which must be whole.
    fn read(&self, message: &Message) -> u64 {
        let number = message.envelope.match_bits;
        assert_eq!(message.envelope, Envelope { portal: 3, flags: 1, match_bits: number, header_data: !number });
        let payload = self.payload[message.offset / 64].with(|word| unsafe { *word });
        assert_eq!(payload, number, "the payload of another message");
        number
    }

    fn dequeue(&self) -> Option<u64> {
        let mut consumer = self.ring.consumer();
        let message = self.ring.next::<NoHints>(&consumer).expect("no fault")?;
        let number = self.read(&message);
        self.ring.dequeue(&mut consumer, &message);
        Some(number)
    }

    fn dequeue_run<const LONG: bool>(&self) -> Vec<u64> {
        let (mut consumer, mut got) = (self.ring.consumer(), Vec::new());
        self.ring.dequeue_run::<LONG, NoHints>(&mut consumer, 3, 2, |message| {
            got.push(self.read(message));
            true
        });
        assert_eq!(consumer.dequeued(), got.len() as u64);
        got
    }
}

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// A producer that tries to enqueue `tries` messages, beside a consumer; every enqueued message arrives once, in order.
fn one_each(tries: u64, is_long: fn(u64) -> bool, in_runs: bool, (head, payload_head): (u64, u64)) {
    model(3, move || {
        let shared = Shared::new(head, payload_head);
        let producer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut producer = shared.ring.producer();
                let mut sent = 0;
                for _ in 0..tries {
                    sent += u64::from(shared.enqueue(&mut producer, sent, is_long(sent)));
                }
                sent
            })
        };
        let take = || match in_runs {
            true => [shared.dequeue_run::<false>(), shared.dequeue_run::<true>()].concat(),
            false => shared.dequeue().into_iter().collect(),
        };
        let mut got = Vec::new();
        for _ in 0..2 {
            got.extend(take());
        }
        let sent = producer.join().unwrap();
        while got.len() < sent as usize {
            got.extend(take());
        }
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
        assert!(sent >= 2 && shared.ring.poll().is_none());
    });
}

#[test]
fn short_messages_come_whole_and_in_order() {
    one_each(4, |_| false, false, (0, 0));
}

#[test]
fn short_messages_come_in_runs_where_numbers_begin_anew() {
    // Two messages first: an empty slot holds 0, which is no slot's value after the first lap.
    one_each(5, |_| false, true, (u64::from(u32::MAX) - 3, 0));
}

#[test]
fn long_messages_come_whole_over_the_end_of_the_area() {
    one_each(4, |_| true, false, (0, 384));
}

#[test]
fn runs_of_both_sorts_take_turns() {
    one_each(4, |number| number % 2 == 1, true, (0, 448));
}

/// Holders of the lock dequeue messages polled without it: each message once, by the first of them.
#[test]
fn two_consumers_poll_without_the_lock_and_dequeue_under_it() {
    model(2, || {
        let shared = Shared::new(0, 0);
        let lock = Arc::new(Mutex::new(Vec::new()));
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let (shared, lock) = (shared.clone(), lock.clone());
                thread::spawn(move || {
                    let Some(polled) = shared.ring.poll() else { return };
                    let mut got = lock.lock().unwrap();
                    let mut consumer = shared.ring.consumer();
                    if consumer.next_number() != polled.number() {
                        return;
                    }
                    let message = shared.ring.next::<NoHints>(&consumer).expect("no fault").expect("polled");
                    got.push(shared.read(&message));
                    shared.ring.dequeue(&mut consumer, &message);
                })
            })
            .collect();
        let mut producer = shared.ring.producer();
        let sent = (0..3).filter(|&number| shared.enqueue(&mut producer, number, false)).count() as u64;
        for consumer in consumers {
            consumer.join().unwrap();
        }
        let mut got = std::mem::take(&mut *lock.lock().unwrap());
        got.extend(std::iter::from_fn(|| shared.dequeue()));
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
    });
}
