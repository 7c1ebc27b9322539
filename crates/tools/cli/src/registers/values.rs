// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of a NIC's registers that a command line selects.

use selvedge_host::links::read::LinkCounter;
use selvedge_host::snapshot::{JobSnapshot, NicSnapshot};
use selvedge_nic::registers::{Register, TableRegister};

use super::select::{BlockedField, RegisterArgument, RegisterName, VERSION};

/// A value of a register.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub register: RegisterName,
    pub index: Option<u32>,
    pub value: u64,
}

impl Reading {
    /// The register's name with the index.
    pub fn name(&self) -> String {
        let name = self.register.to_string();
        match (self.index, name.split_once('.')) {
            (None, _) => name,
            (Some(index), None) => format!("{name}[{index}]"),
            (Some(index), Some((group, part))) => format!("{group}[{index}].{part}"),
        }
    }

    /// The unit of the value.
    pub fn unit(&self) -> &'static str {
        match self.register {
            RegisterName::Counter(register) => register.unit(),
            RegisterName::Table(register) => register.unit(),
            RegisterName::LinkPeer => "rank",
            RegisterName::Link(counter) => counter.unit(),
            RegisterName::BlockedCount => "messages",
            RegisterName::Blocked(BlockedField::Length) => "bytes",
            RegisterName::Blocked(field) => field.name(),
            RegisterName::Version | RegisterName::Unit(_) => VERSION,
        }
    }
}

/// The values in the order of their addresses, then messages without a destination, then links: all, or those that an
/// argument includes. The index of a link is its number among those of the NIC; that of a message counts from the oldest
/// that is kept.
pub fn readings(job: &JobSnapshot, nic: &NicSnapshot, words: &[RegisterArgument]) -> Vec<Reading> {
    let seen = &nic.seen;
    let mut all = vec![Reading { register: RegisterName::Version, index: None, value: seen.version() }];
    all.extend(Register::ALL.iter().map(|register| Reading {
        register: RegisterName::Counter(*register),
        index: None,
        value: seen.register(*register),
    }));
    for register in TableRegister::ALL.iter().filter(|register| register.is_readable()) {
        let has_index = register.entries_max() != 0;
        all.extend((0..).zip(seen.table_register(*register)).map(|(index, value)| Reading {
            register: RegisterName::Table(*register),
            index: has_index.then_some(index),
            value: *value,
        }));
    }
    all.push(Reading { register: RegisterName::BlockedCount, index: None, value: seen.blocked_count });
    for (index, head) in (0..).zip(&seen.blocked) {
        all.extend(BlockedField::ALL.iter().map(|field| Reading {
            register: RegisterName::Blocked(*field),
            index: Some(index),
            value: field.of(head),
        }));
    }
    for (index, (_, _, link)) in (0..).zip(job.links_of(nic)) {
        let reading = |register, value| Reading { register, index: Some(index), value };
        let peer = job.peer_rank(link).map_or(u64::MAX, u64::from);
        all.push(reading(RegisterName::LinkPeer, peer));
        all.extend(LinkCounter::ALL.iter().map(|one| reading(RegisterName::Link(*one), link.get(*one))));
    }
    let is_wanted =
        |reading: &Reading| words.is_empty() || words.iter().any(|word| word.includes(reading.register, reading.index));
    all.retain(is_wanted);
    all
}
