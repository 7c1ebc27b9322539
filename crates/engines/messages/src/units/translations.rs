// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The regions of one other process: entries of its directory, by their keys.
//!
//! Invariants
//! 1. An entry may be of a closed region. Then its addresses belong to no other memory, and the unit refuses them.
//! 2. An access is refused for lack of rights or bounds only by an entry that was fetched for it.
//! 3. A key that is not in the directory is looked up again after one, two, four, up to 64 accesses.

use std::collections::HashMap;

use super::directory::Entry;
use selvedge_host::backoff::Backoff;

/// Largest number of remembered keys of one peer. Beyond it all are forgotten, and looked up again.
const KEYS_MAX: usize = 1 << 14;
/// The number of times that a program may name the peer between the look-up for an access and the access. A program
/// that names it more often has given the access up.
const NAMINGS_MAX: u8 = 16;

#[derive(Clone, Copy, Debug)]
enum KeyState {
    /// It is being looked up.
    Asked(Backoff),
    Here {
        entry: Entry,
        /// Until an access uses the entry: how often the program may name the peer before it counts as used.
        fresh: u8,
    },
    NotHere(Backoff),
}

/// The place of an access's remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this network logical address, through this port.
    At { vpid: u16, nla: u64 },
    /// The key has to be looked up.
    Unknown,
    /// The key is being looked up.
    Asked,
    /// The directory has no such key: send a packet.
    NotHere,
    /// The region's bounds or rights do not allow the access.
    NotGranted,
}

/// The translations of one peer's keys.
#[derive(Default)]
pub struct Translations {
    keys: HashMap<u64, KeyState>,
}

impl Translations {
    /// Finds the place of an access: this right, `bytes` bytes at an offset. The caller then calls
    /// [`Translations::used`] for each of its keys.
    pub fn find(&mut self, key: u64, access: u64, offset: u64, bytes: u64) -> Place {
        match self.keys.get_mut(&key) {
            None => Place::Unknown,
            Some(KeyState::Asked(_)) => Place::Asked,
            Some(KeyState::NotHere(backoff)) => match backoff.is_due() {
                true => Place::Unknown,
                false => Place::NotHere,
            },
            Some(KeyState::Here { entry, fresh }) => {
                match entry.at(offset, bytes).filter(|_| entry.access & access == access) {
                    Some(nla) => Place::At { vpid: entry.vpid, nla },
                    None if *fresh != 0 => Place::NotGranted,
                    None => Place::Unknown,
                }
            }
        }
    }

    /// Records that an access has used a key.
    pub fn used(&mut self, key: u64) {
        if let Some(KeyState::Here { fresh, .. }) = self.keys.get_mut(&key) {
            *fresh = 0;
        }
    }

    /// Records that a key is being looked up.
    pub fn ask(&mut self, key: u64) {
        if self.keys.len() >= KEYS_MAX {
            self.keys.retain(|_, state| matches!(state, KeyState::Asked(_)));
        }
        let backoff = match self.keys.get(&key) {
            Some(KeyState::NotHere(backoff)) => *backoff,
            _ => Backoff::default(),
        };
        self.keys.insert(key, KeyState::Asked(backoff));
    }

    /// Forgets the look-up of a key, so that it is asked for again.
    pub fn ask_again(&mut self, key: u64) {
        if let Some(KeyState::Asked(_)) = self.keys.get(&key) {
            self.keys.remove(&key);
        }
    }

