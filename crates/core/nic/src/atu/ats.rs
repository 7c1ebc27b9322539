// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The four transactions between the ATU and the functional units, each one word of 64 bits (address translation
//! service, ATS: seed 002, sections 5.2.9 and 5.3). The seed's figure 5-10 has no text, so the layout is Selvedge's
//! own.
//!
//! | bits | 60-63 | 44-59 | 42-43 | 40-41 | 0-39 |
//! |---|---|---|---|---|---|
//! | translation request | 1 | tag | unit | access | page 0-26, VPID 27-36 |
//! | translation response | 2 | tag | unit | result | the target's page; 0 if refused |
//! | flush request | 3 | tag | 0 | kind | first page 0-26, pages less one 27-36; or VPID 27-36 |
//! | flush response | 4 | tag | unit | 0 | 0 |
//!
//! The access is 0 to read, 1 to write. The result is 0 for done, 1 for not registered, 2 for the wrong VPID, 3 for no
//! right. A flush is of kind 0 for pages, 1 for a VPID. The unit is 0 for the requester, 1 for the responder, 2 for the
//! completer. A flush request does not name its unit: each unit gets the same word.
//!
//! Invariants
//! 1. A word that decodes encodes to itself. Every other word is refused: bits without a meaning are 0.
//! 2. A value that has more bits than its field is refused, and never cut.

use super::entry::{Access, TARGET_PAGE_BITS, TranslationFault, Unencodable, VPID_BITS};
use super::flush::{FlushTarget, Unit};
use super::nla::{NLA_PAGE_BITS, NlaPage};

/// The most pages of one flush request.
pub const FLUSH_PAGES_MAX: u32 = 1 << HIGH_BITS;

const HIGH_AT: u32 = NLA_PAGE_BITS;
const HIGH_BITS: u32 = VPID_BITS;
const CODE_AT: u32 = 40;
const UNIT_AT: u32 = 42;
const TAG_AT: u32 = 44;
const KIND_AT: u32 = 60;

/// A unit's request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationRequest {
    pub unit: Unit,
    /// The unit's tag of the request.
    pub tag: u16,
    pub vpid: u16,
    pub page: NlaPage,
    pub access: Access,
}

/// The answer to a [`TranslationRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationResponse {
    pub unit: Unit,
    pub tag: u16,
    /// The number of the target's page of 4 KiB.
    pub result: Result<u64, TranslationFault>,
}

/// The ATU's request that a unit discard pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRequest {
    /// The driver's tag of the flush.
    pub tag: u16,
    pub target: FlushTarget,
}

/// A unit's report that it has discarded the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushResponse {
    pub unit: Unit,
    pub tag: u16,
}

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    TranslationRequest(TranslationRequest),
    TranslationResponse(TranslationResponse),
    FlushRequest(FlushRequest),
    FlushResponse(FlushResponse),
}

/// A word that is no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

struct Fields {
    kind: u64,
    tag: u16,
    unit: u64,
    code: u64,
    low: u64,
}

impl FlushRequest {
    /// Whether a word can hold the request: a VPID of 10 bits; or 1 to [`FLUSH_PAGES_MAX`] pages that exist.
    pub fn is_encodable(&self) -> bool {
        match self.target {
            FlushTarget::Vpid(vpid) => vpid >> VPID_BITS == 0,
            FlushTarget::Pages { first, count } => {
                (1..=FLUSH_PAGES_MAX).contains(&count) && first.checked_add(u64::from(count) - 1).is_ok()
            }
        }
    }
}

impl Transaction {
    /// Encodes the transaction.
    pub fn encode(&self) -> Result<u64, Unencodable> {
        let fields = match *self {
            Transaction::TranslationRequest(TranslationRequest { unit, tag, vpid, page, access }) => {
                if vpid >> VPID_BITS != 0 {
                    return Err(Unencodable);
                }
                let code = match access {
                    Access::Read => 0,
                    Access::Write => 1,
                };
                let low = u64::from(page.number()) | (u64::from(vpid) << HIGH_AT);
                Fields { kind: 1, tag, unit: unit as u64, code, low }
            }
            Transaction::TranslationResponse(TranslationResponse { unit, tag, result }) => {
                let (code, low) = match result {
                    Ok(page) if page >> TARGET_PAGE_BITS != 0 => return Err(Unencodable),
                    Ok(page) => (0, page),
                    Err(TranslationFault::NotRegistered) => (1, 0),
                    Err(TranslationFault::WrongVpid) => (2, 0),
                    Err(TranslationFault::NoRight) => (3, 0),
                };
                Fields { kind: 2, tag, unit: unit as u64, code, low }
            }
            Transaction::FlushRequest(request) => {
                if !request.is_encodable() {
                    return Err(Unencodable);
                }
                let (code, low) = match request.target {
                    FlushTarget::Pages { first, count } => {
                        (0, u64::from(first.number()) | ((u64::from(count) - 1) << HIGH_AT))
                    }
                    FlushTarget::Vpid(vpid) => (1, u64::from(vpid) << HIGH_AT),
                };
                Fields { kind: 3, tag: request.tag, unit: 0, code, low }
            }
            Transaction::FlushResponse(FlushResponse { unit, tag }) => {
                Fields { kind: 4, tag, unit: unit as u64, code: 0, low: 0 }
            }
        };
        Ok(fields.low
            | (fields.code << CODE_AT)
            | (fields.unit << UNIT_AT)
            | (u64::from(fields.tag) << TAG_AT)
            | (fields.kind << KIND_AT))
    }

