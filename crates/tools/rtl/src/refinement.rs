// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The refinement map: the bits of SRAM words that stand for each field of a record of `nic`, and how the lockstep
//! compares them. `rtl/REFINEMENT.md` is made from it (`UPDATE_DOCS=1 cargo test -p selvedge-rtl --test rtl
//! refinement`).

use std::fmt::Write as _;

use crate::atu::words::tlb;
use crate::bits::Field;
use crate::counters::words::{body, c0, c1, t0};
use crate::descriptors::{m0, m1};
use crate::lists::{chain, entry_a, entry_b, header_a, header_b, key};

/// The comparison of a field of a record with the RTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// In these words, equal when a command retires.
    In(&'static [(&'static str, &'static str)]),
    /// Not compared as a field: the reason.
    Not(&'static str),
}
use Mapping::{In, Not};

/// A record of `nic` and the places of its fields.
pub struct Record {
    /// The type in crates/core/nic/src/tables.rs.
    pub name: &'static str,
    /// Address of the words.
    pub address: &'static str,
    /// Banks, with the fields of their words.
    pub words: &'static [(&'static str, &'static [(&'static str, Field)])],
    /// All fields of the record.
    pub fields: &'static [(&'static str, Mapping)],
    /// Fields of words that stand for no field of the record: the reason.
    pub own: &'static [(&'static str, &'static str, &'static str)],
}

