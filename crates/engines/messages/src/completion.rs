// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues. They grow as needed and drop nothing.
//!
//! Errors have their own queue. While it holds an error, a read returns the completions that came before the error, and
//! then reports that there is one.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::offset_of;

use crate::error::Fault;
use crate::flags::ADDR_ANY;

/// A completion as programs read it. libfabric's largest format has this layout, and its other formats are prefixes of
/// it, so a read copies the first bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Completion {
    pub context: *mut c_void,
    pub flags: u64,
    /// Bytes that the operation moved.
    pub length: usize,
    pub buffer: *mut c_void,
    /// The sender's data, if the flags have REMOTE_CQ_DATA.
    pub data: u64,
    pub tag: u64,
}

impl Default for Completion {
    fn default() -> Completion {
        let (context, buffer) = (std::ptr::null_mut(), std::ptr::null_mut());
        Completion { context, flags: 0, length: 0, buffer, data: 0, tag: 0 }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Queued {
    completion: Completion,
    /// The sender, if the program wants it.
    source: u64,
}

/// A read in progress: the array for new completions.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The queue being read, or null.
    queue: *const CompletionQueue,
    to: *mut u8,
    entry_bytes: usize,
    left: usize,
    /// The array for senders, or null.
    sources: *mut u64,
}

impl Reading {
    /// A read of this queue, into an array of `left` entries of `entry_bytes` bytes each.
    ///
    /// # Safety
    /// `to` has room for `left` entries, and `sources` is null or has room for `left` numbers.
    #[inline(always)]
    pub unsafe fn new(
        queue: *const CompletionQueue,
        to: *mut u8,
        entry_bytes: usize,
        left: usize,
        sources: *mut u64,
    ) -> Reading {
        Reading { queue, to, entry_bytes, left, sources }
    }

    /// No read is in progress, so all completions go to the queue.
    #[inline(always)]
    pub fn none() -> Reading {
        let (queue, to, sources) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut());
        Reading { queue, to, entry_bytes: 0, left: 0, sources }
    }

    /// The number of entries for which there is room.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether the read wants entries of the largest format, and no senders.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.entry_bytes == size_of::<Completion>() && self.sources.is_null()
    }

    /// Advances over the entries that were written through [`CompletionQueue::writes_next`].
    #[inline(always)]
    pub fn has_written<const WHOLE: bool>(&mut self, written: Written<WHOLE>, entries: usize) {
        (self.to, self.left) = (written.to, self.left - entries);
    }

    /// # Safety
    /// There is room for one more entry.
    #[inline(always)]
    unsafe fn write(&mut self, queued: &Queued) {
        // SAFETY: there is room for one more entry, and its source if wanted, by this function's contract.
        unsafe {
            self.to = write_entry(self.to, &queued.completion, self.entry_bytes);
            if !self.sources.is_null() {
                *self.sources = queued.source;
                self.sources = self.sources.add(1);
            }
        }
        self.left -= 1;
    }
}

/// The place of the next completions of a read without senders. `WHOLE`: in the largest format, as MPI libraries want.
#[derive(Clone, Copy)]
pub struct Written<const WHOLE: bool> {
    to: *mut u8,
    entry_bytes: usize,
}

impl<const WHOLE: bool> Written<WHOLE> {
    /// # Safety
    /// There is room for one more entry.
    #[inline(always)]
    pub unsafe fn write(&mut self, entry: &Completion) {
        let bytes = if WHOLE { size_of::<Completion>() } else { self.entry_bytes };
        // SAFETY: there is room for one more entry, by this function's contract.
        self.to = unsafe { write_entry(self.to, entry, bytes) };
    }
}

/// Writes the first `bytes` bytes of an entry, because every format is a prefix of the largest. Returns the next place.
///
/// # Safety
/// There is room for `bytes` bytes.
#[inline(always)]
unsafe fn write_entry(to: *mut u8, entry: &Completion, bytes: usize) -> *mut u8 {
    // SAFETY: there is room for `bytes` bytes, by this function's contract. Only fields within that length are written,
    // by writes that need no alignment.
    unsafe {
        // Field by field, so that the values come from registers.
        let at = to.cast::<Completion>();
        (&raw mut (*at).context).write_unaligned(entry.context);
        if bytes >= offset_of!(Completion, buffer) {
            (&raw mut (*at).flags).write_unaligned(entry.flags);
            (&raw mut (*at).length).write_unaligned(entry.length);
        }
        if bytes >= offset_of!(Completion, tag) {
            (&raw mut (*at).buffer).write_unaligned(entry.buffer);
            (&raw mut (*at).data).write_unaligned(entry.data);
        }
        if bytes >= size_of::<Completion>() {
            (&raw mut (*at).tag).write_unaligned(entry.tag);
        }
        to.add(bytes)
    }
}

