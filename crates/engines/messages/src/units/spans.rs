// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of operations under way that peers get or write. An address in a notification leads to the operation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Bytes and operation number by peer and network logical address.
#[derive(Debug, Default)]
pub(crate) struct Spans(BTreeMap<(u64, u64), (u64, usize)>);

impl Spans {
    /// Records the memory of an operation. False: the memory of another operation with this peer starts there.
    pub fn insert(&mut self, peer: u64, nla: u64, bytes: u64, number: usize) -> bool {
        match self.0.entry((peer, nla)) {
            Entry::Vacant(place) => {
                place.insert((bytes, number));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The operation whose memory holds this address.
    pub fn at(&self, peer: u64, nla: u64) -> Option<usize> {
        let (&(_, start), &(bytes, number)) = self.0.range((peer, 0)..=(peer, nla)).next_back()?;
        (nla - start < bytes).then_some(number)
    }

    pub fn remove(&mut self, peer: u64, nla: u64) {
        self.0.remove(&(peer, nla));
    }

    /// Keeps the memory of the operations for which `keeps` is true.
    pub fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        self.0.retain(|_, (_, number)| keeps(*number));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_any_of_its_addresses() {
        let mut spans = Spans::default();
        assert!(spans.insert(1, 100, 10, 7) && spans.insert(2, 100, 1, 8) && !spans.insert(1, 100, 3, 9));
        assert_eq!([99, 100, 109, 110].map(|nla| spans.at(1, nla)), [None, Some(7), Some(7), None]);
        assert_eq!((spans.at(2, 100), spans.at(2, 101), spans.at(3, 100)), (Some(8), None, None));
        spans.remove(1, 100);
        assert_eq!(spans.at(1, 105), None);
    }
}
