// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the EXTOLL suite. `tests/runner` explains how its cases run and how to choose among them.
//!
//! A variant selects the process that runs a NIC (`--mode` of the launcher) and the path to memory (`--path`), or a
//! simulated machine.

use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_test_runner::{Compiler, Exception, Start, Suite, Variant, run, tree};

/// Makes each rank treat the others as processes of other hosts.
const APART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hosts/apart");

/// Seconds that the launcher gives a case, and that the runner gives the launcher.
const CASE_LIMIT_S: u64 = 180;
const LAUNCHER_LIMIT_S: u64 = CASE_LIMIT_S + 30;

fn main() -> ExitCode {
    run(|| {
        let library = tree::prefix().join("lib/librma2.so");
        tree::require([&library, &tree::launcher()])?;
        let header = |name: &str| tree::workspace().join("include").join(name);
        Ok(Suite {
            name: "extoll",
            package: env!("CARGO_PKG_NAME"),
            test: "extoll",
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            compiler: Compiler::of_system(&["-O1", "-pthread"])
                .with_library("velo2")
                .with_library("rma2")
                .with_library("atoll")
                .with_library("swordfish"),
            inputs: vec![
                library,
                header("velo2.h"),
                header("rma2.h"),
                header("velorun.h"),
                header("atoll.h"),
                header("swordfish.h"),
            ],
            variants: vec![
                live("auto", &["--path", "auto", "--mode", "nic"], INDEPENDENT),
                Variant { long: true, ..live("bounce", &["--path", "bounce", "--mode", "nic"], DRIVEN) },
                live("host", &["--path", "auto", "--mode", "host"], DRIVEN),
                Variant { long: true, ..live("hosts", &["--mode", "nic", APART], INDEPENDENT) },
                Variant { offers: SIMULATED, ..Variant::new("simulated", simulated(false)) },
                Variant { long: true, offers: SIMULATED, ..Variant::new("simulated-node", simulated(true)) },
                Variant { offers: SIMULATED, ..Variant::new("simulated-extoll", machine("extoll-ht400", &[])) },
                Variant { offers: DRIVEN, ..Variant::new("simulated-credits", machine("extoll-ht400", CREDITS)) },
                Variant { long: true, offers: SIMULATED, ..Variant::new("simulated-atoll", machine("atoll", &[])) },
                keeping("locks", &["--path", "auto", "--mode", "nic"], KEPT_INDEPENDENT),
                Variant { long: true, ..keeping("locks-host", &["--path", "auto", "--mode", "host"], KEPT) },
                Variant {
                    offers: KEPT,
                    without: NOT_KEPT,
                    ..Variant::new("simulated-locks", machine("extoll-ht400", KEEPS))
                },
                Variant {
                    long: true,
                    offers: KEPT,
                    without: NOT_KEPT,
                    ..Variant::new("simulated-node-locks", keeping_node())
                },
            ],
            limit_s: LAUNCHER_LIMIT_S,
            cases_per_core: 1,
            stock: None,
            removed: &[],
            settings: &["SELVEDGE_PREFIX", "CC"],
        })
    })
}

/// Features of variants where a NIC works while the program of its owner makes no call.
const INDEPENDENT: &[&str] = &["independent", "mailboxes that refuse"];
/// Features where it does not.
const DRIVEN: &[&str] = &["mailboxes that refuse"];
/// With credits no mailbox is ever full. An interrupt splits one store in ten.
const CREDITS: &[&str] = &["nic.full_mailbox=credits", "interface.splits_ppm=100000"];
/// On a simulated machine a full mailbox discards messages, unless its senders have credits.
const SIMULATED: &[&str] = &[];

/// Failing lock requests are kept: four of them, as `kept_locks.c` expects.
const KEPT: &[&str] = &["kept locks"];
const KEPT_INDEPENDENT: &[&str] = &["kept locks", "kept locks, independent", "independent", "mailboxes that refuse"];
const NOT_KEPT: &[&[Exception]] =
    &[&[("locks::definition", "its failing requests wait for an answer that only another process can bring about")]];
const KEEPS: &[&str] = &["limits.lock_waiters=4"];

fn keeping(name: &'static str, arguments: &'static [&'static str], offers: &'static [&'static str]) -> Variant {
    let environment = vec![("SELVEDGE_LOCK_WAITERS", "4".into())];
    Variant { environment, without: NOT_KEPT, ..live(name, arguments, offers) }
}

fn keeping_node() -> Start {
    Start::Simulator { machine: "cluster", changes: KEEPS, one_node: true, shared_file: None }
}

/// `one_node`: the ranks share memory.
fn simulated(one_node: bool) -> Start {
    Start::Simulator { machine: "cluster", changes: &[], one_node, shared_file: None }
}

/// A machine of seed 002: the prototype of EXTOLL, where messages and commands pass separate units, or ATOLL.
fn machine(name: &'static str, changes: &'static [&'static str]) -> Start {
    Start::Simulator { machine: name, changes, one_node: false, shared_file: None }
}

fn live(name: &'static str, arguments: &'static [&'static str], offers: &'static [&'static str]) -> Variant {
    let limit = CASE_LIMIT_S.to_string();
    let launcher = vec![tree::launcher().into(), "run".into(), "--timeout".into(), limit.into()];
    Variant { offers, ..Variant::new(name, Start::Launcher(launcher, arguments)) }
}
