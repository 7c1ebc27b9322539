// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the Portals suite. `tests/runner` explains how its cases run and how to choose among them.
//!
//! A variant selects the process that runs a NIC (`--mode` of the launcher), the path to ordinary memory (`--path`),
//! and the memory that the cases use.

use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_test_runner::{Compiler, Start, Suite, Variant, run, tree};

/// Seconds that the launcher gives a case, and that the runner gives the launcher.
const CASE_LIMIT_S: u64 = 180;
const LAUNCHER_LIMIT_S: u64 = CASE_LIMIT_S + 30;

/// Feature of variants where an interface works while the program of its owner makes no call.
const INDEPENDENT: &[&str] = &["independent"];
/// Features where it does not.
const DRIVEN: &[&str] = &[];

/// Runs each rank as on its own host.
const APART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hosts/apart");

fn main() -> ExitCode {
    run(|| {
        let library = tree::prefix().join("lib/libportals.so");
        tree::require([&library, &tree::launcher()])?;
        let mut compiler = Compiler::of_system(&["-O1", "-pthread"]).with_library("portals");
        compiler.libraries.push("-lm".into());
        Ok(Suite {
            name: "conformance",
            package: env!("CARGO_PKG_NAME"),
            test: "conformance",
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            compiler,
            inputs: vec![library, header("portals4.h"), header("selvedge.h")],
            variants: variants(),
            limit_s: LAUNCHER_LIMIT_S,
            cases_per_core: 1,
            stock: None,
            removed: &[],
            settings: &["SELVEDGE_PREFIX", "CC"],
        })
    })
}

fn header(name: &str) -> PathBuf {
    tree::workspace().join("include").join(name)
}

fn variants() -> Vec<Variant> {
    vec![
        live("shared", &["--path", "shared", "--mode", "nic"], "shared", INDEPENDENT),
        live("cma", &["--path", "cma", "--mode", "nic"], "ordinary", INDEPENDENT),
        live("bounce", &["--path", "bounce", "--mode", "nic"], "ordinary", DRIVEN),
        live("host", &["--path", "auto", "--mode", "host"], "ordinary", DRIVEN),
        Variant { long: true, ..live("host-shared", &["--path", "shared", "--mode", "host"], "shared", DRIVEN) },
        Variant { long: true, ..live("hosts", &["--mode", "nic", APART], "ordinary", INDEPENDENT) },
        Variant {
            long: true,
            ..live("pairs", &["--mode", "nic", "env", "RANKS_OF_HOST=2", APART], "ordinary", INDEPENDENT)
        },
        // An endless computation keeps the turn: one process runs at a time.
        variant("simulated", simulated(false), "ordinary", DRIVEN),
        Variant { long: true, ..variant("simulated-node", simulated(true), "ordinary", DRIVEN) },
    ]
}

/// `one_node`: the ranks share memory.
fn simulated(one_node: bool) -> Start {
    Start::Simulator { machine: "cluster", changes: &[], one_node, shared_file: None }
}

fn live(
    name: &'static str,
    arguments: &'static [&'static str],
    memory: &str,
    offers: &'static [&'static str],
) -> Variant {
    let limit = CASE_LIMIT_S.to_string();
    let launcher = vec![tree::launcher().into(), "run".into(), "--timeout".into(), limit.into()];
    variant(name, Start::Launcher(launcher, arguments), memory, offers)
}

fn variant(name: &'static str, start: Start, memory: &str, offers: &'static [&'static str]) -> Variant {
    Variant { environment: vec![("CONFORMANCE_MEMORY", memory.into())], offers, ..Variant::new(name, start) }
}
