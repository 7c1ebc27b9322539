// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A window and an order over a network that loses, damages, doubles and delays frames, in virtual time.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const STEP: Duration = Duration::from_micros(500);

/// Number of each frame, and whether it is whole.
type OnTheWay = VecDeque<(u64, bool)>;

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    IsLost,
    IsDamaged,
    IsDuplicate,
    IsSwapped,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Arrives), 1 => Just(Fate::IsLost), 1 => Just(Fate::IsDamaged),
        1 => Just(Fate::IsDuplicate), 1 => Just(Fate::IsSwapped),
    ];
    proptest::collection::vec(fate, 1..400)
}

/// Sends `count` frames. Returns the number of frames sent in all, and the virtual time.
fn transfer(count: u64, fates: &[Fate], absent_steps: u32) -> (u64, Duration) {
    let began = Instant::now();
    let (mut window, mut order, mut network) = (Window::default(), FrameOrder::default(), OnTheWay::new());
    let (mut taken, mut made, mut sent, mut steps) = (0, 0, 0u64, 0u32);
    let mut fate = fates.iter().chain(std::iter::repeat(&Fate::Arrives));
    while taken < count || !window.is_empty() {
        let now = began + STEP * steps;
        steps += 1;
        assert!(steps < 1_000_000, "it never ends: {taken} of {count} taken, {made} made, {sent} sent");
        window.check_timeout(now);
        loop {
            if let Some(frame) = window.next_to_send() {
                let number = frame.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
                window.frame_sent();
                sent += 1;
                match fate.next().copied().unwrap_or(Fate::Arrives) {
                    Fate::Arrives => network.push_back((number, true)),
                    Fate::IsLost => {}
                    Fate::IsDamaged => network.push_back((number, false)),
                    Fate::IsDuplicate => network.extend([(number, true), (number, true)]),
                    Fate::IsSwapped => network.insert(network.len().saturating_sub(1), (number, true)),
                }
            } else if window.has_room() && made < count {
                window.keep(made.to_le_bytes().to_vec(), now);
                made += 1;
            } else {
                break;
            }
        }
        assert!(window.kept.len() <= WINDOW_FRAMES);
        if steps < absent_steps {
            continue;
        }
        for (number, is_whole) in network.drain(..) {
            match is_whole {
                false => order.frame_damaged(),
                true => {
                    if order.accept(number) == Arrival::Next {
                        assert_eq!(number, taken, "in order, once");
                        taken += 1;
                    }
                }
            }
            match order.message(now) {
                Some(ControlMessage::Ack(number)) => window.on_ack(number, now),
                Some(ControlMessage::Nack(number)) => window.on_nack(number, now),
                _ => Ok(()),
            }
            .expect("possible");
        }
        if let Some(ControlMessage::Ack(number)) = order.message(now) {
            window.on_ack(number, now).expect("possible");
        }
    }
    (sent, STEP * steps)
}

proptest! {
    #[test]
    fn all_frames_are_taken_in_order_whatever_the_network_does(count in 1..600u64, fates in fates()) {
        transfer(count, &fates, 0);
    }
}

#[test]
fn a_good_network_repeats_nothing_and_an_absent_receiver_little() {
    assert_eq!(transfer(1000, &[], 0).0, 1000);
    // Ten seconds: the window, then the first frame at 50, 100, 200, 400, 800 ms and then each second, and the frames
    // that follow.
    let (sent, took) = transfer(1000, &[], 20_000);
    assert!((1000..1200).contains(&sent), "{sent}");
    assert!(took < Duration::from_secs(11), "{took:?}");
}

#[test]
fn a_lost_frame_costs_little_time() {
    let (sent, took) = transfer(100, &[Fate::Arrives, Fate::IsLost], 0);
    assert!(sent < 200 && took < Duration::from_millis(50), "{sent} {took:?}");
    // No frame comes after the last one to show the gap.
    let mut fates = vec![Fate::Arrives; 100];
    fates[99] = Fate::IsLost;
    let (sent, took) = transfer(100, &fates, 0);
    assert!(sent == 101 && took < Duration::from_millis(100), "{sent} {took:?}");
}

#[test]
fn impossible_acknowledgements_are_refused_and_late_ones_do_nothing() {
    let now = Instant::now();
    let mut window = Window::default();
    for number in 0..4u64 {
        window.keep(number.to_le_bytes().to_vec(), now);
        window.frame_sent();
    }
    assert_eq!(window.on_ack(5, now), Err(InvalidAck));
    assert_eq!(window.on_nack(u64::MAX, now), Err(InvalidAck));
    assert_eq!(window.on_ack(3, now), Ok(()));
    assert_eq!((window.on_nack(1, now), window.next_to_send()), (Ok(()), None), "it was taken since");
    assert_eq!(window.on_nack(4, now), Ok(()));
    assert!(window.is_empty() && window.next_to_send().is_none());
}
