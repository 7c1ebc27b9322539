// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a processor is told of cache lines that go to and fro between cores. Hints, and stores
//! of what nobody reads: nothing depends on them but time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Asks for a line that will be read, without waiting. Any address will do: none faults.
#[inline(always)]
pub fn about_to_read(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint that changes no memory and faults at no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction is a hint that changes no memory and faults at no address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Asks for a line that will be written, while what is to be written there is still being found out: for it alone, since a line
/// that others still have would be asked for once more by the store. Any address will do: none faults.
#[inline(always)]
pub fn about_to_write(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint that changes no memory and faults at no address. Every 64-bit processor has it, the oldest as one
    // that does nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction is a hint that changes no memory and faults at no address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Takes a line for this core alone by a store to a word of it whose value nobody needs: what [`about_to_write`] does not do where this
/// core and others have all read the line since it was last written. It is still here then, so the hint is taken for done (by AMD's
/// processors), and the store that matters waits until the others have given the line up, and all stores behind it wait, too. Such stores
/// one right after the other wait together: of eight lines each takes a fifth to a third of what one takes.
#[inline(always)]
pub fn take(word: &AtomicU64) {
    word.store(0, Relaxed);
}

/// As [`about_to_write`], for every line of a record.
#[inline(always)]
pub fn about_to_change<T>(record: &T) {
    for at in (0..size_of::<T>()).step_by(64) {
        about_to_write(std::ptr::from_ref(record).cast::<u8>().wrapping_add(at));
    }
}

/// Lets what this core has just stored go. It would go by itself, but looks that are made meanwhile hold it up. A locked instruction in its
/// place gives nothing.
#[inline(always)]
fn stores_first() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of the architecture.
    unsafe {
        core::arch::x86_64::_mm_mfence();
    }
}

/// Looks for which an answer from a core nearby is waited for: some 150 ns.
const EAGER_LOOKS: u32 = 16;

/// To be called between two looks at memory that another core is about to write; `look` counts them from 0.
///
/// After the first, this core's own stores go, which what is waited for may be the answer to: without that half a round trip of a line
/// takes 5 to 10 % longer, and at worst twice as long.
///
/// A processor that runs ahead has many loads of a line under way when that is taken away; it throws away what it did after the
/// first of them that saw the new value, and its requests hold up who writes. So does a look that waits for the one before: the line is
/// asked for again before it has been written. With a look begun every 20 cycles or so, of which several are under way, an answer from a
/// core nearby is seen 20 to 30 % sooner than with the processor's hint for spinning, and up to 40 % sooner than with looks that wait
/// for each other, where both sides fall into step and each sees the other's answer a whole look too late. From afar fewer requests are
/// worth more: the hint is 5 % ahead there.
#[inline(always)]
pub fn between_looks(look: u32) {
    if look == 0 {
        stores_first();
    }
    match look {
        0..EAGER_LOOKS => a_moment(),
        _ => std::hint::spin_loop(),
    }
}

/// Some 20 cycles of a core's one multiplier, in which it may begin what comes after.
#[inline(always)]
pub fn a_moment() {
    #[cfg(target_arch = "x86_64")]
    {
        /// One is begun in each cycle.
        const MULTIPLICATIONS: u32 = 20;
        let mut _value = 1u64;
        for _ in 0..MULTIPLICATIONS {
            // SAFETY: the instruction multiplies a register of its own and touches no memory.
            unsafe { core::arch::asm!("imul {0}, {0}", inout(reg) _value, options(nomem, nostack)) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier orders accesses and makes none.
    unsafe {
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::spin_loop();
}
