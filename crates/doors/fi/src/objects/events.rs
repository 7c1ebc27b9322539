// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The unread events of an event queue.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::ffi::fi_eq_err_entry;
use selvedge_os::sync::IgnorePoison;

/// An unread event.
pub enum Event {
    /// Its kind and its bytes.
    Success(u32, Vec<u8>),
    Failure(fi_eq_err_entry),
}

/// The events of a queue, in order.
#[derive(Default)]
pub struct Events(Mutex<VecDeque<Event>>);

impl Events {
    pub fn push(&self, event: Event) {
        self.lock().push_back(event);
    }

    /// Takes the lock. A thread that has panicked leaves the events as they were.
    pub fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.0.lock().ignore_poison()
    }
}
