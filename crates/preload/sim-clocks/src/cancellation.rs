// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cancellation of threads (`pthread_cancel`) in waits with a limit.
//!
//! A wait goes on in steps, of which some are cancellation points of the C library. A cancellation there would unwind frames
//! that hold locks, so the thread cannot be cancelled meanwhile. `pthread_cancel` ends its wait instead, and the thread
//! carries the cancellation out behind it, where nothing is held. The functions that it unwinds are `extern "C-unwind"`.

use std::ffi::c_int;
use std::ptr;

use selvedge_sim_protocol::RankEnd;
use selvedge_sim_protocol::system::may_have_threads;

use crate::real::next;
use crate::waiters;

/// The address for which a thread waits that may be cancelled: no object of the program has an odd one.
pub fn address_of(thread: libc::pthread_t) -> usize {
    thread as usize | 1
}

/// Carries a pending cancellation out.
pub fn cancel_if_due() {
    if may_have_threads() {
        next!(pthread_testcancel(): fn() -> c_int);
    }
}

/// Keeps a thread from being cancelled while it waits in steps: a cancellation would unwind this library's frames.
pub struct NotCancelled(Option<c_int>);

impl NotCancelled {
    pub fn begin() -> NotCancelled {
        const DISABLE: c_int = 1;
        if !may_have_threads() {
            return NotCancelled(None);
        }
        let mut before = 0;
        let set = next!(pthread_setcancelstate(DISABLE, &raw mut before): fn(c_int, *mut c_int) -> c_int);
        NotCancelled((set == 0).then_some(before))
    }

    /// Whether the thread could be cancelled before.
    pub fn was_possible(&self) -> bool {
        const ENABLE: c_int = 0;
        self.0 == Some(ENABLE)
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    let cancelled = next!(pthread_cancel(thread): fn(libc::pthread_t) -> c_int);
    if cancelled == 0 && RankEnd::if_attached().is_some() {
        waiters::wake(address_of(thread), 1);
    }
    cancelled
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            next!(pthread_setcancelstate(before, ptr::null_mut()): fn(c_int, *mut c_int) -> c_int);
        }
    }
}
