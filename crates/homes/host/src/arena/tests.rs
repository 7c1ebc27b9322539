// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the arena: against a plain list of allocations, and at its limits.

use std::collections::BTreeMap;

use super::*;
use selvedge_os::testing::{Child, Folder, in_child};

const MIB: usize = 1 << 20;

fn arena(folder: &Folder, reserved: u64) -> Arena {
    Arena::create(&folder.join("1.arena"), reserved).unwrap()
}

fn bytes_of(start: NonNull<u8>, length: usize) -> &'static mut [u8] {
    // SAFETY: the tests pass live allocations only, and drop the slice before the next call.
    unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), length) }
}

/// A small random generator (xorshift64*): every run is the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    /// Returns a length that is small, around the border of the tiers, or large.
    fn size(&mut self) -> usize {
        let end = [200, 5_000, 40_000, 700_000, 3 << 20][self.below(5) as usize];
        self.below(end) as usize
    }
}

/// Checks invariant 1, and that the tables agree.
fn check_books(arena: &Arena) {
    let mut books = arena.books.lock().unwrap();
    books.free.check();
    let mut runs: Vec<(u64, u64)> = books.free.runs().collect();
    runs.extend(books.large.iter().map(|(first, pages)| (*first, *pages)));
    runs.extend(books.regions.keys().map(|first| (*first, REGION_PAGES)));
    runs.sort_unstable();
    let end = runs.into_iter().fold(0, |end, (first, pages)| {
        assert_eq!(first, end);
        end + pages
    });
    assert_eq!(end, books.committed_pages);
    assert_eq!(end * PAGE_BYTES, arena.committed_bytes());
    assert_eq!(arena.mapping.file_bytes().unwrap(), arena.committed_bytes());
    let mut room = BTreeSet::new();
    for (first, words) in &mut books.regions {
        room.insert((Buddy::attach(words).unwrap().largest_free(), *first));
    }
    room.retain(|(largest, _)| *largest > 0);
    assert_eq!(books.room, room);
}

#[test]
fn agrees_with_a_plain_list() {
    let folder = Folder::with_room(256 << 20);
    let arena = arena(&folder, 256 << 20);
    let mut dice = Dice(7);
    // Address to length, and the byte that fills it.
    let mut live: BTreeMap<NonNull<u8>, (usize, u8)> = BTreeMap::new();
    for step in 0..6_000u32 {
        let fill = step as u8;
        let some = (!live.is_empty()).then(|| *live.keys().nth(dice.below(live.len() as u64) as usize).unwrap());
        match (dice.below(5), some) {
            (0 | 1, Some(address)) => {
                let (length, was) = live.remove(&address).unwrap();
                assert!(bytes_of(address, length).iter().all(|byte| *byte == was));
                arena.free(address).unwrap();
                assert_eq!(arena.free(address), Err(FreeError::NotAllocated), "freed already");
            }
            (2, Some(address)) => {
                let (length, was) = live.remove(&address).unwrap();
                let wanted = dice.size();
                let moved = arena.realloc(address, wanted).unwrap().unwrap();
                assert!(bytes_of(moved, length.min(wanted)).iter().all(|byte| *byte == was));
                bytes_of(moved, wanted).fill(fill);
                live.insert(moved, (wanted, fill));
            }
            _ if live.len() < 60 => {
                let wanted = dice.size();
                let address = arena.alloc(wanted).unwrap();
                assert_eq!(address.as_ptr() as u64 % BLOCK_BYTES, 0);
                assert!(arena.contains(address.as_ptr() as u64, wanted as u64));
                bytes_of(address, wanted).fill(fill);
                assert!(live.insert(address, (wanted, fill)).is_none());
            }
            _ => {}
        }
        if step % 64 == 0 {
            check_books(&arena);
        }
    }
    // Each allocation still has its contents: none overlapped another.
    for (address, (length, fill)) in live {
        assert!(bytes_of(address, length).iter().all(|byte| *byte == fill));
        arena.free(address).unwrap();
    }
    check_books(&arena);
    let books = arena.books.lock().unwrap();
    assert!(books.large.is_empty());
    assert!(books.regions.len() <= 1, "all but one region are given back");
    let free: u64 = books.free.runs().map(|(_, pages)| pages).sum();
    assert_eq!(free + books.regions.len() as u64 * REGION_PAGES, books.committed_pages);
}

