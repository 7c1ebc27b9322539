// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A forked child has its memory for itself, though the parent's is shared.
//!
//! The child copies what is shared before it goes on, and the parent waits for it: else it might write what the child is still
//! copying. Children of `vfork` and `posix_spawn` have the parent's memory in any case, until they exec.
//!
//! The parent reads from a pipe that the child alone still has the other end of: it is closed when the child has its copy, when it
//! dies, and when there is no child because the fork failed. So nobody waits for ever.

use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::sync::Once;

use rustix::pipe::PipeFlags;

use crate::data;
use crate::malloc::POOL;

/// The pipe of the fork that is under way: read by the parent, closed by the child.
struct Pipe(UnsafeCell<Option<(OwnedFd, OwnedFd)>>);

// SAFETY: touched between `before` and `after`, in which the pool's lock is held.
unsafe impl Sync for Pipe {}

static PIPE: Pipe = Pipe(UnsafeCell::new(None));

/// To be called once there may be something that a child would have to copy.
pub fn install() {
    static INSTALLED: Once = Once::new();
    // SAFETY: functions of this object, which stays loaded.
    INSTALLED.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

unsafe extern "C" fn before() {
    if POOL.begin_hold() || data::shared().is_some() {
        // SAFETY: the lock is held.
        unsafe { *PIPE.0.get() = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok() };
    }
}

unsafe extern "C" fn in_parent() {
    // SAFETY: the lock is held since `before`.
    if let Some((read, write)) = unsafe { (*PIPE.0.get()).take() } {
        drop(write);
        let mut byte = [0];
        while rustix::io::read(&read, &mut byte) == Err(rustix::io::Errno::INTR) {}
    }
    POOL.end_hold();
}

unsafe extern "C" fn in_child() {
    let copied = POOL.make_private() && data::make_private();
    // SAFETY: the lock is held since `before`, by this thread, the only one here.
    drop(unsafe { (*PIPE.0.get()).take() });
    POOL.end_hold();
    if !copied {
        let words = b"selvedge: a forked child has no memory for its own copy of the parent's shared memory\n";
        // SAFETY: writes that many bytes of a constant; `_exit` has no preconditions.
        unsafe {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
            libc::_exit(127);
        }
    }
}
