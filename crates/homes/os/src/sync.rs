// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks whose data are valid after a panic of their holder.
//!
//! A library must not fail in one thread because another thread of the program has panicked. The data under these locks
//! are valid between any two statements, so a poisoned lock is taken like any other. Cost: none.

use std::sync::{LockResult, PoisonError};

/// Takes the result of a lock whether or not its holder has panicked.
pub trait IgnorePoison {
    /// The guard, or the value.
    type Inner;

    /// Returns the guard, or the value, also after a panic.
    fn ignore_poison(self) -> Self::Inner;
}

impl<T> IgnorePoison for LockResult<T> {
    type Inner = T;

    #[inline(always)]
    fn ignore_poison(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_lock_is_taken_after_a_panic_of_its_holder() {
        let lock = Mutex::new(1);
        let panics = || {
            let _guard = lock.lock();
            panic!("with the lock");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(lock.is_poisoned());
        assert_eq!(*lock.lock().ignore_poison(), 1);
    }
}
