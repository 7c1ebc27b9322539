// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notification queues of the RMA unit.
//!
//! 1. A full queue loses the notification and counts it. Later ones arrive when there is room.
//! 2. Wherever the writer dies, its notification is seen once or not at all, and all others once, in order.
//! 3. A program without the lock stays in step with a writer that also recovers.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::rma::{fresh, lasting_words, limits, notification_put, take};
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::rma::{Notification, code, spec};
use selvedge_nic::velo::PortId;
use selvedge_nic::{Register, Signals};

/// A queue, and the notifications that its program must see.
#[derive(Clone)]
struct Stage {
    home: Home,
    queue: VecDeque<u64>,
    head: u64,
    sent: u64,
    discarded: u64,
}

const VPID: u16 = 1;

impl Stage {
    fn new(entries: u32) -> Stage {
        let mut home = fresh(&limits(2, entries, 0, 0));
        home.nic().ports().open(Some(VPID), 0).expect("it is free");
        Stage { home, queue: VecDeque::new(), head: 0, sent: 0, discarded: 0 }
    }

    fn entries(&self) -> usize {
        self.home.layout.limits.notifications as usize
    }

    fn send(&mut self) {
        self.sent += 1;
        // Values with all bits set, those of the lap too.
        let value = !self.sent;
        self.home.nic().deliver(&mut TestBus::default(), &notification_put(VPID, value));
        match self.queue.len() < self.entries() {
            true => self.queue.push_back(value),
            false => self.discarded += 1,
        }
    }

    fn take(&mut self) -> bool {
        let expected = self.queue.pop_front().map(|word0| Notification {
            word0,
            size: 1,
            unit: spec::COMPLETER,
            code: code::NOTIFICATION_PUT,
            ..Notification::default()
        });
        assert_eq!(take(&mut self.home, VPID, &mut self.head), expected);
        expected.is_some()
    }

    fn check(&mut self) {
        let nic = self.home.nic();
        let port = &nic.tables.ports[usize::from(VPID)];
        assert_eq!(port.notifications_discarded, self.discarded);
        assert_eq!(nic.signals.register(Register::NotificationsDiscarded), self.discarded);
        assert_eq!(port.notification_tail, self.head + self.queue.len() as u64);
    }
}

#[test]
fn a_full_queue_discards_and_counts_and_goes_on() {
    for entries in [2, 4, 8] {
        let mut stage = Stage::new(entries);
        for sends in 0..entries + 3 {
            for takes in 0..entries + 2 {
                (0..sends).for_each(|_| stage.send());
                stage.check();
                (0..takes).for_each(|_| _ = stage.take());
                stage.check();
            }
        }
        assert!(stage.discarded > u64::from(entries));
        while stage.take() {}
    }
}

#[test]
fn no_program_sees_the_lap() {
    let mut stage = Stage::new(4);
    let mut laps = [0, 0];
    for _ in 0..20 {
        stage.send();
        let signals = stage.home.nic().signals;
        let [_, second] = signals.notification(VPID, stage.head).expect("it exists");
        laps[(second.load(Relaxed) >> 31 & 1) as usize] += 1;
        let [_, word1] = signals.take_notification(VPID, &mut stage.head).expect("it is there");
        assert_eq!(word1 >> 31 & 1, 0);
    }
    assert_eq!(laps, [12, 8], "laps 0, 2 and 4 of five");
}

#[test]
fn a_queue_of_a_port_that_is_opened_again_is_empty() {
    let mut stage = Stage::new(2);
    (0..3).for_each(|_| stage.send());
    assert!(stage.take());
    let mut nic = stage.home.nic();
    nic.ports().close(PortId { vpid: VPID, generation: 0 }).expect("it is open");
    let before = lasting_words(&mut stage.home);
    stage.home.nic().deliver(&mut TestBus::default(), &notification_put(VPID, 5));
    assert!(lasting_words(&mut stage.home) == before, "a closed port gets nothing");
    stage.home.nic().ports().open(Some(VPID), 0).expect("it is free");
    (stage.head, stage.discarded) = (0, 1);
    stage.queue.clear();
    assert!(!stage.take());
    stage.home.nic().notifications().recover();
    for _ in 0..5 {
        stage.send();
        assert!(stage.take());
    }
    assert_eq!(stage.home.nic().signals.port_pointers[usize::from(VPID)].notification_head.load(Relaxed), 5);
}

// ---- deaths ----

