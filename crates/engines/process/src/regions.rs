// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions that a program marks (docs/design/regions.md): told to the simulator in virtual time; live, the registers of
//! this process's NICs, and the counters of its links, in the region that `SELVEDGE_REGION` names.
//!
//! Invariants
//! 1. Nested and repeated regions are one: times and registers are those between the outermost marks.
//! 2. A mark without its partner is reported once. A region that is open at the end of the process ends with it.
//! 3. Forked children report nothing.
//!
//! Costs: without the setting, a comparison a mark. With it, an outermost mark reads each NIC of the process as
//! `selvedge registers` does: 31 KB with default limits.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use selvedge_host::inspect::inspect;
use selvedge_host::interface::open_interfaces;
use selvedge_host::links::read::{LinkCounter, inspect_page};
use selvedge_nic::Register;
use selvedge_os::sync::IgnorePoison;
use selvedge_sim_protocol::RankEnd;

use crate::process::{Process, own_uid};

/// Values of the registers, in the order of [`Register::ALL`], then of the links' totals, in that of [`totals`].
type Values = Vec<u64>;

/// The counters of links that only grow.
fn totals() -> impl Iterator<Item = LinkCounter> {
    LinkCounter::ALL.iter().copied().filter(|counter| counter.is_total())
}

/// The region that the setting names.
struct Watched {
    name: String,
    depth: u32,
    began: Option<(Instant, Values)>,
    entered: u64,
    time: Duration,
    sums: Values,
    /// A mark without its partner has been reported.
    is_reported: bool,
}

static WATCHED: OnceLock<Option<Mutex<Watched>>> = OnceLock::new();

/// Looks for the setting, at the start of the process. With it, the process reports at its end.
pub(crate) fn watch() {
    watched();
}

fn watched() -> Option<&'static Mutex<Watched>> {
    let make = || {
        let name = selvedge_settings::text("SELVEDGE_REGION").filter(|name| !name.is_empty())?;
        // In virtual time the report is the simulator's.
        if RankEnd::of_process().is_some() {
            return None;
        }
        // SAFETY: `at_exit` is a function of this object with the signature that `atexit` asks for, mapped when called.
        unsafe { libc::atexit(at_exit) };
        Some(Mutex::new(Watched {
            name,
            depth: 0,
            began: None,
            entered: 0,
            time: Duration::ZERO,
            sums: vec![0; Register::ALL.len() + totals().count()],
            is_reported: false,
        }))
    };
    WATCHED.get_or_init(make).as_ref()
}

/// Sums over the NICs of this process, and over its links.
fn values() -> Values {
    let mut sums = vec![0; Register::ALL.len() + totals().count()];
    for interface in open_interfaces() {
        let Ok(seen) = inspect(&interface.path) else { continue };
        for (sum, register) in sums.iter_mut().zip(Register::ALL) {
            *sum += seen.register(*register);
        }
    }
    let page = Process::existing()
        .map(|process| process.directory().path().join(format!("{}.links", std::process::id())))
        .and_then(|path| inspect_page(&path, own_uid()).ok());
    for link in page.iter().flat_map(|page| &page.links) {
        for (sum, counter) in sums[Register::ALL.len()..].iter_mut().zip(totals()) {
            *sum += link.get(counter);
        }
    }
    sums
}

/// Begins a region.
pub fn begin(name: &str) {
    mark(name, true);
}

/// Ends a region.
pub fn end(name: &str) {
    mark(name, false);
}

fn mark(name: &str, begins: bool) {
    if let Some(rank) = RankEnd::of_process() {
        return rank.region(name.as_bytes(), begins);
    }
    if let Some(watched) = watched() {
        let mut watched = watched.lock().ignore_poison();
        if watched.name == name {
            watched.mark(begins);
        }
    }
}

impl Watched {
    fn mark(&mut self, begins: bool) {
        match (begins, self.depth) {
            (true, depth) => {
                self.depth += 1;
                if depth == 0 {
                    if self.entered == 0 {
                        // Before the NICs are closed: functions run in the opposite order of their registration.
                        // SAFETY: as in `watched`.
                        unsafe { libc::atexit(leave_at_exit) };
                    }
                    self.entered += 1;
                    self.began = Some((Instant::now(), values()));
                }
            }
            (false, 0) => self.report_once("was ended without having begun"),
            (false, 1) => {
                self.depth = 0;
                self.leave();
            }
            (false, _) => self.depth -= 1,
        }
    }

    fn leave(&mut self) {
        let Some((began, before)) = self.began.take() else { return };
        self.time += began.elapsed();
        for ((sum, now), before) in self.sums.iter_mut().zip(values()).zip(before) {
            // A NIC that was closed in between counts for what the others have.
            *sum += now.saturating_sub(before);
        }
    }

    fn report_once(&mut self, what: &str) {
        if !std::mem::replace(&mut self.is_reported, true) {
            say(&format!("region {} {what}", self.name));
        }
    }

    /// The report at the end, in one line.
    fn words(&self) -> String {
        if self.entered == 0 {
            return format!("region {} was not entered", self.name);
        }
        let mut text = format!("region {}: entered {}, {:.6} s", self.name, self.entered, self.time.as_secs_f64());
        let (registers, links) = self.sums.split_at(Register::ALL.len());
        let registers = Register::ALL.iter().map(|register| register.name()).zip(registers);
        let links = totals().map(LinkCounter::name).zip(links);
        for (what, counted) in [("registers", named(registers)), ("links", named(links))] {
            if !counted.is_empty() {
                let _ = write!(text, "; {what}: {counted}");
            }
        }
        text
    }
}

/// Names and values of the counters that are not 0.
fn named<'a>(counters: impl Iterator<Item = (&'static str, &'a u64)>) -> String {
    let counted = counters.filter(|(_, value)| **value > 0).map(|(name, value)| format!("{name} {value}"));
    counted.collect::<Vec<_>>().join(", ")
}

/// Writes a line at once, so that lines of ranks do not mix.
fn say(text: &str) {
    let rank = Process::existing().map_or(String::new(), |process| format!("rank {}: ", process.rank()));
    let _ = std::io::stderr().write_all(format!("selvedge: {rank}{text}\n").as_bytes());
}

/// Calls `work` with the watched region, in the process that has begun it.
fn at_end(work: impl FnOnce(&mut Watched) + std::panic::UnwindSafe) {
    let _ = std::panic::catch_unwind(|| {
        if Process::existing().is_some_and(|process| !process.is_forked_child()) {
            if let Some(watched) = watched() {
                work(&mut watched.lock().ignore_poison());
            }
        }
    });
}

extern "C" fn leave_at_exit() {
    at_end(|watched| {
        if watched.depth > 0 {
            watched.depth = 0;
            watched.leave();
            watched.report_once("was not ended before the process");
        }
    });
}

extern "C" fn at_exit() {
    at_end(|watched| say(&watched.words()));
}

/// A region that is begun and ended by a switch: `shmem_pcontrol`, `MPI_Pcontrol`.
pub mod switch {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// The name of its region.
    pub const NAME: &str = "main";
    static IS_ON: AtomicBool = AtomicBool::new(false);

    /// Level 1 begins the region, level 0 ends it. A level that changes nothing, or another one, is ignored.
    pub fn set(level: i32) {
        if !(0..=1).contains(&level) {
            return;
        }
        let on = level == 1;
        if IS_ON.swap(on, Relaxed) != on {
            super::mark(NAME, on);
        }
    }
}
