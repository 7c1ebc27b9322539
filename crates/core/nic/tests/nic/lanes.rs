// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting in lanes: senders' own stores to a counter's line, beside counts under the lock.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::Limits;
use selvedge_nic::portals::counters::Lane;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::signals::LANES;

const LIMITS: Limits = Limits { counters: 2, triggered: 2, ..crate::common::TINY };

fn count(home: &mut Home, counter: u32, sender: u32) {
    let lane = home.nic().counters().lane(counter, sender).expect("the counter lives");
    let nic = home.nic();
    let line = nic.signals.counter(counter).expect("the counter lives");
    match lane {
        Lane::Own(lane) => line.lanes[lane].store(line.lanes[lane].load(Relaxed) + 1, Release),
        Lane::Common => drop(line.common.fetch_add(1, Release)),
        Lane::Locked => home.nic().counters().increment(counter, 1, 0),
    }
}

fn arrived(home: &mut Home, counter: u32) -> u64 {
    home.nic().signals.counter(counter).expect("the counter lives").arrived()
}

#[test]
fn the_first_senders_have_a_lane_each_and_keep_it() {
    let mut home = Home::new(&LIMITS);
    let counter = home.nic().counters().alloc().expect("room");
    let senders = 1..=LANES as u32 + 3;
    let lanes: Vec<Lane> =
        senders.clone().map(|sender| home.nic().counters().lane(counter, sender).expect("it lives")).collect();
    for (index, lane) in lanes.iter().enumerate() {
        assert_eq!(*lane, if index < LANES { Lane::Own(index) } else { Lane::Common });
    }
    let again: Vec<Lane> =
        senders.map(|sender| home.nic().counters().lane(counter, sender).expect("it lives")).collect();
    assert_eq!(lanes, again);
}

#[test]
fn a_counter_starts_again_without_the_lanes_of_its_slot() {
    let mut home = Home::new(&LIMITS);
    let first = home.nic().counters().alloc().expect("room");
    for sender in 1..10 {
        count(&mut home, first, sender);
    }
    assert_eq!(arrived(&mut home, first), 9);
    home.nic().counters().free(first).expect("it lives");
    assert_eq!(home.nic().counters().lane(first, 1), None, "a freed counter has no lanes");
    let others = [home.nic().counters().alloc(), home.nic().counters().alloc()].map(|counter| counter.expect("room"));
    for counter in others {
        assert_eq!(arrived(&mut home, counter), 0);
        assert_eq!(home.nic().counters().lane(counter, 77), Some(Lane::Own(0)));
    }
}

#[test]
fn a_counter_has_lanes_or_thresholds() {
    let mut home = Home::new(&LIMITS);
    let counters = [home.nic().counters().alloc(), home.nic().counters().alloc()].map(|counter| counter.expect("room"));
    let action = || Action::CounterIncrement { counter: counters[1], success: 1, failure: 0 };
    home.nic().triggered().arm(counters[0], 2, action()).expect("room");
    count(&mut home, counters[0], 1);
    assert_eq!(home.nic().counters().lane(counters[0], 1), Some(Lane::Locked), "an operation would not see a lane");
    count(&mut home, counters[0], 2);
    assert!(home.nic().has_fired());
    count(&mut home, counters[1], 1);
    assert!(home.nic().triggered().arm(counters[1], 2, action()).is_err(), "a lane would not fire the operation");
}

proptest! {
    #[test]
    fn nothing_is_lost_however_it_is_counted(
        senders in proptest::collection::vec((1..LANES as u32 + 5, any::<bool>()), 0..120),
        recover in any::<bool>(),
    ) {
        let mut home = Home::new(&LIMITS);
        let counter = home.nic().counters().alloc().expect("room");
        for (sender, in_place) in &senders {
            match in_place {
                true => count(&mut home, counter, *sender),
                false => home.nic().counters().increment(counter, 1, 0),
            }
        }
        if recover {
            home.nic().recover(&mut TestBus::default(), |_| true);
        }
        prop_assert_eq!(arrived(&mut home, counter), senders.len() as u64);
    }
}
