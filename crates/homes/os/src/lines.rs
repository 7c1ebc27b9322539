// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints to the processor about cache lines that move between cores, and stores whose value is never read. They affect
//! only the time that an access takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Prefetches a line that will be read, without waiting. Any address is allowed: none faults.
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

/// Prefetches a line for writing, while the value is still being computed. Use it only where this core will write: a
/// line that other cores still share must be requested again by the store. Any address is allowed: none faults.
#[inline(always)]
pub fn about_to_write(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint that changes no memory and faults at no address. Every 64-bit processor has it;
    // the oldest ones execute it as a no-op.
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

/// Takes exclusive ownership of a line, by a store to a word whose value is never read. [`about_to_write`] does not
/// achieve this if this core and others have all read the line since it was last written. The line is then in this
/// core's cache, so AMD's processors treat the hint as done. The store that matters then waits until the other cores
/// have given up the line, and all later stores wait too. Several such stores in a row wait at the same time: with
/// eight lines, each costs a fifth to a third of a single one.
#[inline(always)]
pub fn take(word: &AtomicU64) {
    word.store(0, Relaxed);
}

/// As [`about_to_write`], for every line of a record.
#[inline(always)]
pub fn about_to_change<T: ?Sized>(record: &T) {
    for at in (0..size_of_val(record)).step_by(64) {
        about_to_write(std::ptr::from_ref(record).cast::<u8>().wrapping_add(at));
    }
}

/// Drains this core's store buffer. Polls would delay the drain. A locked instruction instead has no benefit.
#[inline(always)]
fn stores_first() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of the architecture.
    unsafe {
        core::arch::x86_64::_mm_mfence();
    }
}

/// Number of polls in which an answer from a nearby core is expected: some 150 ns.
const EAGER_LOOKS: u32 = 16;

/// Pauses between two polls of memory that another core is about to write. `look` counts the polls from 0.
///
/// After the first poll, this core's own stores are drained, because the awaited value may be the answer to them.
/// Without that, half a round trip of a line takes 5 to 10 % longer, and at worst twice as long.
///
/// An out-of-order processor has many loads of a line in flight when another core takes the line. It discards the work
/// after the first load that saw the new value, and its requests delay the writer. A poll that waits for the one before
/// has a similar problem: it requests the line again before the line has been written. So a poll begins every 20 cycles
/// or so, and several are in flight. An answer from a nearby core is then seen 20 to 30 % sooner than with the
/// processor's hint for spinning. It is seen up to 40 % sooner than with polls that wait for each other, where both
/// sides fall into step and each sees the other's answer a whole poll too late. Between distant cores fewer requests
/// are better: the hint is 5 % ahead there.
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

/// Occupies a core's only multiplier for some 20 cycles, during which the core may begin later instructions.
#[inline(always)]
pub fn a_moment() {
    #[cfg(target_arch = "x86_64")]
    {
        /// One multiplication begins in each cycle.
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
