// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of the processor's clock by libraries that MPIs load.
//!
//! The constructors of libinfinipath and libpsm2, which Debian's libfabric loads, sleep 125 us at a time, until
//! `gettimeofday` says that 100 ms have passed. That would be 0.2 s of virtual time in the `MPI_Init` of each program.
//! So these sleeps take no virtual time.
//!
//! UCX, which MPICH loads, reads the processor's counter and `gettimeofday` in turn, some 80,000 times in each process,
//! until their ratio settles or 50 ms have passed. So each of its readings of the counter counts as such a sleep, of
//! 1 ms.
//!
//! The readings of the clock that follow such a sleep, and the measurement's readings of the counter, seem later by the
//! sum of the sleeps. Only the measurement sees that.

use std::cell::Cell;

use selvedge_os::caller::{Caller, callers};

const SLEEP_US: u32 = 125;
/// The sleep for which a reading of the counter by UCX counts.
const READING_NS: u64 = 1_000_000;

/// Places in the code that read the counter, of which a thread remembers whether they measure.
const PLACES: usize = 16;

/// Ways in which code measures the processor's clock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measures {
    Nothing,
    /// Sleeps between readings.
    BySleeping,
    /// Reads again and again.
    ByReading,
}

thread_local! {
    /// The sum of the sleeps of this measurement, in nanoseconds.
    static SLEPT_NS: Cell<u64> = const { Cell::new(0) };
    /// Whether the last call was such a sleep.
    static SLEEPS: Cell<bool> = const { Cell::new(false) };
    /// Places that have read the counter.
    static KNOWN: Cell<[(usize, Measures); PLACES]> = const { Cell::new([(0, Measures::Nothing); PLACES]) };
}

/// Whether a sleep of this many microseconds is left out.
pub fn leaves_out(us: u32) -> bool {
    let left_out = us == SLEEP_US && callers()[0].as_ref().map(measures) == Some(Measures::BySleeping);
    if left_out {
        SLEPT_NS.set(SLEPT_NS.get() + u64::from(us) * 1000);
    }
    SLEEPS.set(left_out);
    left_out
}

/// The nanoseconds by which the processor's counter seems later to this code.
pub fn slept_ns_for(code: *const u8) -> u64 {
    let slept = SLEPT_NS.get();
    match measures_at(code as usize) {
        Measures::Nothing => 0,
        Measures::BySleeping => slept,
        Measures::ByReading => {
            SLEPT_NS.set(slept + READING_NS);
            SLEEPS.set(true);
            slept
        }
    }
}

/// How the code at this address measures. The loader takes microseconds to name it, so the thread remembers the answer.
fn measures_at(code: usize) -> Measures {
    let at = code / 2 % PLACES;
    let mut known = KNOWN.get();
    if known[at].0 != code {
        known[at] = (code, Caller::at(code).as_ref().map_or(Measures::Nothing, measures));
        KNOWN.set(known);
    }
    known[at].1
}

fn measures(caller: &Caller) -> Measures {
    if [&b"libinfinipath.so"[..], b"libpsm2.so"].iter().any(|library| caller.file().starts_with(library)) {
        Measures::BySleeping
    } else if caller.function() == b"ucs_x86_init_tsc_freq" {
        Measures::ByReading
    } else {
        Measures::Nothing
    }
}

/// The nanoseconds by which the clock seems later in this call.
pub fn slept_ns() -> u64 {
    let follows = SLEEPS.replace(false);
    if !follows || callers()[0].as_ref().map(measures).is_none_or(|measures| measures == Measures::Nothing) {
        SLEPT_NS.set(0);
    }
    SLEPT_NS.get()
}
