// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages for large tables that are accessed at random: a 2 MiB page needs one entry of the TLB, where 512 small
//! pages need one each.

/// Bytes from which advice is worth its system call: two huge pages.
const BYTES_MIN: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;

/// Asks the kernel for huge pages for a vector's memory, used or not. No effect on a small one, or where the kernel has
/// none. Call it before the memory is first touched.
pub fn prefer_huge_pages<T>(records: &Vec<T>) {
    let bytes = records.capacity() * size_of::<T>();
    if bytes < BYTES_MIN {
        return;
    }
    // With the pages at both ends: advice for a part of the allocator's mapping splits it, and then it cannot be moved as
    // a whole. A vector that grows would be copied.
    let start = records.as_ptr() as usize & !(PAGE_BYTES - 1);
    let end = (records.as_ptr() as usize + bytes).next_multiple_of(PAGE_BYTES);
    // SAFETY: the advice changes no contents, so memory of others in the first and the last page keeps its own. Bytes of
    // the vector are in all pages of the range, so they are mapped.
    let _ = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
}
