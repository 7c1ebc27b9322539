// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Portals target against plain ordered lists: random histories, and all short ones.
//!
//! After each operation the results, the bytes of the memory, the counters and the registers must agree; events are
//! compared one by one as they are taken; and the tables must be sane.

use crate::common::MEMORY_AT;
use crate::common::model::{Spec, Weather};
use crate::common::pair::{Op, Pair, op};
use proptest::prelude::*;
use selvedge_nic::portals::{list, options};
use selvedge_nic::tables::{Request, kind};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_agree_with_ordered_lists(
        capacity in prop_oneof![1..4u32, 4..12u32],
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        Pair::run(capacity, &ops);
    }
}

// ---- all short histories ----

fn plain(options: u32, ignore_bits: u64, number: u64) -> Spec {
    Spec {
        options: options | options::OP_PUT | options::EVENT_CT_COMM | options::EVENT_CT_OVERFLOW,
        pieces: vec![(MEMORY_AT + number * 16, 16)],
        match_bits: 1,
        ignore_bits,
        source: 1,
        source_ignore: 0,
        min_free: if options & options::MANAGE_LOCAL != 0 { 8 } else { 0 },
        user_ptr: number,
        counter: Some((number % 2) as usize),
        uid: u32::MAX,
    }
}

fn alphabet() -> Vec<Op> {
    let append = |which, spec| Op::Append { portal: 0, which, spec };
    let put = |match_bits, length| Op::Deliver {
        request: Request { kind: kind::PUT, match_bits, length, initiator: 1, ..Request::default() },
        weather: Weather::Mapped,
    };
    vec![
        append(list::PRIORITY, plain(options::USE_ONCE, 0, 0)),
        append(list::PRIORITY, plain(0, u64::MAX, 1)),
        append(list::PRIORITY, plain(options::MANAGE_LOCAL | options::LOCAL_INC_UH_RLENGTH, 2, 2)),
        append(list::OVERFLOW, plain(options::MANAGE_LOCAL, u64::MAX, 3)),
        append(list::OVERFLOW, plain(options::USE_ONCE, 0, 4)),
        put(1, 8),
        put(3, 12),
        Op::Search { portal: 0, spec: plain(options::USE_ONCE, u64::MAX, 5), delete: true },
        Op::Unlink(0),
        Op::Enable(0, true),
    ]
}

/// All histories of up to this many operations: 11,111 of them, or 111,111 where the compiler optimizes.
const DEPTH: u32 = if cfg!(debug_assertions) { 4 } else { 5 };

#[test]
fn all_short_histories_agree_with_ordered_lists() {
    let alphabet = alphabet();
    let mut histories = 0u64;
    let mut stack: Vec<(Pair, u32)> = vec![(Pair::new(8), 0)];
    while let Some((pair, depth)) = stack.pop() {
        histories += 1;
        let mut ended = pair.fork();
        ended.take(usize::MAX);
        ended.compare();
        if depth == DEPTH {
            continue;
        }
        for op in &alphabet {
            let mut next = pair.fork();
            next.step(op);
            stack.push((next, depth + 1));
        }
    }
    assert_eq!(histories, (0..=DEPTH).map(|depth| (alphabet.len() as u64).pow(depth)).sum::<u64>());
}
