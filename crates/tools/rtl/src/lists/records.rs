// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the two sides, field by field, and state derived from them while the unit is idle.

use selvedge_nic::tables::{Entry, Header, entry, header, slot};

use super::words::{
    BANK_A, BANK_B, BANK_ENTRY_CHAINS, BANK_HEADER_CHAINS, BANK_K, chain, entry_a, entry_b, header_a, header_b, key,
};
use crate::bits::Field;
use crate::error::LockstepError;
use crate::home::Home;
use crate::records::{free_next, reference};
use crate::shadow::Shadow;

/// The records of both sides.
pub struct Records<'a> {
    pub shadow: &'a Shadow,
    pub home: &'a Home,
    /// Only the lists draw sequence numbers. In a whole NIC armed operations do too; then only the order is compared.
    pub is_alone: bool,
}

impl<'a> Records<'a> {
    fn entries(&self) -> usize {
        self.home.entries.len()
    }

    /// Number of records: entries, then headers.
    pub fn count(&self) -> usize {
        self.entries() + self.home.headers.len()
    }

    /// A record's words, in the order of the banks.
    fn words(&self, record: usize) -> [&'a [u32]; 3] {
        [BANK_K, BANK_A, BANK_B].map(|bank| self.shadow.word(bank, record))
    }

    pub fn compare_record(&self, record: usize) -> Result<(), LockstepError> {
        let [k, a, b] = self.words(record);
        let different = if let Some(model) = self.home.entries.get(record) {
            entry_difference(k, a, b, model)
        } else {
            header_difference(k, a, b, &self.home.headers[record - self.entries()])
        };
        let different = different.or_else(|| self.sequence_difference(record));
        match different {
            None => Ok(()),
            Some((field, rtl, model)) => {
                Err(format!("record {record}, {field}: RTL {rtl:#x}, model {model:#x}").into())
            }
        }
    }

    fn sequence_difference(&self, record: usize) -> Option<(&'static str, u64, u64)> {
        let (rtl, model) = self.sequences(record)?;
        (self.is_alone && rtl != model).then_some(("sequence", rtl, model))
    }

    /// The sequence numbers of a record that is not free.
    fn sequences(&self, record: usize) -> Option<(u64, u64)> {
        let (slot, model) = match self.home.entries.get(record) {
            Some(entry) => (entry.slot, entry.sequence),
            None => {
                let header = &self.home.headers[record - self.entries()];
                (header.slot, header.sequence)
            }
        };
        let rtl = key::SEQUENCE_NUMBER.get(self.shadow.word(BANK_K, record));
        (slot::status(slot) != slot::FREE).then_some((rtl, model))
    }

