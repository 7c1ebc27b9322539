// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of a NIC's registers that a command line asks for.

use selvedge_host::inspect::Inspection;
use selvedge_nic::registers::{Register, TableRegister};

use super::select::{VERSION, What, Word};

/// A value of a register.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub what: What,
    pub index: Option<u32>,
    pub value: u64,
}

impl Reading {
    /// The register's name with the index.
    pub fn name(&self) -> String {
        let name = self.what.to_string();
        match (self.index, name.split_once('.')) {
            (None, _) => name,
            (Some(index), None) => format!("{name}[{index}]"),
            (Some(index), Some((group, part))) => format!("{group}[{index}].{part}"),
        }
    }

    /// What the value is a number of.
    pub fn unit(&self) -> &'static str {
        match self.what {
            What::Counter(register) => register.unit(),
            What::Table(register) => register.unit(),
            What::Version | What::Unit(_) => VERSION,
        }
    }
}

/// The values in the order of their addresses: all, or those that a word includes.
pub fn readings(seen: &Inspection, words: &[Word]) -> Vec<Reading> {
    let mut all = vec![Reading { what: What::Version, index: None, value: seen.version() }];
    all.extend(Register::ALL.iter().map(|register| Reading {
        what: What::Counter(*register),
        index: None,
        value: seen.register(*register),
    }));
    for register in TableRegister::ALL.iter().filter(|register| register.is_readable()) {
        let has_index = register.entries_max() != 0;
        all.extend((0..).zip(seen.table_register(*register)).map(|(index, value)| Reading {
            what: What::Table(*register),
            index: has_index.then_some(index),
            value: *value,
        }));
    }
    let is_wanted =
        |reading: &Reading| words.is_empty() || words.iter().any(|word| word.includes(reading.what, reading.index));
    all.retain(is_wanted);
    all
}