#[test]
fn large_buffers_are_not_rounded_up_to_powers_of_two() {
    let folder = Folder::with_room(256 << 20);
    let arena = arena(&folder, 1 << 30);
    // Twelve buffers just above 4 MiB would take 96 MiB by a buddy.
    let held: Vec<_> = (0..12).map(|_| arena.alloc(4 * MIB + 1).unwrap()).collect();
    let books = arena.books.lock().unwrap();
    let pages: u64 = books.large.values().sum();
    assert_eq!(pages * PAGE_BYTES, 12 * (4 * MIB as u64 + PAGE_BYTES));
    assert_eq!(held.len(), books.large.len());
}

#[test]
fn new_memory_is_zero_and_peers_see_it() {
    let folder = Folder::with_room(64 << 20);
    let arena = arena(&folder, 64 << 20);
    let peer = Mapping::open(&folder.join("1.arena"), 1, 64 << 20).unwrap();
    for bytes in [1, 64, 5_000, 100_000, 9 * MIB] {
        let address = arena.alloc(bytes).unwrap();
        assert!(bytes_of(address, bytes).iter().all(|byte| *byte == 0), "{bytes}");
        bytes_of(address, bytes)[bytes - 1] = 0x77;
        let offset = address.as_ptr() as u64 - arena.base();
        let theirs = NonNull::new(peer.base().wrapping_add(offset as usize)).unwrap();
        assert_eq!(bytes_of(theirs, bytes)[bytes - 1], 0x77);
    }
}

#[test]
fn wrong_addresses_are_refused() {
    let folder = Folder::new();
    let arena = arena(&folder, 64 << 20);
    let small = arena.alloc(100).unwrap();
    let large = arena.alloc(MIB).unwrap();
    let beside = |address: NonNull<u8>, bytes: usize| NonNull::new(address.as_ptr().wrapping_add(bytes)).unwrap();
    let mut local = 0u8;
    assert_eq!(arena.free(NonNull::from(&mut local)), Err(FreeError::NotInArena));
    assert_eq!(arena.free(beside(small, 64 << 20)), Err(FreeError::NotInArena));
    for (start, by) in [(small, 1), (small, 64), (small, 128), (large, 1), (large, 64), (large, 4096), (large, MIB)] {
        assert_eq!(arena.free(beside(start, by)), Err(FreeError::NotAllocated));
        assert_eq!(arena.realloc(beside(start, by), 5), Err(FreeError::NotAllocated));
    }
    arena.free(small).unwrap();
    arena.free(large).unwrap();
    assert_eq!(arena.free(small), Err(FreeError::NotAllocated));
    assert_eq!(arena.free(large), Err(FreeError::NotAllocated));
    check_books(&arena);
}

#[test]
fn resizes_in_place_where_it_can() {
    let folder = Folder::with_room(256 << 20);
    let arena = arena(&folder, 256 << 20);
    let small = arena.alloc(100).unwrap();
    assert_eq!(arena.realloc(small, 128).unwrap(), Some(small), "it already has that length");
    let last = arena.alloc(8 * MIB).unwrap();
    bytes_of(last, 8 * MIB).fill(3);
    assert_eq!(arena.realloc(last, 100 * MIB).unwrap(), Some(last), "the last allocation grows in place");
    assert_eq!(arena.realloc(last, 8 * MIB).unwrap(), Some(last));
    let next = arena.alloc(50 * MIB).unwrap();
    assert!(next > last && next.as_ptr() as usize - (last.as_ptr() as usize) == 8 * MIB, "the cut-off part is free");
    let moved = arena.realloc(last, 9 * MIB).unwrap().unwrap();
    assert_ne!(moved, last);
    assert!(bytes_of(moved, 8 * MIB).iter().all(|byte| *byte == 3));
    assert_eq!(arena.free(last), Err(FreeError::NotAllocated));
    // From a large allocation to a small one, which is in the other tier.
    let tiny = arena.realloc(moved, 10).unwrap().unwrap();
    assert_eq!(bytes_of(tiny, 10), [3; 10]);
    assert_eq!(arena.free(moved), Err(FreeError::NotAllocated));
    check_books(&arena);
}

