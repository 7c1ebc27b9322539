// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs and outputs of the ATU, in the layouts of `atu_pkg.sv` and of `nic`.

use selvedge_nic::atu::ats::{FlushResponse, Transaction, TranslationRequest};
use selvedge_nic::atu::pipeline::Request;
use selvedge_nic::atu::{AddressEntry, FlushMode, PageSize};
use selvedge_nic::tables::TlbEntry;

use crate::shadow::WriteLayout;

crate::layout! {
    /// `atu_pkg::command_t`.
    pub mod command { OPERATION: 3, WORD: 64 }
}
crate::layout! {
    /// `atu_pkg::answer_t`: events of a cycle.
    pub mod answer {
        DONE: 1, DONE_TAG: 16, MALFORMED: 1, READ_REFUSED: 1, ANSWER_REFUSED: 1, HIT: 1, MISS: 1, FAULT: 1, FLUSHED: 1, UNITS_FLUSHED: 1
    }
}
crate::layout! {
    /// `atu_pkg::outside_in_t`.
    pub mod outside_in {
        TABLES: 10, UNITS_READY: 1, MEMORY_READY: 1, READ_VALID: 1, READ_TAG: 16, READ_WORD: 64, ANSWER_VALID: 1, ANSWER: 64
    }
}
crate::layout! {
    /// `atu_pkg::outside_out_t`.
    pub mod outside_out { UNITS_VALID: 1, UNITS_PEER: 2, UNITS: 64, MEMORY_VALID: 1, MEMORY_TAG: 16, MEMORY_PAGE: 27 }
}
crate::layout! {
    /// `atu_pkg::tlb_t`, a word of the TLB with its whole page.
    pub mod tlb { PAGE: 27, SIZE: 2, TARGET: 40, VPID: 10, RIGHTS: 2 }
}
crate::layout! {
    /// The part of `atu_pkg::trace_t` above the part that all units have.
    pub mod trace { SUBMITTED: 1, REQUESTED: 1, RESPONDED: 1, REQUESTS: 16, SLOTS: 16, PENDING: 16 }
}

/// The trace's retirements and writes.
pub const TRACE: WriteLayout = WriteLayout::new(tlb::BITS);
/// Bits of the trace below [`trace`].
pub const TRACE_BITS: usize = 33 + 1 + 4 + 16 + 32 + 1 + 2 * tlb::BITS;

const TRANSLATE: u8 = 0;
const FENCE: u8 = 4;
const TAG_AT: u32 = 44;

/// A request at the port: `atu_pkg::operation_e` (3 bits), and a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtuCommand {
    pub operation: u8,
    pub word: u64,
}

impl AtuCommand {
    /// The command of this request; `None` if no word encodes it.
    pub fn of(request: Request) -> Option<AtuCommand> {
        let (operation, word) = match request {
            Request::Translation(request) => (TRANSLATE, Transaction::TranslationRequest(request).encode().ok()?),
            Request::Flush { request, mode } => (1 + mode as u8, Transaction::FlushRequest(request).encode().ok()?),
            Request::Fence { tag } => (FENCE, u64::from(tag) << TAG_AT),
        };
        Some(AtuCommand { operation, word })
    }

    /// The request of the command; `None` if malformed.
    pub fn request(self) -> Option<Request> {
        let mode = [FlushMode::Tlb, FlushMode::Units, FlushMode::Both];
        match (self.operation, Transaction::decode(self.word)) {
            (TRANSLATE, Ok(Transaction::TranslationRequest(request))) => Some(Request::Translation(request)),
            (1..FENCE, Ok(Transaction::FlushRequest(request))) => {
                Some(Request::Flush { request, mode: mode[usize::from(self.operation) - 1] })
            }
            (FENCE, _) => {
                let tag = (self.word >> TAG_AT) as u16;
                (u64::from(tag) << TAG_AT == self.word).then_some(Request::Fence { tag })
            }
            _ => None,
        }
    }

    /// The words of the command at the port.
    pub fn pack(self) -> [u32; command::WORDS] {
        let mut words = [0; command::WORDS];
        command::OPERATION.set(&mut words, self.operation.into());
        command::WORD.set(&mut words, self.word);
        words
    }
}

impl From<TranslationRequest> for AtuCommand {
    /// Panics if the VPID has more than 10 bits.
    fn from(request: TranslationRequest) -> AtuCommand {
        AtuCommand::of(Request::Translation(request)).expect("a VPID of 10 bits")
    }
}

/// Decodes an answer to a flush; `None` for any other word.
pub fn flush_response(word: u64) -> Option<FlushResponse> {
    match Transaction::decode(word) {
        Ok(Transaction::FlushResponse(response)) => Some(response),
        _ => None,
    }
}

/// A slot of `nic`'s TLB as the RTL's word: without reserved bits, all 0 if there is none.
pub fn word_of(slot: &TlbEntry) -> [u32; tlb::WORDS] {
    let mut words = [0; tlb::WORDS];
    let entry = AddressEntry::from_bits(slot.entry);
    if let (Some(rights), Some(size)) = (entry.rights(), entry.size()) {
        let size = PageSize::ALL.iter().position(|&other| other == size).expect("one of them");
        tlb::PAGE.set(&mut words, slot.page);
        tlb::SIZE.set(&mut words, size as u64);
        tlb::TARGET.set(&mut words, entry.target_page());
        tlb::VPID.set(&mut words, entry.vpid().into());
        tlb::RIGHTS.set(&mut words, rights as u64);
    }
    words
}

/// The inputs of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    pub command: Option<AtuCommand>,
    /// A word read, with its slot.
    pub read: Option<(u16, u64)>,
    /// A unit's answer to a flush.
    pub answer: Option<u64>,
    /// Whether the ports accept words.
    pub units_ready: bool,
    pub memory_ready: bool,
}

impl Inputs {
    /// No inputs, and all ports accept.
    pub const NONE: Inputs = Inputs { command: None, read: None, answer: None, units_ready: true, memory_ready: true };

    /// The words of `outside_i`, with this number of tables.
    pub fn pack(&self, tables: u32) -> [u32; outside_in::WORDS] {
        let mut words = [0; outside_in::WORDS];
        outside_in::TABLES.set(&mut words, tables.into());
        outside_in::UNITS_READY.set(&mut words, self.units_ready.into());
        outside_in::MEMORY_READY.set(&mut words, self.memory_ready.into());
        if let Some((tag, word)) = self.read {
            outside_in::READ_VALID.set(&mut words, 1);
            outside_in::READ_TAG.set(&mut words, tag.into());
            outside_in::READ_WORD.set(&mut words, word);
        }
        if let Some(word) = self.answer {
            outside_in::ANSWER_VALID.set(&mut words, 1);
            outside_in::ANSWER.set(&mut words, word);
        }
        words
    }
}
