// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives a forked child private copies of the memory that its parent shares.

use std::sync::Once;

use selvedge_os::children::Handover;

use crate::data;
use crate::pool::POOL;

static HANDOVER: Handover = Handover::new();

/// Registers the fork handlers, once a child may have memory to copy.
pub fn install() {
    static INSTALLED: Once = Once::new();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    INSTALLED.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

unsafe extern "C" fn before() {
    let copies = POOL.begin_hold() || data::shared().is_some();
    // SAFETY: this and the two functions below are the handlers of a fork.
    unsafe { HANDOVER.before(copies) };
}

unsafe extern "C" fn in_parent() {
    // SAFETY: as in `before`.
    unsafe { HANDOVER.in_parent() };
    POOL.end_hold();
}

unsafe extern "C" fn in_child() {
    // SAFETY: as in `before`.
    unsafe { HANDOVER.in_child(|| POOL.make_private() && data::make_private()) };
    POOL.wipe();
    POOL.end_hold();
}
