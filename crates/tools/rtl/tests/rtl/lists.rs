// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list manager in lockstep with `nic`: random histories, cycles, bad input.

use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_rtl::LockstepError;
use selvedge_rtl::lists::{
    ListCommand, ListsLockstep, answer, chain, command, entry_a, entry_b, header_a, header_b, key, plan, receive,
};

use crate::common::{built, histories, unit};
use crate::layout;

/// `lists_tiny` of rtl/units.toml.
const TINY: (u32, u32, usize) = (8, 4, 4);
const DEFAULT: (u32, u32, usize) = (256, 256, 512);

fn lockstep(unit: &str, size: (u32, u32, usize), portals: u32) -> Option<ListsLockstep> {
    built(ListsLockstep::new(unit, size, portals))
}

#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("lists_layout") else { return };
    let structs = [
        command::FIELDS,
        answer::FIELDS,
        plan::FIELDS,
        key::FIELDS,
        entry_a::FIELDS,
        header_a::FIELDS,
        entry_b::FIELDS,
        header_b::FIELDS,
        chain::FIELDS,
    ];
    layout::compare(&mut unit, &structs, 256, 10);
}

/// A command of a history. An unlink names an append by its number; the conversion to commands sets the reference.
#[derive(Clone, Debug)]
enum Op {
    Deliver(Request),
    Append { portal: u32, which: u8, spec: EntrySpec },
    Unlink { append: usize, stale: bool },
    Search { portal: u32, spec: EntrySpec, delete: bool },
}

const BITS: [u64; 4] = [0, 1, 2, 1 << 63];
const IGNORED_BITS: [u64; 7] = [0, 0, 0, 1, 3, u64::MAX, 1 << 63];
const SOURCES: [u64; 3] = [1, 2, 70_001];
const IGNORED_SOURCES: [u64; 4] = [0, 0, 0, u64::MAX];

pub fn spec() -> impl Strategy<Value = EntrySpec> {
    use options::*;
    let seldom = vec![
        EVENT_LINK_DISABLE,
        EVENT_COMM_DISABLE,
        EVENT_SUCCESS_DISABLE,
        EVENT_OVER_DISABLE,
        EVENT_UNLINK_DISABLE,
        UNEXPECTED_HDR_DISABLE,
        ACK_DISABLE,
        NO_TRUNCATE,
    ];
    let life = prop_oneof![
        4 => Just(USE_ONCE),
        3 => Just(0),
        2 => Just(MANAGE_LOCAL),
        2 => Just(MANAGE_LOCAL | LOCAL_INC_UH_RLENGTH),
        1 => Just(MANAGE_LOCAL | USE_ONCE),
    ];
    let allowed = prop_oneof![8 => Just(OP_PUT | OP_GET), 1 => Just(OP_PUT), 1 => Just(OP_GET)];
    use proptest::sample::select;
    (
        (proptest::collection::vec(proptest::sample::select(seldom), 0..2), life, allowed),
        (select(&BITS[..]), select(&IGNORED_BITS[..]), select(&SOURCES[..]), select(&IGNORED_SOURCES[..])),
        (0..6u64, select(vec![0u64, 8, 16, 40]), 0..3u64, 0..100u64, prop_oneof![6 => Just(u32::MAX), 1 => Just(0u32)]),
    )
        .prop_map(|((seldom, life, allowed), bits, (at, length, min_free, user_ptr, uid))| EntrySpec {
            options: seldom.into_iter().fold(life | allowed, |all, one| all | one),
            start: 0x10_000 + at * 24,
            length,
            iov: NONE,
            iov_count: 0,
            match_bits: bits.0,
            ignore_bits: bits.1,
            source: bits.2,
            source_ignore: bits.3,
            min_free: min_free * 8,
            user_ptr,
            counter: NONE,
            uid,
        })
}

fn request() -> impl Strategy<Value = Request> {
    use proptest::sample::select;
    let offset = prop_oneof![4 => Just(0u64), 2 => 0..48u64, 1 => Just(u64::from(u32::MAX))];
    let kinds = prop_oneof![3 => Just(kind::PUT), 1 => Just(kind::GET)];
    let token = prop_oneof![8 => Just(0u64), 1 => 1..100u64];
    (kinds, (0..2u32, 0..24u64, 0..2u32), select(&BITS[..]), select(&SOURCES[..]), offset, (token, any::<u64>()))
        .prop_map(|(kind, (portal, length, uid), match_bits, initiator, remote_offset, (token, header_data))| Request {
            kind,
            portal,
            uid,
            initiator,
            match_bits,
            remote_offset,
            length,
            header_data,
            operand: [if kind == kind::PUT { token } else { 0 }, 0, 0, 0],
            ..Request::default()
        })
}

