// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number of process turns that an operation takes (`fetches.c`). A turn costs real time.

use crate::common::{Place, compile, report_of_two};

/// The initiator hands over operation and wait together. The target, in a barrier, checks whether its wait is over.
#[test]
fn an_operation_that_brings_a_value_back_takes_one_turn_of_its_initiator() {
    let place = Place::new("fetches");
    let program = &compile(&place, "fetches");
    let turns = |count: &str| {
        let report = report_of_two(&place, "cluster", &["--variation", "none"], &[program, count]);
        report["turns"].as_u64().expect("a number")
    };
    let (few, many) = (turns("100"), turns("1100"));
    assert!(many - few <= 2 * 1000, "{} turns for 1000 operations", many - few);
}
