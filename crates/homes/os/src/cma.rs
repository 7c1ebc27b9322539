// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cross-memory attach: one copy straight between our memory and another process's ordinary memory
//! (`process_vm_readv(2)`, `process_vm_writev(2)`).
//!
//! Invariants:
//! 1. A transfer is complete or an error. Only a bad address says how far it got: the bytes before `done_bytes` were
//!    moved, and none of the rest.
//! 2. A pid can be reused. The caller holds an [`super::process::Identity`]. It checks that after an error, and also
//!    before a transfer if the peer may have ended since the last check.
//! 3. These copies have no order relative to the peer's own accesses. The fences and counters around them decide what a
//!    peer sees, and when.
//!
//! Cost: one system call for each GiB, about 1 us besides the copy; the kernel pins the remote pages meanwhile, and
//! brings in those that were swapped out or never touched.

use std::io;

use thiserror::Error;

/// The most bytes that one system call is asked to move; the kernel's own limit is just below 2 GiB.
const STEP_BYTES_MAX: usize = 1 << 30;

/// Reasons for which a transfer failed, or was incomplete.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum CmaError {
    /// The process has ended (or is a zombie, which has no memory).
    #[error("no such process")]
    NoSuchProcess,
    /// Another user's process, one that is not dumpable, or forbidden by Yama or a system call filter.
    #[error("not permitted to reach the memory of that process")]
    NotPermitted,
    /// Part of the range, on their side or ours, is not mapped for this direction.
    #[error("address not mapped; {done_bytes} bytes were moved before it")]
    BadAddress {
        /// Bytes moved, from the start of the range, before the first that could not be.
        done_bytes: u64,
    },
    /// The kernel does not support it.
    #[error("cross-memory attach is not supported by this kernel")]
    Unsupported,
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// Copies `length` bytes at `remote` in process `pid` to `local`.
///
/// # Safety
/// `local` is valid for writes of `length` bytes. No other code of this process accesses them meanwhile, except through
/// atomics that allow for it. (A `local` that is not mapped gives `BadAddress`, not a fault.)
pub unsafe fn read(pid: u32, remote: u64, local: *mut u8, length: usize) -> Result<(), CmaError> {
    // SAFETY: `local` is writable for `length` bytes by this function's contract, as `transfer` requires for a read.
    unsafe { transfer(libc::process_vm_readv, pid, remote, local, length) }
}

/// Copies `length` bytes at `local` to `remote` in process `pid`.
///
/// # Safety
/// `local` is valid for reads of `length` bytes, and no other code of this process writes them meanwhile. `remote` is
/// memory that its owner has offered for this. A write anywhere else breaks that process.
pub unsafe fn write(pid: u32, remote: u64, local: *const u8, length: usize) -> Result<(), CmaError> {
    // SAFETY: `local` is readable for `length` bytes by this function's contract, and `process_vm_writev` only reads
    // it. The owner of `remote` has offered it.
    unsafe { transfer(libc::process_vm_writev, pid, remote, local.cast_mut(), length) }
}

/// Whether this process may access the memory of process `pid`. The test reads the one byte at `address`.
///
/// `address` must be mapped readable in that process for as long as the process lives. The process publishes such an
/// address in its segment (the address of one of its `static`s will do). A wrong address gives false, and so does a
/// process that has ended. Permission in one direction does not imply the other: each side tests for itself.
pub fn permitted(pid: u32, address: u64) -> bool {
    let mut byte = 0u8;
    // SAFETY: `byte` is one writable byte of this frame.
    unsafe { read(pid, address, &mut byte, 1) }.is_ok()
}

/// Lets every process of this user access this process's memory, if the Yama module allows that to parents only
/// (`kernel.yama.ptrace_scope` = 1, which many distributions set). Each process calls this for itself.
///
/// True if the kernel accepted it. False without Yama, which then restricts nothing. Scopes 2 and 3 accept the call and
/// still refuse access: [`permitted`] shows that. The call also opens the process to debuggers of the same user, so
/// only jobs that use this path make it.
pub fn admit_peers() -> bool {
    // SAFETY: this prctl takes integers only.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) == 0 }
}

