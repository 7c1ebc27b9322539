// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Common parts of descriptors and counters: status of answers, references, links of free records, runs with outputs.

use crate::Unit;
use crate::error::LockstepError;
use crate::shadow::{Trace, WriteLayout};
use selvedge_nic::handle::NONE;
use selvedge_nic::tables::slot;

/// The status of an answer (`status_e` of records_pkg.sv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// No such record.
    Invalid,
    /// No free record; of an arm also: no such counter (`ArmError::Full`).
    Full,
    /// A value that is too wide for the words of the RTL.
    TooWide,
}

impl Status {
    pub fn of(code: u64) -> Status {
        [Status::Ok, Status::Invalid, Status::Full, Status::TooWide][code as usize]
    }
}

/// Bits of a reference.
pub const REFERENCE_BITS: usize = selvedge_nic::handle::REFERENCE_BITS as usize;
/// The reference that names no record.
pub const NO_REFERENCE: u64 = (1 << REFERENCE_BITS) - 1;

/// Converts a reference of `nic` to the RTL's words.
pub fn reference(of_nic: u32) -> u64 {
    if of_nic == NONE { NO_REFERENCE } else { u64::from(of_nic) }
}

/// The record after a free one, if any, from the RTL's link of 16 bits.
pub fn free_next(index: usize, link: u64, records: usize) -> Option<usize> {
    let next = slot::next(index as u32, link as u32) as u16 as usize;
    (next < records).then_some(next)
}

/// The record that a link of the RTL or of `nic` leads to, if any.
pub fn link(to: u64, records: usize) -> Option<usize> {
    usize::try_from(to).ok().filter(|&to| to < records)
}

/// The outputs of a unit in a run, with their cycles.
#[derive(Default)]
pub struct Output {
    /// The cycle in which each command was accepted.
    pub accepted: Vec<u32>,
    pub answers: Vec<(u32, Vec<u32>)>,
    pub traces: Vec<(u32, Trace)>,
    pub outsides: Vec<(u32, Vec<u32>)>,
}

impl Output {
    /// Runs these commands of `words` words each, back to back, until all have retired and the unit has been quiet for
    /// `idle` cycles. Fails if the unit never finishes.
    pub fn of(
        unit: &mut Unit,
        commands: &[u32],
        width: usize,
        layout: (WriteLayout, usize),
        idle: u64,
    ) -> Result<Output, LockstepError> {
        const CHUNK: u64 = 64;
        let mut output = Output::default();
        let (mut done, mut retired, count) = (0, 0, commands.len() / width);
        let mut silent = 0;
        while done < count || retired < count {
            let (taken, seen) = output.run(unit, &commands[done * width..], CHUNK, layout);
            silent = if taken + seen == 0 { silent + 1 } else { 0 };
            if silent > 100 {
                return Err(LockstepError::Stall(format!(
                    "command {done} of {count} is not accepted, or does not retire: {retired} have"
                )));
            }
            done += taken;
            retired += seen;
        }
        output.run(unit, &[], idle, layout);
        Ok(output)
    }

    fn run(
        &mut self,
        unit: &mut Unit,
        commands: &[u32],
        cycles: u64,
        (layout, writes): (WriteLayout, usize),
    ) -> (usize, usize) {
        let taken = unit.run(commands, cycles);
        self.accepted.extend(unit.accepted());
        self.answers.extend(unit.answers().map(|seen| (seen.cycle, seen.words.to_vec())));
        self.outsides.extend(unit.outsides().map(|seen| (seen.cycle, seen.words.to_vec())));
        let before = self.traces.len();
        self.traces.extend(unit.traces().map(|seen| (seen.cycle, layout.trace(seen.words, writes))));
        (taken, self.traces[before..].iter().filter(|(_, trace)| trace.retired.is_some()).count())
    }
}

/// Compares two values of one field. Fails if they differ.
pub fn same<T: PartialEq + core::fmt::Debug>(what: &str, rtl: T, nic: T) -> Result<(), LockstepError> {
    if rtl == nic { Ok(()) } else { Err(format!("{what}: {rtl:x?} in the RTL, {nic:x?} in nic").into()) }
}
