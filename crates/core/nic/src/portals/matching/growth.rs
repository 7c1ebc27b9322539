// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Indices that grow with their tables, for a home whose tables begin smaller than their limits.
//!
//! Invariants
//! 1. The home gives an index more buckets, all empty, between two transitions, and says which bits of the hash the
//!    index still lacks ([`Folded`](crate::tables::Folded)). Then it calls the method here with the buckets before.
//! 2. A bucket of the old index becomes several of the new one. Records keep their order in each chain.
//!
//! Cost: O(records in the index).

use super::headers::node_parts;
use super::{End, MatchQueue, entry_hash, list_of};
use crate::handle::NONE;
use crate::tables::{Bucket, CLASS_OTHER, CLASSES};

impl MatchQueue<'_, '_> {
    /// Moves the entries of an index with other buckets to the present one.
    pub fn rehash_entries(mut self, before: &[Bucket]) {
        for bucket in before {
            let mut at = bucket.head;
            for _ in 0..self.tables.entries.len() {
                let Some(record) = self.tables.entries.get(at as usize) else { break };
                let (index, class) = (at, record.class.min(CLASS_OTHER));
                at = record.next;
                if let Some(list) = list_of(record) {
                    let hash = entry_hash(record, class, list);
                    self.reborrow().put_in_chain(index, hash, End::Back);
                }
            }
        }
    }

    /// Moves the unexpected headers of an index with other buckets to the present one.
    pub fn rehash_headers(mut self, before: &[Bucket]) {
        for bucket in before {
            let mut node = bucket.head;
            for _ in 0..self.tables.headers.len() * CLASSES {
                let (index, class) = node_parts(node);
                let Some(record) = self.tables.headers.get(index as usize).filter(|_| node != NONE) else { break };
                node = record.links[1 + usize::from(class)][0];
                self.reborrow().chain_header_class(index, class);
            }
        }
    }
}
