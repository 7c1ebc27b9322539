// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port's notification queue as its program reads it.
//!
//! A notification is copied out of the queue when it is first seen. So a program may take notifications in any order,
//! and the queue has room again. The copy lives until the program frees it.
//!
//! Invariants
//! 1. Notifications are seen in the order in which the units wrote them.
//! 2. One thread at a time reads a port, by the interface's rule. The queue's words are atomics, so a program that
//!    breaks the rule only gets wrong notifications.

use std::collections::VecDeque;
use std::time::Instant;

use selvedge_host::{Interface, WaitEnd};

/// A notification that the program has not freed. Its address does not change.
pub type Held = Box<[u64; 2]>;

/// The reader of one port's queue.
pub struct NotificationReader {
    vpid: u16,
    head: u64,
    /// Notifications seen and not freed, oldest first.
    held: VecDeque<Held>,
    spare: Vec<Held>,
}

/// Limit of notifications seen and not freed. Beyond it, the queue keeps the others.
const HELD_MAX: usize = 4096;
const SPARE_MAX: usize = 64;

impl NotificationReader {
    pub fn new(vpid: u16) -> NotificationReader {
        NotificationReader { vpid, head: 0, held: VecDeque::new(), spare: Vec::new() }
    }

    /// Returns the oldest notification that `matches` and is not freed.
    pub fn find(&mut self, interface: &Interface, matches: impl Fn([u64; 2]) -> bool) -> Option<*mut [u64; 2]> {
        if let Some(found) = self.held.iter_mut().find(|held| matches(***held)) {
            return Some(&raw mut **found);
        }
        while self.held.len() < HELD_MAX {
            let seen = self.take_in(interface)?;
            // SAFETY: `take_in` has just put the notification into `held`, which owns it.
            if matches(unsafe { *seen }) {
                return Some(seen);
            }
        }
        None
    }

    /// As [`NotificationReader::find`], and polls the NIC if there is none.
    pub fn probe(&mut self, interface: &Interface, matches: impl Fn([u64; 2]) -> bool) -> Option<*mut [u64; 2]> {
        if let Some(found) = self.find(interface, &matches) {
            interface.found_something();
            return Some(found);
        }
        interface.poll();
        let found = self.find(interface, &matches);
        match found {
            Some(_) => interface.found_something(),
            None => interface.found_nothing(),
        }
        found
    }

    /// Waits for a notification that `matches`.
    pub fn wait(
        &mut self,
        interface: &Interface,
        deadline: Option<Instant>,
        matches: impl Fn([u64; 2]) -> bool,
    ) -> Result<*mut [u64; 2], WaitEnd> {
        interface.wait(deadline, || self.find(interface, &matches))
    }

    /// Whether every notification seen was freed.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Frees a notification. False if the program does not hold it.
    pub fn free(&mut self, notification: *const [u64; 2]) -> bool {
        let Some(at) = self.held.iter().position(|held| std::ptr::eq(&raw const **held, notification)) else {
            return false;
        };
        let freed = self.held.remove(at);
        self.spare.extend(freed.filter(|_| self.spare.len() < SPARE_MAX));
        true
    }

    fn take_in(&mut self, interface: &Interface) -> Option<*mut [u64; 2]> {
        let taken = interface.signals().take_notification(self.vpid, &mut self.head)?;
        let mut held = self.spare.pop().unwrap_or_default();
        *held = taken;
        self.held.push_back(held);
        self.held.back_mut().map(|held| &raw mut **held)
    }
}
