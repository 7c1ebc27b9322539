// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measurement of the processor's clock by libinfinipath and libpsm2, which Debian's libfabric loads.
//!
//! The constructor of each sleeps 125 us at a time, until `gettimeofday` says that 100 ms have passed. That would be
//! 0.2 s of virtual time in the `MPI_Init` of each program. So these sleeps take no virtual time. The readings of the
//! clock that follow each of them, and the measurement's readings of the processor's counter, seem later by their sum.
//! Only the measurement sees that.

use std::cell::Cell;

use selvedge_os::caller::{Caller, callers};

const SLEEP_US: u32 = 125;

thread_local! {
    /// The sum of the sleeps of this measurement, in nanoseconds.
    static SLEPT_NS: Cell<u64> = const { Cell::new(0) };
    /// Whether the last call was such a sleep.
    static SLEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a sleep of this many microseconds is left out.
pub fn leaves_out(us: u32) -> bool {
    let left_out = us == SLEEP_US && callers()[0].as_ref().is_some_and(measures);
    if left_out {
        SLEPT_NS.set(SLEPT_NS.get() + u64::from(us) * 1000);
    }
    SLEEPS.set(left_out);
    left_out
}

/// The nanoseconds by which the processor's counter seems later to this code.
pub fn slept_ns_for(code: *const u8) -> u64 {
    match SLEPT_NS.get() {
        0 => 0,
        slept if Caller::at(code as usize).as_ref().is_some_and(measures) => slept,
        _ => 0,
    }
}

fn measures(caller: &Caller) -> bool {
    [&b"libinfinipath.so"[..], b"libpsm2.so"].iter().any(|library| caller.file().starts_with(library))
}

/// The nanoseconds by which the clock seems later in this call.
pub fn slept_ns() -> u64 {
    if !SLEEPS.replace(false) {
        SLEPT_NS.set(0);
    }
    SLEPT_NS.get()
}
