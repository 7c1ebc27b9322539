// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of accesses from this process to one target, in the order of their calls, and how each ends.
//!
//! ```text
//!   put, put, get ─ answered: the get has ended, and the puts before it
//!             └─── refused: this one has failed, whatever happens to the others
//! ```
//!
//! Invariants
//! 1. The target handles the commands of one initiator in order, and answers in order: of gets with the same local
//!    memory the first one is answered first.
//! 2. A put that succeeds is not answered. The answer of a get says that the puts before it were carried out. It comes
//!    behind their errors (docs/design/extoll.md, one-sided MPI).
//! 3. So an error of a put belongs to a put before the first unanswered get. The error names local memory. Two puts
//!    under way have the same name only if they write to the same place of the target, too
//!    ([`CommandQueue::would_confuse`]). Such puts differ only in time. The place's addresses belong to no other memory
//!    while this process remembers them, so a revoked place stays revoked: the last puts have failed.
//! 4. A record leaves the queue exactly once.
//!
//! Cost: O(n) for an answer, with n commands under way. Their limit is small.

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_nic::rma::code;

use super::memory::Registered;

/// The purpose of a command. The numbers are those of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Put {
        number: usize,
        /// The VPID and the network logical address of the place at the target.
        there: (u16, u64),
    },
    Get(usize),
    /// A get behind puts. Its answer says that they were carried out.
    Flush,
    /// A get of the bucket of a key.
    LookUp(u64),
    /// A lock request that tells the target that this process remembers its addresses. The look-up of this key follows.
    Mark(u64),
    /// A get in the round of this number. A refusal says that the target is gone. 0: ignored.
    Probe(u64),
    /// The operation was dropped with its endpoint.
    Dropped,
}

/// The name of a command in its notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub code: u8,
    /// The local address. For an immediate put the remote address, for a lock its number.
    pub word0: u64,
    pub bytes: u64,
}

/// A command under way.
pub struct Sent {
    pub name: Name,
    pub purpose: Purpose,
    /// The registration of its local memory, which it keeps alive.
    pub local: Option<Arc<Registered>>,
}

impl Sent {
    fn is_get(&self) -> bool {
        self.name.code == code::BT_GET
    }

    fn is_put(&self) -> bool {
        matches!(self.name.code, code::BT_PUT | code::IMMEDIATE_PUT)
    }
}

/// The commands under way to one process.
#[derive(Default)]
pub struct CommandQueue {
    queue: VecDeque<Sent>,
}

impl CommandQueue {
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether to send a flush now: there are puts without a get behind them, and no flush is under way.
    pub fn wants_flush(&self) -> bool {
        let last = self.queue.iter().rfind(|sent| sent.is_put() || sent.is_get());
        last.is_some_and(Sent::is_put) && !self.queue.iter().any(|sent| sent.purpose == Purpose::Flush)
    }

    /// Whether a put under way has this name but another place at the target, so that a refusal could not tell them
    /// apart.
    pub fn would_confuse(&self, name: Name, there: (u16, u64)) -> bool {
        let is_remote = |purpose| !matches!(purpose, Purpose::Put { there: other, .. } if other == there);
        name.code == code::BT_PUT && self.queue.iter().any(|sent| sent.name == name && is_remote(sent.purpose))
    }

    /// Records a command that was posted.
    pub fn sent(&mut self, sent: Sent) {
        self.queue.push_back(sent);
    }

    /// Records the answer of a get. Returns the commands that have succeeded, the get last. Empty: no such get.
    pub fn answered(&mut self, word0: u64, bytes: u64) -> Vec<Sent> {
        let name = Name { code: code::BT_GET, word0, bytes };
        let Some(at) = self.queue.iter().position(|sent| sent.name == name) else { return Vec::new() };
        let get = self.queue.remove(at);
        let (mut ended, before): (Vec<Sent>, Vec<Sent>) = self.queue.drain(..at).partition(Sent::is_put);
        for sent in before.into_iter().rev() {
            self.queue.push_front(sent);
        }
        ended.extend(get);
        ended
    }

    /// Removes the lock request that was answered. `None`: there is no such request.
    pub fn locked(&mut self, number: u64) -> Option<Sent> {
        self.refused(Name { code: code::LOCK, word0: number, bytes: 1 })
    }

