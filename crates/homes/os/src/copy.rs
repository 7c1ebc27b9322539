// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long copies into memory that other cores may have in their caches.
//!
//! If a peer has read the memory that is to be overwritten, each line must be taken from its cache first. The processor
//! has few such requests in flight: 1 MiB takes 75 to 475 us, depending on the distance of the cores, and 22 us if no
//! core has it. Stores that bypass the caches (`movnt`) need no such requests: 37 us, whichever core has the lines.
//! Their cost is that the reader finds its data in memory and not in a cache. Copying and reading together take two
//! thirds of the time from 64 KiB to 1 MiB between near cores, and a fifth between far ones. Below 32 KiB only far
//! cores gain.
//!
//! The state of the lines cannot be queried. So parts of a copy are done with plain stores and timed, and the result
//! decides for the next part. Between near cores the first 4 KiB are fast in any state, since their stores are still in
//! flight then. The next 4 KiB show the state.
//!
//! The file also has short copies, for lengths at which a call of `memcpy` costs as much as all other work for a
//! message.

use std::ptr;

/// Copies any length. The lengths of most messages need no call.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
pub unsafe fn short(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: `from` is readable and `to` writable for `bytes` by this function's contract, which is the one of both
    // callees.
    unsafe {
        if !word(from, to, bytes) {
            ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// Copies a few words, for loops in which other lengths must not take registers.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
pub unsafe fn few(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: `from` is readable and `to` writable for `bytes` by this function's contract, which is the one of both
    // callees.
    unsafe {
        if !word(from, to, bytes) {
            few_otherwise(from, to, bytes);
        }
    }
}

/// Whether a length is 0, half a word or a word.
#[inline(always)]
pub fn is_word(bytes: usize) -> bool {
    matches!(bytes, 0 | 4 | 8)
}

/// Copies 0 bytes, half a word or a word. False for any other length.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
pub unsafe fn word(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    // SAFETY: both ranges have `bytes` bytes by this function's contract, and each arm moves exactly as many.
    unsafe {
        match bytes {
            0 => {}
            8 => part::<u64>(from, to, 0),
            4 => part::<u32>(from, to, 0),
            _ => return false,
        }
    }
    true
}

/// Copies a few words. If the length is not a power of two, the last piece overlaps the one before.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[cold]
#[inline(never)]
unsafe fn few_otherwise(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both ranges have `bytes` bytes by this function's contract. Every piece begins at 0 or above and ends at
    // `bytes` or below, since each arm moves pieces no longer than its least length.
    unsafe {
        match bytes {
            16.. => {
                let mut at = 0;
                while at + 16 < bytes {
                    part::<u128>(from, to, at);
                    at += 16;
                }
                part::<u128>(from, to, bytes - 16);
            }
            8.. => {
                part::<u64>(from, to, 0);
                part::<u64>(from, to, bytes - 8);
            }
            4.. => {
                part::<u32>(from, to, 0);
                part::<u32>(from, to, bytes - 4);
            }
            2.. => {
                part::<u16>(from, to, 0);
                part::<u16>(from, to, bytes - 2);
            }
            1 => part::<u8>(from, to, 0),
            0 => {}
        }
    }
}

/// # Safety
/// Both ranges have room for a `T` from `at` on.
#[inline(always)]
unsafe fn part<T>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: a `T` lies within both ranges from `at` on, by this function's contract. The accesses need no alignment,
    // and every `T` here is an integer.
    unsafe { to.add(at).cast::<T>().write_unaligned(from.add(at).cast::<T>().read_unaligned()) }
}

/// Copies of this length or more may bypass the caches.
pub const LONG_BYTES: usize = 8 << 10;
/// Copies of this length or more gain between near cores too.
const LONG_FOR_NEAR_BYTES: usize = 32 << 10;
/// Bytes in a timed part.
const PROBE_BYTES: usize = 4 << 10;
/// Ticks of the time-stamp counter for a timed part whose lines are in this core's cache: twice the measured time, at 2
/// to 4 GHz.
#[cfg(target_arch = "x86_64")]
const PROBE_TICKS: u64 = 700;
/// Bytes that are copied with plain stores before the next timed part.
const PLAIN_BYTES: usize = 56 << 10;
/// Bytes that are copied past the caches before the next timed part.
const PAST_BYTES: usize = 512 << 10;

/// Copies; the ranges may overlap.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes.
#[inline(never)]
pub unsafe fn long(from: *const u8, to: *mut u8, bytes: usize) {
    if (from as usize).abs_diff(to as usize) < bytes {
        // SAFETY: both ranges have `bytes` bytes by this function's contract; `copy` lets them overlap.
        return unsafe { ptr::copy(from, to, bytes) };
    }
    let probes = if bytes < LONG_FOR_NEAR_BYTES { 1 } else { 2 };
    let mut past = false;
    let mut at = 0;
    let mut next = |most: usize| {
        let start = at;
        at = bytes.min(start + most);
        // SAFETY: `start` is at most `bytes`, and both ranges have `bytes` bytes by this function's contract.
        unsafe { (from.add(start), to.add(start), at - start) }
    };
    loop {
        let slow = (0..probes).any(|_| {
            let (from, to, bytes) = next(PROBE_BYTES);
            // SAFETY: `next` gives a part of both ranges, which do not overlap: that was checked first.
            is_slow(|| unsafe { ptr::copy_nonoverlapping(from, to, bytes) })
        });
        let (from, to, bytes) = next(if slow { PAST_BYTES } else { PLAIN_BYTES });
        if bytes == 0 {
            break;
        }
        // SAFETY: `next` gives a part of both ranges, which do not overlap: that was checked first. The fence that
        // stores past the caches need comes below.
        unsafe {
            match slow {
                true => copy_past_caches(from, to, bytes),
                false => ptr::copy_nonoverlapping(from, to, bytes),
            }
        }
        past |= slow;
    }
    if past {
        fence();
    }
}

#[cfg(target_arch = "x86_64")]
mod processor {
    use super::*;
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128, _rdtsc};

    /// Whether a copy of [`PROBE_BYTES`] must wait for other cores.
    #[inline(always)]
    pub fn is_slow(copy: impl FnOnce()) -> bool {
        // SAFETY: every 64-bit x86 processor has the time-stamp counter.
        let now = || unsafe { _rdtsc() };
        let before = now();
        copy();
        now().wrapping_sub(before) > PROBE_TICKS
    }

    /// Orders the stores past the caches before all later stores.
    pub fn fence() {
        // SAFETY: the instruction belongs to SSE, which every 64-bit x86 processor has.
        unsafe { _mm_sfence() }
    }

    /// # Safety
    /// As for [`ptr::copy_nonoverlapping`]. A [`fence`] must come before other threads are notified.
    pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, bytes: usize) {
        const LINE: usize = 64;
        // SAFETY: both ranges have `bytes` bytes by this function's contract. `at` stays at most `bytes`, and a line is
        // moved only where a whole one is left. `to` is aligned to a line from `head` on, which the streaming stores
        // need; the loads need no alignment.
        unsafe {
            let head = to.align_offset(LINE).min(bytes);
            ptr::copy_nonoverlapping(from, to, head);
            let mut at = head;
            while bytes - at >= LINE {
                let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
                for (part, value) in line.into_iter().enumerate() {
                    _mm_stream_si128(to.add(part), value);
                }
                at += LINE;
            }
            ptr::copy_nonoverlapping(from.add(at), to.add(at), bytes - at);
        }
    }
}