/// Completions in order, in a ring buffer that grows.
struct Fifo {
    slots: Box<[Queued]>,
    /// The number of completions ever queued and ever read. Slots are these numbers modulo a power of two.
    queued: u64,
    read: u64,
}

impl Fifo {
    fn new(capacity: usize) -> Fifo {
        let empty = Queued { completion: Completion::default(), source: ADDR_ANY };
        Fifo { slots: vec![empty; capacity.next_power_of_two()].into_boxed_slice(), queued: 0, read: 0 }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        (self.queued - self.read) as usize
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn push(&mut self, queued: Queued) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.queued);
        self.slots[slot] = queued;
        self.queued += 1;
    }

    /// The completion at this place, counted from the first.
    #[inline(always)]
    fn at(&self, index: usize) -> &Queued {
        &self.slots[self.slot(self.read + index as u64)]
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Fifo::new(2 * self.slots.len());
        (larger.queued, larger.read) = (self.queued, self.read);
        for number in self.read..self.queued {
            let slot = larger.slot(number);
            larger.slots[slot] = self.slots[self.slot(number)];
        }
        *self = larger;
    }
}

/// A failed operation.
#[derive(Clone, Copy)]
pub struct Failure {
    pub completion: Completion,
    /// The number of bytes that did not fit.
    pub missing: usize,
    pub error: Fault,
    /// The number of completions that were queued before it.
    after: u64,
}

/// Completions of one queue, and the errors among them.
pub struct CompletionQueue {
    /// The number of completions and errors in the queue.
    waiting: usize,
    completions: Fifo,
    failures: VecDeque<Failure>,
    /// The next read takes queued completions and does not poll for more.
    reads_next: bool,
}

/// The reason why a read moved no completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// The next entry is an error.
    FailureNext,
    Nothing,
}

impl CompletionQueue {
    /// A queue with room for `size` completions until it grows.
    pub fn new(size: usize) -> CompletionQueue {
        CompletionQueue { waiting: 0, completions: Fifo::new(size), failures: VecDeque::new(), reads_next: false }
    }

    /// Whether there are completions or errors.
    #[inline(always)]
    pub fn has_any(&self) -> bool {
        self.waiting != 0
    }

