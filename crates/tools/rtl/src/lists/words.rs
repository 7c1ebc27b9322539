// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list manager's words of SRAM, commands and answers (`rtl/lists/lists_pkg.sv`), and the translation of commands.

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::tables::{Request, kind};

use crate::bits::Field;
use crate::layout;
use crate::records::reference;

layout! { pub mod key {
    SEQUENCE_NUMBER: 64, LENGTH: 32, PREV: 16, NEXT: 16, OPTIONS: 20, PORTAL: 6, STATUS: 3, CLASS_NUMBER: 3, SOURCE: 32, MATCH_BITS: 64,
} }
layout! { pub mod entry_a {
    SPARE: 13, GENERATION: 24, COUNTER: 27, START: 64, LOCAL_OFFSET: 32, SOURCE_IGNORE: 32, IGNORE_BITS: 64,
} }
layout! { pub mod header_a {
    SPARE: 13, GENERATION: 24, RESERVED: 7, OPERATION: 4, ENTRY: 16, START: 64, MLENGTH: 32, REMOTE_OFFSET: 32, HEADER_DATA: 64,
} }
layout! { pub mod entry_b { SPARE: 112, HEADERS: 16, MIN_FREE: 32, UID: 32, USER_PTR: 64 } }
layout! { pub mod header_b { SPARE: 160, CLASS_PREV: 16, CLASS_NEXT: 16, TOKEN: 32, UID: 32 } }
layout! { pub mod chain { TAIL: 16, HEAD: 16 } }
layout! { pub mod command {
    TAG: 32, KIND: 2, OVERFLOW: 1, DELETE_FOUND: 1, PORTAL: 6, OPTIONS: 20, MATCH_BITS: 64, IGNORE_BITS: 64, SOURCE: 32,
    SOURCE_IGNORE: 32, START: 64, LENGTH: 32, MIN_FREE: 32, USER_PTR: 64, UID: 32, COUNTER: 27, REMOTE_OFFSET: 32, HEADER_DATA: 64,
    TOKEN: 32, OPERATION: 4, CONTROLLED: 1, ROOM: 2, ENTRY_REFERENCE: 27,
} }
layout! { pub mod answer {
    TAG: 32, STATUS: 4, LAST: 1, OVERFLOW: 1, INDEX: 16, ENTRY_REFERENCE: 27, KEY: 256, A: 256, B: 256,
} }
layout! { pub mod plan {
    VALID: 1, TAG: 32, OFFSET: 32, MLENGTH: 32, UNLINKS: 1, FREED: 1, KEPT: 1, HEADER: 16,
} }

/// Number of write ports of the trace, and the banks, numbered as in `lists_pkg.sv`.
pub(super) const WRITES: usize = 10;
pub(super) const BANK_K: usize = 0;
pub(super) const BANK_A: usize = 1;
pub(super) const BANK_B: usize = 2;
pub(super) const BANK_ENTRY_CHAINS: usize = 3;
pub(super) const BANK_HEADER_CHAINS: usize = 4;
/// Number of portal table entries.
pub const PORTALS: usize = 64;

/// Status of an answer.
pub(super) mod status {
    pub const MATCHED: u64 = 0;
    pub const NO_MATCH: u64 = 1;
    pub const PERMISSION: u64 = 2;
    pub const OPERATION: u64 = 3;
    pub const HEADERS_FULL: u64 = 4;
    pub const LINKED: u64 = 5;
    pub const SPENT: u64 = 6;
    pub const ENTRIES_FULL: u64 = 7;
    pub const UNLINKED: u64 = 8;
    pub const IN_USE: u64 = 9;
    pub const INVALID: u64 = 10;
    pub const DRAINED: u64 = 11;
    pub const COMPLETE: u64 = 12;
}

/// A command of the list manager.
#[derive(Clone, Copy, Debug)]
pub enum ListCommand {
    Deliver(Request),
    Append { portal: u32, which: u8, spec: EntrySpec },
    Unlink(u32),
    Search { portal: u32, spec: EntrySpec, delete: bool },
}

/// A value that is too wide for the words of the RTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooWide(pub &'static str);

