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
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

use rustix::mm::{MapFlags, ProtFlags};

use crate::raw;

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

static MOVED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// A word that parent and child share: 1 once the child has its copy.
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// Gives each later child of `fork` a private copy of these pages. The parent continues when the child has copied them.
///
/// Children of `vfork` and `posix_spawn` share the parent's memory anyway, until they exec.
pub fn keep_private_in_children(pages: Range<u64>) -> Result<(), std::io::Error> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: the kernel picks the address, so the new mapping replaces nothing.
    let word = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), rustix::param::page_size(), protection, flags)? };
    COPIED.store(word as usize, SeqCst);
    MOVED[0].store(pages.start as usize, SeqCst);
    MOVED[1].store((pages.end - pages.start) as usize, SeqCst);
    // SAFETY: the handlers are functions of this object, which stays loaded.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

fn copied() -> Option<&'static AtomicU32> {
    // SAFETY: the pointer is null, or that of the page of `keep_private_in_children`, which is never unmapped.
    unsafe { (COPIED.load(SeqCst) as *const AtomicU32).as_ref() }
}

unsafe extern "C" fn before_fork() {
    if let Some(word) = copied() {
        word.store(0, SeqCst);
    }
}

unsafe extern "C" fn after_fork() {
    let Some(word) = copied() else { return };
    // After a failed fork there is no child that would reply.
    for _ in 0..2_000 {
        if word.load(SeqCst) != 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

/// Replaces shared pages by a private copy. Only `parts` (offsets) hold anything but zeroes. False: there is no memory
/// for the copy, and the pages have not changed.
///
/// It makes only system calls and a copy, so it may run between fork and the child's own code.
///
/// # Safety
/// The pages are whole, mapped and readable, and the caller may replace them. No other thread of this process writes to
/// them meanwhile.
pub unsafe fn make_private(start: *mut u8, bytes: usize, parts: impl Iterator<Item = Range<usize>>) -> bool {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the pages are mapped, readable and may be replaced, by this function's contract, and no thread writes to
    // them meanwhile. The copy has the same length, and no other code uses it. The kernel puts it in their place in one
    // step.
    unsafe {
        let copy = raw::mmap(0, bytes, protection, flags, -1, 0);
        if (-4095..0).contains(&copy) {
            return false;
        }
        for part in parts {
            raw::copy(start.add(part.start), (copy as *mut u8).add(part.start), part.len());
        }
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        raw::call(libc::SYS_mremap, [copy as usize, bytes, bytes, how, start as usize, 0]) == start as isize
    }
}

unsafe extern "C" fn in_child() {
    let (start, bytes) = (MOVED[0].load(SeqCst), MOVED[1].load(SeqCst));
    let Some(word) = copied() else { return };
    // SAFETY: the pages are the ones that were moved: mapped and readable, and this library may replace them. In the
    // child of a fork only this thread exists, so no other thread writes to them meanwhile.
    let done = unsafe { make_private(start as *mut u8, bytes, std::iter::once(0..bytes)) };
    word.store(1, SeqCst);
    if !done {
        let words = b"selvedge: a forked child has no memory for its own copy of the static data\n";
        // SAFETY: the pointer and length are those of a constant; `_exit` has no preconditions.
        unsafe {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
            libc::_exit(127);
        }
    }
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
