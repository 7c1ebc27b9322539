// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts that vary: programs with alternating ranks terminate, the seed decides the variation, and a livelock is
//! reported but not ended. `lockstep.c` is such a program.

use std::io::Read;
use std::process::Stdio;

use crate::common::{Place, compile, report_of_two, sim_of_two};

/// A run with exact prices would continue to the limit.
#[test]
fn equal_ranks_that_take_two_locks_end_on_every_machine() {
    let place = Place::new("lockstep-ends");
    let program = &compile(&place, "lockstep");
    for machine in ["cluster", "seastar-nic", "torus16"] {
        report_of_two(&place, machine, &["--time-limit", "100ms"], &[program, "5"]);
    }
}

#[test]
fn the_seed_decides_how_hosts_vary_and_nothing_else_does() {
    let place = Place::new("lockstep-seeds");
    let program = &compile(&place, "lockstep");
    let run =
        |seed: &str| report_of_two(&place, "cluster", &["--seed", seed, "--time-limit", "100ms"], &[program, "3"]);
    let (once, again, other) = (run("7"), run("7"), run("8"));
    assert_eq!(once["options"]["variation of hosts"], "1 percent");
    assert_eq!(once, again);
    assert_ne!(once["hash"], other["hash"]);
    assert_ne!(once["virtual_time_ps"], other["virtual_time_ps"]);
}

/// The warning appears during the run, and the run ends at its limit of virtual time or by this test.
#[test]
fn without_variation_equal_ranks_are_reported_as_a_livelock_and_go_on() {
    let place = Place::new("lockstep-warns");
    let program = compile(&place, "lockstep");
    let mut command = sim_of_two("cluster", &["--variation", "none", "--"]);
    let mut job = command.arg(program).stderr(Stdio::piped()).spawn().expect("the command starts");
    let (mut errors, mut text) = (job.stderr.take().expect("a pipe"), String::new());
    while !text.contains("--variation 1") {
        let mut bytes = [0; 4096];
        let read = errors.read(&mut bytes).expect("a pipe can be read");
        assert!(read > 0, "the run ended without the warning: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert_eq!(job.try_wait().expect("our child"), None, "a warning ends nothing");
    // The handler of the first signal ends the run in order.
    // SAFETY: the process is our child and not reaped, so its pid is still its own.
    unsafe { libc::kill(job.id() as libc::pid_t, libc::SIGTERM) };
    let ended = job.wait().expect("our child");
    assert_eq!(ended.code(), Some(128 + libc::SIGTERM), "{text}");
    assert!(text.contains("perhaps a livelock"), "{text}");
    for (rank, other) in [(0, 1), (1, 0)] {
        let line = text.lines().find(|line| line.contains(&format!("  rank {rank}: "))).unwrap_or_default();
        assert!(line.contains("a swap of 8 bytes at offset") && line.contains("th time"), "{text}");
        assert!(line.contains(&format!("of rank {rank},")) || line.contains(&format!("of rank {other},")), "{text}");
    }
}
