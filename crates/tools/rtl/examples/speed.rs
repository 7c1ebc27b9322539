// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cycles a second of the list manager: alone, and in lockstep with `nic`.
//!
//! `cargo run --release -p selvedge-rtl --example speed [MESSAGES]`

use std::time::Instant;

use selvedge_nic::portals::list;
use selvedge_nic::tables::{Request, kind};
use selvedge_rtl::Unit;
use selvedge_rtl::lists::{ListCommand, ListsLockstep, receive};

fn append(tag: u64) -> ListCommand {
    ListCommand::Append { portal: 3, which: list::PRIORITY, spec: receive(tag, 1) }
}

fn put(match_bits: u64) -> ListCommand {
    ListCommand::Deliver(Request {
        kind: kind::PUT,
        portal: 3,
        match_bits,
        initiator: 1,
        length: 8,
        ..Request::default()
    })
}

fn main() {
    let messages: u64 = std::env::args().nth(1).map_or(100_000, |count| count.parse().expect("a number of messages"));
    let mut both = ListsLockstep::new("lists", (256, 256, 512), 4).unwrap_or_else(|missing| panic!("{missing}"));
    both.compare_all = false;
    both.run(&(0..64).map(append).collect::<Vec<_>>(), 20).expect("both agree");
    let stream: Vec<ListCommand> = (0..messages).flat_map(|tag| [put(tag), append(tag + 64)]).collect();

    let mut unit = Unit::new("lists").expect("as above");
    let words: Vec<u32> =
        stream.iter().enumerate().flat_map(|(tag, command)| command.words(tag as u32).expect("narrow")).collect();
    let began = Instant::now();
    unit.run(&words, 4 * messages);
    let alone = 4.0 * messages as f64 / began.elapsed().as_secs_f64();

    let (began, first) = (Instant::now(), both.cycle());
    both.run(&stream, 20).expect("both agree");
    let together = (both.cycle() - first) as f64 / began.elapsed().as_secs_f64();
    println!("RTL alone: {:.2} million cycles/s; in lockstep: {:.2}", alone / 1e6, together / 1e6);
}