#[test]
fn the_end_of_the_reserve_is_none() {
    let folder = Folder::new();
    let arena = arena(&folder, 8 << 20);
    assert_eq!(arena.alloc(usize::MAX), None);
    assert_eq!(arena.alloc(8 * MIB + 1), None);
    assert_eq!(arena.committed_bytes(), INITIAL_BYTES, "an impossible allocation commits nothing");
    let all = arena.alloc(8 * MIB).unwrap();
    assert_eq!((arena.alloc(1), arena.alloc(MIB)), (None, None));
    assert_eq!(arena.realloc(all, 9 * MIB).unwrap(), None);
    bytes_of(all, 8 * MIB).fill(1);
    // Shrinking always succeeds.
    assert_eq!(arena.realloc(all, 10).unwrap(), Some(all));
    assert_eq!(arena.realloc(all, 8 * MIB - 4096).unwrap(), Some(all));
    let page = arena.alloc(100).unwrap();
    assert_eq!(page.as_ptr() as usize - all.as_ptr() as usize, 8 * MIB - 4096, "the last page, without a region");
    arena.free(page).unwrap();
    arena.free(all).unwrap();
    check_books(&arena);
    arena.alloc(8 * MIB).unwrap();
}

#[test]
fn small_ones_fill_what_is_there() {
    let folder = Folder::new();
    let arena = arena(&folder, 4 << 20);
    let mut held = Vec::new();
    while let Some(address) = arena.alloc(64) {
        bytes_of(address, 64).fill(held.len() as u8);
        held.push(address);
    }
    assert_eq!(held.len() as u64, (4 << 20) / BLOCK_BYTES);
    assert!(held.iter().enumerate().all(|(at, address)| bytes_of(*address, 64).iter().all(|byte| *byte == at as u8)));
    check_books(&arena);
    held.into_iter().for_each(|address| arena.free(address).unwrap());
    check_books(&arena);
    assert_eq!(arena.books.lock().unwrap().regions.len(), 1);
    arena.alloc(3 * MIB).unwrap();
}

#[test]
fn a_full_file_system_is_none() {
    in_child(|| {
        let Some(folder) = Folder::tiny_tmpfs(8 << 20) else { return };
        let arena = arena(&folder, 1 << 30);
        assert_eq!(arena.alloc(16 * MIB), None);
        check_books(&arena);
        // Doubling from 4 to 8 MiB and beyond is refused; just enough is not.
        let first = arena.alloc(5 * MIB).unwrap();
        let second = arena.alloc(2 * MIB).unwrap();
        bytes_of(first, 5 * MIB).fill(1);
        bytes_of(second, 2 * MIB).fill(2);
        assert_eq!(arena.alloc(4 * MIB), None);
        check_books(&arena);
        arena.free(first).unwrap();
        assert_eq!(arena.alloc(4 * MIB), Some(first));
    });
}

#[test]
fn a_limited_address_space_gets_a_smaller_reserve() {
    in_child(|| {
        let folder = Folder::new();
        let limit = libc::rlimit { rlim_cur: 4 << 30, rlim_max: 4 << 30 };
        // SAFETY: a structure of this frame; the limit is this child's alone.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
        let arena = arena(&folder, RESERVED_BYTES_DEFAULT);
        assert!(arena.reserved_bytes() < 4 << 30 && arena.reserved_bytes() >= 1 << 30);
        assert!(arena.alloc(MIB).is_some());
    });
}

#[test]
fn a_forked_child_leaves_it_alone() {
    let folder = Folder::new();
    let arena = arena(&folder, 64 << 20);
    let held = arena.alloc(100).unwrap();
    let child = Child::fork(|| {
        assert_eq!(arena.alloc(100), None);
        assert_eq!(arena.free(held), Ok(()));
        assert_eq!(arena.realloc(held, 1000), Ok(None));
        5
    });
    assert_eq!(child.exit_code(), Some(5));
    assert_ne!(arena.alloc(100), Some(held));
    arena.free(held).unwrap();
}

#[test]
fn threads_never_get_the_same_memory() {
    let folder = Folder::with_room(512 << 20);
    let arena = arena(&folder, 512 << 20);
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let arena = &arena;
            scope.spawn(move || {
                let mut dice = Dice(u64::from(thread) * 77);
                let mut held = Vec::new();
                for _ in 0..400 {
                    let bytes = dice.size() / 4 + 1;
                    let address = arena.alloc(bytes).unwrap();
                    bytes_of(address, bytes).fill(thread);
                    held.push((address, bytes));
                    if dice.below(3) > 0 {
                        let (address, bytes) = held.swap_remove(dice.below(held.len() as u64) as usize);
                        assert!(bytes_of(address, bytes).iter().all(|byte| *byte == thread));
                        arena.free(address).unwrap();
                    }
                }
            });
        }
    });
    check_books(&arena);
}

#[test]
fn the_books_errors_have_names_of_their_own() {
    for (theirs, ours) in
        [(BuddyError::NotAllocated, FreeError::NotAllocated), (BuddyError::Corrupt, FreeError::Corrupt)]
    {
        assert_eq!(FreeError::from(theirs), ours);
    }
}
