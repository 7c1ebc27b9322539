// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The match queue of an owner that receives messages itself, while senders run its NIC too: random histories against
//! two plain ordered lists. The match is that of the lists, whichever process matches.

use crate::common::sane::assert_sane;
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{EntrySpec, Posted, Put, event_kind, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Limits, Register, portals};

const LIMITS: Limits = Limits { entries: 32, headers: 16, list: 32, queues: 1, ..crate::common::TINY };

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A receive of these bits, ignoring those, from this source or any.
    Post {
        bits: u64,
        ignore: u64,
        source: Option<u64>,
    },
    /// A message, with a token or without, delivered by the owner or by its sender.
    Message {
        bits: u64,
        source: u64,
        token: bool,
        by_owner: bool,
    },
    /// An earlier receive is cancelled, counted back from the last.
    Cancel(usize),
    /// The first message that matches is claimed.
    Claim {
        bits: u64,
        ignore: u64,
        source: Option<u64>,
    },
    Drop,
    Recover,
}

fn op() -> impl Strategy<Value = Op> {
    let ignore = || prop_oneof![Just(0u64), Just(1), Just(3), Just(u64::MAX)];
    let source = || prop_oneof![Just(None), (0u64..2).prop_map(Some)];
    // Few values match often, many let the lists grow.
    let bits = || prop_oneof![0u64..4, 0u64..40];
    prop_oneof![
        6 => (bits(), ignore(), source()).prop_map(|(bits, ignore, source)| Op::Post { bits, ignore, source }),
        6 => (bits(), 0u64..2, any::<bool>(), any::<bool>())
            .prop_map(|(bits, source, token, by_owner)| Op::Message { bits, source, token, by_owner }),
        1 => (0usize..4).prop_map(Op::Cancel),
        1 => (bits(), ignore(), source()).prop_map(|(bits, ignore, source)| Op::Claim { bits, ignore, source }),
        1 => Just(Op::Drop),
        1 => Just(Op::Recover),
    ]
}

/// The expected content of the NIC: receives in order, messages in order, each with its number.
#[derive(Default)]
struct Lists {
    receives: Vec<(u64, u64, u64, Option<u64>)>,
    messages: Vec<(u64, u64, u64)>,
}

impl Lists {
    fn accepts(receive: &(u64, u64, u64, Option<u64>), bits: u64, source: u64) -> bool {
        (receive.1 ^ bits) & !receive.2 == 0 && receive.3.is_none_or(|wanted| wanted == source)
    }
}

fn spec(bits: u64, ignore: u64, source: Option<u64>, number: u64) -> EntrySpec {
    EntrySpec {
        options: options::OP_PUT | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        start: crate::common::MEMORY_AT,
        length: 8,
        iov: NONE,
        iov_count: 0,
        match_bits: bits,
        ignore_bits: ignore,
        source: source.unwrap_or(0),
        source_ignore: if source.is_some() { 0 } else { u64::MAX },
        min_free: 0,
        user_ptr: number,
        counter: NONE,
        uid: u32::MAX,
    }
}

/// An overflow entry with room for every message. It reports nothing.
fn overflow() -> EntrySpec {
    let quiet = options::EVENT_LINK_DISABLE | options::EVENT_COMM_DISABLE;
    EntrySpec {
        options: options::OP_PUT | options::MANAGE_LOCAL | quiet,
        length: 1 << 20,
        ignore_bits: u64::MAX,
        ..spec(0, 0, None, 0)
    }
}

/// The NIC, its expected content, and the claimed messages.
struct Stage {
    home: Home,
    bus: TestBus,
    portal: u32,
    queue: u32,
    lists: Lists,
    claimed: Vec<(u32, u64)>,
    references: Vec<(u64, u32)>,
}

