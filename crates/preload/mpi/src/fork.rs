// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives a forked child private copies of the memory that its parent shares.
//!
//! The parent waits while the child copies, because its stores would show in memory not yet copied. Children of `vfork`
//! and `posix_spawn` use the parent's memory anyway, until they exec.
//!
//! The parent reads from a pipe whose other end only the child holds. It is closed when the child has made its copy,
//! when the child dies, and when the fork failed. So the parent never waits forever.

use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::sync::Once;

use rustix::pipe::PipeFlags;

use crate::data;
use crate::pool::POOL;

/// The pipe of the fork that is in progress: read by the parent, closed by the child.
struct Pipe(UnsafeCell<Option<(OwnedFd, OwnedFd)>>);

// SAFETY: the pipe is accessed only between `before` and the end of `in_parent` or `in_child`, while the pool's lock is held.
unsafe impl Sync for Pipe {}

static PIPE: Pipe = Pipe(UnsafeCell::new(None));

/// Registers the fork handlers, once a child may have memory to copy.
pub fn install() {
    static INSTALLED: Once = Once::new();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    INSTALLED.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
}

unsafe extern "C" fn before() {
    if POOL.begin_hold() || data::shared().is_some() {
        // SAFETY: `begin_hold` has taken the pool's lock, and keeps it.
        unsafe { *PIPE.0.get() = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok() };
    }
}

unsafe extern "C" fn in_parent() {
    // SAFETY: this thread holds the pool's lock since `before`.
    if let Some((read, write)) = unsafe { (*PIPE.0.get()).take() } {
        drop(write);
        let mut byte = [0];
        while rustix::io::read(&read, &mut byte) == Err(rustix::io::Errno::INTR) {}
    }
    POOL.end_hold();
}

unsafe extern "C" fn in_child() {
    let copied = POOL.make_private() && data::make_private();
    // SAFETY: this thread, the only one of the child, holds the pool's lock since `before`.
    drop(unsafe { (*PIPE.0.get()).take() });
    POOL.end_hold();
    if !copied {
        let words = b"selvedge: out of memory: a forked child cannot copy the parent's shared memory; set SELVEDGE_SHARED_MALLOC=0\n";
        // SAFETY: `write` reads `words.len()` bytes of a constant; `_exit` takes a number and does not return.
        unsafe {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
            libc::_exit(127);
        }
    }
}
