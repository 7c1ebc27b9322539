// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls and copies past the C library's functions. `libselvedge_mpi_preload.so` replaces some of these, and other
//! libraries change their code (Open MPI's and UCX's memory hooks). Such a replacement may call `free`, and wait for a
//! lock that the caller holds. The replacements of sanitizers take a copy of whole pages for an access to the redzones in
//! them, and a new mapping for new memory.

use std::ffi::{c_int, c_long};

/// A system call by its number. Returns the kernel's result: from -4095 to -1 it is an error number.
///
/// # Safety
/// The requirements of that system call.
pub unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel's calling convention on x86-64: it changes rax, rcx and r11, and memory as the call says.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: the kernel's calling convention on AArch64: it changes x0, and memory as the call says.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    // SAFETY: the same system call, by the C library.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe {
        result = match libc::syscall(number, a, b, c, d, e, f) {
            -1 => -(*libc::__errno_location() as isize),
            found => found as isize,
        };
    }
    result
}

/// Converts a result of [`call`] to that of a C function: sets `errno` and returns -1 after an error.
pub fn checked(result: isize) -> c_long {
    if (-4095..0).contains(&result) {
        // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_long
}

/// `madvise`. Returns the kernel's result.
///
/// # Safety
/// The range consists of whole pages. If `advice` drops contents, they are no longer used.
pub unsafe fn madvise(start: u64, bytes: u64, advice: c_int) -> isize {
    // SAFETY: this function has the requirements of the system call.
    unsafe { call(libc::SYS_madvise, [start as usize, bytes as usize, advice as usize, 0, 0, 0]) }
}

/// `mmap`. Returns the kernel's result: the address, or an error number.
///
/// # Safety
/// The requirements of the system call.
pub unsafe fn mmap(at: usize, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: u64) -> isize {
    let arguments = [at, bytes, protection as usize, flags as usize, file as usize, offset as usize];
    // SAFETY: this function has the requirements of the system call.
    unsafe { call(libc::SYS_mmap, arguments) }
}

/// Copies bytes, where `memcpy` would report redzones.
///
/// # Safety
/// `from` is readable and `to` is writable for `bytes` bytes, and they do not overlap.
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the instruction copies `rcx` bytes from `rsi` to `rdi`, by this function's contract; the direction flag is
    // clear, as the ABI requires.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: each byte lies in the ranges of this function's contract. Volatile accesses stay single ones.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe {
        for at in 0..bytes {
            to.add(at).write_volatile(from.add(at).read_volatile());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_the_kernels() {
        // SAFETY: neither call touches memory.
        unsafe {
            assert_eq!(call(libc::SYS_getpid, [0; 6]), std::process::id() as isize);
            let refused = call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]);
            assert_eq!(
                (refused, checked(refused), *libc::__errno_location()),
                (-libc::EBADF as isize, -1, libc::EBADF)
            );
        }
        assert_eq!(checked(5), 5);
    }

    #[test]
    fn all_bytes_are_copied_and_no_others() {
        let from: Vec<u8> = (0..100).collect();
        let mut to = [0; 100];
        // SAFETY: both ranges are arrays of 100 bytes.
        unsafe { copy(from[3..].as_ptr(), to[1..].as_mut_ptr(), 90) };
        assert!(to[1..91] == from[3..93] && to[0] == 0 && to[91..].iter().all(|byte| *byte == 0));
    }
}
