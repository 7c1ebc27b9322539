// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The refinement map is complete: it has each field of a record of `nic` and of a word once, and its page is current.

use std::collections::BTreeSet;
use std::path::Path;

use selvedge_nic::signals::Descriptor;
use selvedge_nic::tables::{Bucket, CounterBook, Entry, Header, TlbEntry, Triggered};
use selvedge_rtl::refinement::{Mapping, RECORDS, page};

/// The names of all fields of a struct; a missing one does not compile.
macro_rules! fields_of {
    ($record:ident { $($field:ident),* $(,)? }) => {{
        #[allow(dead_code, reason = "it only has to compile")]
        fn whole($record { $($field: _),* }: $record) {}
        (stringify!($record), &[$(stringify!($field)),*] as &[&str])
    }};
}

#[test]
fn every_field_has_its_place() {
    let all = [
        fields_of!(Entry {
            slot,
            options,
            match_bits,
            ignore_bits,
            source,
            source_ignore,
            start,
            length,
            user_ptr,
            sequence,
            next,
            prev,
            min_free,
            local_offset,
            counter,
            uid,
            iov,
            iov_count,
            headers,
            portal,
            class,
            reserved,
        }),
        fields_of!(Header {
            slot,
            entry,
            source,
            match_bits,
            sequence,
            start,
            rlength,
            mlength,
            remote_offset,
            header_data,
            uid,
            portal,
            kind,
            operation,
            links,
            datatype,
            chained,
            reserved,
            token,
        }),
        fields_of!(Bucket { head, tail }),
        fields_of!(CounterBook {
            slot,
            next_free,
            success,
            failure,
            threshold_next,
            armed_head,
            armed_tail,
            lanes_when_armed,
            lane_owners,
        }),
        fields_of!(Triggered {
            slot,
            counter,
            threshold,
            next,
            prev,
            object,
            list,
            sequence,
            executor,
            success,
            failure,
            command,
            reserved,
        }),
        fields_of!(Descriptor {
            slot,
            next_free,
            start,
            length,
            options,
            queue,
            counter,
            iov,
            iov_count,
            reserved,
            reserved2,
        }),
        fields_of!(TlbEntry { page, entry }),
    ];
    assert_eq!(RECORDS.len(), all.len());
    for (record, (name, fields)) in RECORDS.iter().zip(all) {
        assert_eq!(record.name, name);
        assert_eq!(record.fields.iter().map(|(field, _)| *field).collect::<Vec<_>>(), fields, "{name}");
        let mut placed = BTreeSet::new();
        let mut place =
            |word: &'static str, field: &'static str| assert!(placed.insert((word, field)), "{word} {field} twice");
        for (_, mapping) in record.fields {
            if let Mapping::In(places) = mapping {
                places.iter().for_each(|&(word, field)| place(word, field));
            }
        }
        record.own.iter().for_each(|&(word, field, _)| place(word, field));
        let words = record.words.iter().flat_map(|(word, fields)| fields.iter().map(move |(field, _)| (*word, *field)));
        assert_eq!(placed, words.collect(), "fields of the words of {name}");
    }
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rtl/REFINEMENT.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page(), "rtl/REFINEMENT.md: run UPDATE_DOCS=1 cargo test -p selvedge-rtl --test rtl refinement");
}
