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
//! 1. An initiator remembers no address of a region of this opening of the NIC, if its lock is 0. What it remembers of the opening
//!    before has another VPID ([`super::one_sided`]).
//! 2. The entries of a closed region are cleared at once. What waits is only that others take their place.
//! 3. One round is under way at a time, and rounds have numbers. Regions that are closed meanwhile wait for the next one. An answer to
//!    an earlier round counts for nothing.
//! 4. A look-up that begins after the round brings no address of it. So a probe that was sent in the round and is refused says that
//!    the process remembers none: the NIC that it had is closed, and a later one knows only what it looks up.
//! 5. *Closed* says nothing of the kind: it may have been sent before the round, and by a NIC that is open. It says that *forget*
//!    may be lost, so this is sent again. So it is after a number of probes that were answered, because a process may end without a
//!    word, and another have its id.

use std::collections::{BTreeMap, BTreeSet};

/// Forget is sent to a process again when so many of its probes in the round were answered. Each is one message more in its mailbox
/// than its program has to have read, so they are few.
const AGAIN_AFTER: [u32; 2] = [16, 1024];
/// The number of times that it is sent again in a round because a process says that its NIC is closed.
const CLOSED_MAX: u32 = 2;

/// The closed regions of a process, each with its pages.
pub struct Retired<R> {
    waiting: Vec<R>,
    pages: u64,
    /// The number of the latest round. The first is 1.
    number: u64,
    round: Option<Round<R>>,
}

/// Regions whose addresses these processes may remember.
struct Round<R> {
    holders: BTreeMap<u64, Holder>,
    _regions: Vec<R>,
}

/// The answers of a process that may remember addresses, in the round.
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
    /// Keeps a closed region. Dropping it gives its addresses to others.
    pub fn add(&mut self, region: R, pages: u64) {
        self.waiting.push(region);
        self.pages += pages;
    }

    /// Whether a round is to begin, if more than so many pages wait.
    pub fn is_due(&self, pages_max: u64) -> bool {
        self.round.is_none() && self.pages > pages_max
    }

    /// Begins a round: these processes may remember addresses. They are to be probed, and told its number.
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

    /// A process remembers none of the addresses of a round: it says so, or a probe of that round was refused.
    pub fn forgotten(&mut self, id: u64, number: u64) {
        if let Some(round) = self.round.as_mut().filter(|_| number == self.number) {
            round.holders.remove(&id);
            if round.holders.is_empty() {
                self.round = None;
            }
        }
    }

    /// A probe of a round was answered: the process has a NIC. True: *forget* is to be sent to it again.
    pub fn probed(&mut self, id: u64, number: u64) -> bool {
        let is_now = number == self.number;
        let Some(holder) = self.holder(id).filter(|_| is_now) else { return false };
        holder.probes = holder.probes.saturating_add(1);
        AGAIN_AFTER.contains(&holder.probes)
    }

    /// A process says that its NIC is closed. True: *forget* is to be sent to it again, and a probe.
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
        assert_eq!(Rc::strong_count(&later), 1, "nobody remembers");
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
        assert!(retired.closed(1) && !retired.closed(2), "a process that remembers nothing is asked for nothing");
        assert_eq!((Rc::strong_count(&region), retired.holders()), (2, vec![1]), "closed is not forgotten");
        assert_eq!((0..5000).filter(|_| retired.probed(1, 1)).count(), AGAIN_AFTER.len());
        assert_eq!((0..5000).filter(|_| retired.closed(1)).count() as u32, CLOSED_MAX - 1, "its mailbox has bounds");
    }
}