fn op() -> impl Strategy<Value = Op> {
    let which = prop_oneof![3 => Just(list::PRIORITY), 2 => Just(list::OVERFLOW)];
    prop_oneof![
        12 => (0..2u32, which, spec()).prop_map(|(portal, which, spec)| Op::Append { portal, which, spec }),
        14 => request().prop_map(Op::Deliver),
        3 => (0..10usize, proptest::bool::weighted(0.1)).prop_map(|(append, stale)| Op::Unlink { append, stale }),
        2 => (0..2u32, spec(), any::<bool>()).prop_map(|(portal, spec, delete)| Op::Search { portal, spec, delete }),
    ]
}

/// Idle cycles after a command; mostly none, so that commands overlap.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(0u64), 1 => 1..6u64, 1 => Just(40u64)]
}

fn commands(size: (u32, u32, usize), ops: &[(Op, u64)]) -> Vec<(ListCommand, u64)> {
    use selvedge_nic::Limits;
    use selvedge_rtl::home::{Home, NoMemory};
    let limits = Limits { entries: size.0, headers: size.1, portals: 2, list: size.0, short_list: 2, ..Limits::NONE };
    let mut home = Home::new(&limits);
    let mut nic = home.nic();
    for portal in 0..2 {
        nic.portal_table().alloc(Some(portal), 0, NONE).expect("it is free");
    }
    let bus = &mut NoMemory;
    let mut references = Vec::new();
    let mut command = |op: &Op| match op {
        Op::Deliver(request) => {
            nic.deliver(bus, request);
            ListCommand::Deliver(*request)
        }
        Op::Append { portal, which, spec } => {
            references.extend(nic.lists().append(bus, *portal, *which, spec));
            ListCommand::Append { portal: *portal, which: *which, spec: *spec }
        }
        Op::Unlink { append, stale } => {
            let known = references.len().checked_sub(1 + append % references.len().max(1)).map(|at| references[at]);
            let reference = known.unwrap_or(5) ^ if *stale { 1 << 20 } else { 0 };
            let _ = nic.lists().unlink(reference);
            ListCommand::Unlink(reference)
        }
        Op::Search { portal, spec, delete } => {
            nic.lists().search(bus, *portal, spec, *delete).expect("enabled");
            ListCommand::Search { portal: *portal, spec: *spec, delete: *delete }
        }
    };
    ops.iter().map(|(op, gap)| (command(op), *gap)).collect()
}

fn run_all(both: &mut ListsLockstep, commands: &[(ListCommand, u64)]) -> Result<(), LockstepError> {
    let mut left = commands;
    while !left.is_empty() {
        let together = left.iter().position(|&(_, gap)| gap != 0).map_or(left.len(), |last| last + 1);
        let (now, later) = left.split_at(together);
        let offered: Vec<ListCommand> = now.iter().map(|&(command, _)| command).collect();
        both.run(&offered, now[together - 1].1)?;
        left = later;
    }
    both.drain()
}

proptest! {
    #![proptest_config(histories(2000))]

    #[test]
    fn random_histories_agree(
        unit in proptest::sample::select(&["lists_tiny", "lists_one_port_tiny"][..]),
        ops in proptest::collection::vec((op(), gap()), 1..60),
    ) {
        if let Some(mut both) = lockstep(unit, TINY, 2) {
            if let Err(difference) = run_all(&mut both, &commands(TINY, &ops)) {
                prop_assert!(false, "{}", difference);
            }
        }
    }
}

fn append(match_bits: u64, source: u64) -> ListCommand {
    ListCommand::Append { portal: 3, which: list::PRIORITY, spec: receive(match_bits, source) }
}

fn put(match_bits: u64, initiator: u64) -> ListCommand {
    ListCommand::Deliver(Request { kind: kind::PUT, portal: 3, match_bits, initiator, length: 8, ..Request::default() })
}

fn latencies(both: &ListsLockstep, count: usize) -> Vec<u32> {
    let timings = both.timings();
    timings[timings.len() - count..].iter().map(|timing| timing.answered - timing.accepted).collect()
}

#[test]
fn a_match_at_the_head_takes_four_cycles_and_an_insert_three() {
    let Some(mut both) = lockstep("lists", DEFAULT, 4) else { return };
    // Each of 16 tags and 12 sources has its own bucket among 512.
    let keys: Vec<(u64, u64)> = (0..16).flat_map(|tag| (0..12).map(move |source| (tag, source))).collect();
    for &(tag, source) in &keys {
        both.run(&[append(tag, source)], 20).unwrap();
        assert_eq!(latencies(&both, 1), [3]);
    }
    for &(tag, source) in keys.iter().rev() {
        both.run(&[put(tag, source)], 20).unwrap();
        assert_eq!(latencies(&both, 1), [4], "tag {tag} source {source}");
    }
    both.drain().unwrap();
}

