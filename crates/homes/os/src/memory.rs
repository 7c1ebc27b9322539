// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a range of this process's address space can be touched. A C caller's wrong pointer then gives an error
//! value, not a crash.
//!
//! Invariants:
//! 1. True means that every page was mapped, with the needed permission, and backed, at the time of the call. The
//!    program may still unmap it afterwards. That is a bug of the program, as with any function that takes a pointer.
//! 2. A check changes no byte. It may fault pages in, as the access itself would. So check only the range that is about
//!    to be touched.
//! 3. Zero bytes are always valid; a range that wraps around never is. Device registers (mappings without pages) are
//!    refused.
//!
//! Costs: one system call and a walk of the page tables (some 0.3 us, and 40 ns a page) with Linux 5.14 or newer. Older
//! kernels: a byte of each page is copied by `process_vm_readv`, and `/proc/self/maps` is read for writing. [`Checked`]
//! answers repeated questions in a few loads.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::io::{BufRead, BufReader};

/// Whether all of `[address, address + length)` can be read.
pub fn readable(address: u64, length: u64) -> bool {
    usable(Method::best(), Access::Read, address, length)
}

/// Whether all of `[address, address + length)` can be written.
pub fn writable(address: u64, length: u64) -> bool {
    usable(Method::best(), Access::Write, address, length)
}

/// Whether all of `[address, address + length)` is mapped, with whatever rights. It looks at no page, so it costs one
/// system call (some 0.3 us) for any length.
pub fn mapped(address: u64, length: u64) -> bool {
    let Some((start, end)) = pages(address, length) else { return length == 0 };
    // SAFETY: MS_ASYNC writes nothing (msync(2)), and the range need not be ours. It fails if part of it is not mapped.
    length == 0 || unsafe { libc::msync(start as *mut libc::c_void, (end - start) as usize, libc::MS_ASYNC) == 0 }
}

/// Maps zeros where part of `[address, address + length)` is not mapped, for good: then an access to it raises no signal.
/// False if the kernel refuses it.
pub fn fill_holes(address: u64, length: u64) -> bool {
    pages(address, length).map_or(length == 0, |(start, end)| fill(start, end, rustix::param::page_size() as u64))
}

fn fill(start: u64, end: u64, page: u64) -> bool {
    let (rights, hint) = (libc::PROT_READ | libc::PROT_WRITE, start as *mut libc::c_void);
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the mapping replaces no other.
    let made = unsafe { libc::mmap(hint, (end - start) as usize, rights, how, -1, 0) };
    if made == hint {
        return true;
    }
    if made != libc::MAP_FAILED {
        // SAFETY: a kernel before Linux 4.17 has mapped this elsewhere just now.
        unsafe { libc::munmap(made, (end - start) as usize) };
    } else if std::io::Error::last_os_error().raw_os_error() != Some(libc::EEXIST) {
        return false;
    }
    // Part of it is mapped.
    let middle = start + (end - start) / 2 / page * page;
    middle == start || fill(start, middle, page) && fill(middle, end, page)
}

