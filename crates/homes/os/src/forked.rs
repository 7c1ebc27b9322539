// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors that a forked child must not hold: while it has a copy of a connection, the peer does not see that the
//! parent has died.
//!
//! In the child `/dev/null` replaces each of them before `fork` returns. So inherited values keep a valid descriptor,
//! and their drop does not close a descriptor that was opened later. Descriptors of libfabric are not known here and
//! stay.
//!
//! The handler only makes system calls and reads a table that needs no lock. The table has descriptors below
//! [`DESCRIPTORS`].

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const DESCRIPTORS: usize = 1 << 16;
/// One bit for each descriptor that only this process may hold.
static OWN: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

/// A value with a descriptor that no child inherits.
#[derive(Debug)]
pub struct ParentOnly<T: AsRawFd>(T);

impl<T: AsRawFd> ParentOnly<T> {
    /// Takes a value whose descriptor stays the same.
    pub fn new(value: T) -> ParentOnly<T> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler is a function of this library, and is forgotten with it.
            let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            if result != 0 {
                log::warn!("forked children keep the connections of this process");
            }
        });
        if let Some((word, bit)) = place_of(value.as_raw_fd()) {
            word.fetch_or(bit, SeqCst);
        }
        ParentOnly(value)
    }
}

impl<T: AsRawFd> Drop for ParentOnly<T> {
    fn drop(&mut self) {
        if let Some((word, bit)) = place_of(self.0.as_raw_fd()) {
            word.fetch_and(!bit, SeqCst);
        }
    }
}

impl<T: AsRawFd> Deref for ParentOnly<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsRawFd> DerefMut for ParentOnly<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

fn place_of(descriptor: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((OWN.get(number / 64)?, 1 << (number % 64)))
}

extern "C" fn in_child() {
    // SAFETY: these calls may be made between fork and the child's own code. The descriptors are valid: each belongs to
    // a `ParentOnly`, and the child has a copy of it.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null < 0 {
            return;
        }
        for (index, word) in OWN.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != 0 {
                let number = index * 64 + bits.trailing_zeros() as usize;
                libc::dup3(null, number as RawFd, libc::O_CLOEXEC);
                bits &= bits - 1;
            }
        }
        libc::close(null);
    }
}
