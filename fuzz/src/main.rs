// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hostile packets, programs, rings, segments and EXTOLL units against the NIC and its live home; hostile frames against
//! the manager of a fabric; hostile datagrams, lines and requests against its daemon.
//!
//! `selvedge-fuzz <packets|commands|rings|segment|units|fabric|daemon|requests> [--seconds S] [--seed N] [--executions E]`
//!
//! Runs on a stable compiler: a seeded generator mutates valid inputs. Each execution has its own seed, printed when it
//! fails; `--seed` with it and `--executions 1` repeats it. A panic, an endless loop, or tables that are not sane where
//! they must be is a bug. Build with overflow checks: without `--release`, or with `-C overflow-checks`.

mod campaign;
mod commands;
mod daemon;
mod fabric;
#[allow(dead_code)]
#[path = "../../crates/core/nic/tests/common/home.rs"]
mod home;
mod packets;
mod program;
mod requests;
mod rings;
#[allow(dead_code)]
#[path = "../../crates/core/nic/tests/common/sane.rs"]
mod sane;
mod segment;
mod units;
#[allow(dead_code)]
#[path = "../../crates/core/nic/tests/common/watch.rs"]
mod watch;

use campaign::Campaign;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().unwrap_or_default();
    let mut campaign = Campaign { seconds: 10, seed: 1, executions: u64::MAX, executions_min: 0 };
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        match (argument.as_str(), value) {
            ("--seconds", Some(value)) => campaign.seconds = value,
            ("--seed", Some(value)) => campaign.seed = value,
            ("--executions", Some(value)) => campaign.executions = value,
            _ => usage(),
        }
    }
    let executions = match target.as_str() {
        "packets" => campaign.run(packets::Target::new()),
        "commands" => campaign.run(commands::Target),
        "rings" => campaign.run(rings::Target::new()),
        "segment" => campaign.run(segment::Target::new()),
        "units" => campaign.run(units::Target::new()),
        "daemon" => campaign.run(daemon::Target::new()),
        "fabric" => campaign.run(fabric::Target::new()),
        "requests" => campaign.run(requests::Target),
        _ => usage(),
    };
    println!("{target}: {executions} executions, no failure");
}

fn usage() -> ! {
    eprintln!(
        "usage: selvedge-fuzz <packets|commands|rings|segment|units|fabric|daemon|requests> [--seconds S] [--seed N] [--executions E]"
    );
    std::process::exit(2);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Campaign = Campaign { seconds: 3, seed: 7, executions: u64::MAX, executions_min: 100 };

    #[test]
    fn packets_of_any_kind_are_handled_or_refused() {
        SHORT.run(packets::Target::new());
    }

    #[test]
    fn programs_of_any_kind_get_answers() {
        SHORT.run(commands::Target);
    }

    #[test]
    fn rings_of_any_content_do_no_harm() {
        SHORT.run(rings::Target::new());
    }

    #[test]
    fn segments_of_any_content_do_no_harm() {
        SHORT.run(segment::Target::new());
    }

    #[test]
    fn descriptors_and_pages_of_any_content_do_no_harm() {
        SHORT.run(units::Target::new());
    }

    #[test]
    fn datagrams_and_lines_of_any_content_do_no_harm() {
        SHORT.run(daemon::Target::new());
    }

    #[test]
    fn frames_of_any_content_do_no_harm() {
        SHORT.run(fabric::Target::new());
    }

    #[test]
    fn requests_of_any_content_do_no_harm() {
        SHORT.run(requests::Target);
    }
}
