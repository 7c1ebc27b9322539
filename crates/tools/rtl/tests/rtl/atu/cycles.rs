// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cycles of docs/design/rtl.md, "Address translation".

use selvedge_nic::atu::{Access, FlushMode, Rights, Unit as Peer};
use selvedge_rtl::atu::words::{AtuCommand, Inputs};

use super::bench::{Bench, answer_of, ask, entry, fence, flush_pages, flush_vpid};

type Whole = Bench<64, 32, 16>;

/// Offers a command, and runs until `seen` holds. Returns the cycles from the command's acceptance.
fn until(bench: &mut Whole, command: AtuCommand, seen: impl Fn(&selvedge_rtl::atu::Outputs) -> bool) -> u32 {
    let mut accepted = None;
    for _ in 0..5000 {
        let command = if accepted.is_none() { Some(command) } else { None };
        let left = bench.tick(&Inputs { command, ..Inputs::NONE });
        if left.accepted {
            accepted = Some(left.cycle);
        }
        if seen(&left) {
            return left.cycle - accepted.expect("it was accepted");
        }
    }
    panic!("never");
}

fn read(page: u32) -> AtuCommand {
    ask(Peer::Requester, 1, 1, page, Access::Read)
}

fn answer_read(bench: &mut Whole, word: u64) -> u32 {
    let (tag, _) = bench.reads.remove(0);
    bench.tick(&Inputs { read: Some((tag, word)), ..Inputs::NONE });
    (1..100).find(|_| bench.tick(&Inputs::NONE).units.is_some()).expect("a response")
}

/// Seed 002, table 5-8: 9 for a hit; 11 to the table read and 9 from the word to the response for a miss.
#[test]
fn a_hit_and_a_miss() {
    let Some(mut bench) = Bench::whole(1) else { return };
    let word = entry(Rights::ReadOnly, 1, 9, 0);
    for _ in 0..2 {
        assert_eq!(until(&mut bench, read(5), |left| left.memory.is_some()), 4);
        assert_eq!(answer_read(&mut bench, word), 4);
        for _ in 0..3 {
            assert_eq!(until(&mut bench, read(5), |left| left.units.is_some()), 7);
        }
        // A page without a table is answered equally fast.
        assert_eq!(until(&mut bench, read(1 << 26), |left| left.units.is_some()), 7);
        bench.offer(flush_pages(FlushMode::Tlb, 0, 5, 1));
        bench.finish();
    }
}

#[test]
fn one_request_a_cycle() {
    let Some(mut bench) = Bench::whole(1) else { return };
    let pages = 24;
    (0..pages).for_each(|page| bench.write(page, entry(Rights::ReadOnly, 1, page.into(), 0)));
    for round in 0..2 {
        (0..pages).for_each(|page| bench.offer(read(page)));
        let (mut responses, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let inputs = bench.answers();
            let left = bench.tick(&inputs);
            responses.extend(left.units.map(|_| left.cycle));
            reads.extend(left.memory.map(|_| left.cycle));
        }
        assert_eq!(responses.len(), pages as usize);
        if round == 0 {
            assert_eq!(reads.len(), pages as usize);
            // A fill takes the TLB's one port for a cycle, so the later look-ups take every second cycle.
            let whole = responses.last().expect("some") - responses[0];
            assert!((pages - 1..2 * pages).contains(&whole), "{responses:?}");
        } else {
            assert!(responses.windows(2).all(|two| two[1] == two[0] + 1), "{responses:?}");
        }
    }
    bench.finish();
}

/// Seed 002, table 5-8: 4 from the register file to the request of a flush, 3 from the answer to the register file.
#[test]
fn flushes_and_fences() {
    let Some(mut bench) = Bench::whole(1) else { return };
    bench.is_answered = false;
    assert_eq!(until(&mut bench, fence(1), |left| left.done == Some(1)), 7);
    assert_eq!(until(&mut bench, flush_vpid(FlushMode::Units, 2, 1), |left| left.units.is_some()), 7);
    bench.run(5);
    assert_eq!(bench.asked.len(), 3);
    for (unit, tag) in std::mem::take(&mut bench.asked) {
        let left = bench.tick(&Inputs { answer: Some(answer_of(unit, tag)), ..Inputs::NONE });
        assert_eq!(left.done, None);
    }
    assert_eq!(bench.tick(&Inputs::NONE).done, Some(2));
    for count in [1, 2, 3, 100, 1024] {
        let flush = flush_pages(FlushMode::Both, 3, 77, count);
        assert_eq!(until(&mut bench, flush, |left| left.units.is_some()), 11 + 2 * count);
        bench.finish();
    }
    let flush = flush_vpid(FlushMode::Both, 3, 77);
    assert_eq!(until(&mut bench, flush, |left| left.units.is_some()), 11 + 2 * 1024);
    bench.finish();
    // With a read in flight, the flush scans the slots.
    bench.is_answered = false;
    assert_eq!(until(&mut bench, read(5), |left| left.memory.is_some()), 4);
    let flush = flush_pages(FlushMode::Tlb, 3, 77, 1);
    assert!(bench.tick(&Inputs { command: Some(flush), ..Inputs::NONE }).accepted);
    assert_eq!(until(&mut bench, read(6), |left| left.memory.is_some()), 41);
    bench.finish();
}