    /// Records the result of a look-up. `None`: the key is not in the directory, or there is no directory.
    pub fn answer(&mut self, key: u64, found: Option<Entry>) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        let KeyState::Asked(mut backoff) = *state else { return };
        *state = match found {
            Some(entry) => KeyState::Here { entry, fresh: NAMINGS_MAX },
            None => {
                backoff.ended(false);
                KeyState::NotHere(backoff)
            }
        };
    }

    /// Makes the next access look up a key again, because it may have changed.
    pub fn look_up_again(&mut self, key: u64) {
        if let Some(KeyState::Here { .. } | KeyState::NotHere(_)) = self.keys.get(&key) {
            self.keys.remove(&key);
        }
    }

    /// Records that the program has named the peer again: its NIC may be another one. Entries just looked up for an
    /// access stay, because a program may name the peer before each try.
    pub fn named_again(&mut self) {
        self.keys.retain(|_, state| match state {
            KeyState::Here { fresh: 0, .. } => false,
            KeyState::Here { fresh, .. } => {
                *fresh -= 1;
                true
            }
            _ => true,
        });
    }

    /// Forgets all keys, because the peer's NIC is closed.
    pub fn clear(&mut self) {
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{REMOTE_READ, REMOTE_WRITE};

    const ENTRY: Entry = Entry { key: 7, vpid: 2, nla: 0x9000, length: 100, access: REMOTE_READ };

    #[test]
    fn a_key_is_looked_up_once_and_found() {
        let mut all = Translations::default();
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Unknown);
        all.ask(7);
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Asked);
        all.answer(7, Some(ENTRY));
        assert_eq!(all.find(7, REMOTE_READ, 8, 92), Place::At { vpid: 2, nla: 0x9008 });
        all.look_up_again(7);
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Unknown);
        all.answer(7, Some(ENTRY));
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Unknown, "an answer without a question");
    }

    #[test]
    fn an_access_is_refused_by_a_fresh_entry_alone() {
        for (access, offset) in [(REMOTE_READ, 93), (REMOTE_WRITE, 0), (REMOTE_READ | REMOTE_WRITE, 0)] {
            let mut all = Translations::default();
            all.ask(7);
            all.answer(7, Some(ENTRY));
            assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::At { vpid: 2, nla: 0x9000 });
            all.used(7);
            assert_eq!(all.find(7, access, offset, 8), Place::Unknown, "the key may have another region now");
            all.ask(7);
            all.answer(7, Some(ENTRY));
            assert_eq!(all.find(7, access, offset, 8), Place::NotGranted);
        }
    }

    #[test]
    fn what_is_not_there_is_asked_for_less_and_less_often() {
        let mut all = Translations::default();
        let mut asked = 0;
        for _ in 0..1000 {
            match all.find(7, REMOTE_READ, 0, 8) {
                Place::Unknown => {
                    asked += 1;
                    all.ask(7);
                    all.answer(7, None);
                }
                other => assert_eq!(other, Place::NotHere),
            }
        }
        assert!((10..40).contains(&asked), "{asked}");
    }

    #[test]
    fn a_peer_that_is_named_before_each_try_is_reached() {
        let mut all = Translations::default();
        all.ask(7);
        all.named_again();
        all.answer(7, Some(ENTRY));
        all.named_again();
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::At { vpid: 2, nla: 0x9000 });
        all.used(7);
        all.named_again();
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Unknown);
        all.ask(7);
        all.answer(7, Some(ENTRY));
        (0..NAMINGS_MAX).for_each(|_| all.named_again());
        assert_eq!(all.find(7, REMOTE_WRITE, 0, 8), Place::Unknown, "the access was given up, so its entry is gone");
        all.named_again();
        assert_eq!(all.find(7, REMOTE_READ, 0, 8), Place::Unknown, "the peer may have another NIC");
    }

    #[test]
    fn forgetting_keeps_questions() {
        let mut all = Translations::default();
        (0..KEYS_MAX as u64).for_each(|key| all.ask(key));
        all.answer(0, Some(Entry { key: 0, ..ENTRY }));
        all.ask(KEYS_MAX as u64);
        assert_eq!(all.find(0, REMOTE_READ, 0, 8), Place::Unknown, "it was forgotten");
        assert_eq!(all.find(1, REMOTE_READ, 0, 8), Place::Asked);
    }
}
