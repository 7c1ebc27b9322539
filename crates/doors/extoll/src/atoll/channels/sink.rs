// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a program that waits for a message of one peer. A long message goes there as it arrives, without a buffer
//! of the library.
//!
//! Invariants
//! 1. A sink takes a message only if all of it fits. So the arrived bytes can be moved to a buffer if the receive ends
//!    with another message, or without one.
//! 2. After the receive has returned, nothing is written to its sink.

use super::wire::{Head, WORD};

/// The destination of a message: of its header, and of its data.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    pub header: (*mut u8, u64),
    pub data: (*mut u8, u64),
}

impl Sink {
    /// Whether all of a message fits.
    pub(super) fn holds(&self, head: &Head) -> bool {
        let fits = |(_, room): (*mut u8, u64), words: u32| u64::from(words) * WORD <= room;
        fits(self.header, head.header_words) && fits(self.data, head.data_words)
    }

    /// Visits the places of a run of a message: address, offset in the run, bytes.
    fn each(&self, head: &Head, offset: u64, bytes: u64, mut visit: impl FnMut(*mut u8, u64, u64)) {
        let header_bytes = u64::from(head.header_words) * WORD;
        let end = offset + bytes;
        if offset < header_bytes {
            let count = end.min(header_bytes) - offset;
            visit(self.header.0.wrapping_add(offset as usize), 0, count);
        }
        if end > header_bytes {
            let from = offset.max(header_bytes);
            visit(self.data.0.wrapping_add((from - header_bytes) as usize), from - offset, end - from);
        }
    }

    /// Writes a run of a message that fits.
    ///
    /// # Safety
    /// The memory is that of a program that waits. `from` has `bytes` bytes, which the message has from the offset on.
    pub(super) unsafe fn write(&self, head: &Head, offset: u64, from: *const u8, bytes: u64) {
        self.each(head, offset, bytes, |to, at, count| {
            // SAFETY: the sink holds the message; the caller says that the run is within it.
            unsafe { std::ptr::copy_nonoverlapping(from.add(at as usize), to, count as usize) };
        });
    }

    /// Reads the first bytes of a message back.
    ///
    /// # Safety
    /// As [`Sink::write`]; `to` has room for them.
    pub(super) unsafe fn read(&self, head: &Head, to: *mut u8, bytes: u64) {
        self.each(head, 0, bytes, |from, at, count| {
            // SAFETY: as in `write`.
            unsafe { std::ptr::copy_nonoverlapping(from, to.add(at as usize), count as usize) };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_in_any_runs_and_read_back() {
        let head = Head { tag: 0, header_words: 3, data_words: 5 };
        let whole: Vec<u8> = (0..64).collect();
        for run in 1..=64usize {
            let (mut header, mut data) = ([0xffu8; 32], [0xffu8; 41]);
            let sink = Sink { header: (header.as_mut_ptr(), 32), data: (data.as_mut_ptr(), 41) };
            assert!(sink.holds(&head));
            let mut back = [0u8; 64];
            for (at, bytes) in whole.chunks(run).enumerate() {
                // SAFETY: the arrays hold the message.
                unsafe { sink.write(&head, (at * run) as u64, bytes.as_ptr(), bytes.len() as u64) };
            }
            // SAFETY: as above.
            unsafe { sink.read(&head, back.as_mut_ptr(), 64) };
            assert_eq!(back[..], whole);
            assert_eq!((&header[..24], &data[..40]), (&whole[..24], &whole[24..]));
            assert!(header[24..].iter().chain(&data[40..]).all(|byte| *byte == 0xff));
        }
        let short = Sink { header: (std::ptr::null_mut(), 0), data: (std::ptr::dangling_mut(), 39) };
        assert!(!short.holds(&head) && !short.holds(&Head { header_words: 0, ..head }));
        assert!(short.holds(&Head { header_words: 0, data_words: 4, ..head }));
    }
}
