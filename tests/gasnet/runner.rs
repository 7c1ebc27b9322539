// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the GASNet suite. `tests/runner` explains how its cases run and how to choose among them.
//!
//! A variant selects the process that runs a NIC (`--mode` of the launcher) and the path to memory (`--path`), or a
//! simulated machine.

use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_test_runner::{Compiler, Start, Suite, Variant, run, tree};

/// Makes each rank treat the others as processes of other hosts.
const APART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hosts/apart");

/// Seconds that the launcher gives a case, and that the runner gives the launcher.
const CASE_LIMIT_S: u64 = 180;
const LAUNCHER_LIMIT_S: u64 = CASE_LIMIT_S + 30;

fn main() -> ExitCode {
    run(|| {
        let library = tree::prefix().join("lib/libgasnet-selvedge.so");
        tree::require([&library, &tree::launcher()])?;
        let header = |name: &str| tree::workspace().join("include").join(name);
        Ok(Suite {
            name: "gasnet",
            package: env!("CARGO_PKG_NAME"),
            test: "gasnet",
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            compiler: Compiler::of_system(&["-O1", "-pthread"]).with_library("gasnet-selvedge"),
            inputs: vec![library, header("gasnet.h")],
            variants: vec![
                live("auto", &["--path", "auto", "--mode", "nic"]),
                live("bounce", &["--path", "bounce", "--mode", "nic"]),
                live("host", &["--path", "auto", "--mode", "host"]),
                Variant { long: true, ..live("hosts", &["--mode", "nic", APART]) },
                Variant::new("simulated", simulated(false)),
                Variant::new("simulated-node", simulated(true)),
            ],
            limit_s: LAUNCHER_LIMIT_S,
            cases_per_core: 1,
            stock: None,
            removed: &[],
            settings: &["SELVEDGE_PREFIX", "CC"],
        })
    })
}

/// `one_node`: the ranks share memory.
fn simulated(one_node: bool) -> Start {
    Start::Simulator { machine: "cluster", changes: &[], one_node, shared_file: None }
}

fn live(name: &'static str, arguments: &'static [&'static str]) -> Variant {
    let limit = CASE_LIMIT_S.to_string();
    let launcher = vec![tree::launcher().into(), "run".into(), "--timeout".into(), limit.into()];
    Variant { offers: LIVE, ..Variant::new(name, Start::Launcher(launcher, arguments)) }
}

/// Feature of variants where several threads of a process run at once.
const LIVE: &[&str] = &["threads"];