    /// Decodes a word.
    pub fn decode(word: u64) -> Result<Transaction, Malformed> {
        let field = |at: u32, bits: u32| (word >> at) & ((1 << bits) - 1);
        let (unit, tag, code) = (Unit::from_number(field(UNIT_AT, 2)), field(TAG_AT, 16) as u16, field(CODE_AT, 2));
        let low = field(0, CODE_AT);
        let page = NlaPage::new(field(0, NLA_PAGE_BITS)).map_err(|_| Malformed)?;
        let high = field(HIGH_AT, HIGH_BITS);
        let no_more = low >> (HIGH_AT + HIGH_BITS) == 0;
        match (word >> KIND_AT, unit, code) {
            (1, Some(unit), 0 | 1) if no_more => {
                let access = if code == 0 { Access::Read } else { Access::Write };
                let vpid = high as u16;
                Ok(Transaction::TranslationRequest(TranslationRequest { unit, tag, vpid, page, access }))
            }
            (2, Some(unit), _) => {
                let result = match code {
                    0 => Ok(low),
                    _ if low != 0 => return Err(Malformed),
                    1 => Err(TranslationFault::NotRegistered),
                    2 => Err(TranslationFault::WrongVpid),
                    _ => Err(TranslationFault::NoRight),
                };
                Ok(Transaction::TranslationResponse(TranslationResponse { unit, tag, result }))
            }
            (3, Some(Unit::Requester), 0 | 1) if no_more => {
                let target = match code {
                    0 => FlushTarget::Pages { first: page, count: high as u32 + 1 },
                    _ if page.number() != 0 => return Err(Malformed),
                    _ => FlushTarget::Vpid(high as u16),
                };
                let request = FlushRequest { tag, target };
                if request.is_encodable() { Ok(Transaction::FlushRequest(request)) } else { Err(Malformed) }
            }
            (4, Some(unit), 0) if low == 0 => Ok(Transaction::FlushResponse(FlushResponse { unit, tag })),
            _ => Err(Malformed),
        }
    }
}

const _: () = assert!(HIGH_AT + HIGH_BITS <= CODE_AT && TARGET_PAGE_BITS == CODE_AT);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = u64> {
        let low = prop_oneof![Just(0), 0..1u64 << 37, 0..1u64 << 40, (0..1024u64).prop_map(|high| high << 27)];
        let near = (0..6u64, any::<u16>(), 0..4u64, 0..4u64, low).prop_map(|(kind, tag, unit, code, low)| {
            low | code << CODE_AT | unit << UNIT_AT | u64::from(tag) << TAG_AT | kind << KIND_AT
        });
        prop_oneof![4 => near, 1 => any::<u64>()]
    }

    proptest! {
        #[test]
        fn a_word_that_decodes_encodes_to_itself(word in word()) {
            if let Ok(transaction) = Transaction::decode(word) {
                prop_assert_eq!(transaction.encode(), Ok(word));
            }
        }

        #[test]
        fn a_transaction_that_encodes_decodes_to_itself(
            (kind, unit, tag, vpid) in (0..4u8, 0..3u64, any::<u16>(), 0..1100u16),
            (page, count, target, code) in (0..1u64 << 27, 0..1100u32, 0..1u64 << 41, 0..4u8),
        ) {
            let (unit, page) = (Unit::from_number(unit).unwrap(), NlaPage::new(page).unwrap());
            let access = if code == 0 { Access::Read } else { Access::Write };
            let result = match code {
                0 => Ok(target),
                1 => Err(TranslationFault::NotRegistered),
                2 => Err(TranslationFault::WrongVpid),
                _ => Err(TranslationFault::NoRight),
            };
            let flushed = if code == 0 { FlushTarget::Vpid(vpid) } else { FlushTarget::Pages { first: page, count } };
            let (transaction, fits) = match kind {
                0 => {
                    let request = TranslationRequest { unit, tag, vpid, page, access };
                    (Transaction::TranslationRequest(request), vpid < 1024)
                }
                1 => {
                    let response = TranslationResponse { unit, tag, result };
                    (Transaction::TranslationResponse(response), result.is_err() || target < 1 << 40)
                }
                2 => {
                    let last = u64::from(page.number()) + u64::from(count);
                    let fits = if code == 0 { vpid < 1024 } else { (1..=1024).contains(&count) && last <= 1 << 27 };
                    (Transaction::FlushRequest(FlushRequest { tag, target: flushed }), fits)
                }
                _ => (Transaction::FlushResponse(FlushResponse { unit, tag }), true),
            };
            match transaction.encode() {
                Ok(word) => prop_assert_eq!(Transaction::decode(word), Ok(transaction)),
                Err(Unencodable) => prop_assert!(!fits),
            }
            prop_assert_eq!(transaction.encode().is_ok(), fits);
        }
    }

    #[test]
    fn words_without_a_meaning() {
        let request = 1 << 60 | 5 << 44 | 2 << 42 | 1 << 40 | 3 << 27 | 7;
        assert!(Transaction::decode(request).is_ok());
        let hostile =
            [0, 5 << 60, u64::MAX, request | 3 << 42, request | 2 << 40, request | 1 << 37, request | 1 << 39];
        let hostile = hostile.into_iter().chain([2 << 60 | 1 << 40 | 1, 3 << 60 | 1 << 42, 3 << 60 | 1 << 40 | 1]);
        // Pages beyond the last; an answer with more than a tag.
        for word in hostile.chain([3 << 60 | 1 << 27 | ((1 << 27) - 1), 4 << 60 | 1, 4 << 60 | 1 << 40]) {
            assert_eq!(Transaction::decode(word), Err(Malformed), "{word:x}");
        }
    }
}
