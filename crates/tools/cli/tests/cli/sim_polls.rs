// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that wait by reading plain memory (`plain_polls.c`), and ranks that poll while they work (`working_polls.c`).

use crate::common::{Place, compile, report_of_two};

/// Virtual time decides the actions of a rank meanwhile, so two runs are equal.
#[test]
fn ranks_that_poll_plain_memory_go_on_when_it_changes() {
    let place = Place::new("plain-polls");
    let program = &compile(&place, "plain_polls");
    let run = || report_of_two(&place, "cluster", &["--time-limit", "1s"], &[program, "20"]);
    let (once, again) = (run(), run());
    assert_eq!(once, again);
    let notes: Vec<&str> = once["notes"].as_array().expect("notes").iter().filter_map(|note| note.as_str()).collect();
    let polls = |rank: u32| format!("rank {rank} used the processor in a loop without calling the library");
    for rank in 0..2 {
        assert_eq!(notes.iter().filter(|note| note.starts_with(&polls(rank))).count(), 1, "{notes:?}");
    }
}

/// Polls between pieces of work are no wait, so the pauses after them stay short: 2,000 pauses take at most some
/// microseconds each; doubling pauses would reach a tenth of a second.
#[test]
fn ranks_that_copy_between_polls_do_not_pause_for_long() {
    let place = Place::new("working-polls");
    let program = &compile(&place, "working_polls");
    let run = || report_of_two(&place, "cluster", &["--time-limit", "1s"], &[program, "2000", "8192"]);
    let (once, again) = (run(), run());
    assert_eq!(once, again);
    let time_ps = once["virtual_time_ps"].as_u64().expect("a time");
    assert!(time_ps < 10_000_000_000, "{time_ps} ps");
}
