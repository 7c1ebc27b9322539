// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects that C programs hold by pointer. Each starts with a mark: the object's kind, alive, made by this process. A
//! forked child may not use its parent's objects, because the NIC behind them is the parent's.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// A kind of object.
///
/// # Safety
/// The type is `repr(C)`, and its first field is the mark that `mark` returns.
pub unsafe trait CObject: Sized {
    /// The value of the mark while the object is alive, in a process that was not forked.
    const ALIVE: u64;

    fn mark(&self) -> &AtomicU64;

    /// The mark of objects that this process has made.
    fn here() -> u64 {
        Self::ALIVE.wrapping_add(selvedge_process::forks())
    }

    /// Passes the object to C. Its memory is never freed.
    fn hand_out(self) -> *mut Self {
        self.mark().store(Self::here(), Release);
        Box::into_raw(Box::new(self))
    }

    /// The object behind a pointer of C. `None`: it is NULL, closed, or of another kind.
    ///
    /// # Safety
    /// The pointer is NULL, or points to at least 8 readable bytes.
    unsafe fn from_c<'a>(pointer: *const c_void) -> Option<&'a Self> {
        if pointer.is_null() || pointer as usize % align_of::<Self>() != 0 {
            return None;
        }
        // SAFETY: not null and aligned; the caller says that the mark can be read.
        let mark = unsafe { &*pointer.cast::<AtomicU64>() };
        if mark.load(Acquire) != Self::here() {
            return None;
        }
        // SAFETY: only `hand_out` stores this mark, at the start of an object of this type, which is never freed.
        Some(unsafe { &*pointer.cast::<Self>() })
    }

    /// Ends the object: later calls refuse it. Returns false if it had ended already.
    fn end(&self) -> bool {
        self.mark().swap(0, std::sync::atomic::Ordering::AcqRel) == Self::here()
    }
}