/// All records that the RTL has.
pub const RECORDS: &[Record] = &[
    Record {
        name: "Entry",
        address: "its index",
        words: &[("K", key::FIELDS), ("A", entry_a::FIELDS), ("B", entry_b::FIELDS)],
        fields: &[
            ("slot", In(&[("K", "STATUS"), ("A", "GENERATION")])),
            ("options", In(&[("K", "OPTIONS")])),
            ("match_bits", In(&[("K", "MATCH_BITS")])),
            ("ignore_bits", In(&[("A", "IGNORE_BITS")])),
            ("source", In(&[("K", "SOURCE")])),
            ("source_ignore", In(&[("A", "SOURCE_IGNORE")])),
            ("start", In(&[("A", "START")])),
            ("length", In(&[("K", "LENGTH")])),
            ("user_ptr", In(&[("B", "USER_PTR")])),
            ("sequence", In(&[("K", "SEQUENCE_NUMBER")])),
            ("next", Not("derived: a free record's link, when the unit is idle; otherwise the chain is checked")),
            ("prev", Not("derived: the chain is checked")),
            ("min_free", In(&[("B", "MIN_FREE")])),
            ("local_offset", In(&[("A", "LOCAL_OFFSET")])),
            ("counter", In(&[("A", "COUNTER")])),
            ("uid", In(&[("B", "UID")])),
            ("iov", Not("I/O vectors are refused")),
            ("iov_count", Not("I/O vectors are refused")),
            ("headers", In(&[("B", "HEADERS")])),
            ("portal", In(&[("K", "PORTAL")])),
            ("class", Not("derived: nic numbers classes by portal table entry, the RTL globally")),
            ("reserved", Not("always 0")),
        ],
        own: &[
            ("K", "PREV", "link of the chain"),
            ("K", "NEXT", "link of the chain, or of the free list"),
            ("K", "CLASS_NUMBER", "number of the RTL's class"),
            ("A", "SPARE", "0"),
            ("B", "SPARE", "0"),
        ],
    },
    Record {
        name: "Header",
        address: "its index + `Entries`",
        words: &[("K", key::FIELDS), ("A", header_a::FIELDS), ("B", header_b::FIELDS)],
        fields: &[
            ("slot", In(&[("K", "STATUS"), ("A", "GENERATION")])),
            ("entry", In(&[("A", "ENTRY")])),
            ("source", In(&[("K", "SOURCE")])),
            ("match_bits", In(&[("K", "MATCH_BITS")])),
            ("sequence", In(&[("K", "SEQUENCE_NUMBER")])),
            ("start", In(&[("A", "START")])),
            ("rlength", In(&[("K", "LENGTH")])),
            ("mlength", In(&[("A", "MLENGTH")])),
            ("remote_offset", In(&[("A", "REMOTE_OFFSET")])),
            ("header_data", In(&[("A", "HEADER_DATA")])),
            ("uid", In(&[("B", "UID")])),
            ("portal", In(&[("K", "PORTAL")])),
            ("kind", In(&[("A", "OPERATION")])),
            ("operation", Not("0: puts and gets only")),
            ("links", Not("derived: the arrival list and the chain of one class; the chain is checked")),
            ("datatype", Not("0: puts and gets only")),
            ("chained", Not("derived")),
            ("reserved", Not("always 0")),
            ("token", In(&[("B", "TOKEN")])),
        ],
        own: &[
            ("K", "PREV", "link of the arrival list"),
            ("K", "NEXT", "link of the arrival list, or of the free list"),
            ("K", "OPTIONS", "0"),
            ("K", "CLASS_NUMBER", "0"),
            ("A", "SPARE", "0"),
            ("A", "RESERVED", "0"),
            ("B", "SPARE", "0"),
            ("B", "CLASS_PREV", "link of the chain"),
            ("B", "CLASS_NEXT", "link of the chain"),
        ],
    },
    Record {
        name: "Bucket",
        address: "the hash of a key, specific to the RTL",
        words: &[("chains", chain::FIELDS)],
        fields: &[("head", Not("derived: complement of an index of the pool")), ("tail", Not("derived"))],
        own: &[
            ("chains", "HEAD", "complement of the first record"),
            ("chains", "TAIL", "complement of the last record"),
        ],
    },
    Record {
        name: "CounterBook",
        address: "its index",
        words: &[("C0", c0::FIELDS), ("C1", c1::FIELDS)],
        fields: &[
            ("slot", In(&[("C1", "STATUS"), ("C1", "GENERATION")])),
            ("next_free", Not("derived: in HEAD of a free counter")),
            ("success", In(&[("C0", "SUCCESS")])),
            ("failure", In(&[("C0", "FAILURE")])),
            ("threshold_next", In(&[("C1", "THRESHOLD_NEXT")])),
            ("armed_head", In(&[("C1", "HEAD")])),
            ("armed_tail", In(&[("C1", "TAIL")])),
            ("lanes_when_armed", Not("no lanes: always 0")),
            ("lane_owners", Not("no lanes: always 0")),
        ],
        own: &[],
    },
    Record {
        name: "Triggered",
        address: "its index",
        words: &[("T0", t0::FIELDS), ("T1 and T2", body::FIELDS)],
        fields: &[
            ("slot", In(&[("T0", "STATUS"), ("T0", "GENERATION")])),
            ("counter", In(&[("T0", "COUNTER")])),
            ("threshold", In(&[("T0", "THRESHOLD")])),
            ("next", In(&[("T0", "NEXT")])),
            ("prev", In(&[("T0", "PREV")])),
            ("object", In(&[("T0", "OBJECT")])),
            ("list", Not("for appends, which leave unchanged")),
            ("sequence", Not("equal thresholds keep the order of the list")),
            ("executor", Not("of homes")),
            ("success", Not("in MATCH_BITS of an operation on a counter")),
            ("failure", Not("in HEADER_DATA of an operation on a counter")),
            ("command", In(COMMAND)),
            ("reserved", Not("always 0")),
        ],
        own: &[("T0", "SPARE", "0"), ("T0", "VARIANT", "the side, the list"), ("T1 and T2", "SPARE", "0")],
    },
    Record {
        name: "Descriptor",
        address: "its index",
        words: &[("M0", m0::FIELDS), ("M1", m1::FIELDS)],
        fields: &[
            ("slot", In(&[("M0", "STATUS"), ("M0", "GENERATION")])),
            ("next_free", In(&[("M1", "LINK")])),
            ("start", In(&[("M0", "START")])),
            ("length", In(&[("M0", "LENGTH")])),
            ("options", In(&[("M1", "OPTIONS")])),
            ("queue", In(&[("M1", "EVENTS")])),
            ("counter", In(&[("M1", "COUNTER")])),
            ("iov", Not("I/O vectors are refused")),
            ("iov_count", Not("I/O vectors are refused")),
            ("reserved", Not("always 0")),
            ("reserved2", Not("always 0")),
        ],
        own: &[("M1", "SPARE", "0")],
    },
    Record {
        name: "TlbEntry",
        address: "its index: one way. The bank omits the low bits of PAGE that form the index",
        words: &[("TLB", tlb::FIELDS)],
        fields: &[
            ("page", In(&[("TLB", "PAGE")])),
            ("entry", In(&[("TLB", "RIGHTS"), ("TLB", "VPID"), ("TLB", "TARGET"), ("TLB", "SIZE")])),
        ],
        own: &[],
    },
];

