// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

const OWN: HostId = HostId(1);
const OTHER: HostId = HostId(2);

/// Datagrams on a cable with faults. Each is a head with its payload, as its receiver reads them.
type Datagram = (Option<Head>, Vec<u8>);

fn datagram(head: Head) -> Datagram {
    let mut payload = Vec::new();
    head.fill(&mut payload);
    (Some(head), payload)
}

fn number(datagram: &Datagram) -> Option<u32> {
    match datagram.0?.body {
        Body::Frame { number, .. } | Body::Echo { number, .. } => Some(number),
        _ => None,
    }
}

/// Runs a test whose datagrams pass `there` and `back`, each of which makes any number of them.
fn run(
    plan: Plan,
    mut there: impl FnMut(Datagram) -> Vec<Datagram>,
    mut back: impl FnMut(Datagram) -> Vec<Datagram>,
) -> Outcome {
    let sizes = plan.checked(1500, 0).unwrap();
    let mut tester = Tester::new(5, OWN, OTHER, 77, plan, sizes, 0);
    let mut mirror = Mirror::default();
    let mut now_ns = 5;
    loop {
        now_ns = tester.due_ns().max(now_ns);
        let heads = match tester.tick(now_ns) {
            Ok(heads) => heads,
            Err(outcome) => return outcome,
        };
        for (head, payload) in heads.into_iter().map(datagram).flat_map(&mut there) {
            let Some(head) = head else {
                mirror.unreadable();
                continue;
            };
            let Some(answer) = mirror.take(now_ns, OTHER, &head, &payload) else { continue };
            for (head, payload) in back(datagram(answer)) {
                match head {
                    Some(head) => tester.take(now_ns + 1000, &head, &payload),
                    None => tester.unreadable(),
                }
            }
        }
    }
}

fn done(outcome: Outcome) -> TestReport {
    match outcome {
        Outcome::Done(report) => *report,
        Outcome::NoMirror => panic!("no mirror"),
    }
}

const PLAN: Plan = Plan { frames: 200, size: None, rate: 1000 };
fn pass(datagram: Datagram) -> Vec<Datagram> {
    vec![datagram]
}

#[test]
fn a_whole_cable_has_no_fault() {
    let report = done(run(PLAN, pass, pass));
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.sent, report.returned), (200, 200));
    let times = report.round_trip_us.unwrap();
    assert_eq!((times.min, times.p50, times.max), (1.0, 1.0, 1.0));
    assert_eq!(report.sizes.iter().map(|row| row.size).collect::<Vec<_>>(), [108, 256, 512, 1024, 1500]);
    assert!(report.sizes.iter().all(|row| row.sent == 40) && report.patterns.iter().all(|row| row.sent == 40));
}

#[test]
fn losses_are_counted_by_direction() {
    let lost = |numbers: &'static [u32]| {
        move |datagram: Datagram| {
            if number(&datagram).is_some_and(|number| numbers.contains(&number)) { vec![] } else { vec![datagram] }
        }
    };
    let report = done(run(PLAN, lost(&[0, 7, 199]), lost(&[10])));
    assert_eq!((report.there.as_ref().unwrap().lost, report.back.lost, report.returned), (3, 1, 196));
    assert_eq!(report.patterns.iter().map(|row| row.lost).collect::<Vec<_>>(), [2, 0, 1, 0, 1]);
    assert!(!report.is_clean());
}

#[test]
fn damage_is_counted_by_direction_size_and_pattern() {
    let mut damages = |datagram: Datagram| {
        let (head, mut payload) = datagram;
        // The last byte of the large ones, the head of one.
        let (head, at) = (head.filter(|_| number(&(head, vec![])) != Some(3)), payload.len());
        if at > 1300 {
            payload[at - 1] ^= 4;
        }
        vec![(head, payload)]
    };
    let report = done(run(PLAN, &mut damages, pass));
    let there = report.there.as_ref().unwrap();
    assert_eq!((there.damaged, there.lost, report.back.damaged), (41, 0, 0));
    assert_eq!(report.sizes.iter().map(|row| row.damaged).collect::<Vec<_>>(), [0, 0, 0, 0, 40]);
    assert_eq!(report.sizes[0].lost, 1, "nothing came back of the frame without a head");
    let report = done(run(PLAN, pass, damages));
    assert_eq!((report.there.as_ref().unwrap().damaged, report.back.damaged), (0, 41));
}

#[test]
fn order_and_duplicates_are_counted_by_direction() {
    let mut held = None;
    let swaps = |datagram: Datagram| match number(&datagram) {
        Some(number) if number % 10 == 0 => {
            held = Some(datagram);
            vec![]
        }
        Some(_) => std::iter::once(datagram).chain(held.take()).collect(),
        None => vec![datagram],
    };
    let report = done(run(PLAN, swaps, |datagram: Datagram| vec![datagram.clone(), datagram]));
    let there = report.there.as_ref().unwrap();
    assert_eq!((there.disordered, there.duplicates, there.lost), (20, 0, 0));
    assert_eq!((report.back.disordered, report.back.duplicates, report.back.lost), (0, 200, 0));
}

#[test]
fn a_neighbour_of_another_release_is_no_fault_of_the_cable() {
    assert!(matches!(run(PLAN, |_| vec![], pass), Outcome::NoMirror));
}

#[test]
fn a_mirror_that_falls_silent_is_not_waited_for() {
    let mut count = 0;
    let report = done(run(PLAN, pass, |datagram: Datagram| {
        count += 1;
        if count > 50 { vec![] } else { vec![datagram] }
    }));
    assert_eq!((report.there.clone(), report.back.lost, report.returned), (None, 151, 49));
}

#[test]
fn plans_have_limits() {
    let check = |frames, size, rate| Plan { frames, size, rate }.checked(1500, 28).err().unwrap_or_default();
    assert_eq!(check(1, Some(136), 1), "");
    // The neighbour's hello names any number.
    assert!(Plan { frames: 1, size: None, rate: 1 }.checked(0, 28).is_err());
    for (plan, says) in [
        (check(0, None, 1), "--count 0"),
        (check(FRAMES_MAX + 1, None, RATE_MAX), "--count 100001"),
        (check(1, None, 0), "--rate 0"),
        (check(1, None, RATE_MAX + 1), "--rate 10001"),
        (check(1, Some(135), 1), "give 136 to 1500"),
        (check(1, Some(1501), 1), "the link's MTU"),
        (check(601, None, 1), "more than 600 s"),
    ] {
        assert!(plan.contains(says), "{plan}");
    }
}

#[test]
fn a_mirror_answers_its_own_host_and_has_a_limit() {
    let mut mirror = Mirror::default();
    let frame = |number| Head {
        from: OWN,
        to: OTHER,
        test: 1,
        body: Body::Frame { number, pattern: Pattern::Zeros, payload: 1000 },
    };
    assert_eq!(mirror.take(0, HostId(3), &frame(0), &[0; 1000]), None);
    let cut = mirror.take(0, OTHER, &frame(0), &[0; 10]).unwrap();
    assert!(matches!(cut.body, Body::Echo { payload: 10, damaged: 990, .. }), "{cut:?}");
    let answers = (1..5000).filter(|&number| mirror.take(0, OTHER, &frame(number), &[0; 1000]).is_some()).count();
    assert_eq!(answers as u32, ANSWERS_MAX - 1);
    assert!(mirror.take(WINDOW_NS, OTHER, &frame(6000), &[0; 1000]).is_some());
    assert_eq!(mirror.take(WINDOW_NS, OTHER, &frame(u32::MAX), &[0; 1000]), None);
}
