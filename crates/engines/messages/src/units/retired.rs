// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network logical addresses of closed regions. They are reused when no peer remembers them.
//!
//! ```text
//! initiator ── FCAA ────> the target's lock with the initiator's number      once, before it looks the first key up
//! target ───── forget ──> each initiator whose lock is not 0                 when enough regions were closed
//! initiator ── forgotten, when everything it had under way has ended ──> target: the addresses are free
//! ```
//!
//! Invariants
//! 1. An initiator remembers no address of a region of this opening of the NIC if its lock is 0. Addresses that it
//!    remembers of the previous opening have another VPID ([`super::one_sided`]).
//! 2. The entries of a closed region are cleared at once. Only their reuse waits.
//! 3. One round is under way at a time, and rounds have numbers. Regions closed meanwhile wait for the next one. An
//!    answer to an earlier round is ignored.
//! 4. A look-up that begins after the round returns no address of it. So a refused probe of the round says that the
//!    process remembers none: its NIC is closed, and a later NIC knows only addresses that it looks up.
//! 5. *Closed* does not say this: it may have been sent before the round, and by a NIC that is open. It says that
//!    *forget* may be lost, so *forget* is sent again. *Forget* is also sent again after a number of answered probes,
//!    because a process may end silently, and another may have its id.

use std::collections::{BTreeMap, BTreeSet};

/// *Forget* is sent to a process again after these numbers of answered probes in the round. Each repetition needs room
/// in its mailbox, so they are few.
const AGAIN_AFTER: [u32; 2] = [16, 1024];
/// The number of times that *forget* is sent again in a round because a process says that its NIC is closed.
const CLOSED_MAX: u32 = 2;

/// The closed regions of a process, each with its pages.
pub struct Retired<R> {
    waiting: Vec<R>,
    pages: u64,
    /// The number of the latest round. The first is 1.
    number: u64,
    round: Option<Round<R>>,
}

/// Regions, and the processes that may remember their addresses.
struct Round<R> {
    holders: BTreeMap<u64, Holder>,
    _regions: Vec<R>,
}

/// The answers in the round of a process that may remember addresses.
#[derive(Default)]
struct Holder {
    probes: u32,
    closed: u32,
}

impl<R> Default for Retired<R> {
    fn default() -> Retired<R> {
        Retired { waiting: Vec::new(), pages: 0, number: 0, round: None }
    }
}

impl<R> Retired<R> {
    /// Keeps a closed region. Dropping the region frees its addresses for reuse.
    pub fn add(&mut self, region: R, pages: u64) {
        self.waiting.push(region);
        self.pages += pages;
    }

    /// Whether to begin a round: more than `pages_max` pages wait, and no round is under way.
    pub fn is_due(&self, pages_max: u64) -> bool {
        self.round.is_none() && self.pages > pages_max
    }

    /// Begins a round for the processes that may remember addresses. The caller probes them and sends them its number.
    pub fn begin(&mut self, holders: &BTreeSet<u64>) -> u64 {
        let regions = std::mem::take(&mut self.waiting);
        (self.pages, self.number) = (0, self.number + 1);
        let holders: BTreeMap<u64, Holder> = holders.iter().map(|id| (*id, Holder::default())).collect();
        self.round = Some(Round { holders, _regions: regions }).filter(|round| !round.holders.is_empty());
        self.number
    }

    /// The number of the latest round.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records that a process remembers none of the addresses of a round: it said so, or refused a probe of that round.
    pub fn forgotten(&mut self, id: u64, number: u64) {
        if let Some(round) = self.round.as_mut().filter(|_| number == self.number) {
            round.holders.remove(&id);
            if round.holders.is_empty() {
                self.round = None;
            }
        }
    }

    /// Records that a probe of a round was answered, so the process has a NIC. True: send it *forget* again.
    pub fn probed(&mut self, id: u64, number: u64) -> bool {
        let is_now = number == self.number;
        let Some(holder) = self.holder(id).filter(|_| is_now) else { return false };
        holder.probes = holder.probes.saturating_add(1);
        AGAIN_AFTER.contains(&holder.probes)
    }

    /// Records that a process says that its NIC is closed. True: send it *forget* again, and a probe.
    pub fn closed(&mut self, id: u64) -> bool {
        let Some(holder) = self.holder(id) else { return false };
        holder.closed = holder.closed.saturating_add(1);
        holder.closed <= CLOSED_MAX
    }

    fn holder(&mut self, id: u64) -> Option<&mut Holder> {
        self.round.as_mut().and_then(|round| round.holders.get_mut(&id))
    }

    /// The processes that may remember addresses of the round.
    pub fn holders(&self) -> Vec<u64> {
        self.round.as_ref().map_or(Vec::new(), |round| round.holders.keys().copied().collect())
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
        assert_eq!(retired.begin(&[1, 2].into()), 1);
        retired.add(later.clone(), 20);
        assert!(!retired.is_due(0), "one round at a time");
        assert_eq!(retired.holders(), [1, 2]);
        retired.forgotten(1, 1);
        retired.forgotten(3, 1);
        assert_eq!((Rc::strong_count(&region), retired.holders()), (2, vec![2]));
        retired.forgotten(2, 1);
        assert_eq!((Rc::strong_count(&region), Rc::strong_count(&later)), (1, 2));
        assert!(retired.is_due(19) && retired.holders().is_empty());
        assert_eq!(retired.begin(&[].into()), 2);
        assert_eq!(Rc::strong_count(&later), 1, "no process remembers it");
        assert!(!retired.is_due(0));
    }

    #[test]
    fn what_was_said_of_an_earlier_round_ends_none() {
        let region = Rc::new(());
        let mut retired = Retired::default();
        retired.begin(&[1, 2].into());
        retired.forgotten(1, 1);
        retired.forgotten(2, 1);
        retired.add(region.clone(), 1);
        retired.begin(&[1].into());
        retired.forgotten(1, 1);
        assert!(!retired.probed(1, 1));
        assert_eq!((Rc::strong_count(&region), retired.holders()), (2, vec![1]));
        retired.forgotten(1, 2);
        assert_eq!(Rc::strong_count(&region), 1);
    }

    #[test]
    fn a_process_that_may_not_have_read_it_is_told_again() {
        let region = Rc::new(());
        let mut retired = Retired::default();
        assert!(!retired.closed(1));
        retired.add(region.clone(), 1);
        retired.begin(&[1].into());
        assert!(retired.closed(1) && !retired.closed(2), "a process that remembers nothing is not asked");
        assert_eq!((Rc::strong_count(&region), retired.holders()), (2, vec![1]), "closed is not forgotten");
        assert_eq!((0..5000).filter(|_| retired.probed(1, 1)).count(), AGAIN_AFTER.len());
        assert_eq!((0..5000).filter(|_| retired.closed(1)).count() as u32, CLOSED_MAX - 1, "repetitions are bounded");
    }
}
