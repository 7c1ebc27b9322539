// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network logical addresses of closed regions: they are given to other memory when no peer remembers them.
//!
//! ```text
//! initiator ── FCAA ────> the target's lock with the initiator's number      once, before it looks the first key up
//! target ───── forget ──> each initiator whose lock is not 0                 when enough regions were closed
//! initiator ── forgotten, when what it had under way has ended ──> target: the addresses are free
//! ```
//!
//! Invariants
//! 1. An initiator remembers no address of a target whose lock for it is 0.
//! 2. The entries of a closed region are cleared at once. What waits is only that others take their place.
//! 3. One round is under way at a time. Regions that are closed meanwhile wait for the next one.
//! 4. A process that has ended, or closed its NIC, remembers nothing. A get that it refuses tells so.

use std::collections::BTreeSet;

/// The closed regions of a process, each with its pages.
pub struct Retired<R> {
    waiting: Vec<R>,
    pages: u64,
    round: Option<Round<R>>,
}

/// Regions whose addresses these processes may remember.
struct Round<R> {
    holders: BTreeSet<u64>,
    _regions: Vec<R>,
}

impl<R> Default for Retired<R> {
    fn default() -> Retired<R> {
        Retired { waiting: Vec::new(), pages: 0, round: None }
    }
}

impl<R> Retired<R> {
    /// Keeps a closed region. Dropping it gives its addresses to others.
    pub fn add(&mut self, region: R, pages: u64) {
        self.waiting.push(region);
        self.pages += pages;
    }

    /// Whether a round is to begin, if more than so many pages wait.
    pub fn is_due(&self, pages_max: u64) -> bool {
        self.round.is_none() && self.pages > pages_max
    }

    /// Begins a round: these processes may remember addresses.
    pub fn begin(&mut self, holders: BTreeSet<u64>) {
        let regions = std::mem::take(&mut self.waiting);
        self.pages = 0;
        self.round = Some(Round { holders, _regions: regions }).filter(|round| !round.holders.is_empty());
    }

    /// A process remembers nothing any more.
    pub fn forgotten(&mut self, id: u64) {
        if let Some(round) = &mut self.round {
            round.holders.remove(&id);
            if round.holders.is_empty() {
                self.round = None;
            }
        }
    }

    /// The processes that may remember addresses of the round.
    pub fn holders(&self) -> Vec<u64> {
        self.round.as_ref().map_or(Vec::new(), |round| round.holders.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn addresses_are_free_when_all_have_forgotten_them() {
        let (region, later) = (Rc::new(()), Rc::new(()));
        let mut retired = Retired::default();
        retired.add(region.clone(), 10);
        assert!(!retired.is_due(10) && retired.is_due(9));
        retired.begin([1, 2].into());
        retired.add(later.clone(), 20);
        assert!(!retired.is_due(0), "one round at a time");
        assert_eq!(retired.holders(), [1, 2]);
        retired.forgotten(1);
        retired.forgotten(3);
        assert_eq!((Rc::strong_count(&region), retired.holders()), (2, vec![2]));
        retired.forgotten(2);
        assert_eq!((Rc::strong_count(&region), Rc::strong_count(&later)), (1, 2));
        assert!(retired.is_due(19) && retired.holders().is_empty());
        retired.begin([].into());
        assert_eq!(Rc::strong_count(&later), 1, "nobody remembers");
        assert!(!retired.is_due(0));
    }
}