/// Each bit of match bits and source decides a match, unless an entry ignores it. Chains separate keys that differ in
/// one bit; an entry that ignores the bit sends the search to the chain of an entry that does not.
#[test]
fn each_bit_of_the_key_decides() {
    let Some(mut both) = lockstep("lists_tiny", TINY, 2) else { return };
    let entry = |spec: EntrySpec| ListCommand::Append { portal: 1, which: list::PRIORITY, spec };
    let message = |match_bits, initiator| {
        ListCommand::Deliver(Request {
            kind: kind::PUT,
            portal: 1,
            match_bits,
            initiator,
            length: 8,
            ..Request::default()
        })
    };
    for bit in 0..64 {
        let (this, next) = (1u64 << bit, 1u64 << ((bit + 1) % 64));
        both.run(&[entry(receive(0, 5)), entry(EntrySpec { ignore_bits: this, ..receive(next, 5) })], 20).unwrap();
        // The first matches none, the second the entry that ignores the bit, the third the other one.
        both.run(&[message(this, 5), message(this | next, 5), message(0, 5)], 60).unwrap();
    }
    for bit in 0..32 {
        let (this, next) = (1u64 << bit, 1u64 << ((bit + 1) % 32));
        both.run(&[entry(receive(6, 0)), entry(EntrySpec { source_ignore: this, ..receive(6, next) })], 20).unwrap();
        both.run(&[message(6, this), message(6, this | next), message(6, 0)], 60).unwrap();
    }
    both.drain().unwrap();
}

#[test]
fn a_message_and_an_append_every_four_cycles() {
    let Some(mut both) = lockstep("lists", DEFAULT, 4) else { return };
    both.run(&(0..64).map(|tag| append(tag, 1)).collect::<Vec<_>>(), 20).unwrap();
    // Each message uses up the receive that was posted 64 before it.
    let stream: Vec<ListCommand> = (0..1000).flat_map(|tag| [put(tag, 1), append(tag + 64, 1)]).collect();
    both.run(&stream, 20).unwrap();
    let timings = &both.timings()[64..];
    for pair in timings.chunks(2).collect::<Vec<_>>().windows(2).skip(1) {
        assert_eq!(pair[1][0].accepted - pair[0][0].accepted, 4);
        assert_eq!((pair[1][0].answered - pair[0][0].answered, pair[1][1].answered - pair[0][1].answered), (4, 4));
        // Each waits a cycle in the register for the next command.
        assert_eq!((pair[0][0].answered - pair[0][0].accepted, pair[0][1].answered - pair[0][1].accepted), (5, 4));
    }
    both.drain().unwrap();
}

/// With banks of one port: cycles between messages alone, and between pairs of a message and an append.
#[test]
fn banks_with_one_port_take_a_message_every_four_cycles_and_a_pair_every_nine() {
    let Some(mut both) = lockstep("lists_one_port", DEFAULT, 4) else { return };
    both.run(&(0..128).map(|tag| append(tag, 1)).collect::<Vec<_>>(), 20).unwrap();
    both.run(&(0..64).map(|tag| put(tag, 1)).collect::<Vec<_>>(), 20).unwrap();
    assert_eq!(both.timings()[128].answered - both.timings()[128].accepted, 4);
    for pair in both.timings()[128..].windows(2) {
        assert_eq!(pair[1].answered - pair[0].answered, 4);
    }
    let stream: Vec<ListCommand> = (64..1000).flat_map(|tag| [put(tag, 1), append(tag + 64, 1)]).collect();
    both.run(&stream, 20).unwrap();
    for pair in both.timings()[192..].chunks(2).collect::<Vec<_>>().windows(2) {
        assert_eq!((pair[1][0].answered - pair[0][0].answered, pair[1][1].answered - pair[0][1].answered), (9, 9));
    }
    both.drain().unwrap();
}

/// Cycles of a match that is the last of its chain; the tags differ and fall into one bucket.
#[test]
fn a_walk_takes_two_cycles_a_link() {
    for (unit, behind_the_head) in [("lists", 7), ("lists_one_port", 12)] {
        let Some(mut both) = lockstep(unit, DEFAULT, 4) else { return };
        // Tags whose two pieces of 9 bits cancel.
        let tags: Vec<u64> = (0..16).map(|piece| piece << 9 | piece).collect();
        for &tag in &tags {
            both.run(&[append(tag, 1)], 20).unwrap();
        }
        for link in (1..=16).rev() {
            both.run(&[put(tags[link - 1], 1)], 100).unwrap();
            let expected = if link == 1 { 4 } else { behind_the_head + 2 * link as u32 };
            assert_eq!(latencies(&both, 1), [expected], "{unit}, link {link}");
        }
        both.drain().unwrap();
    }
}
