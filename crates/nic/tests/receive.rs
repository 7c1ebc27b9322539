// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives of an owner that takes messages in itself, against two plain lists: random histories.

mod common;

use common::sane::assert_sane;
use common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::matching::Key;
use selvedge_nic::portals::{EntrySpec, Posted, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Limits, portals};

const LIMITS: Limits = Limits { entries: 16, headers: 8, list: 16, ..common::TINY };

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A receive of these bits, ignoring those, from this source or any.
    Post { bits: u64, ignore: u64, source: Option<u64> },
    /// A message, taken in as an owner does: the receive, else the overflow list; with a token or without.
    Message { bits: u64, source: u64, token: bool },
    /// The receive posted so many receives ago is cancelled.
    Cancel(usize),
    /// The oldest message goes behind the newest.
    Delay,
}

fn op() -> impl Strategy<Value = Op> {
    let ignore = prop_oneof![Just(0u64), Just(1), Just(3), Just(u64::MAX)];
    let source = prop_oneof![Just(None), (0u64..2).prop_map(Some)];
    prop_oneof![
        (0u64..4, ignore, source).prop_map(|(bits, ignore, source)| Op::Post { bits, ignore, source }),
        (0u64..4, 0u64..2, any::<bool>()).prop_map(|(bits, source, token)| Op::Message { bits, source, token }),
        (0usize..4).prop_map(Op::Cancel),
        Just(Op::Delay),
    ]
}

/// What the NIC should hold: receives in order, messages in order, each with its number.
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
        start: common::MEMORY_AT,
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn receives_meet_messages_as_ordered_lists_would(ops in proptest::collection::vec(op(), 1..60)) {
        let mut home = Home::new(&LIMITS);
        let mut bus = TestBus::default();
        let portal = home.nic().portal_alloc(Some(0), 0, NONE).expect("room");
        let overflow = EntrySpec {
            options: options::OP_PUT | options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE,
            length: 1 << 20,
            ignore_bits: u64::MAX,
            ..spec(0, 0, None, 0)
        };
        home.nic().append(&mut bus, portal, list::OVERFLOW, &overflow).expect("room");
        let mut lists = Lists::default();
        let mut references = Vec::new();
        for (number, op) in (1u64..).zip(ops) {
            match op {
                Op::Post { bits, ignore, source } => {
                    let wanted = (number, bits, ignore, source);
                    let expected = lists.messages.iter().position(|&(_, b, s)| Lists::accepts(&wanted, b, s));
                    match home.nic().post_receive(&mut bus, portal, &spec(bits, ignore, source, number)) {
                        Ok(Posted::Met(found)) => {
                            let header = *home.nic().unexpected(found).expect("it waits");
                            let at = expected.expect("nothing should have matched");
                            prop_assert_eq!(header.header_data, lists.messages.remove(at).0);
                            home.nic().drop_unexpected(found);
                        }
                        Ok(Posted::Linked(reference)) => {
                            prop_assert_eq!(expected, None);
                            references.push((number, reference));
                            lists.receives.push(wanted);
                        }
                        Err(_) => prop_assert!(lists.receives.len() + 1 >= LIMITS.entries as usize),
                    }
                }
                Op::Message { bits, source, token } => {
                    let expected = lists.receives.iter().position(|receive| Lists::accepts(receive, bits, source));
                    let key = Key { match_bits: bits, source, length: 0, remote_offset: 0 };
                    match home.nic().take_receive(&mut bus, portal, &key) {
                        Some(receive) => {
                            let at = expected.expect("nothing should have matched");
                            prop_assert_eq!(receive.user_ptr, lists.receives.remove(at).0);
                        }
                        None => {
                            prop_assert_eq!(expected, None);
                            let request = Request {
                                kind: kind::PUT,
                                portal,
                                match_bits: bits,
                                initiator: source,
                                header_data: number,
                                operand: [u64::from(token) * number, 0, 0, 0],
                                ..Request::default()
                            };
                            let verdict = home.nic().deliver(&mut bus, &request);
                            let portals::Verdict::Done(delivery) = verdict else { panic!("{verdict:?}") };
                            if delivery.fail == portals::fail::OK {
                                lists.messages.push((number, bits, source));
                            } else {
                                prop_assert_eq!(lists.messages.len(), LIMITS.headers as usize);
                            }
                        }
                    }
                }
                Op::Delay => {
                    home.nic().delay_oldest_unexpected(portal);
                    if !lists.messages.is_empty() {
                        lists.messages.rotate_left(1);
                    }
                }
                Op::Cancel(back) => {
                    let Some(&(number, reference)) = references.iter().rev().nth(back) else { continue };
                    let there = lists.receives.iter().position(|receive| receive.0 == number);
                    prop_assert_eq!(home.nic().unlink(reference).is_ok(), there.is_some());
                    if let Some(there) = there {
                        lists.receives.remove(there);
                    }
                }
            }
            assert_sane(&mut home.nic());
        }
    }
}

#[test]
fn a_token_leaves_the_payload_with_its_sender() {
    let mut home = Home::new(&LIMITS);
    let mut bus = TestBus::default();
    let portal = home.nic().portal_alloc(Some(0), 0, NONE).expect("room");
    let overflow = EntrySpec {
        options: options::OP_PUT | options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE,
        length: 64,
        ignore_bits: u64::MAX,
        ..spec(0, 0, None, 0)
    };
    home.nic().append(&mut bus, portal, list::OVERFLOW, &overflow).expect("room");
    let request = Request { kind: kind::PUT, portal, length: 1 << 30, operand: [7, 0, 0, 0], ..Request::default() };
    let portals::Verdict::Done(delivery) = home.nic().deliver(&mut bus, &request) else { panic!("it is taken") };
    assert_eq!((delivery.fail, delivery.list, delivery.mlength), (portals::fail::OK, list::OVERFLOW, 0));
    let Ok(Posted::Met(found)) = home.nic().post_receive(&mut bus, portal, &spec(0, 0, None, 1)) else {
        panic!("it waits")
    };
    let header = *home.nic().unexpected(found).expect("it waits");
    assert_eq!((header.token, header.rlength, header.mlength), (7, 1 << 30, 0));
}
