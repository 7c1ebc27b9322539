// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks this thread as inside a transition, and counts its allocations there.
//!
//! A test program with an allocator that calls [`allocated`] (tests/no_allocation.rs) proves that transitions do not
//! allocate. In the others nothing calls it. The bus of the tests is outside: it plays the home, which may allocate.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Restores the mark when it is dropped, also by a panic.
pub struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// The rest of the block is the home's part of a transition.
pub fn outside() -> Mark {
    Mark(INSIDE.replace(false))
}

/// Runs a transition and asserts that it allocates nothing.
#[track_caller]
pub fn transition<T>(run: impl FnOnce() -> T) -> T {
    let before = ALLOCATIONS.get();
    let result = {
        let _mark = Mark(INSIDE.replace(true));
        run()
    };
    assert_eq!(ALLOCATIONS.get(), before, "a transition has allocated memory");
    result
}

/// Notes a call of the allocator. A thread that ends has no mark any more.
pub fn allocated() {
    if INSIDE.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
}

/// Allocations inside transitions so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}
