// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that lies in files, though its program does not know: large blocks of `malloc` and static data, if
//! `libselvedge_mpi_preload.so` was put before the C library.

/// How many such ranges a process may have.
pub const RANGES_MAX: usize = 2;

/// A sealed file in memory that is mapped as a whole: what that library's `selvedge_shared_memory` writes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRange {
    /// Where it is mapped in this process, and its bytes; 0: there is no such range.
    pub base: u64,
    pub bytes: u64,
    pub descriptor: i32,
}

/// Asks that library; without it, there are none.
pub fn ranges() -> [SharedRange; RANGES_MAX] {
    let mut ranges = [SharedRange::default(); RANGES_MAX];
    // SAFETY: a string that lives for ever.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"selvedge_shared_memory".as_ptr()) };
    if !found.is_null() {
        // SAFETY: the function of this name has this type (crates/mpi-preload), and writes no more than it is told.
        unsafe {
            let ask: unsafe extern "C" fn(*mut SharedRange, usize) = std::mem::transmute(found);
            ask(ranges.as_mut_ptr(), RANGES_MAX);
        }
    }
    ranges
}
