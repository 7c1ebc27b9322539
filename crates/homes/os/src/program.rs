// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the static data of this process's program, and moves them into a shared file at the same addresses.
//!
//! Invariants
//! 1. Only whole pages of the program's own writable segment are moved, after the part that the loader made read-only
//!    (RELRO). No page of a library is moved.
//! 2. They keep their addresses and contents. The kernel exchanges the mapping in one step. Stores of another thread
//!    between the copy and that step would be lost, so the caller makes sure that there is no other thread.
//! 3. A forked child gets a private copy, as without the move ([`keep_private_in_children`]).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;

use crate::children::{Handover, SharedMapping};

/// The program's static data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticData {
    /// The address range of the variables.
    pub bytes: Range<u64>,
    /// The whole pages that hold the variables.
    pub pages: Range<u64>,
    /// The libraries that the program itself lists (`DT_NEEDED`).
    pub libraries: Vec<String>,
}

/// Looks up the program's writable segment. None if it has none.
pub fn static_data() -> Option<StaticData> {
    let mut found: Option<StaticData> = None;
    // SAFETY: `look` is called before this returns, with `found` as its argument.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.filter(|data| !data.bytes.is_empty())
}

/// Looks at the first object, which is the program, and stops.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description of an object that it has mapped.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let page = rustix::param::page_size() as u64;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr;
        start..start + header.p_memsz
    };
    let first = |kind: u32| headers.iter().find(|header| header.p_type == kind);
    let writable = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0;
    if let Some(segment) = headers.iter().rfind(writable).map(range) {
        let read_only = first(libc::PT_GNU_RELRO).map_or(0, |header| range(header).end);
        let start = if segment.contains(&read_only) { read_only } else { segment.start };
        let pages = start.next_multiple_of(page)..segment.end.next_multiple_of(page);
        // If RELRO does not end at a page, its last part is not protected, and shares that page with the variables.
        let pages = start / page * page..pages.end;
        // SAFETY: the dynamic section of the program, if it has one.
        let libraries = first(libc::PT_DYNAMIC).map(|header| unsafe { needed(base, range(header)) });
        let data = StaticData { bytes: start..segment.end, pages, libraries: libraries.unwrap_or_default() };
        // SAFETY: the caller of dl_iterate_phdr passed a pointer to this type.
        unsafe { *found.cast::<Option<StaticData>>() = Some(data) };
    }
    1
}

/// Returns the names of `DT_NEEDED`.
///
/// # Safety
/// `section` is the dynamic section of an object that is loaded at `base`.
unsafe fn needed(base: u64, section: Range<u64>) -> Vec<String> {
    const DT_NULL: u64 = 0;
    const DT_NEEDED: u64 = 1;
    const DT_STRTAB: u64 = 5;
    let count = ((section.end - section.start) / 16) as usize;
    // SAFETY: the section is the dynamic section of a loaded object, by this function's contract. It has whole pairs of
    // tag and value, which stay mapped while the object is loaded, and which the loader no longer writes.
    let entries = unsafe { std::slice::from_raw_parts(section.start as *const [u64; 2], count) };
    let entries = || entries.iter().take_while(|[tag, _]| *tag != DT_NULL);
    let Some([_, names]) = entries().find(|[tag, _]| *tag == DT_STRTAB) else { return Vec::new() };
    // On most machines the C library has replaced the offset by an address.
    let names = if *names < base { base + names } else { *names };
    let name = |[_, offset]: &[u64; 2]| {
        // SAFETY: the value of DT_NEEDED is an offset into the string table (System V ABI), whose strings end in NUL.
        // The table is mapped with the object.
        unsafe { CStr::from_ptr((names + offset) as *const c_char) }.to_string_lossy().into_owned()
    };
    entries().filter(|[tag, _]| *tag == DT_NEEDED).map(name).collect()
}

/// Returns the number of threads of this process.
pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, |tasks| tasks.count())
}

// ---- Forked children ---------------------------------------------------------------------------------------------

/// The static data that were moved, and the descriptor of their file.
static MOVED: OnceLock<(SharedMapping, RawFd)> = OnceLock::new();
static HANDOVER: Handover = Handover::new();

/// Gives each later child of `fork` a private copy of these pages, which will be a shared mapping of a file.
pub fn keep_private_in_children(pages: SharedMapping, file: BorrowedFd<'_>) -> Result<(), std::io::Error> {
    if MOVED.set((pages, file.as_raw_fd())).is_err() {
        return Err(std::io::ErrorKind::AlreadyExists.into());
    }
    // SAFETY: the handlers are functions of this object, which stays loaded.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

unsafe extern "C" fn before_fork() {
    // SAFETY: this and the two functions below are the handlers of a fork.
    unsafe { HANDOVER.before(true) };
}

unsafe extern "C" fn after_fork() {
    // SAFETY: as in `before_fork`.
    unsafe { HANDOVER.in_parent() };
}

unsafe extern "C" fn in_child() {
    let copy = || {
        MOVED.get().is_none_or(|(pages, file)| {
            let all = pages.start..pages.start + pages.bytes;
            // SAFETY: in the child of a fork only this thread exists. The pages are static data, which this library may
            // replace by a copy. A descriptor that is no longer the file's is found out.
            unsafe { pages.make_private(BorrowedFd::borrow_raw(*file), std::iter::once(all)) }
        })
    };
    // SAFETY: as in `before_fork`.
    unsafe { HANDOVER.in_child(copy) };
}

#[cfg(test)]
mod tests {
    use super::*;

    static mut VARIABLE: u64 = 7;

    #[test]
    fn the_programs_own_variables_are_found() {
        let data = static_data().expect("a test program has static data");
        let address = &raw const VARIABLE as u64;
        assert!(data.bytes.contains(&address), "{data:?} {address:#x}");
        assert!(data.pages.start <= data.bytes.start && data.pages.end >= data.bytes.end);
        assert!(data.libraries.iter().any(|name| name.starts_with("libc.so")), "{data:?}");
    }
}