/// Returns start and end of the pages of a range; None if it is empty, or not within the program's half of the addresses.
fn pages(address: u64, length: u64) -> Option<(u64, u64)> {
    let page = rustix::param::page_size() as u64;
    let end = address.checked_add(length)?.checked_next_multiple_of(page)?;
    (length != 0 && end <= isize::MAX as u64).then_some((address & !(page - 1), end))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
enum Method {
    /// `MADV_POPULATE_READ` and `_WRITE`: Linux 5.14.
    Populate = 1,
    /// `process_vm_readv` on this process for reads, the list of mappings for writes.
    Probe = 2,
    /// The list of mappings alone. It misses that a mapped file is shorter than its mapping.
    List = 3,
}

impl Method {
    /// Returns the best method that this kernel has; determined once.
    fn best() -> Method {
        static BEST: AtomicU8 = AtomicU8::new(0);
        match BEST.load(Ordering::Relaxed) {
            1 => Method::Populate,
            2 => Method::Probe,
            3 => Method::List,
            _ => {
                let known = (&raw const BEST) as u64;
                let works = |method| usable(method, Access::Read, known, 1);
                let best = [Method::Populate, Method::Probe].into_iter().find(|method| works(*method));
                let best = best.unwrap_or(Method::List);
                log::debug!("memory is checked by {best:?}");
                BEST.store(best as u8, Ordering::Relaxed);
                best
            }
        }
    }
}

/// Above this many bytes the list of mappings is checked before pages are faulted in. Otherwise a wrong length would
/// fault in gigabytes before it reaches the first hole.
const LIST_FIRST_BYTES: u64 = 64 << 20;

fn usable(method: Method, access: Access, address: u64, length: u64) -> bool {
    if length == 0 {
        return true;
    }
    // The last byte may be the last of the address space, so the page's end may overflow. The kernel's half is never
    // ours.
    let Some((start, end)) = pages(address, length) else { return false };
    match method {
        Method::Populate => {
            (end - start <= LIST_FIRST_BYTES || listed(access, start, end)) && populated(access, start, end)
        }
        Method::Probe => {
            let page = rustix::param::page_size() as u64;
            (access == Access::Read || listed(access, start, end)) && probed(start, end, page)
        }
        Method::List => listed(access, start, end),
    }
}

/// Makes the kernel fault the pages in. It fails where the access would raise a signal.
fn populated(access: Access, start: u64, end: u64) -> bool {
    // From the kernel's interface, <asm-generic/mman-common.h>.
    const POPULATE_READ: libc::c_int = 22;
    const POPULATE_WRITE: libc::c_int = 23;
    let advice = if access == Access::Read { POPULATE_READ } else { POPULATE_WRITE };
    loop {
        // SAFETY: these two advices change no contents, and the range need not be ours. If it is not mapped, or not for
        // this access, the call fails.
        let status = unsafe { libc::madvise(start as *mut libc::c_void, (end - start) as usize, advice) };
        if status == 0 {
            return true;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => {}
            _ => return false,
        }
    }
}

/// Copies one byte of each page, through a system call that fails where a load would fault.
fn probed(start: u64, end: u64, page: u64) -> bool {
    const BATCH: usize = 64;
    let mut sink = [0u8; BATCH];
    let own = std::process::id() as libc::pid_t;
    let mut at = start;
    while at < end {
        let count = ((end - at) / page).min(BATCH as u64) as usize;
        let ours = libc::iovec { iov_base: sink.as_mut_ptr().cast(), iov_len: count };
        let mut theirs = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; BATCH];
        for (index, one) in theirs[..count].iter_mut().enumerate() {
            *one = libc::iovec { iov_base: (at + index as u64 * page) as *mut libc::c_void, iov_len: 1 };
        }
        // SAFETY: writes at most `count` bytes, all within `sink`; the source addresses are checked by the kernel.
        let copied = unsafe { libc::process_vm_readv(own, &ours, 1, theirs.as_ptr(), count as libc::c_ulong, 0) };
        if copied != count as libc::ssize_t {
            return false;
        }
        at += count as u64 * page;
    }
    true
}

/// Whether `/proc/self/maps` lists all of `[start, end)` with this right. False if it cannot be read.
fn listed(access: Access, start: u64, end: u64) -> bool {
    let Ok(file) = std::fs::File::open("/proc/self/maps") else {
        return false;
    };
    let mut covered = start;
    for line in BufReader::new(file).split(b'\n') {
        let Some((low, high, rights)) = line.ok().as_deref().and_then(mapping_of) else {
            return false;
        };
        if high <= covered {
            continue;
        }
        let right = if access == Access::Read { rights[0] == b'r' } else { rights[1] == b'w' };
        if low > covered || !right {
            return false;
        }
        covered = high;
        if covered >= end {
            return true;
        }
    }
    false
}

/// Parses a line such as `7f00-7fff rw-p ...` into first address, end and rights.
fn mapping_of(line: &[u8]) -> Option<(u64, u64, [u8; 2])> {
    let mut words = line.split(|byte| *byte == b' ');
    let (low, high) = core::str::from_utf8(words.next()?).ok()?.split_once('-')?;
    let rights = words.next()?.first_chunk()?;
    Some((u64::from_str_radix(low, 16).ok()?, u64::from_str_radix(high, 16).ok()?, *rights))
}

