// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that is in files although the program does not know it: large blocks of `malloc` and static
//! data, if `libselvedge_mpi_preload.so` was loaded before the C library.

/// The largest number of such ranges in a process.
pub const RANGES_MAX: usize = 2;

/// A sealed memory file that is mapped as a whole. The library's `selvedge_shared_memory` writes this record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRange {
    /// Where the file is mapped in this process, and its size. 0: there is no such range.
    pub base: u64,
    pub bytes: u64,
    pub descriptor: i32,
}

/// The ranges that the library reports. Without the library there are none.
pub fn ranges() -> [SharedRange; RANGES_MAX] {
    let mut ranges = [SharedRange::default(); RANGES_MAX];
    // SAFETY: the name is a static string that ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"selvedge_shared_memory".as_ptr()) };
    if !found.is_null() {
        // SAFETY: the function of this name has this type (crates/mpi-preload), and writes at most as many records as
        // the call allows.
        unsafe {
            let ask: unsafe extern "C" fn(*mut SharedRange, usize) = std::mem::transmute(found);
            ask(ranges.as_mut_ptr(), RANGES_MAX);
        }
    }
    ranges
}
