// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of refused calls.
//!
//! OpenSHMEM leaves most wrong calls undefined. Here a call with an invalid argument does nothing. The first such call
//! of a process is reported on standard error; with `SHMEM_DEBUG` every one is.

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};

/// The name of the C function that was called, for reports.
pub type Call = &'static str;

static REFUSED: AtomicU64 = AtomicU64::new(0);
static DEBUG: AtomicBool = AtomicBool::new(false);
static PE: AtomicI32 = AtomicI32::new(-1);

/// Sets the number of this PE, and whether every refused call is reported.
pub fn set_up(pe: usize, debug: bool) {
    PE.store(pe as i32, Relaxed);
    DEBUG.store(debug, Relaxed);
}

/// Whether `SHMEM_DEBUG` is set. Works before the library has started.
fn debug() -> bool {
    DEBUG.load(Relaxed) || (PE.load(Relaxed) < 0 && variable("DEBUG").is_some())
}

/// The value of a standard variable: `SHMEM_<name>`, else the older `SMA_<name>`, else that of the configuration file.
pub fn variable(name: &str) -> Option<String> {
    let read = |prefix: &str| std::env::var_os(format!("{prefix}_{name}"));
    let in_file = || selvedge_settings::value(&format!("SHMEM_{name}"));
    Some(read("SHMEM").or_else(|| read("SMA")).or_else(in_file)?.to_string_lossy().into_owned())
}

/// Reports a call that did nothing because of an argument.
#[cold]
#[inline(never)]
pub fn refuse(call: Call, argument: &str, why: fmt::Arguments<'_>) {
    report(format_args!("{call}: argument {argument}: {why}"));
}

/// Reports a call that did nothing because the library is not running.
#[cold]
#[inline(never)]
pub fn not_running(call: Call, ended: bool) {
    let when = if ended { "after shmem_finalize" } else { "before shmem_init" };
    report(format_args!("{call}: called {when}"));
}

/// Reports a failure that is not due to an argument.
#[cold]
#[inline(never)]
pub fn report(what: fmt::Arguments<'_>) {
    let first = REFUSED.fetch_add(1, Relaxed) == 0;
    let debug = debug();
    if !first && !debug {
        return;
    }
    let hint = if debug { "" } else { "; set SHMEM_DEBUG to see all reports" };
    let line = match PE.load(Relaxed) {
        ..0 => format!("selvedge: {what}{hint}\n"),
        pe => format!("selvedge: PE {pe}: {what}{hint}\n"),
    };
    // A single write, so that PEs that share standard error do not mix their lines.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
