// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A unit of the RTL, run by Verilator.
//!
//! All units have the same ports (`shim/unit.hpp`). Outputs are kept with their cycles until the next run.

use std::fmt;

#[cfg(verilated)]
use crate::ports::Ports;

/// Names of the units of `rtl/units.toml`, in its order.
pub const NAMES: &[&str] = include!(concat!(env!("OUT_DIR"), "/units.rs"));

/// The reason why a unit cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The crate was built where Verilator is not installed.
    Verilator,
    /// `rtl/units.toml` has no such unit.
    Unit,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Missing::Verilator => {
                write!(out, "this was built without Verilator: install Debian's package verilator, and build again")
            }
            Missing::Unit => write!(out, "rtl/units.toml has no such unit; it has {}", NAMES.join(", ")),
        }
    }
}

impl std::error::Error for Missing {}

#[cfg(verilated)]
mod shim {
    use std::ffi::{c_uint, c_void};

    #[repr(C)]
    pub struct RecordedWords {
        pub words: *const u32,
        pub count: usize,
        pub record: usize,
    }

    unsafe extern "C" {
        pub fn selvedge_rtl_new(kind: c_uint) -> *mut c_void;
        pub fn selvedge_rtl_drop(unit: *mut c_void);
        pub fn selvedge_rtl_reset(unit: *mut c_void);
        pub fn selvedge_rtl_cycle(unit: *const c_void) -> u64;
        pub fn selvedge_rtl_command_words(unit: *const c_void) -> usize;
        pub fn selvedge_rtl_answer_words(unit: *const c_void) -> usize;
        pub fn selvedge_rtl_outside_words(unit: *const c_void) -> usize;
        pub fn selvedge_rtl_set_outside(unit: *mut c_void, words: *const u32);
        pub fn selvedge_rtl_run(unit: *mut c_void, commands: *const u32, count: usize, cycles: u64) -> usize;
        pub fn selvedge_rtl_kept(unit: *const c_void, what: c_uint) -> RecordedWords;
    }
}

/// The words of a port in a cycle: 32 bits each, the lowest bits first.
#[derive(Clone, Copy, Debug)]
pub struct PortWords<'a> {
    /// The low 32 bits of the cycle since the reset.
    pub cycle: u32,
    pub words: &'a [u32],
}

/// A unit of the RTL. Cycles count from its reset.
pub struct Unit {
    #[cfg(verilated)]
    unit: std::ptr::NonNull<std::ffi::c_void>,
    #[cfg(verilated)]
    ports: Option<Ports>,
    #[cfg(not(verilated))]
    never: std::convert::Infallible,
}

#[cfg(verilated)]
impl Unit {
    /// Creates the named unit, after reset.
    pub fn new(name: &str) -> Result<Unit, Missing> {
        let kind = NAMES.iter().position(|&other| other == name).ok_or(Missing::Unit)?;
        // SAFETY: any number may be passed; the result is a new unit or null.
        let unit = unsafe { shim::selvedge_rtl_new(kind as std::ffi::c_uint) };
        let mut unit = Unit { unit: std::ptr::NonNull::new(unit).ok_or(Missing::Unit)?, ports: None };
        let unit_pointer = unit.unit.as_ptr();
        // SAFETY: the unit lives as long as `unit`.
        let sizes = unsafe {
            [
                shim::selvedge_rtl_command_words(unit_pointer),
                shim::selvedge_rtl_answer_words(unit_pointer),
                shim::selvedge_rtl_outside_words(unit_pointer),
            ]
        };
        unit.ports = Ports::new(name, sizes);
        Ok(unit)
    }

    /// Resets the unit: all of its tables are empty, and cycles count from 0.
    pub fn reset(&mut self) {
        // SAFETY: the unit lives as long as this value, which owns it.
        unsafe { shim::selvedge_rtl_reset(self.unit.as_ptr()) }
        if let Some(ports) = &mut self.ports {
            ports.reset();
        }
    }

