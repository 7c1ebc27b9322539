// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers and NICs that a command line names.
//!
//! A register is `[UNIT.]NAME`; with an index `NAME[3]`, and in a group, `NAME[3].PART`. A unit means all its
//! registers.

use std::fmt;

use selvedge_host::inspect::Inspection;
use selvedge_host::links::read::LinkCounter;
use selvedge_nic::registers::{Register, TableRegister};
use selvedge_nic::tables::BlockedHead;

/// The register at offset 0.
pub const VERSION: &str = "version";
/// The unit of the counters of links, which the process of a NIC keeps beside it.
pub const LINKS: &str = "links";

/// The unit of messages that found no destination.
pub const BLOCKED: &str = "blocked";
/// The name of [`RegisterName::BlockedCount`] in its unit.
const BLOCKED_COUNT: &str = "count";

/// A field of the head of a message that found no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedField {
    Number,
    Why,
    Kind,
    Source,
    SourcePort,
    Target,
    Port,
    Tag,
    HeaderData,
    Length,
}

impl BlockedField {
    pub const ALL: &'static [BlockedField] = &[
        BlockedField::Number,
        BlockedField::Why,
        BlockedField::Kind,
        BlockedField::Source,
        BlockedField::SourcePort,
        BlockedField::Target,
        BlockedField::Port,
        BlockedField::Tag,
        BlockedField::HeaderData,
        BlockedField::Length,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            BlockedField::Number => "number",
            BlockedField::Why => "why",
            BlockedField::Kind => "kind",
            BlockedField::Source => "source",
            BlockedField::SourcePort => "source_port",
            BlockedField::Target => "target",
            BlockedField::Port => "port",
            BlockedField::Tag => "tag",
            BlockedField::HeaderData => "header_data",
            BlockedField::Length => "length",
        }
    }

    pub fn of(self, head: &BlockedHead) -> u64 {
        match self {
            BlockedField::Number => head.number,
            BlockedField::Why => head.why.into(),
            BlockedField::Kind => head.kind.into(),
            BlockedField::Source => head.source,
            BlockedField::SourcePort => head.source_port.into(),
            BlockedField::Target => head.target,
            BlockedField::Port => head.port.into(),
            BlockedField::Tag => head.tag,
            BlockedField::HeaderData => head.header_data,
            BlockedField::Length => head.length,
        }
    }
}

/// The name of [`RegisterName::LinkPeer`] in its unit.
const LINK_PEER: &str = "peer";

/// One argument: registers, and the value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterArgument {
    pub register: RegisterName,
    /// `Some`: only this value of the register.
    pub index: Option<u32>,
    pub value: Option<u64>,
}

/// A register, or all registers of a unit, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterName {
    Version,
    Counter(Register),
    Table(TableRegister),
    /// The rank at the other end of a link.
    LinkPeer,
    /// A counter of a link.
    Link(LinkCounter),
    /// Number of messages that found no destination.
    BlockedCount,
    /// A field of the head of such a message.
    Blocked(BlockedField),
    /// All registers of a unit.
    Unit(&'static str),
}

impl RegisterArgument {
    pub fn parse(text: &str) -> Result<RegisterArgument, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => {
                (name, Some(number(value).ok_or_else(|| format!("`{value}` is not a 64-bit number"))?))
            }
            None => (text, None),
        };
        let (plain, index) = match name.split_once('[') {
            Some((before, rest)) => {
                let (index, after) = rest.split_once(']').ok_or("an index ends with ]")?;
                let index = index.parse().map_err(|_| format!("`{index}` is not an index"))?;
                (format!("{before}{after}"), Some(index))
            }
            None => (name.to_owned(), None),
        };
        let register = RegisterName::named(&plain)
            .ok_or("there is no such register or unit; `selvedge info registers` lists them")?;
        if index.is_some() && !register.has_index() {
            return Err(format!("{register} has no index: leave it out"));
        }
        Ok(RegisterArgument { register, index, value })
    }

    /// Whether this argument chooses a value of this register.
    pub fn includes(&self, register: RegisterName, index: Option<u32>) -> bool {
        let is_named = match self.register {
            RegisterName::Unit(unit) => register.unit() == unit,
            named => named == register,
        };
        is_named && (self.index.is_none() || self.index == index)
    }
}

impl RegisterName {
    fn named(name: &str) -> Option<RegisterName> {
        let matches = |unit: &str, register: &str| {
            name == register || name.strip_prefix(unit).and_then(|rest| rest.strip_prefix('.')) == Some(register)
        };
        if name == VERSION {
            return Some(RegisterName::Version);
        }
        let counter = Register::ALL.iter().find(|register| matches(register.block(), register.name()));
        let table = TableRegister::ALL.iter().find(|register| matches(register.block(), register.name()));
        let link = name.strip_prefix(LINKS).and_then(|rest| rest.strip_prefix('.')).and_then(|part| match part {
            LINK_PEER => Some(RegisterName::LinkPeer),
            part => LinkCounter::ALL.iter().find(|one| one.name() == part).map(|one| RegisterName::Link(*one)),
        });
        let blocked = name.strip_prefix(BLOCKED).and_then(|rest| rest.strip_prefix('.')).and_then(|part| match part {
            BLOCKED_COUNT => Some(RegisterName::BlockedCount),
            part => BlockedField::ALL.iter().find(|one| one.name() == part).map(|one| RegisterName::Blocked(*one)),
        });
        let unit = units().find(|unit| *unit == name);
        counter
            .map(|register| RegisterName::Counter(*register))
            .or(table.map(|register| RegisterName::Table(*register)))
            .or(link)
            .or(blocked)
            .or(unit.map(RegisterName::Unit))
    }