/// log2 of the unit of the cache: the smallest page.
const UNIT_SHIFT: u32 = 12;
/// Units of a granule, one bit of an entry's mask each.
const GRANULE_UNITS: u64 = 32;
/// Granules that each table can hold: 1 GiB of memory.
const ENTRIES: usize = 8192;
/// Higher addresses are never cached (tags have 32 bits). Linux returns them only to programs that request them.
const ADDRESS_END: u64 = 1 << (32 + 5 + UNIT_SHIFT);
/// Longer ranges are not looked up: the check costs little beside the work on such a range.
const LOOKUP_BYTES_MAX: u64 = 32 << 20;

/// Caches the pages that were found usable, in front of [`readable`] and [`writable`].
///
/// Each of the two has a direct-mapped table. An entry covers a granule of 128 KiB and is one atomic word: the
/// granule's number in the upper half, and a bit for each 4 KiB in the lower. So it is never torn, and no lock is
/// needed; 0 is empty. Only usable pages are recorded. The tables have 128 KiB in all, of which only used parts are
/// ever touched. The type is meant for a `static`.
///
/// Pages stay recorded until [`forget`](Self::forget). A range that the program has unmapped since then still counts as
/// usable. The owner calls `forget` after each unmapping that it learns of (its own arenas and segments among them).
pub struct Checked {
    readable: Table,
    writable: Table,
    /// Number of calls of `forget`.
    generation: AtomicU32,
}

impl Checked {
    /// Makes an empty cache.
    pub const fn new() -> Checked {
        Checked { readable: Table::new(), writable: Table::new(), generation: AtomicU32::new(0) }
    }

    /// As [`readable`], in one load if the range is recorded and within 128 KiB.
    #[inline]
    pub fn readable(&self, address: u64, length: u64) -> bool {
        self.readable.knows(address, length) || self.ask(&self.readable, Access::Read, address, length)
    }

    /// As [`writable`], in one load if the range is recorded and within 128 KiB.
    #[inline]
    pub fn writable(&self, address: u64, length: u64) -> bool {
        self.writable.knows(address, length) || self.ask(&self.writable, Access::Write, address, length)
    }

    /// Forgets everything. A check that runs at this moment may still return the earlier answer.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        for entry in self.readable.entries.iter().chain(&self.writable.entries) {
            entry.store(0, Ordering::SeqCst);
        }
    }

    #[cold]
    fn ask(&self, table: &Table, access: Access, address: u64, length: u64) -> bool {
        // Pairs with the increment in `forget`: a check that began before it and records its result after it undoes the
        // record.
        let generation = self.generation.load(Ordering::SeqCst);
        if !usable(Method::best(), access, address, length) {
            return false;
        }
        let Some(units) = units(address, length) else {
            return true;
        };
        for (granule, mask) in units.granules() {
            table.remember(granule, mask);
            if self.generation.load(Ordering::SeqCst) != generation {
                table.entry(granule).store(0, Ordering::SeqCst);
                break;
            }
        }
        true
    }
}

impl Default for Checked {
    fn default() -> Checked {
        Checked::new()
    }
}

struct Table {
    entries: [AtomicU64; ENTRIES],
}

impl Table {
    const fn new() -> Table {
        Table { entries: [const { AtomicU64::new(0) }; ENTRIES] }
    }

    /// Takes one load if the range is within a unit, as most ranges are. An empty range, or one that is too long or too
    /// high, is not within a recorded unit.
    #[inline(always)]
    fn knows(&self, address: u64, length: u64) -> bool {
        let first = address >> UNIT_SHIFT;
        let left = (1 << UNIT_SHIFT) - address % (1 << UNIT_SHIFT);
        if length.wrapping_sub(1) < left {
            return self.holds(first / GRANULE_UNITS, 1 << (first % GRANULE_UNITS));
        }
        units(address, length).is_some_and(|units| self.knows_all(units))
    }

    #[cold]
    fn knows_all(&self, units: Units) -> bool {
        units.granules().all(|(granule, mask)| self.holds(granule, mask))
    }