/// Place of the command of a triggered operation.
const COMMAND: &[(&str, &str)] = &[
    ("T0", "KIND"),
    ("T1 and T2", "TARGET"),
    ("T1 and T2", "INITIATOR"),
    ("T1 and T2", "UID"),
    ("T1 and T2", "REMOTE_OFFSET"),
    ("T1 and T2", "LENGTH"),
    ("T1 and T2", "EVENTS"),
    ("T1 and T2", "COUNTER"),
    ("T1 and T2", "OPTIONS"),
    ("T1 and T2", "PORTAL"),
    ("T1 and T2", "ACK"),
    ("T1 and T2", "OPERATION"),
    ("T1 and T2", "DATATYPE"),
    ("T1 and T2", "START"),
    ("T1 and T2", "USER_PTR"),
    ("T1 and T2", "HEADER_DATA"),
    ("T1 and T2", "MATCH_BITS"),
];

/// The text of `rtl/REFINEMENT.md`.
pub fn page() -> String {
    let mut text = String::from(
        "# Refinement map\n\nMade by `UPDATE_DOCS=1 cargo test -p selvedge-rtl --test rtl refinement`. Maps the fields of a record of `nic` \
         (`crates/core/nic/src/tables.rs`, `signals.rs`) to bits of SRAM words. Fields marked *equal* are compared \
         when a command retires, in all records that it wrote ([how](../docs/design/rtl-lockstep.md)). The words are \
         those of `lists_pkg.sv`, `counters_pkg.sv`, `descriptors_pkg.sv` and `atu_pkg.sv`. The allocator's word \
         holds nodes, each the byte of `Buddy` in 6 bits; the arithmetic has no records. Slots and pending flushes of \
         the address translation are compared by their effects; an entry of the TLB lacks the reserved bits 52 to 58, \
         and its size is a number of 2 bits.\n",
    );
    for record in RECORDS {
        let _ = write!(
            text,
            "\n## {}\n\nAddress: {}.\n\n| field of `nic` | bits | comparison |\n|---|---|---|\n",
            record.name, record.address
        );
        for (field, held) in record.fields {
            let _ = match held {
                In(places) => {
                    let places: Vec<String> = places.iter().map(|&(word, name)| place(record, word, name)).collect();
                    writeln!(text, "| `{field}` | {} | equal |", places.join(", "))
                }
                Not(reason) => writeln!(text, "| `{field}` | | {reason} |"),
            };
        }
        let _ = write!(text, "\n| bits of the RTL alone | field | meaning |\n|---|---|---|\n");
        for &(word, name, what) in record.own {
            let _ = writeln!(text, "| {} | `{}` | {what} |", place(record, word, name), name.to_lowercase());
        }
    }
    text
}

/// The bits of a word's field, as `K 95:64`. Panics if the record has no such field.
fn place(record: &Record, word: &str, name: &str) -> String {
    let (_, fields) = record.words.iter().find(|(other, _)| *other == word).expect("a word of the record");
    let (_, field) = fields.iter().find(|(other, _)| *other == name).expect("a field of the word");
    format!("{word} {}:{}", field.at + field.width - 1, field.at)
}
