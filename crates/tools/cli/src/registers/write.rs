// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a value into a register of one NIC.
//!
//! The command acts like a peer process of the job: it attaches the segment, takes the NIC's lock under its own name,
//! and runs one transition ([`selvedge_nic::Nic::write_register`]). If it dies meanwhile, the next process that wants
//! the lock finds that and recovers the NIC.
//!
//! Invariants: 1. read-only registers and several matching NICs are refused before anything is written. 2. A write that
//! the NIC refuses leaves the NIC as it was; arguments before it are written, and those after it are not.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use selvedge_host::segment::Segment;
use selvedge_nic::registers::tables::WriteError;
use selvedge_nic::registers::{LiveWrite, TableRegister};
use selvedge_os::process::Identity;

use super::select::{RegisterArgument, RegisterName};
use super::{Args, chosen};
use selvedge_host::snapshot::user_directory;

type Order = (TableRegister, u32, u64);

pub fn main(args: &Args, parent: &Path) -> Result<()> {
    let orders = args.words.iter().map(order).collect::<Result<Vec<Order>>>()?;
    if args.json || args.tree.is_some() {
        bail!("a register is written or read, not both: leave out --json and --tree");
    }
    let snapshot = chosen(args, parent)?;
    let nics: Vec<_> = snapshot.jobs.iter().flat_map(|job| job.nics.iter().map(move |nic| (job, nic))).collect();
    let &[(job, nic)] = nics.as_slice() else {
        bail!(
            "{} NICs would be written: choose one with --job and --nic RANK.NI; `selvedge top` lists them",
            nics.len()
        );
    };
    if nic.state() != "ready" {
        bail!("the NIC of rank {} is {}: its registers cannot be written any more", nic.seen.rank, nic.state());
    }
    let file = format!("{}.{}.nic", nic.seen.pid, nic.seen.ni);
    let path = user_directory(parent).join(&job.name).join(file);
    let segment = Segment::open(&path).context("the NIC cannot be attached")?;
    for (register, index, value) in orders {
        // The lock is released after each write.
        let written = segment.lock(Identity::own().to_word()).write_register(register, index, value);
        written.map_err(|error| anyhow!("{}", reason(register, index, value, error)))?;
    }
    Ok(())
}

/// Converts an argument to a write, if the register is writable by a tool.
fn order(word: &RegisterArgument) -> Result<Order> {
    let Some(value) = word.value else {
        bail!("{} has no value: a register is written or read, not both", word.register);
    };
    let register = match word.register {
        RegisterName::Table(register) => register,
        RegisterName::Unit(unit) => bail!("{unit} is a unit: name one of its registers"),
        RegisterName::Version => {
            bail!("version is read only: it follows from the version of Selvedge that made the NIC")
        }
        RegisterName::LinkPeer | RegisterName::Link(_) => {
            bail!("{} is read only: the process of the NIC counts", word.register)
        }
        RegisterName::BlockedCount | RegisterName::Blocked(_) => {
            bail!("{} is read only: the NIC keeps the heads of messages without a destination", word.register)
        }
        RegisterName::Counter(register) => {
            bail!("{} is read only: the NIC counts, and counters only grow", register.name())
        }
    };
    if register.live_write() != LiveWrite::Locked {
        bail!("{}", reason(register, 0, value, WriteError::NotWritable(register.live_write())));
    }
    match (word.index, register.entries_max()) {
        (None, 1..) => {
            bail!("{} has an index: write one of its values, as in `{}`", register.name(), example(register))
        }
        (index, _) => Ok((register, index.unwrap_or(0), value)),
    }
}

fn example(register: TableRegister) -> String {
    match register.name().split_once('.') {
        Some((group, part)) => format!("{group}[0].{part}=1"),
        None => format!("{}[0]=1", register.name()),
    }
}

/// The mistake in a write, and its remedy.
fn reason(register: TableRegister, index: u32, value: u64, error: WriteError) -> String {
    let name = register.name();
    match error {
        WriteError::NotWritable(LiveWrite::Owner) => {
            format!(
                "{name} is read only from outside: the program that owns the NIC changes it, and keeps a copy of its own"
            )
        }
        WriteError::NotWritable(_) => {
            format!("{name} is read only: the NIC advances it, or it follows from the NIC's limits")
        }
        WriteError::NoSuchEntry => {
            format!("{name}: the NIC has no entry {index}; `selvedge registers {}` shows what it has", register.block())
        }
        WriteError::NotOpen(vpid) => {
            format!("{name}: no program has VPID {vpid} open; `selvedge registers completer_enables` shows which are")
        }
        WriteError::Value => {
            format!("{name}: {value:#x} is not a valid value; see its fields in docs/reference/registers.md")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_written_is_refused_before_any_nic_is_looked_for() {
        for (text, reason) in [
            ("requests=1", "counters only grow"),
            ("version=1", "read only"),
            ("links[0].puts=1", "read only"),
            ("blocked.count=0", "read only"),
            ("velo=1", "is a unit"),
            ("mailbox_sizes[0]=1", "limits"),
            ("mailbox_write_pointers[0]=1", "advances it"),
            ("mailbox_pages[0].read_pointer=1", "owns the NIC"),
            ("completer_enables[0]=1", "owns the NIC"),
            ("mailbox_enables=1", "`mailbox_enables[0]=1`"),
            ("mailbox_interrupts.mask=1", "`mailbox_interrupts[0].mask=1`"),
            ("requests", "not both"),
        ] {
            let said = order(&RegisterArgument::parse(text).expect(text)).expect_err(text).to_string();
            assert!(said.contains(reason), "{text}: {said}");
        }
        let word = RegisterArgument::parse("flush_request=0x10").expect("a register");
        assert_eq!(order(&word).expect("writable"), (TableRegister::FlushRequest, 0, 16));
    }
}