    #[inline(always)]
    fn holds(&self, granule: u64, mask: u64) -> bool {
        // Relaxed: the entry is the only data, and publishes nothing else in memory.
        let entry = self.entry(granule).load(Ordering::Relaxed);
        entry >> 32 == granule && entry & mask == mask
    }

    fn remember(&self, granule: u64, mask: u64) {
        let joined = |entry: u64| {
            let before = if entry >> 32 == granule { entry & 0xffff_ffff } else { 0 };
            Some(granule << 32 | before | mask)
        };
        let _ = self.entry(granule).fetch_update(Ordering::SeqCst, Ordering::SeqCst, joined);
    }

    /// Neighbours have neighbouring entries. The upper bits are folded in, so that far buffers at the same distance
    /// from a round address do not all share an entry.
    #[inline(always)]
    fn entry(&self, granule: u64) -> &AtomicU64 {
        &self.entries[(granule ^ granule >> 13) as usize % ENTRIES]
    }
}

#[derive(Clone, Copy)]
struct Units {
    first: u64,
    last: u64,
}

/// Returns `None` for a range that is not cached: empty, too long, or too high.
#[inline(always)]
fn units(address: u64, length: u64) -> Option<Units> {
    if length == 0 || length > LOOKUP_BYTES_MAX || address >= ADDRESS_END - LOOKUP_BYTES_MAX {
        return None;
    }
    Some(Units { first: address >> UNIT_SHIFT, last: (address + length - 1) >> UNIT_SHIFT })
}

impl Units {
    /// Returns the granules of the range, each with the mask of those of its units that are in the range.
    #[inline]
    fn granules(self) -> impl Iterator<Item = (u64, u64)> {
        (self.first / GRANULE_UNITS..=self.last / GRANULE_UNITS).map(move |granule| self.of_granule(granule))
    }

