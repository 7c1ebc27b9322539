// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of a unit in a replay: commands, cycles, the deciding part, and the commands left out.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// Histogram of the cycles of one kind of command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycles(BTreeMap<u32, u64>);

impl Cycles {
    pub fn add(&mut self, cycles: u32) {
        *self.0.entry(cycles).or_default() += 1;
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn median(&self) -> u32 {
        let mut left = self.count().div_ceil(2);
        for (&cycles, &count) in &self.0 {
            if count >= left {
                return cycles;
            }
            left -= count;
        }
        0
    }

    pub fn most(&self) -> u32 {
        self.0.last_key_value().map_or(0, |(&cycles, _)| cycles)
    }

    /// Number of commands that took at most `most` cycles.
    pub fn up_to(&self, most: u32) -> u64 {
        self.0.range(..=most).map(|(_, count)| count).sum()
    }

    fn merge(&mut self, other: &Cycles) {
        other.0.iter().for_each(|(&cycles, &count)| *self.0.entry(cycles).or_default() += count);
    }
}

/// Cycles of back-to-back commands, from first acceptance to last answer. Takes acceptance and latency of each.
pub fn span(mut answers: impl Iterator<Item = (u32, u32)>) -> u64 {
    let Some((first, latency)) = answers.next() else { return 0 };
    let (last, latency) = answers.last().unwrap_or((first, latency));
    u64::from(last - first + latency)
}

/// Commands and cycles of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub unit: &'static str,
    /// By kind of command: cycles from acceptance to the last answer.
    pub commands: BTreeMap<&'static str, Cycles>,
    /// Cycles in which commands were in progress, or waited behind one.
    pub cycles: u64,
    /// List manager: number of commands that the frame decided, and that the sequencer did.
    pub decided: Option<(u64, u64)>,
    /// The largest table or list, by name.
    pub largest: BTreeMap<&'static str, u64>,
    /// Commands left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Number of results that are equal in the trace.
    pub same_as_trace: u64,
    /// The record from which on results may differ from the trace, because a command was left out.
    pub differs_from: Option<u64>,
}

impl Statistics {
    pub fn of(unit: &'static str) -> Statistics {
        Statistics { unit, ..Statistics::default() }
    }

    pub fn count(&self) -> u64 {
        self.commands.values().map(Cycles::count).sum()
    }

    pub fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    pub fn note_largest(&mut self, name: &'static str, size: u64) {
        let largest = self.largest.entry(name).or_default();
        *largest = size.max(*largest);
    }

    /// Adds the statistics of the next NIC of the same trace.
    pub fn merge(&mut self, other: &Statistics) {
        self.unit = other.unit;
        other.commands.iter().for_each(|(kind, cycles)| self.commands.entry(kind).or_default().merge(cycles));
        self.cycles += other.cycles;
        self.decided = match (self.decided, other.decided) {
            (Some(one), Some(two)) => Some((one.0 + two.0, one.1 + two.1)),
            (one, two) => one.or(two),
        };
        other.largest.iter().for_each(|(name, &size)| self.note_largest(name, size));
        other.left_out.iter().for_each(|(reason, count)| *self.left_out.entry(reason).or_default() += count);
        self.same_as_trace += other.same_as_trace;
        self.differs_from = self.differs_from.or(other.differs_from);
    }

    pub fn json(&self) -> Value {
        let commands: BTreeMap<_, _> = self
            .commands
            .iter()
            .map(|(kind, cycles)| {
                let one =
                    json!({ "count": cycles.count(), "cycles_median": cycles.median(), "cycles_max": cycles.most() });
                (*kind, one)
            })
            .collect();
        json!({
            "unit": self.unit,
            "commands": commands,
            "cycles": self.cycles,
            "decided_by_frame": self.decided.map(|(frame, _)| frame),
            "decided_by_sequencer": self.decided.map(|(_, sequencer)| sequencer),
            "largest": self.largest,
            "left_out": self.left_out,
            "same_as_trace": self.same_as_trace,
            "differs_from_record": self.differs_from,
        })
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.commands.is_empty() && self.left_out.is_empty() {
            return writeln!(out, "{}: nothing in the trace", self.unit);
        }
        writeln!(out, "{}: {} commands in {} cycles; RTL and nic agree", self.unit, self.count(), self.cycles)?;
        if !self.commands.is_empty() {
            writeln!(out, "  {:<12} {:>9} {:>8} {:>8}  cycles a command", "", "count", "median", "largest")?;
        }
        for (kind, cycles) in &self.commands {
            writeln!(out, "  {kind:<12} {:>9} {:>8} {:>8}", cycles.count(), cycles.median(), cycles.most())?;
        }
        if let Some((frame, sequencer)) = self.decided {
            let share = 100.0 * sequencer as f64 / (frame + sequencer).max(1) as f64;
            writeln!(out, "  decided by the frame {frame}, by the sequencer {sequencer} ({share:.1} %)")?;
        }
        let list = |entries: &BTreeMap<&'static str, u64>| {
            entries.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        if !self.largest.is_empty() {
            writeln!(out, "  largest: {}", list(&self.largest))?;
        }
        if !self.left_out.is_empty() {
            writeln!(out, "  not carried out: {}", list(&self.left_out))?;
        }
        match self.differs_from {
            None => writeln!(out, "  results as in the trace: {}, all", self.same_as_trace),
            Some(record) => writeln!(
                out,
                "  results as in the trace: {}, all before record {record}; later ones stand behind commands that were left out",
                self.same_as_trace
            ),
        }
    }
}
