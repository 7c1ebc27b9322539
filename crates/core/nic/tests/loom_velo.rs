// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slots of a VELO mailbox themselves, not a copy of them, under every interleaving and every reordering that the
//! memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p selvedge-nic --test loom_velo --release`
#![cfg(loom)]

/// The model checker's atomics, under the name that `selvedge_nic` uses.
mod atomics {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}
#[allow(dead_code)]
#[path = "../src/velo/header.rs"]
mod header;
#[allow(dead_code)]
#[path = "../src/velo/slots.rs"]
mod slots;

use atomics::AtomicU64;
use atomics::Ordering::{Acquire, Release};
use header::{Endpoint, Extent, Status};
use loom::sync::Arc;
use loom::thread;
use slots::{SLOT_WORDS, Slots};

struct Shared {
    words: Vec<AtomicU64>,
    head: AtomicU64,
    taken: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let words = (0..2 * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Shared { words, head: AtomicU64::new(0), taken: AtomicU64::new(0) })
    }

    fn slots(&self) -> Slots<'_> {
        Slots::new(&self.words).expect("a power of two")
    }

    fn write(&self, tail: u64, tag: u8, bytes: u32) -> u64 {
        let extent = Extent::whole(bytes).expect("legal");
        let status = Status { source: Endpoint::default(), extent, mtt: 0, tag, error: false };
        if self.slots().free(tail, self.head.load(Acquire)) < extent.slots().into() {
            return 0;
        }
        self.slots().write(tail, &status, &[tag; 64][..bytes as usize], || ());
        extent.slots().into()
    }

    fn take(&self, head: &mut u64) -> Option<u8> {
        let word = self.slots().status(*head);
        if word == 0 {
            return None;
        }
        let status = Status::from_word(word).expect("well-formed");
        let mut bytes = [0; 64];
        let length = self.slots().take(*head, &status, &self.taken, &mut bytes).expect("whole");
        assert!(length as u32 == status.extent.bytes() && bytes[..length].iter().all(|&byte| byte == status.tag));
        *head += u64::from(status.extent.slots());
        self.head.store(*head, Release);
        Some(status.tag)
    }
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Messages of one and of two slots, so that the writer reuses slots.
#[test]
fn messages_come_whole_and_in_order() {
    for lengths in [[8, 64, 8], [64, 64, 8]] {
        model(move || {
            let shared = Shared::new();
            let writer = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (mut tail, mut sent) = (0, 0);
                    for bytes in lengths {
                        let slots = shared.write(tail, sent + 1, bytes);
                        tail += slots;
                        sent += u8::from(slots != 0);
                    }
                    sent
                })
            };
            let (mut head, mut got) = (0, Vec::new());
            for _ in 0..2 {
                got.extend(shared.take(&mut head));
            }
            let sent = writer.join().unwrap();
            got.extend(std::iter::from_fn(|| shared.take(&mut head)));
            assert_eq!(got, (1..=sent).collect::<Vec<_>>());
        });
    }
}

/// The writer dies before it has advanced its tail, and another holder of the lock recovers the mailbox, while the
/// reader runs: the message counts, whether it was read or not.
#[test]
fn recovery_counts_a_message_while_it_is_read() {
    for bytes in [8, 64] {
        model(move || {
            let shared = Shared::new();
            let recovery = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let slots = shared.write(0, 1, bytes);
                    assert_eq!(shared.slots().recover(0, &shared.head, &shared.taken), slots);
                })
            };
            let mut head = 0;
            let got = shared.take(&mut head);
            recovery.join().unwrap();
            assert_eq!(got.or_else(|| shared.take(&mut head)), Some(1));
        });
    }
}