    #[inline]
    fn of_granule(self, granule: u64) -> (u64, u64) {
        let low = self.first.max(granule * GRANULE_UNITS) % GRANULE_UNITS;
        let high = self.last.min(granule * GRANULE_UNITS + GRANULE_UNITS - 1) % GRANULE_UNITS;
        (granule, (u64::MAX >> (63 - high)) & (u64::MAX << low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use crate::testing::{Folder, in_child, map, unmap};

    const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const METHODS: [Method; 3] = [Method::Populate, Method::Probe, Method::List];

    /// Returns the methods that this kernel has. The list of mappings is always there.
    fn methods() -> impl Iterator<Item = Method> {
        static KNOWN: u8 = 1;
        METHODS.into_iter().filter(|method| usable(*method, Access::Read, (&raw const KNOWN) as u64, 1))
    }

    fn can(method: Method, address: u64, length: u64) -> (bool, bool) {
        (usable(method, Access::Read, address, length), usable(method, Access::Write, address, length))
    }

    /// Maps four pages, each with its own rights: none, read, both, and a hole.
    fn quilt() -> (*mut u8, u64, u64) {
        let page = rustix::param::page_size();
        let base = map(4 * page, libc::PROT_NONE, PRIVATE);
        for (index, rights) in [(1, libc::PROT_READ), (2, libc::PROT_READ | libc::PROT_WRITE)] {
            // SAFETY: the index selects a page of the mapping above.
            assert_eq!(unsafe { libc::mprotect(base.wrapping_add(index * page).cast(), page, rights) }, 0);
        }
        unmap(base.wrapping_add(3 * page), page);
        (base, base as u64, page as u64)
    }

    #[test]
    fn rights_count_page_by_page() {
        in_child(rights_of_pages);
    }

    fn rights_of_pages() {
        for method in methods() {
            let (base, at, page) = quilt();
            assert_eq!(can(method, at, 1), (false, false), "{method:?}: PROT_NONE");
            assert_eq!(can(method, at + page, page), (true, false), "{method:?}: read only");
            assert_eq!(can(method, at + 2 * page, page), (true, true), "{method:?}: both");
            assert_eq!(can(method, at + 3 * page, 1), (false, false), "{method:?}: not mapped");
            assert_eq!(can(method, at + 2 * page - 1, 2), (true, false), "{method:?}: across");
            assert_eq!(can(method, at + page - 1, 2), (false, false), "{method:?}: from none");
            assert_eq!(can(method, at + 3 * page - 1, 2), (false, false), "{method:?}: into the hole");
            assert_eq!(can(method, at + page, 2 * page), (true, false), "{method:?}: two pages");
            unmap(base, 3 * page as usize);
        }
    }

    #[test]
    fn holes_are_found_and_filled() {
        in_child(holes);
    }

    fn holes() {
        let (base, at, page) = quilt();
        assert!(mapped(at, 3 * page) && mapped(at + 5, 3 * page - 5), "with whatever rights");
        assert!(!mapped(at, 3 * page + 1) && !mapped(at + 3 * page, 1));
        assert!(mapped(at, 0) && !mapped(u64::MAX, 1) && !mapped(1, u64::MAX));
        unmap(base.wrapping_add(page as usize), page as usize);
        assert!(!mapped(at, 3 * page) && mapped(at + 2 * page, page));
        assert!(fill_holes(at + 7, 4 * page - 7) && mapped(at, 4 * page));
        for (place, right) in [(at, false), (at + page, true), (at + 2 * page, true), (at + 3 * page, true)] {
            assert_eq!(writable(place, page), right, "a page that was mapped stays as it was");
        }
        // SAFETY: both pages are mapped for reads.
        let zeros = unsafe { core::slice::from_raw_parts(base.wrapping_add(2 * page as usize), 2 * page as usize) };
        assert!(zeros.iter().all(|byte| *byte == 0));
        assert!(fill_holes(at, 4 * page) && fill_holes(at, 0) && !fill_holes(u64::MAX - 5, 2));
        unmap(base, 4 * page as usize);
    }

    #[test]
    fn edges_of_the_address_space() {
        in_child(edges);
    }

    fn edges() {
        for method in methods() {
            assert_eq!(can(method, 0, 0), (true, true));
            assert_eq!(can(method, u64::MAX, 0), (true, true));
            for (address, length) in [(0, 1), (u64::MAX, 1), (u64::MAX, 2), (1, u64::MAX), (0, u64::MAX), (1 << 63, 8)]
            {
                assert_eq!(can(method, address, length), (false, false), "{method:?} {address:x} {length:x}");
            }
            let local = 5u64;
            let at = (&raw const local) as u64;
            assert_eq!(can(method, at, u64::MAX - at + 1), (false, false));
            assert_eq!(can(method, at, u64::MAX - at), (false, false));
            assert_eq!(can(method, at, 8), (true, true));
        }
    }

    #[test]
    fn a_file_shorter_than_its_mapping() {
        let page = rustix::param::page_size() as u64;
        let folder = Folder::new();
        let mapping = Mapping::create(&folder.join("file"), 2 * page, 8 * page).unwrap();
        let at = mapping.base() as u64;
        for method in methods().filter(|method| *method != Method::List) {
            assert_eq!(can(method, at, 2 * page), (true, true), "{method:?}");
            assert_eq!(can(method, at, 2 * page + 1), (false, false), "{method:?}");
        }
        mapping.grow(3 * page).unwrap();
        assert!(writable(at, 3 * page));
    }

    #[test]
    fn asking_changes_nothing() {
        const BYTES: usize = 1 << 20;
        let base = map(BYTES, libc::PROT_READ | libc::PROT_WRITE, PRIVATE);
        // SAFETY: the mapping belongs to this test and nothing else uses it.
        let ours = unsafe { core::slice::from_raw_parts_mut(base, BYTES) };
        ours.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 253) as u8);
        for method in methods() {
            assert_eq!(can(method, base as u64 + 1, BYTES as u64 - 2), (true, true));
        }
        assert!(ours.iter().enumerate().all(|(at, byte)| *byte == (at % 253) as u8));
        unmap(base, BYTES);
    }

    #[test]
    fn a_wrong_length_brings_nothing_in() {
        in_child(wrong_length);
    }

    fn wrong_length() {
        // A gigabyte reserved and untouched, then a hole: none of it may become resident.
        const BYTES: usize = 1 << 30;
        let base = map(BYTES, libc::PROT_READ | libc::PROT_WRITE, PRIVATE | libc::MAP_NORESERVE);
        let page = rustix::param::page_size();
        unmap(base.wrapping_add(BYTES - page), page);
        assert!(!writable(base as u64, BYTES as u64));
        let mut resident = vec![0u8; BYTES / page - 1];
        // SAFETY: one byte for each page asked about.
        assert_eq!(unsafe { libc::mincore(base.cast(), BYTES - page, resident.as_mut_ptr()) }, 0);
        assert!(resident.iter().all(|state| state & 1 == 0));
        unmap(base, BYTES - page);
    }

    #[test]
    fn remembers_until_told_to_forget() {
        in_child(memory_and_forgetting);
    }

    fn memory_and_forgetting() {
        let checked = Checked::new();
        let (base, at, page) = quilt();
        assert!(checked.readable(at + page, 2 * page));
        assert!(checked.writable(at + 2 * page, page));
        assert!(!checked.writable(at + 2 * page - 1, 2));
        assert!(!checked.readable(at + page - 1, 2));
        assert!(!checked.readable(at + 3 * page, 1));
        assert!(checked.readable.knows(at + page + 7, page) && checked.writable.knows(at + 2 * page, 8));
        assert!(!checked.readable.knows(at + 3 * page - 1, 2) && !checked.writable.knows(at + page, 8));
        unmap(base, 3 * page as usize);
        assert!(checked.readable(at + page, 1), "stale, as documented");
        checked.forget();
        assert!(!checked.readable(at + page, 1) && !checked.writable(at + 2 * page, 1));
        assert!(checked.readable(0, 0));
    }

    #[test]
    fn scattered_pages_of_a_granule_are_kept_together() {
        let checked = Checked::new();
        let base = map(1 << 20, libc::PROT_READ | libc::PROT_WRITE, PRIVATE);
        let at = base as u64;
        for offset in (0..1 << 20).step_by(8192) {
            assert!(checked.writable(at + offset, 16));
        }
        for offset in (0..1 << 20).step_by(8192) {
            assert!(checked.writable.knows(at + offset, 4096));
            if rustix::param::page_size() == 4096 {
                assert!(!checked.writable.knows(at + offset + 4096, 1), "that page was not asked about");
            }
        }
        assert!(checked.writable(at, 1 << 20) && checked.writable.knows(at, 1 << 20));
        unmap(base, 1 << 20);
    }

    #[test]
    fn masks_cover_exactly_the_range() {
        // Against a plain list of units, over every small range around the granule borders.
        for first in 0..70u64 {
            for last in first..100u64 {
                let mut plain = std::collections::BTreeMap::new();
                (first..=last).for_each(|unit| *plain.entry(unit / 32).or_insert(0u64) |= 1 << (unit % 32));
                assert!(Units { first, last }.granules().eq(plain), "{first}..={last}");
            }
        }
        assert!(units(ADDRESS_END, 1).is_none() && units(u64::MAX, 1).is_none());
        assert!(units(0, LOOKUP_BYTES_MAX + 1).is_none() && units(5, 0).is_none());
        let highest = units(ADDRESS_END - LOOKUP_BYTES_MAX - 1, LOOKUP_BYTES_MAX).unwrap();
        assert!(highest.granules().all(|(granule, _)| granule <= u64::from(u32::MAX)));
    }

    #[test]
    fn an_entry_is_one_granule_at_a_time() {
        let table = Table::new();
        let granule = 0x1234;
        // Same entry, other granule: their folded numbers agree.
        let rival =
            (1..).map(|step| granule + step).find(|other| core::ptr::eq(table.entry(*other), table.entry(granule)));
        let rival = rival.unwrap();
        table.remember(granule, 1);
        table.remember(granule, 2);
        assert!(table.knows(granule << 17, 8192) && !table.knows(granule << 17, 8193));
        table.remember(rival, 4);
        assert!(!table.knows(granule << 17, 1));
        assert!(table.knows((rival << 17) + 8192, 4096) && !table.knows(rival << 17, 1));
    }
}