/// Other architectures always use plain copies.
#[cfg(not(target_arch = "x86_64"))]
mod processor {
    pub fn is_slow(copy: impl FnOnce()) -> bool {
        copy();
        false
    }

    pub fn fence() {}

    /// # Safety
    /// As for `copy_nonoverlapping`.
    pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: this function's contract is the one of `copy_nonoverlapping`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
    }
}

use processor::{copy_past_caches, fence, is_slow};

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    /// Checks that exactly the requested bytes are copied, for all offsets and lengths.
    fn check(copy: unsafe fn(*const u8, *mut u8, usize), lengths: &[usize]) {
        let longest = lengths.iter().max().unwrap() + 200;
        let source = pattern(longest);
        for &bytes in lengths {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 61), (64, 7), (63, 64)] {
                let mut target = vec![0xee; longest];
                // SAFETY: both vectors have room for the offset and the bytes.
                unsafe { copy(source[from..].as_ptr(), target[to..].as_mut_ptr(), bytes) };
                fence();
                assert_eq!(target[to..to + bytes], source[from..from + bytes], "{bytes} bytes, {from} to {to}");
                assert!(target[..to].iter().chain(&target[to + bytes..]).all(|byte| *byte == 0xee), "{bytes}");
            }
        }
    }

    #[test]
    fn copies_are_whole() {
        check(copy_past_caches, &[0, 1, 15, 63, 64, 65, 127, 1000, 4096]);
        check(
            long,
            &[1, 4096, 4097, 8193, LONG_BYTES, 12_000, LONG_FOR_NEAR_BYTES + 1, PLAIN_BYTES + 8192, 3 * PAST_BYTES + 5],
        );
    }

    #[test]
    fn ranges_may_overlap() {
        for by in [1, 100, 70_000] {
            let source = pattern(200_000);
            let (mut up, mut down) = (source.clone(), source.clone());
            // SAFETY: all offsets and lengths are within the vectors.
            unsafe {
                long(up.as_ptr(), up.as_mut_ptr().add(by), 100_000);
                long(down.as_ptr().add(by), down.as_mut_ptr(), 100_000);
            }
            assert_eq!((&up[by..by + 100_000], &down[..100_000]), (&source[..100_000], &source[by..by + 100_000]));
        }
    }
}