impl ListCommand {
    /// The portal table entry of the command.
    pub fn portal(&self) -> Option<u32> {
        match self {
            ListCommand::Deliver(request) => Some(request.portal),
            ListCommand::Append { portal, .. } | ListCommand::Search { portal, .. } => Some(*portal),
            ListCommand::Unlink(_) => None,
        }
    }

    /// Converts the command to the RTL's words. Fails if a value is too wide, or the RTL does not support the command.
    pub fn words(&self, tag: u32) -> Result<[u32; command::WORDS], TooWide> {
        let mut words = [0; command::WORDS];
        let mut set = |field: Field, value: u64, name: &'static str| {
            if field.width < 64 && value >> field.width != 0 {
                return Err(TooWide(name));
            }
            field.set(&mut words, value);
            Ok(())
        };
        set(command::TAG, tag.into(), "tag")?;
        match self {
            ListCommand::Deliver(request) => {
                if request.kind != kind::PUT && request.kind != kind::GET {
                    return Err(TooWide("operation"));
                }
                set(command::KIND, 0, "kind")?;
                set(command::PORTAL, request.portal.into(), "portal")?;
                set(command::MATCH_BITS, request.match_bits, "match_bits")?;
                set(command::SOURCE, request.initiator, "source")?;
                set(command::LENGTH, request.length, "length")?;
                set(command::UID, request.uid.into(), "uid")?;
                set(command::REMOTE_OFFSET, request.remote_offset, "remote_offset")?;
                set(command::HEADER_DATA, request.header_data, "header_data")?;
                set(command::TOKEN, request.token().into(), "token")?;
                set(command::OPERATION, request.kind.into(), "operation")?;
            }
            ListCommand::Append { portal, which, spec } => {
                set(command::KIND, 1, "kind")?;
                set(command::OVERFLOW, u64::from(*which == list::OVERFLOW), "which")?;
                set_spec(&mut set, *portal, spec)?;
            }
            ListCommand::Unlink(reference) => {
                set(command::KIND, 2, "kind")?;
                set(command::ENTRY_REFERENCE, (*reference).into(), "reference")?;
            }
            ListCommand::Search { portal, spec, delete } => {
                set(command::KIND, 3, "kind")?;
                set(command::DELETE_FOUND, u64::from(*delete), "delete")?;
                set_spec(&mut set, *portal, spec)?;
            }
        }
        Ok(words)
    }
}

fn set_spec(
    set: &mut impl FnMut(Field, u64, &'static str) -> Result<(), TooWide>,
    portal: u32,
    spec: &EntrySpec,
) -> Result<(), TooWide> {
    if spec.iov != NONE {
        return Err(TooWide("I/O vector"));
    }
    set(command::PORTAL, portal.into(), "portal")?;
    set(command::OPTIONS, spec.options.into(), "options")?;
    set(command::MATCH_BITS, spec.match_bits, "match_bits")?;
    set(command::IGNORE_BITS, spec.ignore_bits, "ignore_bits")?;
    set(command::SOURCE, spec.source, "source")?;
    set(command::SOURCE_IGNORE, spec.source_ignore & u64::from(u32::MAX), "source_ignore")?;
    set(command::START, spec.start, "start")?;
    set(command::LENGTH, spec.length, "length")?;
    set(command::MIN_FREE, spec.min_free, "min_free")?;
    set(command::USER_PTR, spec.user_ptr, "user_ptr")?;
    set(command::UID, spec.uid.into(), "uid")?;
    set(command::COUNTER, reference(spec.counter), "counter")
}

/// A receive as a program posts it: it takes one put, of any user.
pub fn receive(match_bits: u64, source: u64) -> EntrySpec {
    EntrySpec {
        options: options::USE_ONCE | options::OP_PUT,
        start: 0x1000,
        length: 64,
        iov: NONE,
        iov_count: 0,
        match_bits,
        ignore_bits: 0,
        source,
        source_ignore: 0,
        min_free: 0,
        user_ptr: 7,
        counter: NONE,
        uid: u32::MAX,
    }
}