    /// The unit; empty for the version.
    pub fn unit(self) -> &'static str {
        match self {
            RegisterName::Version => "",
            RegisterName::Counter(register) => register.block(),
            RegisterName::Table(register) => register.block(),
            RegisterName::LinkPeer | RegisterName::Link(_) => LINKS,
            RegisterName::BlockedCount | RegisterName::Blocked(_) => BLOCKED,
            RegisterName::Unit(unit) => unit,
        }
    }

    fn has_index(self) -> bool {
        match self {
            RegisterName::Table(register) => register.entries_max() != 0,
            RegisterName::LinkPeer | RegisterName::Link(_) | RegisterName::Blocked(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for RegisterName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterName::Version => out.write_str(VERSION),
            RegisterName::Counter(register) => out.write_str(register.name()),
            RegisterName::Table(register) => out.write_str(register.name()),
            RegisterName::LinkPeer => write!(out, "{LINKS}.{LINK_PEER}"),
            RegisterName::Link(counter) => write!(out, "{LINKS}.{}", counter.name()),
            RegisterName::BlockedCount => write!(out, "{BLOCKED}.{BLOCKED_COUNT}"),
            RegisterName::Blocked(field) => write!(out, "{BLOCKED}.{}", field.name()),
            RegisterName::Unit(unit) => out.write_str(unit),
        }
    }
}

fn units() -> impl Iterator<Item = &'static str> {
    let counters = Register::ALL.iter().map(|register| register.block());
    counters.chain(TableRegister::ALL.iter().map(|register| register.block())).chain([LINKS, BLOCKED])
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A rank, and the number of one of its NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicChoice {
    rank: u32,
    ni: Option<u32>,
}

impl NicChoice {
    pub fn parse(text: &str) -> Result<NicChoice, String> {
        let number =
            |text: &str| text.parse().map_err(|_| "give a rank, or rank and number of a NIC: 3 or 3.2".to_owned());
        match text.split_once('.') {
            Some((rank, ni)) => Ok(NicChoice { rank: number(rank)?, ni: Some(number(ni)?) }),
            None => Ok(NicChoice { rank: number(text)?, ni: None }),
        }
    }

    pub fn includes(self, seen: &Inspection) -> bool {
        self.rank == seen.rank && self.ni.is_none_or(|ni| ni == seen.ni)
    }
}

impl fmt::Display for NicChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ni {
            Some(ni) => write!(out, "{}.{ni}", self.rank),
            None => write!(out, "of rank {}", self.rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_registers() {
        let read = |register| RegisterArgument { register, index: None, value: None };
        let pointers = RegisterName::Table(TableRegister::MailboxWritePointers);
        for (text, word) in [
            ("version", read(RegisterName::Version)),
            ("requests", read(RegisterName::Counter(Register::Requests))),
            ("portals.requests", read(RegisterName::Counter(Register::Requests))),
            ("velo", read(RegisterName::Unit("velo"))),
            ("links", read(RegisterName::Unit("links"))),
            ("blocked.count", read(RegisterName::BlockedCount)),
            (
                "blocked[255].source_port",
                RegisterArgument { index: Some(255), ..read(RegisterName::Blocked(BlockedField::SourcePort)) },
            ),
            ("links[2].atomics", RegisterArgument { index: Some(2), ..read(RegisterName::Link(LinkCounter::Atomics)) }),
            ("mailbox_write_pointers", read(pointers)),
            ("velo_tables.mailbox_write_pointers[3]", RegisterArgument { index: Some(3), ..read(pointers) }),
            (
                "mailbox_interrupts[2].mask=1",
                RegisterArgument {
                    register: RegisterName::Table(TableRegister::MailboxInterruptsMask),
                    index: Some(2),
                    value: Some(1),
                },
            ),
            (
                "flush_request=0x10",
                RegisterArgument { value: Some(16), ..read(RegisterName::Table(TableRegister::FlushRequest)) },
            ),
        ] {
            assert_eq!(RegisterArgument::parse(text), Ok(word), "{text}");
        }
    }

    #[test]
    fn what_is_no_register_is_refused_with_a_reason() {
        for (text, reason) in [
            ("request", "no such register"),
            ("velo.requests", "no such register"),
            ("", "no such register"),
            ("requests[1]", "no index"),
            ("velo[1]", "no index"),
            ("mailbox_enables[", "ends with ]"),
            ("mailbox_enables[x]", "is not an index"),
            ("mailbox_enables[-1]", "is not an index"),
            ("mailbox_interrupts[0].", "no such register"),
            ("mailbox_enables[0]=", "is not a 64-bit number"),
            ("mailbox_enables[0]=0x10000000000000000", "is not a 64-bit number"),
        ] {
            let said = RegisterArgument::parse(text).expect_err(text);
            assert!(said.contains(reason), "{text}: {said}");
        }
    }

    #[test]
    fn every_register_is_found_by_its_name() {
        for register in Register::ALL {
            assert_eq!(RegisterName::named(register.name()), Some(RegisterName::Counter(*register)));
        }
        for register in TableRegister::ALL {
            assert_eq!(RegisterName::named(register.name()), Some(RegisterName::Table(*register)));
        }
    }
}