    /// Offers the commands in order, each as soon as the last is accepted, and runs `cycles` cycles. Returns the number
    /// of accepted commands. Words of 32 bits; each command begins at a word of its own. Panics if the words are not a
    /// whole number of the unit's commands.
    pub fn run(&mut self, commands: &[u32], cycles: u64) -> usize {
        // SAFETY: the unit lives as long as this value.
        let words = unsafe { shim::selvedge_rtl_command_words(self.unit.as_ptr()) };
        assert!(commands.len() % words == 0, "{} words are not a whole number of commands of {words}", commands.len());
        let began = self.cycle() as u32;
        // SAFETY: the words hold this number of whole commands; this value owns the unit.
        let taken =
            unsafe { shim::selvedge_rtl_run(self.unit.as_ptr(), commands.as_ptr(), commands.len() / words, cycles) };
        if let Some(mut ports) = self.ports.take() {
            let accepted = commands.chunks_exact(words).zip(self.accepted().iter().copied());
            ports.run(began, accepted, self.answers().map(|seen| (seen.cycle, seen.words)));
            self.ports = Some(ports);
        }
        taken
    }

    /// Sets the unit's `outside_i`, the inputs of its other ports. Panics if the port has another number of words.
    pub fn set_outside(&mut self, words: &[u32]) {
        // SAFETY: the unit lives as long as this value.
        let wanted = unsafe { shim::selvedge_rtl_outside_words(self.unit.as_ptr()) };
        assert_eq!(words.len(), wanted, "words of outside_i");
        // SAFETY: the slice has as many words as the port; this value owns the unit.
        unsafe { shim::selvedge_rtl_set_outside(self.unit.as_ptr(), words.as_ptr()) }
        let cycle = self.cycle() as u32;
        if let Some(ports) = &mut self.ports {
            ports.outside(cycle, words);
        }
    }

    /// Cycles since the reset.
    pub fn cycle(&self) -> u64 {
        // SAFETY: the unit lives as long as this value.
        unsafe { shim::selvedge_rtl_cycle(self.unit.as_ptr()) }
    }

    fn kept(&self, what: std::ffi::c_uint) -> (&[u32], usize) {
        // SAFETY: the unit lives as long as this value.
        let kept = unsafe { shim::selvedge_rtl_kept(self.unit.as_ptr(), what) };
        if kept.count == 0 {
            return (&[], kept.record);
        }
        // SAFETY: the words stay valid until the next run, which needs exclusive access to this value.
        (unsafe { std::slice::from_raw_parts(kept.words, kept.count) }, kept.record)
    }

    fn port_words(&self, what: std::ffi::c_uint) -> impl Iterator<Item = PortWords<'_>> {
        let (words, record) = self.kept(what);
        words.chunks_exact(record).map(|words| PortWords { cycle: words[0], words: &words[1..] })
    }
}

#[cfg(not(verilated))]
impl Unit {
    pub fn new(_: &str) -> Result<Unit, Missing> {
        Err(Missing::Verilator)
    }
    pub fn reset(&mut self) {
        match self.never {}
    }
    pub fn run(&mut self, _: &[u32], _: u64) -> usize {
        match self.never {}
    }
    pub fn set_outside(&mut self, _: &[u32]) {
        match self.never {}
    }
    pub fn cycle(&self) -> u64 {
        match self.never {}
    }
    fn kept(&self, _: std::ffi::c_uint) -> (&[u32], usize) {
        match self.never {}
    }
    fn port_words(&self, _: std::ffi::c_uint) -> impl Iterator<Item = PortWords<'_>> {
        std::iter::empty()
    }
}

impl Unit {
    /// The cycles in which the commands of the last run were accepted, in order.
    pub fn accepted(&self) -> &[u32] {
        self.kept(0).0
    }

    /// The answers of the last run.
    pub fn answers(&self) -> impl Iterator<Item = PortWords<'_>> {
        self.port_words(1)
    }

    /// The trace port in the cycles of the last run in which it was not 0.
    pub fn traces(&self) -> impl Iterator<Item = PortWords<'_>> {
        self.port_words(2)
    }

    /// The unit's `outside_o` in the cycles of the last run in which it was not 0.
    pub fn outsides(&self) -> impl Iterator<Item = PortWords<'_>> {
        self.port_words(3)
    }
}

#[cfg(verilated)]
impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: this value owns the unit and does not use it again.
        unsafe { shim::selvedge_rtl_drop(self.unit.as_ptr()) }
    }
}