/// Stages with any number of notifications sent, the last few of them still in the queue.
fn stages(entries: u32) -> impl Iterator<Item = Stage> {
    let laps = 3 * u64::from(entries);
    (0..=laps).flat_map(move |sent| {
        (0..=sent.min(entries.into())).map(move |queued| {
            let mut stage = Stage::new(entries);
            for number in 0..sent {
                stage.send();
                if number < sent - queued {
                    assert!(stage.take());
                }
            }
            assert_eq!(stage.queue.len() as u64, queued);
            stage
        })
    })
}

/// The places in which two memories differ, in the order of the writer's stores: word 0, word 1, tail.
fn stores(before: &mut Stage, after: &mut Stage) -> Vec<usize> {
    let (was, is) = (lasting_words(&mut before.home), lasting_words(&mut after.home));
    let mut stores: Vec<usize> = (0..was.len()).filter(|&at| was[at] != is[at]).collect();
    let notifications = before.home.layout.notifications as usize / 8;
    // Notifications are stored after the port.
    stores.sort_by_key(|&at| (at < notifications, at));
    stores
}

/// Recovers after a death, with `takes` notifications taken before. Then the queue continues for three laps.
fn goes_on(mut stage: Stage, takes: usize, gap: usize) {
    (0..takes).for_each(|_| _ = stage.take());
    for _ in 0..2 {
        stage.home.nic().notifications().recover();
        stage.check();
    }
    for number in 0..3 * stage.entries() {
        stage.send();
        if number % (gap + 1) == gap {
            while stage.take() {}
        }
        stage.check();
    }
    while stage.take() {}
}

/// All fillings of a queue, all places in its ring, every prefix of the writer's stores, and a program that takes some
/// notifications between death and recovery.
#[test]
fn wherever_the_writer_dies_its_notification_comes_once_or_not_at_all() {
    for entries in [2u32, 4] {
        for mut stage in stages(entries) {
            let mut after = stage.clone();
            after.send();
            let was_full = stage.queue.len() == stage.entries();
            let stores = stores(&mut stage, &mut after);
            assert_eq!(stores.len(), if was_full { 1 } else { 3 });
            let is = after.home.words().to_vec();
            let mut dead = stage.clone();
            dead.sent = after.sent;
            for prefix in 0..=stores.len() {
                if let Some(store) = prefix.checked_sub(1).map(|last| stores[last]) {
                    dead.home.words()[store] = is[store];
                }
                if prefix == 1 && was_full {
                    // The registers' count is as the dead writer left it.
                    dead.home.nic().signals.registers.add(Register::NotificationsDiscarded, 1);
                    dead.discarded += 1;
                }
                if prefix == 2 {
                    dead.queue = after.queue.clone();
                }
                for takes in 0..=dead.queue.len() {
                    goes_on(dead.clone(), takes, takes % 3);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Recovery of an intact queue changes nothing.
    #[test]
    fn recovery_without_a_death_changes_nothing(entries in 1..4u32, ops in prop::collection::vec(0..8u8, 1..100)) {
        let mut stage = Stage::new(1 << entries);
        for op in ops {
            match op {
                0..4 => stage.send(),
                4..7 => _ = stage.take(),
                _ => {
                    let before = lasting_words(&mut stage.home);
                    stage.home.nic().notifications().recover();
                    prop_assert!(before == lasting_words(&mut stage.home));
                }
            }
            stage.check();
        }
    }
}

#[test]
fn a_program_without_the_lock_is_never_out_of_step() {
    const NOTIFICATIONS: u64 = 20_000;
    for entries in [2, 16] {
        let mut home = fresh(&limits(1, entries, 0, 0));
        let mut nic = home.nic();
        nic.ports().open(Some(0), 0).expect("it is free");
        let signals: Signals<'_> = nic.signals;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut sent = 0;
                while sent < NOTIFICATIONS {
                    let tail = nic.tables.ports[0].notification_tail;
                    nic.deliver(&mut TestBus::default(), &notification_put(0, sent));
                    if nic.tables.ports[0].notification_tail == tail {
                        std::thread::yield_now();
                        continue;
                    }
                    if sent % 3 == 0 {
                        // As if the process had died before it advanced the tail.
                        nic.tables.ports[0].notification_tail = tail;
                        std::thread::yield_now();
                    }
                    nic.notifications().recover();
                    assert_eq!(nic.tables.ports[0].notification_tail, tail + 1);
                    sent += 1;
                }
            });
            let mut head = 0;
            for number in 0..NOTIFICATIONS {
                let [word0, _] = loop {
                    match signals.take_notification(0, &mut head) {
                        Some(words) => break words,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(word0, number);
            }
            assert_eq!(signals.take_notification(0, &mut head), None);
        });
    }
}