impl Stage {
    fn new(short_list: u32, mapped: bool) -> Stage {
        let mut home = Home::new(&Limits { short_list, ..LIMITS });
        let mut bus = TestBus { mapped, ..TestBus::default() };
        let queue = home.nic().queues().alloc(4).expect("room");
        let portal = home.nic().portal_table().alloc(Some(0), 0, queue).expect("room");
        home.nic().lists().append(&mut bus, portal, list::OVERFLOW, &overflow()).expect("room");
        Stage { home, bus, portal, queue, lists: Lists::default(), claimed: Vec::new(), references: Vec::new() }
    }

    fn first_message(&self, wanted: &(u64, u64, u64, Option<u64>)) -> Option<usize> {
        self.lists.messages.iter().position(|&(_, bits, source)| Lists::accepts(wanted, bits, source))
    }

    fn post(&mut self, number: u64, bits: u64, ignore: u64, source: Option<u64>) {
        let wanted = (number, bits, ignore, source);
        let expected = self.first_message(&wanted);
        let mut nic = self.home.nic();
        match nic.receives().post(&mut self.bus, self.portal, &spec(bits, ignore, source, number)) {
            Ok(Posted::Matched(found)) => {
                let header = *nic.unexpected(found).expect("it waits");
                let at = expected.expect("nothing should have matched");
                assert_eq!(header.header_data, self.lists.messages.remove(at).0);
                nic.receives().drop_unexpected(found);
            }
            Ok(Posted::Linked(reference)) => {
                assert_eq!(expected, None);
                self.references.push((number, reference));
                self.lists.receives.push(wanted);
            }
            Err(_) => assert!(self.lists.receives.len() + 1 >= LIMITS.entries as usize),
        }
    }

    fn message(&mut self, number: u64, bits: u64, source: u64, token: bool, by_owner: bool) {
        let expected = self.lists.receives.iter().position(|receive| Lists::accepts(receive, bits, source));
        let expected = expected.map(|at| self.lists.receives.remove(at).0);
        let request = Request {
            kind: kind::PUT,
            portal: self.portal,
            match_bits: bits,
            initiator: source,
            header_data: number,
            operand: [u64::from(token) * number, 0, 0, 0],
            ..Request::default()
        };
        let mut nic = self.home.nic();
        if by_owner {
            let taken = nic.receives().take(&mut self.bus, &Put::from(&request));
            if let Some(receive) = taken {
                assert_eq!(Some(receive.user_ptr), expected);
                return;
            }
        }
        let verdict = match by_owner {
            true => nic.deliver_own(&mut self.bus, &request),
            false => nic.deliver(&mut self.bus, &request),
        };
        let portals::Verdict::Done(delivery) = verdict else { panic!("{verdict:?}") };
        let posted = match nic.signals.take_event(self.queue) {
            Taken::Event(event, _) => {
                assert_eq!((event.kind, event.header_data), (event_kind::PUT, number));
                Some(event.user_ptr)
            }
            _ => None,
        };
        assert_eq!(posted, expected);
        match (expected, delivery.fail) {
            (Some(_), failed) => assert_eq!((failed, delivery.list), (portals::fail::OK, list::PRIORITY)),
            (None, portals::fail::OK) => self.lists.messages.push((number, bits, source)),
            (None, _) => assert_eq!(self.lists.messages.len() + self.claimed.len(), LIMITS.headers as usize),
        }
    }

