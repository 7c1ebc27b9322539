// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many processes claim at once: each gets an id of its own, also when they take over the ids of dead processes.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{Parent, example};

const CLAIMANTS: usize = 16;

fn start_all(parent: &Parent) -> Vec<Child> {
    let start = |_| {
        Command::new(example("claim"))
            .arg("1")
            .env("SELVEDGE_DIR", parent.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts")
    };
    (0..CLAIMANTS).map(start).collect()
}

fn ids(claimants: &mut [Child]) -> BTreeSet<u16> {
    let read = |claimant: &mut Child| {
        let mut line = String::new();
        let stdout = claimant.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("it prints its id");
        line.trim().parse().expect("a number")
    };
    claimants.iter_mut().map(read).collect()
}

#[test]
fn every_claimant_gets_an_id_of_its_own() {
    let parent = Parent::new("contest");
    let all: BTreeSet<u16> = (1..=CLAIMANTS as u16).collect();
    let mut first = start_all(&parent);
    assert_eq!(ids(&mut first), all);
    // Killed processes leave their claims. The second group takes them over, all at once.
    for claimant in &mut first {
        claimant.kill().expect("ours");
        claimant.wait().expect("ours");
    }
    let mut second = start_all(&parent);
    assert_eq!(ids(&mut second), all);
    for mut claimant in second {
        drop(claimant.stdin.take());
        assert!(claimant.wait().expect("ours").success());
    }
}