    /// The number of completions in the queue.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.completions.len()
    }

    /// Whether the queue has no completions. There may be errors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    pub fn push(&mut self, completion: Completion, source: u64) {
        self.completions.push(Queued { completion, source });
        self.waiting += 1;
    }

    /// The place of a queue's next completions, if a read of it without senders is in progress.
    ///
    /// # Safety
    /// `queue` is null or an open queue. The reading is [whole](Reading::is_whole) if `WHOLE`.
    #[inline(always)]
    pub unsafe fn writes_next<const WHOLE: bool>(
        queue: *const CompletionQueue,
        reading: &Reading,
    ) -> Option<Written<WHOLE>> {
        // A read of whole entries always has a queue.
        let is_read = WHOLE || !queue.is_null() && reading.sources.is_null();
        // SAFETY: the queue is open. A read of whole entries has one; else it is not null, as just checked.
        let next = is_read && std::ptr::eq(queue, reading.queue) && unsafe { (*queue).waiting == 0 };
        next.then_some(Written { to: reading.to, entry_bytes: reading.entry_bytes })
    }

    /// A receive was posted that already had an unexpected message. The program most likely reads its completion next.
    #[inline]
    pub fn expect_reading(&mut self) {
        self.reads_next = true;
    }

    /// Returns whether a read was expected, and resets the expectation.
    #[inline(always)]
    pub fn take_expectation(&mut self) -> bool {
        std::mem::take(&mut self.reads_next)
    }

    /// The completion of a send.
    #[inline(always)]
    pub fn push_own(&mut self, context: *mut c_void, flags: u64) {
        self.push(Completion { context, flags, ..Completion::default() }, ADDR_ANY);
    }

    pub fn push_failure(&mut self, completion: Completion, missing: usize, error: Fault) {
        self.failures.push_back(Failure { completion, missing, error, after: self.completions.queued });
        self.waiting += 1;
    }

    /// Moves completions to the caller's array, up to the first error.
    #[inline(never)]
    pub fn read_into(&mut self, reading: &mut Reading) -> Result<(), Empty> {
        let mut most = reading.left.min(self.completions.len());
        if let Some(failure) = self.failures.front() {
            let before = (failure.after - self.completions.read) as usize;
            if before == 0 {
                return Err(Empty::FailureNext);
            }
            most = most.min(before);
        }
        for index in 0..most {
            // SAFETY: `most` is at most the room left in the program's array.
            unsafe { reading.write(self.completions.at(index)) };
        }
        self.completions.read += most as u64;
        self.waiting -= most;
        if most == 0 { Err(Empty::Nothing) } else { Ok(()) }
    }

    /// Takes the error that is next, if all completions before it were read.
    pub fn take_failure(&mut self) -> Option<Failure> {
        let is_next = |failure: &Failure| failure.after <= self.completions.read;
        self.failures.front().filter(|failure| is_next(failure))?;
        self.waiting -= 1;
        self.failures.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(number: u64) -> Completion {
        Completion {
            context: number as *mut c_void,
            flags: number + 1,
            length: 5,
            data: 6,
            tag: 7,
            ..Completion::default()
        }
    }

    /// Reads up to `most` whole entries, and their sources.
    fn read(queue: &mut CompletionQueue, most: usize) -> (Result<(), Empty>, Vec<(u64, u64)>) {
        let mut entries = vec![Completion::default(); most];
        let mut sources = vec![0u64; most];
        // SAFETY: both arrays have room for `most` entries.
        let mut reading = unsafe {
            Reading::new(queue, entries.as_mut_ptr().cast(), size_of::<Completion>(), most, sources.as_mut_ptr())
        };
        let outcome = queue.read_into(&mut reading);
        let got = most - reading.left();
        (outcome, entries[..got].iter().map(|entry| entry.context as u64).zip(sources).collect())
    }

    #[test]
    fn completions_keep_their_order_while_the_queue_grows() {
        let mut queue = CompletionQueue::new(4);
        let mut wanted = VecDeque::new();
        for number in 0..100 {
            queue.push(completion(number), number + 1000);
            wanted.push_back((number, number + 1000));
            if number % 3 == 0 {
                let (outcome, got) = read(&mut queue, 2);
                assert_eq!(outcome, Ok(()));
                assert!(got.into_iter().all(|one| wanted.pop_front() == Some(one)));
            }
        }
        while let (Ok(()), got) = read(&mut queue, 7) {
            assert!(got.into_iter().all(|one| wanted.pop_front() == Some(one)));
        }
        assert!(wanted.is_empty() && !queue.has_any());
        assert_eq!(read(&mut queue, 7), (Err(Empty::Nothing), vec![]));
    }

    #[test]
    fn an_error_comes_after_what_was_queued_before_it() {
        let mut queue = CompletionQueue::new(4);
        queue.push(completion(1), ADDR_ANY);
        queue.push_failure(completion(2), 9, Fault::NoKey);
        queue.push(completion(3), ADDR_ANY);
        assert!(queue.take_failure().is_none(), "a completion comes first");
        assert_eq!(read(&mut queue, 9), (Ok(()), vec![(1, ADDR_ANY)]));
        assert_eq!(read(&mut queue, 9), (Err(Empty::FailureNext), vec![]));
        let failure = queue.take_failure().expect("it is next");
        assert_eq!((failure.completion.context as u64, failure.missing, failure.error), (2, 9, Fault::NoKey));
        assert_eq!(read(&mut queue, 9), (Ok(()), vec![(3, ADDR_ANY)]));
        assert!(!queue.has_any());
    }

    #[test]
    fn shorter_formats_are_prefixes() {
        let bytes_of = |entry: &Completion| {
            // SAFETY: a completion has no padding: four words and two pointers.
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(entry).cast::<u8>(), size_of::<Completion>()) }
                .to_vec()
        };
        let formats = [8, offset_of!(Completion, buffer), offset_of!(Completion, tag), size_of::<Completion>()];
        for bytes in formats {
            let mut queue = CompletionQueue::new(4);
            queue.push(completion(11), ADDR_ANY);
            queue.push(completion(12), ADDR_ANY);
            let mut array = vec![0xaau8; 2 * bytes + 1];
            // SAFETY: the array has room for two entries of this length.
            let mut reading = unsafe { Reading::new(&queue, array.as_mut_ptr(), bytes, 2, std::ptr::null_mut()) };
            assert_eq!(queue.read_into(&mut reading), Ok(()));
            let whole = [completion(11), completion(12)].map(|entry| bytes_of(&entry));
            assert_eq!([&array[..bytes], &array[bytes..2 * bytes]], [&whole[0][..bytes], &whole[1][..bytes]]);
            assert_eq!(array[2 * bytes], 0xaa, "nothing is written behind the array");
        }
    }

    #[test]
    fn completions_go_to_the_array_only_if_nothing_is_queued() {
        let mut queue = CompletionQueue::new(4);
        let mut room = [Completion::default(); 2];
        // SAFETY: the array has room for two entries.
        let reading =
            unsafe { Reading::new(&queue, room.as_mut_ptr().cast(), size_of::<Completion>(), 2, std::ptr::null_mut()) };
        // SAFETY: the queue is alive.
        let writes =
            |queue: &CompletionQueue| unsafe { CompletionQueue::writes_next::<true>(queue, &reading).is_some() };
        assert!(writes(&queue));
        assert!(!writes(&CompletionQueue::new(4)), "another queue is read");
        queue.push(completion(1), ADDR_ANY);
        assert!(!writes(&queue));
    }
}
