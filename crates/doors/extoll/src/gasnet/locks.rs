// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handler-safe locks, and sections without interrupts.
//!
//! Handlers run only in calls of this library, so a section without interrupts needs no mask. The thread only records
//! it, so that a call in it that runs handlers is refused. A lock is a mutex of the C library.

use std::cell::Cell;

use super::codes::{Code, refuse};

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
    static WITHOUT_INTERRUPTS: Cell<bool> = const { Cell::new(false) };
}

/// `gasnet_hsl_t`.
#[repr(C)]
pub struct Lock {
    mutex: libc::pthread_mutex_t,
}

/// Number of handler-safe locks that this thread holds.
pub fn held() -> u32 {
    HELD.get()
}

pub fn is_without_interrupts() -> bool {
    WITHOUT_INTERRUPTS.get()
}

/// Reports an error of a function that returns nothing.
fn report(code: i32, name: &str) {
    if code != 0 {
        refuse(Code::BadArg, name, std::io::Error::from_raw_os_error(code));
    }
}

/// # Safety
/// As `gasnet.h` says: `lock` has room for a lock, which is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_hsl_init(lock: *mut Lock) {
    // SAFETY: the caller's.
    report(unsafe { libc::pthread_mutex_init(&raw mut (*lock).mutex, std::ptr::null()) }, "gasnet_hsl_init");
}

/// # Safety
/// As `gasnet.h` says: no thread holds `lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_hsl_destroy(lock: *mut Lock) {
    // SAFETY: the caller's.
    report(unsafe { libc::pthread_mutex_destroy(&raw mut (*lock).mutex) }, "gasnet_hsl_destroy");
}

/// # Safety
/// As `gasnet.h` says: `lock` is a lock that this thread does not hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_hsl_lock(lock: *mut Lock) {
    // SAFETY: the caller's.
    report(unsafe { libc::pthread_mutex_lock(&raw mut (*lock).mutex) }, "gasnet_hsl_lock");
    HELD.set(HELD.get() + 1);
}

/// # Safety
/// As `gasnet.h` says: `lock` is a lock that this thread does not hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_hsl_trylock(lock: *mut Lock) -> i32 {
    // SAFETY: the caller's.
    if unsafe { libc::pthread_mutex_trylock(&raw mut (*lock).mutex) } != 0 {
        return Code::NotReady as i32;
    }
    HELD.set(HELD.get() + 1);
    0
}

/// # Safety
/// As `gasnet.h` says: `lock` is a lock that this thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_hsl_unlock(lock: *mut Lock) {
    let Some(rest) = HELD.get().checked_sub(1) else {
        refuse(Code::BadArg, "gasnet_hsl_unlock", "this thread holds no handler-safe lock");
        return;
    };
    HELD.set(rest);
    // SAFETY: the caller's.
    report(unsafe { libc::pthread_mutex_unlock(&raw mut (*lock).mutex) }, "gasnet_hsl_unlock");
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_hold_interrupts() {
    if WITHOUT_INTERRUPTS.replace(true) {
        refuse(Code::BadArg, "gasnet_hold_interrupts", "the thread is in such a section already; they do not nest");
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_resume_interrupts() {
    if !WITHOUT_INTERRUPTS.replace(false) {
        refuse(Code::BadArg, "gasnet_resume_interrupts", "the thread is not in such a section");
    }
}