    /// Removes the command that was refused. `None`: there is no such command.
    pub fn refused(&mut self, name: Name) -> Option<Sent> {
        let is_it = |sent: &Sent| sent.name == name;
        let first = self.queue.iter().position(is_it)?;
        let at = match name.code {
            code::BT_GET | code::LOCK => first,
            _ => {
                let get = self.queue.iter().position(Sent::is_get).unwrap_or(self.queue.len());
                self.queue.iter().take(get).rposition(is_it).unwrap_or(first)
            }
        };
        self.queue.remove(at)
    }

    /// Removes the puts, because the target is gone and answers none. Gets are refused one by one.
    pub fn lose_puts(&mut self) -> Vec<Sent> {
        let (puts, others): (VecDeque<Sent>, _) = self.queue.drain(..).partition(Sent::is_put);
        self.queue = others;
        Vec::from(puts)
    }

    /// Voids the look-ups under way: their answers are ignored.
    pub fn void_look_ups(&mut self) {
        for sent in &mut self.queue {
            if let Purpose::LookUp(_) = sent.purpose {
                sent.purpose = Purpose::Probe(0);
            }
        }
    }

    /// Forgets the operations for which `is_over` is true. Their commands stay.
    pub fn forget(&mut self, is_over: impl Fn(usize) -> bool) {
        for sent in &mut self.queue {
            if let Purpose::Put { number, .. } | Purpose::Get(number) = sent.purpose {
                if is_over(number) {
                    sent.purpose = Purpose::Dropped;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGIONS: u16 = 2;

    /// A put from a local address to the same address at the target.
    fn put(number: usize, word0: u64) -> Sent {
        put_to(number, word0, word0)
    }

    fn put_to(number: usize, word0: u64, there: u64) -> Sent {
        let purpose = Purpose::Put { number, there: (REGIONS, there) };
        Sent { name: Name { code: code::BT_PUT, word0, bytes: 8 }, purpose, local: None }
    }

    fn get(purpose: Purpose, word0: u64) -> Sent {
        Sent { name: Name { code: code::BT_GET, word0, bytes: 8 }, purpose, local: None }
    }

    fn purposes(ended: Vec<Sent>) -> Vec<Purpose> {
        ended.into_iter().map(|sent| sent.purpose).collect()
    }

    #[test]
    fn an_answered_get_ends_the_puts_before_it() {
        let mut queue = CommandQueue::default();
        queue.sent(put(1, 100));
        queue.sent(get(Purpose::Get(2), 200));
        queue.sent(put(3, 100));
        queue.sent(get(Purpose::Flush, 300));
        queue.sent(put(4, 100));
        assert_eq!(purposes(queue.answered(300, 8)), [put(1, 100).purpose, put(3, 100).purpose, Purpose::Flush]);
        assert!(queue.answered(300, 8).is_empty() && queue.answered(200, 7).is_empty());
        assert_eq!(purposes(queue.answered(200, 8)), [Purpose::Get(2)]);
        assert!(!queue.is_idle() && queue.wants_flush());
    }

    #[test]
    fn a_lock_is_answered_for_itself() {
        let mut queue = CommandQueue::default();
        let lock =
            || Sent { name: Name { code: code::LOCK, word0: 3, bytes: 1 }, purpose: Purpose::Mark(7), local: None };
        queue.sent(lock());
        assert!(!queue.wants_flush());
        queue.sent(put(1, 0));
        queue.sent(lock());
        assert!(queue.wants_flush(), "a lock does not act as a get behind the put");
        queue.sent(get(Purpose::Flush, 64));
        assert_eq!(purposes(queue.answered(64, 8)), [put(1, 0).purpose, Purpose::Flush]);
        assert_eq!(queue.locked(3).map(|sent| sent.purpose), Some(Purpose::Mark(7)));
        assert!(queue.locked(4).is_none() && queue.locked(3).is_some() && queue.is_idle());
    }

    #[test]
    fn one_flush_is_under_way() {
        let mut queue = CommandQueue::default();
        assert!(!queue.wants_flush());
        queue.sent(put(1, 0));
        assert!(queue.wants_flush());
        queue.sent(get(Purpose::Flush, 64));
        assert!(!queue.wants_flush());
        queue.sent(put(2, 0));
        assert!(!queue.wants_flush(), "the second put waits for the first flush");
        queue.answered(64, 8);
        assert!(queue.wants_flush());
        queue.sent(get(Purpose::Get(3), 128));
        assert!(!queue.wants_flush(), "any other get acts as a flush");
        queue.refused(Name { code: code::BT_GET, word0: 128, bytes: 8 });
        assert!(queue.wants_flush(), "a refused get does not act as a flush");
    }

    #[test]
    fn gets_of_one_memory_are_answered_in_their_order() {
        let mut queue = CommandQueue::default();
        (1..=3).for_each(|number| queue.sent(get(Purpose::Get(number), 8)));
        assert_eq!(purposes(queue.answered(8, 8)), [Purpose::Get(1)]);
        let name = Name { code: code::BT_GET, word0: 8, bytes: 8 };
        assert_eq!(queue.refused(name).map(|sent| sent.purpose), Some(Purpose::Get(2)));
        assert_eq!(purposes(queue.answered(8, 8)), [Purpose::Get(3)]);
        assert!(queue.is_idle() && queue.refused(name).is_none());
    }

    #[test]
    fn a_target_that_is_gone_answers_no_put() {
        let mut queue = CommandQueue::default();
        queue.sent(put(1, 100));
        queue.sent(get(Purpose::Get(2), 200));
        queue.sent(put(3, 100));
        assert_eq!(purposes(queue.lose_puts()), [put(1, 100).purpose, put(3, 100).purpose]);
        queue.forget(|number| number == 2);
        assert_eq!(purposes(queue.answered(200, 8)), [Purpose::Dropped]);
    }

    #[test]
    fn puts_of_one_memory_to_two_places_are_confused() {
        let mut queue = CommandQueue::default();
        queue.sent(put_to(1, 100, 7));
        let name = put(0, 100).name;
        assert!(!queue.would_confuse(name, (REGIONS, 7)) && queue.would_confuse(name, (REGIONS, 8)));
        assert!(queue.would_confuse(name, (REGIONS + 1, 7)), "the target has reopened its NIC");
        assert!(
            !queue.would_confuse(Name { bytes: 9, ..name }, (REGIONS, 8))
                && !queue.would_confuse(put(0, 101).name, (REGIONS, 8))
        );
        assert!(
            !queue.would_confuse(Name { code: code::IMMEDIATE_PUT, ..name }, (REGIONS, 8)),
            "an immediate put is named by its place"
        );
        queue.forget(|_| true);
        assert!(queue.would_confuse(name, (REGIONS, 7)), "the place of a dropped put is unknown");
        queue.sent(get(Purpose::Flush, 300));
        assert!(queue.would_confuse(name, (REGIONS, 8)), "the put is still unanswered");
        queue.answered(300, 8);
        assert!(!queue.would_confuse(name, (REGIONS, 8)));
    }

    /// Runs many commands between an initiator and a target. Some are equal, and some write the same memory to two
    /// places. At some time the target begins to refuse one place. Each operation must end as the target decided.
    #[test]
    fn equal_puts_end_as_the_target_has_decided() {
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let mut queue = CommandQueue::default();
            let mut answers: VecDeque<(Name, bool)> = VecDeque::new();
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            let revoked = random(40);
            let mut flushes = 0;
            for number in 0..60usize {
                if random(4) != 0 {
                    let place = random(2);
                    // One buffer for both places, or another address if the names would be equal.
                    let mut sent = put_to(number, 500, place);
                    while queue.would_confuse(sent.name, (REGIONS, place)) {
                        sent.name.word0 += 1;
                    }
                    let name = sent.name;
                    queue.sent(sent);
                    let is_refused = place == 0 && number as u64 >= revoked;
                    wanted.push((number, !is_refused));
                    if is_refused {
                        answers.push_back((name, false));
                    }
                }
                if queue.wants_flush() {
                    flushes += 1;
                    queue.sent(get(Purpose::Flush, 1000 + flushes));
                    answers.push_back((Name { code: code::BT_GET, word0: 1000 + flushes, bytes: 8 }, true));
                }
                while number == 59 || random(3) == 0 {
                    let Some((name, is_done)) = answers.pop_front() else { break };
                    match is_done {
                        true => found.extend(queue.answered(name.word0, 8).into_iter().map(|sent| (sent, true))),
                        false => found.extend(queue.refused(name).map(|sent| (sent, false))),
                    }
                }
            }
            if queue.wants_flush() {
                queue.sent(get(Purpose::Flush, 9));
                found.extend(queue.answered(9, 8).into_iter().map(|sent| (sent, true)));
            }
            let mut ended: Vec<(usize, bool)> = found
                .iter()
                .filter_map(|(sent, is_done)| match sent.purpose {
                    Purpose::Put { number, .. } => Some((number, *is_done)),
                    _ => None,
                })
                .collect();
            ended.sort_unstable();
            assert_eq!(ended, wanted);
        }
    }
}