    fn check_order(&self) -> Result<(), LockstepError> {
        let mut numbers: Vec<(u64, u64)> = (0..self.count()).filter_map(|record| self.sequences(record)).collect();
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0].0 >= pair[1].0 || pair[0].1 >= pair[1].1) {
            Some(pair) => Err(format!("sequence numbers of two records, RTL and model: {pair:?}").into()),
            None => Ok(()),
        }
    }

    /// Checks derived state of an idle unit: free lists, and that each record is on one chain, in order.
    pub fn check_idle(&self) -> Result<(), LockstepError> {
        for record in 0..self.count() {
            self.compare_record(record)?;
        }
        self.check_order()?;
        let free_entries: Vec<usize> = {
            let next = |at: u32| slot::next(at, self.home.entries[at as usize].next);
            free_records(self.home.control.free_entry, self.entries(), next)
        };
        self.check_free("entries", &free_entries, 0, self.entries())?;
        let free_headers: Vec<usize> = {
            let next = |at: u32| slot::next(at, self.home.headers[at as usize].links[0][0]);
            free_records(self.home.control.free_header, self.home.headers.len(), next)
        };
        self.check_free("headers", &free_headers, self.entries(), self.home.headers.len())?;
        let linked = |record: usize| {
            let status = key::STATUS.get(self.shadow.word(BANK_K, record));
            status == u64::from(entry::PRIORITY) || status == u64::from(entry::OVERFLOW)
        };
        let next = |record: usize| key::NEXT.get(self.shadow.word(BANK_K, record)) as usize;
        self.check_chains("entry", BANK_ENTRY_CHAINS, 0..self.entries(), linked, next)?;
        let linked = |record: usize| key::STATUS.get(self.shadow.word(BANK_K, record)) == u64::from(header::LIVE);
        let next = |record: usize| header_b::CLASS_NEXT.get(self.shadow.word(BANK_B, record)) as usize;
        self.check_chains("header", BANK_HEADER_CHAINS, self.entries()..self.count(), linked, next)
    }

    /// Checks that the free records link to each other as in `nic`, from its first on.
    fn check_free(&self, what: &str, free: &[usize], base: usize, records: usize) -> Result<(), LockstepError> {
        for (place, &record) in free.iter().enumerate() {
            let link = key::NEXT.get(self.shadow.word(BANK_K, base + record));
            let (next, expected) = (free_next(record, link, records), free.get(place + 1).copied());
            if next != expected {
                return Err(format!("free {what}: {record} links to {next:?}, in the model to {expected:?}").into());
            }
        }
        Ok(())
    }

    fn check_chains(
        &self,
        what: &str,
        bank: usize,
        range: std::ops::Range<usize>,
        linked: impl Fn(usize) -> bool,
        next: impl Fn(usize) -> usize,
    ) -> Result<(), LockstepError> {
        let mut seen = vec![false; range.end];
        for bucket in 0..self.shadow.count(bank) {
            let word = self.shadow.word(bank, bucket);
            let (mut at, tail) = (!chain::HEAD.get(word) as u16 as usize, !chain::TAIL.get(word) as u16 as usize);
            let mut last: Option<(usize, u64)> = None;
            while range.contains(&at) {
                let sequence = key::SEQUENCE_NUMBER.get(self.shadow.word(BANK_K, at));
                if std::mem::replace(&mut seen[at], true) || !linked(at) {
                    return Err(format!("{what} chain {bucket}: record {at} does not belong there").into());
                }
                if last.is_some_and(|(_, before)| before >= sequence) {
                    return Err(format!("{what} chain {bucket}: record {at} is out of order").into());
                }
                last = Some((at, sequence));
                at = next(at);
            }
            if last.is_some_and(|(record, _)| record != tail) {
                return Err(format!("{what} chain {bucket}: ends with {last:?}, but its tail is {tail}").into());
            }
        }
        match range.clone().find(|&record| linked(record) && !seen[record]) {
            Some(record) => Err(format!("record {record} is on no {what} chain").into()),
            None => Ok(()),
        }
    }

    /// A record of the RTL, field by field.
    pub fn show(&self, record: usize) -> String {
        let [k, a, b] = self.words(record);
        let (fields_a, fields_b) = match record < self.entries() {
            true => (entry_a::FIELDS, entry_b::FIELDS),
            false => (header_a::FIELDS, header_b::FIELDS),
        };
        let show = |words: &[u32], fields: &[(&str, Field)]| {
            let narrow = fields.iter().filter(|(_, field)| field.width <= 64);
            narrow.map(|(name, field)| format!("{} {:x} ", name.to_lowercase(), field.get(words))).collect::<String>()
        };
        show(k, key::FIELDS) + &show(a, fields_a) + &show(b, fields_b)
    }
}

/// An entry of `nic`, as a report shows it.
pub struct EntryDisplay<'a>(pub &'a Entry);

impl std::fmt::Debug for EntryDisplay<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Entry { slot, options, match_bits, ignore_bits, source, source_ignore, sequence, headers, .. } = *self.0;
        let Entry { start, length, local_offset, min_free, user_ptr, .. } = *self.0;
        write!(
            out,
            "slot {slot:x} options {options:x} match_bits {match_bits:x} ignore_bits {ignore_bits:x} source {source:x} "
        )?;
        write!(
            out,
            "source_ignore {source_ignore:x} sequence {sequence} headers {headers} start {start:x} length {length:x} "
        )?;
        write!(out, "local_offset {local_offset:x} min_free {min_free:x} user_ptr {user_ptr:x}")
    }
}

