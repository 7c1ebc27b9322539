// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of a match at the end of a queue of receives (seed 000, figures 11 and 12): cycles of the list manager with
//! our hash key and with the seed's, and nanoseconds of `nic` on this machine's core.
//!
//! `SELVEDGE_RTL_LARGE=1 cargo run --release -p selvedge-rtl --example queue_length`
//!
//! All receives are from one source, each with its own tag; the message matches the last one posted. Prints a Markdown
//! table; with `json` only the cycles, as docs/results/rtl/queue_length.json has them for the plot of `selvedge rtl report`.

use std::hint::black_box;
use std::time::Instant;

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::list;
use selvedge_nic::tables::{Request, kind};
use selvedge_rtl::home::{Home, NoMemory};
use selvedge_rtl::lists::{ListCommand, ListsLockstep, receive};

const SIZE: (u32, u32, usize) = (16_384, 64, 16_384);

fn put(match_bits: u64) -> Request {
    Request { kind: kind::PUT, portal: 0, match_bits, initiator: 1, length: 8, ..Request::default() }
}

fn cycles(unit: &str, queue: u64) -> u32 {
    let mut both = ListsLockstep::new(unit, SIZE, 1).unwrap_or_else(|missing| panic!("{missing}"));
    both.compare_all = false;
    let append = |tag| ListCommand::Append { portal: 0, which: list::PRIORITY, spec: receive(tag, 1) };
    both.run(&(0..queue).map(append).collect::<Vec<_>>(), 20).unwrap_or_else(|difference| panic!("{difference}"));
    both.run(&[ListCommand::Deliver(put(queue - 1))], 2 * queue + 100)
        .unwrap_or_else(|difference| panic!("{difference}"));
    let timing = both.timings().last().expect("the message is answered");
    timing.answered - timing.accepted
}

/// Nanoseconds of a match and the append that replaces it: the median of 101 long runs.
fn software_ns(queue: u64) -> f64 {
    let limits =
        Limits { entries: SIZE.0 + 1, headers: SIZE.1, portals: 1, list: SIZE.0 + 1, short_list: 8, ..Limits::NONE };
    let mut home = Home::new(&limits);
    let mut nic = home.nic();
    nic.portal_table().alloc(Some(0), 0, NONE).expect("it is free");
    let bus = &mut NoMemory;
    for tag in 0..queue {
        nic.lists().append(bus, 0, list::PRIORITY, &receive(tag, 1)).expect("there is room");
    }
    let mut runs: Vec<f64> = (0..101)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..200 {
                black_box(nic.deliver_own(bus, &put(queue - 1)));
                nic.lists().append(bus, 0, list::PRIORITY, &receive(queue - 1, 1)).expect("there is room");
            }
            began.elapsed().as_nanos() as f64 / 200.0
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[50]
}

fn main() {
    let lengths = || (0..=14).map(|power| 1u64 << power);
    let cycles_of = |queue| ["lists_16384", "lists_16384_source"].map(|unit| cycles(unit, queue));
    if std::env::args().nth(1).as_deref() == Some("json") {
        let rows: Vec<_> = lengths()
            .map(|queue| {
                let [ours, seed] = cycles_of(queue);
                serde_json::json!({ "receives": queue, "cycles": ours, "cycles_source": seed })
            })
            .collect();
        println!("{:#}", serde_json::json!({ "name": "queue_length", "rows": rows }));
        return;
    }
    println!(
        "| receives | cycles, key of source and bits | cycles, key of the source alone | software: match and append, ns |"
    );
    println!("|---|---|---|---|");
    for queue in lengths() {
        let [ours, seed] = cycles_of(queue);
        println!("| {queue} | {ours} | {seed} | {:.0} |", software_ns(queue));
    }
}
