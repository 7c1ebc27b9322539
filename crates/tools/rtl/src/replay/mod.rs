// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays a trace of a NIC ([`selvedge_trace`]): each unit of the RTL gets its transitions, in lockstep with `nic`.
//!
//! A [`Driver`] turns transitions into commands of one unit and runs them through the unit's lockstep. A new unit needs
//! only a driver. The tables have the RTL's sizes, not those of the recorded NIC.
//!
//! 1. RTL and `nic` are compared at each command, as in the tests. The first difference ends the replay, with both
//!    states.
//! 2. The results are also compared with the trace, until a command is left out that would have changed the unit.
//! 3. References of the trace are mapped to those that the same command returned here. A command on a record that was
//!    left out is left out too, and counted.
//! 4. A trace may have any content: unsupported commands are counted with the reason.

mod allocator;
mod counters;
mod descriptors;
mod driver;
mod engine;
mod ids;
mod lists;
mod statistics;

use std::fmt;
use std::io::Read;

use selvedge_trace::{Open, Reader, Record, TraceError};

use crate::error::LockstepError;
use crate::unit::Missing;
pub use driver::Driver;
pub use statistics::{Cycles, Statistics};

/// The replayed units, and their constructors, which take the number of cycles between two commands.
type Make = fn(u64) -> Result<Box<dyn Driver>, Missing>;
const DRIVERS: &[(&str, Make)] = &[
    ("lists", |gap| Ok(Box::new(lists::Lists::new("lists", gap)?))),
    ("counters", |gap| Ok(Box::new(counters::Counters::new(gap)?))),
    ("descriptors", |gap| Ok(Box::new(descriptors::Descriptors::new(gap)?))),
    ("engine", |gap| Ok(Box::new(engine::Engine::new(gap)?))),
    ("allocator", |gap| Ok(Box::new(allocator::Allocator::new(gap)?))),
];
/// Units that are replayed only if named, because another unit takes the same transitions.
const VARIANTS: &[(&str, Make)] = &[("lists_one_port", |gap| Ok(Box::new(lists::Lists::new("lists_one_port", gap)?)))];

/// Names of all units that can be replayed.
pub fn units() -> impl Iterator<Item = &'static str> {
    DRIVERS.iter().chain(VARIANTS).map(|(name, _)| *name)
}

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The units; empty: all except variants.
    pub units: Vec<String>,
    /// Cycles from the end of a command to the next. 0: back to back.
    pub gap: u64,
}

/// The reason why a replay ended.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file is no trace, or ends early.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The RTL is not built.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// RTL and `nic`, or RTL and trace, differ; or the RTL stalls.
    #[error("{unit}: {error}")]
    Lockstep { unit: &'static str, error: LockstepError },
}

/// The statistics of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The NICs of the trace, in order.
    pub nics: Vec<Open>,
    pub records: u64,
    pub units: Vec<Statistics>,
}

impl Report {
    pub fn json(&self) -> serde_json::Value {
        let units: Vec<_> = self.units.iter().map(Statistics::json).collect();
        let nic = self.nics.first();
        serde_json::json!({
            "program": nic.map(|nic| nic.program.clone()),
            "rank": nic.map(|nic| nic.rank),
            "ni": nic.map(|nic| nic.ni),
            "nics": self.nics.len(),
            "records": self.records,
            "units": units,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nic) = self.nics.first() {
            let several =
                if self.nics.len() > 1 { format!(", opened {} times", self.nics.len()) } else { String::new() };
            writeln!(out, "{}, rank {}, NIC {}{several}: {} records", nic.program, nic.rank, nic.ni, self.records)?;
        }
        self.units.iter().try_for_each(|unit| write!(out, "{unit}"))
    }
}

/// Replays a trace. Fails with the first difference, for a malformed trace, or if a unit is not built. Panics if a unit
/// of the options is none of [`units`].
pub fn replay<R: Read>(trace: Reader<R>, options: &Options) -> Result<Report, ReplayError> {
    let is_named = |(name, _): &&(&str, Make)| options.units.iter().any(|unit| unit == name);
    let makes: Vec<_> = match options.units.is_empty() {
        true => DRIVERS.iter().collect(),
        false => DRIVERS.iter().chain(VARIANTS).filter(is_named).collect(),
    };
    assert!(!makes.is_empty(), "{:?} are no units", options.units);
    let units = makes.iter().map(|(name, _)| Statistics::of(name)).collect();
    let mut report = Report { units, ..Report::default() };
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    for record in trace {
        let number = report.records;
        report.records += 1;
        match record? {
            Record::Open(open) => {
                finish(&mut drivers, &mut report)?;
                let made: Result<Vec<_>, Missing> = makes.iter().map(|(_, make)| make(options.gap)).collect();
                drivers = made?;
                report.nics.push(open);
            }
            Record::Transition(transition) => {
                for driver in &mut drivers {
                    let unit = driver.statistics().unit;
                    let differs = |error| ReplayError::Lockstep { unit, error };
                    driver.take(number, &transition).map_err(differs)?;
                }
            }
        }
    }
    finish(&mut drivers, &mut report)?;
    Ok(report)
}

fn finish(drivers: &mut Vec<Box<dyn Driver>>, report: &mut Report) -> Result<(), ReplayError> {
    for (driver, sum) in drivers.iter_mut().zip(&mut report.units) {
        driver.finish().map_err(|error| ReplayError::Lockstep { unit: sum.unit, error })?;
        sum.merge(driver.statistics());
    }
    drivers.clear();
    Ok(())
}