/// The records of a free list of `nic`, in order.
fn free_records(first: u32, records: usize, next: impl Fn(u32) -> u32) -> Vec<usize> {
    let mut free = Vec::new();
    let mut at = first;
    while (at as usize) < records {
        free.push(at as usize);
        at = next(at);
    }
    free
}

/// The first field in which an entry differs: its name, the RTL's value, the model's.
fn entry_difference(k: &[u32], a: &[u32], b: &[u32], model: &Entry) -> Option<(&'static str, u64, u64)> {
    let status = slot::status(model.slot);
    let slot = [
        ("status", key::STATUS.get(k), u64::from(status)),
        ("generation", entry_a::GENERATION.get(a), u64::from(slot::generation(model.slot))),
    ];
    let rest = [
        ("options", key::OPTIONS.get(k), u64::from(model.options)),
        ("portal", key::PORTAL.get(k), u64::from(model.portal)),
        ("match_bits", key::MATCH_BITS.get(k), model.match_bits),
        ("source", key::SOURCE.get(k), model.source),
        ("length", key::LENGTH.get(k), model.length),
        ("ignore_bits", entry_a::IGNORE_BITS.get(a), model.ignore_bits),
        ("source_ignore", entry_a::SOURCE_IGNORE.get(a), model.source_ignore & u64::from(u32::MAX)),
        ("local_offset", entry_a::LOCAL_OFFSET.get(a), model.local_offset),
        ("start", entry_a::START.get(a), model.start),
        ("counter", entry_a::COUNTER.get(a), reference(model.counter)),
        ("user_ptr", entry_b::USER_PTR.get(b), model.user_ptr),
        ("uid", entry_b::UID.get(b), u64::from(model.uid)),
        ("min_free", entry_b::MIN_FREE.get(b), model.min_free),
        ("headers", entry_b::HEADERS.get(b), u64::from(model.headers)),
    ];
    first_difference(status, slot, &rest)
}

fn header_difference(k: &[u32], a: &[u32], b: &[u32], model: &Header) -> Option<(&'static str, u64, u64)> {
    let status = slot::status(model.slot);
    let slot = [
        ("status", key::STATUS.get(k), u64::from(status)),
        ("generation", header_a::GENERATION.get(a), u64::from(slot::generation(model.slot))),
    ];
    let rest = [
        ("portal", key::PORTAL.get(k), u64::from(model.portal)),
        ("match_bits", key::MATCH_BITS.get(k), model.match_bits),
        ("source", key::SOURCE.get(k), model.source),
        ("rlength", key::LENGTH.get(k), model.rlength),
        ("entry", header_a::ENTRY.get(a), u64::from(model.entry)),
        ("start", header_a::START.get(a), model.start),
        ("mlength", header_a::MLENGTH.get(a), model.mlength),
        ("remote_offset", header_a::REMOTE_OFFSET.get(a), model.remote_offset),
        ("header_data", header_a::HEADER_DATA.get(a), model.header_data),
        ("operation", header_a::OPERATION.get(a), u64::from(model.kind)),
        ("uid", header_b::UID.get(b), u64::from(model.uid)),
        ("token", header_b::TOKEN.get(b), u64::from(model.token)),
    ];
    first_difference(status, slot, &rest)
}

/// The first of these fields in which the two sides differ. Only the slot of a free record counts.
fn first_difference(
    status: u32,
    slot: [(&'static str, u64, u64); 2],
    rest: &[(&'static str, u64, u64)],
) -> Option<(&'static str, u64, u64)> {
    let compared = if status == slot::FREE { 0 } else { rest.len() };
    slot.iter().chain(&rest[..compared]).find(|(_, rtl, model)| rtl != model).copied()
}
