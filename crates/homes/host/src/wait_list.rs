// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The waits of this process at a NIC, for threads that end them: to close the NIC, to free an object, to abort.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether waits of this process are aborted (`PtlAbort`).
pub(crate) static ABORTED: AtomicBool = AtomicBool::new(false);

/// Ends all waits of this process, present and future, until [`abort_reset`].
pub fn abort_waits() {
    ABORTED.store(true, SeqCst);
}

/// Allows waits again.
pub fn abort_reset() {
    ABORTED.store(false, SeqCst);
}

/// An object of the NIC that a thread waits for, by its reference. Another thread may free it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Counter(u32),
    Queue(u32),
}

/// The waits of this process at one NIC that last longer than the first polls.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) count: u32,
    pub(crate) subjects: Vec<Subject>,
}

impl Waits {
    pub(crate) fn enter(&mut self, subjects: impl Iterator<Item = Subject>) {
        self.count += 1;
        self.subjects.extend(subjects);
    }

    pub(crate) fn leave(&mut self, subjects: impl Iterator<Item = Subject>) {
        self.count -= 1;
        for subject in subjects {
            if let Some(at) = self.subjects.iter().position(|other| *other == subject) {
                self.subjects.swap_remove(at);
            }
        }
    }
}