/// Repeats `call` until all `length` bytes are moved.
///
/// # Safety
/// `local` is valid for `length` bytes in the direction of `call`.
unsafe fn transfer(call: Call, pid: u32, remote: u64, local: *mut u8, length: usize) -> Result<(), CmaError> {
    let mut done = 0usize;
    let bad = |done: usize| CmaError::BadAddress { done_bytes: done as u64 };
    let Ok(remote) = usize::try_from(remote) else {
        return Err(bad(0));
    };
    if remote.checked_add(length).is_none() {
        return Err(bad(0));
    }
    let pid = libc::pid_t::try_from(pid).map_err(|_| CmaError::NoSuchProcess)?;
    while done < length {
        let step = (length - done).min(STEP_BYTES_MAX);
        let ours = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: step };
        let theirs = libc::iovec { iov_base: (remote + done) as *mut libc::c_void, iov_len: step };
        // SAFETY: both vectors are in this frame and have one element. Ours is within the range that the contract
        // guarantees. Theirs is looked up in the other address space, where a wrong address is an error and not a
        // fault.
        let moved = unsafe { call(pid, &ours, 1, &theirs, 1, 0) };
        match moved {
            1.. => done += moved as usize,
            0 => return Err(bad(done)),
            _ => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ESRCH) => return Err(CmaError::NoSuchProcess),
                Some(libc::EPERM | libc::EACCES) => return Err(CmaError::NotPermitted),
                Some(libc::EFAULT) => return Err(bad(done)),
                Some(libc::ENOSYS) => return Err(CmaError::Unsupported),
                other => {
                    log::debug!("cross-memory attach to {pid}: unexpected error {other:?}");
                    return Err(CmaError::Unsupported);
                }
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Child, in_child, is_root, map, unmap};

    const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    static KNOWN: u8 = 0x5e;

    fn sleeper() -> Child {
        Child::fork(|| {
            loop {
                // SAFETY: pause has no preconditions.
                unsafe { libc::pause() };
            }
        })
    }

    fn available(child: &Child) -> bool {
        let mut byte = 0;
        // SAFETY: one byte of this frame.
        let result = unsafe { read(child.pid(), (&raw const KNOWN) as u64, &mut byte, 1) };
        if matches!(result, Err(CmaError::NotPermitted | CmaError::Unsupported)) {
            eprintln!("skipped: {}", result.unwrap_err());
            return false;
        }
        assert_eq!((result, byte), (Ok(()), KNOWN));
        true
    }

    #[test]
    fn moves_bytes_both_ways() {
        const BYTES: usize = 5 << 20;
        let memory = map(BYTES, RW, PRIVATE);
        // SAFETY: the mapping belongs to this test and nothing else uses it.
        let ours = unsafe { core::slice::from_raw_parts_mut(memory, BYTES) };
        ours.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
        let child = sleeper();
        if !available(&child) {
            return;
        }
        let remote = memory as u64;
        let reversed: Vec<u8> = ours.iter().rev().copied().collect();
        let mut back = vec![0u8; BYTES];
        // SAFETY: both vectors are BYTES long; the child does not use its copy of the mapping.
        unsafe {
            write(child.pid(), remote + 3, reversed.as_ptr(), BYTES - 3).unwrap();
            read(child.pid(), remote, back.as_mut_ptr(), BYTES).unwrap();
        }
        assert_eq!(back[..3], [0, 1, 2]);
        assert!(back[3..] == reversed[..BYTES - 3]);
        assert!(ours.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "our copy is unchanged");
        unmap(memory, BYTES);
    }

    #[test]
    fn says_how_far_it_got() {
        in_child(partial);
    }

    fn partial() {
        let page = rustix::param::page_size();
        let memory = map(4 * page, RW, PRIVATE);
        let local = vec![0xabu8; 4 * page];
        unmap(memory.wrapping_add(3 * page), page);
        let child = sleeper();
        if !available(&child) {
            return;
        }
        let (remote, start) = (memory as u64, 100);
        let mut sink = vec![0u8; 4 * page];
        let expected = Err(CmaError::BadAddress { done_bytes: (3 * page - start) as u64 });
        // SAFETY: the vectors are as long as the lengths given; the child does not use its copy of the mapping.
        unsafe {
            assert_eq!(write(child.pid(), remote + start as u64, local.as_ptr(), 3 * page), expected);
            assert_eq!(read(child.pid(), remote + start as u64, sink.as_mut_ptr(), 3 * page), expected);
            assert_eq!(
                read(child.pid(), remote + 3 * page as u64, sink.as_mut_ptr(), 8),
                Err(CmaError::BadAddress { done_bytes: 0 })
            );
            assert_eq!(
                read(child.pid(), u64::MAX - 2, sink.as_mut_ptr(), 8),
                Err(CmaError::BadAddress { done_bytes: 0 })
            );
            // An empty transfer needs no mapped memory.
            assert_eq!(read(child.pid(), 0, sink.as_mut_ptr(), 0), Ok(()));
        }
        assert!(sink[..3 * page - start].iter().all(|byte| *byte == 0xab));
        assert!(sink[3 * page - start..].iter().all(|byte| *byte == 0));
        unmap(memory, 3 * page);
    }

    #[test]
    fn read_only_pages_are_not_written() {
        let page = rustix::param::page_size();
        let memory = map(page, libc::PROT_READ, PRIVATE);
        let child = sleeper();
        if !available(&child) {
            return;
        }
        let byte = 1u8;
        // SAFETY: one byte of this frame; the page belongs to this test alone.
        let result = unsafe { write(child.pid(), memory as u64, &byte, 1) };
        assert_eq!(result, Err(CmaError::BadAddress { done_bytes: 0 }));
        assert!(permitted(child.pid(), memory as u64));
        unmap(memory, page);
    }

    #[test]
    fn the_dead_and_the_forbidden_are_told_apart() {
        let address = (&raw const KNOWN) as u64;
        let child = sleeper();
        if !available(&child) {
            return;
        }
        assert!(permitted(child.pid(), address));
        assert!(!permitted(child.pid(), 8), "nothing is mapped there");
        child.kill();
        crate::testing::until(|| crate::testing::state_of(child.pid()) == Some('Z'));
        let mut byte = 0u8;
        // SAFETY: one byte of this frame.
        let mut reach = |pid| unsafe { read(pid, address, &mut byte, 1) };
        assert_eq!(reach(child.pid()), Err(CmaError::NoSuchProcess), "a zombie has no memory");
        assert_eq!(reach(0), Err(CmaError::NoSuchProcess));
        assert_eq!(reach(u32::MAX), Err(CmaError::NoSuchProcess));
        if !is_root() {
            assert_eq!(reach(1), Err(CmaError::NotPermitted));
            return;
        }
        // As root: a child with another user id may not access our memory.
        let parent = std::process::id();
        let stranger = Child::fork(|| {
            let mut byte = 0u8;
            // SAFETY: setresgid and setresuid take integers; the raw calls change this child only.
            let result = unsafe {
                libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534);
                libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534);
                read(parent, address, &mut byte, 1)
            };
            i32::from(result == Err(CmaError::NotPermitted))
        });
        assert_eq!(stranger.exit_code(), Some(1));
    }
}