    fn claim(&mut self, bits: u64, ignore: u64, source: Option<u64>) {
        let expected = self.first_message(&(0, bits, ignore, source));
        let mut nic = self.home.nic();
        let found = nic.receives().find_unexpected(&mut self.bus, self.portal, &spec(bits, ignore, source, 0));
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(at)) = (found, expected) {
            nic.receives().claim_unexpected(found);
            self.claimed.push((found, self.lists.messages.remove(at).0));
        }
    }

    fn drop_claimed(&mut self) {
        if !self.claimed.is_empty() {
            let (found, number) = self.claimed.remove(0);
            let mut nic = self.home.nic();
            assert_eq!(nic.unexpected(found).expect("it is kept").header_data, number);
            nic.receives().drop_unexpected(found);
        }
    }

    fn cancel(&mut self, back: usize) {
        let Some(&(number, reference)) = self.references.iter().rev().nth(back) else { return };
        let there = self.lists.receives.iter().position(|receive| receive.0 == number);
        assert_eq!(self.home.nic().lists().unlink(reference).is_ok(), there.is_some());
        if let Some(there) = there {
            self.lists.receives.remove(there);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn receives_meet_messages_as_ordered_lists_would(
        short_list in prop_oneof![Just(1u32), Just(2), Just(4), Just(16)],
        mapped in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut stage = Stage::new(short_list, mapped);
        for (number, op) in (1u64..).zip(ops) {
            match op {
                Op::Post { bits, ignore, source } => stage.post(number, bits, ignore, source),
                Op::Message { bits, source, token, by_owner } => stage.message(number, bits, source, token, by_owner),
                Op::Claim { bits, ignore, source } => stage.claim(bits, ignore, source),
                Op::Drop => stage.drop_claimed(),
                Op::Cancel(back) => stage.cancel(back),
                Op::Recover => stage.home.nic().recover(&mut TestBus::default(), |_| true),
            }
            assert_sane(&mut stage.home.nic());
        }
    }
}

#[test]
fn a_token_leaves_the_payload_with_its_sender() {
    let mut home = Home::new(&LIMITS);
    let mut bus = TestBus::default();
    let portal = home.nic().portal_table().alloc(Some(0), 0, NONE).expect("room");
    let overflow = EntrySpec {
        options: options::OP_PUT | options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE,
        length: 64,
        ignore_bits: u64::MAX,
        ..spec(0, 0, None, 0)
    };
    home.nic().lists().append(&mut bus, portal, list::OVERFLOW, &overflow).expect("room");
    let request = Request { kind: kind::PUT, portal, length: 1 << 30, operand: [7, 0, 0, 0], ..Request::default() };
    let portals::Verdict::Done(delivery) = home.nic().deliver(&mut bus, &request) else { panic!("it is taken") };
    assert_eq!((delivery.fail, delivery.list, delivery.mlength), (portals::fail::OK, list::OVERFLOW, 0));
    let Ok(Posted::Matched(found)) = home.nic().receives().post(&mut bus, portal, &spec(0, 0, None, 1)) else {
        panic!("it waits")
    };
    let header = *home.nic().unexpected(found).expect("it waits");
    assert_eq!((header.token, header.rlength, header.mlength), (7, 1 << 30, 0));
}

fn steps(home: &mut Home) -> u64 {
    home.nic().signals.registers.get(Register::ListSteps)
}

#[test]
fn a_search_against_the_order_of_the_list_costs_no_more_the_longer_the_list_is() {
    const LENGTH: u64 = 64;
    let limits = Limits { entries: 128, headers: 128, list: 128, short_list: 16, ..LIMITS };
    let mut home = Home::new(&limits);
    let mut bus = TestBus { mapped: true, ..TestBus::default() };
    let portal = home.nic().portal_table().alloc(Some(0), 0, NONE).expect("room");
    home.nic().lists().append(&mut bus, portal, list::OVERFLOW, &overflow()).expect("room");
    let put = |bits| Request { kind: kind::PUT, portal, match_bits: bits, ..Request::default() };
    for round in 0..3 {
        let begun = steps(&mut home);
        for number in 0..LENGTH {
            home.nic().receives().post(&mut bus, portal, &spec(number, 0, None, number)).expect("room");
        }
        for number in (0..LENGTH).rev() {
            let receive = home.nic().receives().take(&mut bus, &Put::from(&put(number))).expect("it is posted");
            assert_eq!(receive.user_ptr, number);
        }
        let posted = steps(&mut home);
        assert!(posted - begun <= 3 * LENGTH, "posted, round {round}: {} steps", posted - begun);
        for number in 0..LENGTH {
            home.nic().deliver(&mut bus, &put(number));
        }
        let delivered = steps(&mut home);
        for number in (0..LENGTH).rev() {
            let found = home.nic().receives().post(&mut bus, portal, &spec(number, 0, None, number));
            let Ok(Posted::Matched(found)) = found else { panic!("{found:?}") };
            assert_eq!(home.nic().unexpected(found).expect("it waits").match_bits, number);
            home.nic().receives().drop_unexpected(found);
        }
        let taken = steps(&mut home);
        assert!(taken - delivered <= 3 * LENGTH, "unexpected, round {round}: {} steps", taken - delivered);
    }
}

const ROOM: u64 = 100;
const LEAST: u64 = 24;

/// The message of a locally managed receive: its address, its bytes, and whether it uses the receive up.
fn next_of_many(offset: &mut u64, length: u64) -> (u64, u64, bool) {
    let (start, mlength) = (crate::common::MEMORY_AT + *offset, length.min(ROOM - *offset));
    *offset += mlength;
    (start, mlength, ROOM - *offset < LEAST)
}

/// The outcome of a message, from its owner's call or from the events of a sender.
fn takes_one(
    nic: &mut selvedge_nic::Nic<'_>,
    bus: &mut TestBus,
    request: &Request,
    by_owner: bool,
) -> (u64, u64, bool) {
    if by_owner {
        if let Some(receive) = nic.receives().take(bus, &Put::from(request)) {
            return (receive.start, request.length.min(receive.length), receive.uses_up);
        }
        assert!(!bus.mapped, "the owner fills mapped memory");
    }
    let verdict = if by_owner { nic.deliver_own(bus, request) } else { nic.deliver(bus, request) };
    assert!(matches!(verdict, portals::Verdict::Done(delivery) if delivery.fail == portals::fail::OK), "{verdict:?}");
    let Taken::Event(put, _) = nic.signals.take_event(0) else { panic!("no event of the message") };
    let unlinked = match nic.signals.take_event(0) {
        Taken::Event(event, _) => event.kind == event_kind::AUTO_UNLINK && event.user_ptr == put.user_ptr,
        _ => false,
    };
    (put.start, put.mlength, unlinked)
}

proptest! {
    /// Messages of any length into one locally managed receive after another. The owner and the senders fill them in
    /// the same way, one behind the other, and the same message uses them up.
    #[test]
    fn a_receive_for_many_messages_is_filled_by_its_owner_as_by_senders(
        mapped in any::<bool>(),
        ops in proptest::collection::vec((0u64..60, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let mut home = Home::new(&LIMITS);
        let mut bus = TestBus { mapped, payload: (1..=60).collect(), ..TestBus::default() };
        let queue = home.nic().queues().alloc(4).expect("room");
        let portal = home.nic().portal_table().alloc(Some(0), 0, queue).expect("room");
        let many = EntrySpec {
            options: options::OP_PUT | options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE,
            length: ROOM,
            min_free: LEAST,
            ..spec(0, 0, None, 7)
        };
        let mut offset = ROOM;
        for (length, by_owner, dies) in ops {
            if ROOM - offset < LEAST {
                offset = 0;
                home.nic().receives().post(&mut bus, portal, &many).expect("room");
            }
            let request = Request { kind: kind::PUT, portal, length, ..Request::default() };
            let expected = next_of_many(&mut offset, length);
            prop_assert_eq!(takes_one(&mut home.nic(), &mut bus, &request, by_owner), expected);
            let at = (expected.0 - crate::common::MEMORY_AT) as usize;
            prop_assert_eq!(&bus.memory[at..at + expected.1 as usize], &bus.payload[..expected.1 as usize]);
            prop_assert_eq!(home.nic().receives().posted_count(portal), u32::from(!expected.2));
            if dies {
                home.nic().recover(&mut TestBus::default(), |_| true);
            }
            assert_sane(&mut home.nic());
        }
    }
}
