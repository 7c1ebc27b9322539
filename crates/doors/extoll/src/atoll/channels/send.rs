// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends: messages are cut into pieces, as credits and slots of the send area permit.
//!
//! Invariants
//! 1. A send returns when its last piece has left. So messages keep their order.
//! 2. A waiting send handles arrivals, and returns credits to senders that have none left.
//! 3. A message that cannot be sent completely invalidates its route: the receiver could not parse the channel further.
//!
//! Cost of a message that fits into one VELO message: one lookup of the handle, one copy, one VELO message.

use std::time::{Duration, Instant};

use selvedge_nic::rma::{Descriptor, Operation, code, options, spec};

use super::error::ChannelError;
use super::host_port::HostPort;
use super::outbound::{Handle, Outbound, State};
use super::wire::{FRAME_BYTES, Frame, Head, Payload, Piece, WORD, WORDS_MAX, words_bytes};
use selvedge_process::device::connection::{PostError, Posted};
use selvedge_process::fabric;

/// Limit of the VELO messages for one message; longer messages are put. Chosen, not measured.
const SMALL_FRAMES: u64 = 4;
/// Wait for credits before a send checks whether the peer still exists.
const DOUBT: Duration = Duration::from_millis(100);

/// Part of a program's memory.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub start: *const u8,
    pub bytes: u64,
}

/// A message in a program's memory: a header, and data in parts. Both are padded to whole words with zeroes.
#[derive(Clone, Copy, Debug)]
pub struct Gather<'a> {
    pub header: Part,
    pub data: &'a [Part],
    pub tag: u32,
}

/// Words that hold `bytes`. `None`: more than a message can have.
pub fn words_of(bytes: u64) -> Option<u32> {
    u32::try_from(bytes.div_ceil(WORD)).ok().filter(|words| *words <= WORDS_MAX)
}

impl Gather<'_> {
    fn head(&self) -> Option<Head> {
        let data = self.data.iter().try_fold(0u64, |sum, part| sum.checked_add(part.bytes))?;
        Some(Head { tag: self.tag, header_words: words_of(self.header.bytes)?, data_words: words_of(data)? })
    }

    /// Copies bytes of the message from an offset on.
    ///
    /// # Safety
    /// The parts are readable, and `to` has room for `bytes`.
    unsafe fn copy(&self, offset: u64, mut to: *mut u8, bytes: u64) {
        let (mut from, end) = (offset, offset + bytes);
        let mut begins = 0;
        let mut visit = |part: &Part, is_last: bool| {
            let ends = begins + part.bytes;
            let padded = if is_last { ends.next_multiple_of(WORD) } else { ends };
            // SAFETY: each range is within its part, and the ranges of `to` add up to at most `bytes`.
            unsafe {
                if from < end && from < ends {
                    let count = end.min(ends) - from;
                    std::ptr::copy_nonoverlapping(part.start.add((from - begins) as usize), to, count as usize);
                    (from, to) = (from + count, to.add(count as usize));
                }
                if from < end && from < padded {
                    let count = end.min(padded) - from;
                    to.write_bytes(0, count as usize);
                    (from, to) = (from + count, to.add(count as usize));
                }
            }
            begins = padded;
        };
        visit(&self.header, true);
        for (at, part) in self.data.iter().enumerate() {
            visit(part, at + 1 == self.data.len());
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    head: Head,
    total: u64,
    at: u64,
    has_begun: bool,
}

impl Progress {
    pub fn new(head: Head) -> Progress {
        Progress { head, total: head.bytes(), at: 0, has_begun: false }
    }

    /// Whether a piece has left.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn is_done(&self) -> bool {
        self.has_begun && self.at == self.total
    }
}

/// The memory that holds a message's bytes.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// In a program's memory, which is readable during the call.
    Program(&'a Gather<'a>),
    /// In slots of the send area, one after the other.
    Slots(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Sent,
    /// There is no credit, or no slot.
    Wait,
}

impl HostPort {
    /// Sends a message to each of these connections. Waits for credits. The program's memory may be reused on return.
    ///
    /// # Safety
    /// The parts of the message are readable.
    pub unsafe fn send(&mut self, handles: &[Handle], message: &Gather<'_>) -> Result<(), ChannelError> {
        let head = message.head().ok_or(ChannelError::Size)?;
        if let [handle] = *handles {
            let index = self.index_of(handle)?;
            return self.send_whole(index, &mut Progress::new(head), Origin::Program(message));
        }
        let mut under_way = Vec::with_capacity(handles.len());
        for handle in handles {
            under_way.push((self.index_of(*handle)?, Progress::new(head)));
        }
        let mut failed = Ok(());
        while !under_way.is_empty() {
            // Each send proceeds as far as it can, so that a slow peer does not delay the others.
            under_way.retain_mut(|(index, progress)| match self.steps(*index, progress, Origin::Program(message)) {
                Ok(is_done) => !is_done,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            });
            let rest: Vec<usize> = under_way.iter().map(|(index, _)| *index).collect();
            if !rest.is_empty() {
                if let Err(error) = self.wait_for_peers(&rest) {
                    under_way.iter().for_each(|(index, progress)| self.break_off(*index, progress));
                    return Err(error);
                }
            }
        }
        failed
    }

    pub(super) fn send_whole(
        &mut self,
        index: usize,
        progress: &mut Progress,
        origin: Origin<'_>,
    ) -> Result<(), ChannelError> {
        while !self.steps(index, progress, origin)? {
            if let Err(error) = self.wait_for_peers(&[index]) {
                self.break_off(index, progress);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends the pieces that can be sent now. Returns true if all have left.
    fn steps(&mut self, index: usize, progress: &mut Progress, origin: Origin<'_>) -> Result<bool, ChannelError> {
        while !progress.is_done() {
            match self.step(index, progress, origin) {
                Ok(Step::Sent) => {}
                Ok(Step::Wait) => return Ok(false),
                Err(error) => {
                    self.break_off(index, progress);
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn break_off(&mut self, index: usize, progress: &Progress) {
        if let Some(Some(Outbound { destination, route, .. })) = self.outbound.get(index).filter(|_| progress.has_begun)
        {
            let (destination, route) = (*destination, *route);
            self.invalidate(destination, Some(route));
        }
    }

    /// Waits for an arrival. After [`DOUBT`] without one, checks whether the peers' ports are still open.
    fn wait_for_peers(&mut self, waiting_for: &[usize]) -> Result<(), ChannelError> {
        let device = self.device.clone();
        self.make_room();
        let deadline = Some(Instant::now() + DOUBT);
        match device.interface().wait(deadline, || self.process_arrivals().then_some(())) {
            Ok(()) => return Ok(()),
            Err(selvedge_host::WaitEnd::Aborted) => return Err(ChannelError::Aborted),
            Err(_) => {}
        }
        for index in waiting_for {
            let Some(Some(Outbound { destination, state: State::Open, .. })) = self.outbound.get(*index) else {
                continue;
            };
            let destination = *destination;
            if self.has_closed(destination) {
                self.invalidate(destination, None);
            }
        }
        Ok(())
    }

    /// Frees the slots of a built message that has left or is lost, except those of puts under way.
    pub(super) fn end_built(&mut self, slots: Vec<u8>, progress: &Progress) {
        let put = if self.is_small(progress.total) { 0 } else { progress.at.div_ceil(self.shape.piece_bytes) as usize };
        slots.into_iter().skip(put).for_each(|slot| self.slots.give(slot));
    }

    fn is_small(&self, total: u64) -> bool {
        let frame = self.shape.frame_bytes as u64;
        total <= (frame - words_bytes(true) as u64) + (SMALL_FRAMES - 1) * (frame - words_bytes(false) as u64)
    }

    /// Sends the next piece of a message.
    fn step(&mut self, index: usize, progress: &mut Progress, origin: Origin<'_>) -> Result<Step, ChannelError> {
        // A message that has begun goes on: packets find the new route without help.
        if !progress.has_begun && self.withdrawals_seen != fabric::withdrawals() {
            self.take_withdrawals();
        }
        let Some(Some(entry)) = self.outbound.get(index) else { return Err(ChannelError::NoHandle) };
        if entry.state == State::Invalid {
            return Err(ChannelError::Invalid);
        }
        if entry.credits == 0 {
            return Ok(Step::Wait);
        }
        let (link, route, credit) = (entry.link, entry.route, entry.credits.trailing_zeros() as u8);
        let head = (!progress.has_begun).then_some(progress.head);
        let rest = progress.total - progress.at;
        let mut frame = [0u8; FRAME_BYTES];
        let words = words_bytes(head.is_some());
        let (bytes, payload) = if self.is_small(progress.total) {
            let bytes = rest.min((self.shape.frame_bytes - words) as u64);
            let to = frame[words..].as_mut_ptr();
            // SAFETY: a frame has room for this many bytes, and the message has them from here on.
            unsafe { self.copy_from(origin, progress.at, to, bytes) };
            (bytes, Payload::Inline)
        } else {
            let bytes = rest.min(self.shape.piece_bytes);
            if !self.put_piece(index, credit, progress.at, bytes, origin)? {
                return Ok(Step::Wait);
            }
            (bytes, Payload::Put { bytes: bytes as u32 })
        };
        let (mtt, encoded, length) = Frame::Piece(Piece { head, slot: credit, payload }).encode(route);
        frame[..8].copy_from_slice(&encoded[0].to_le_bytes());
        if length > 8 {
            frame[8..16].copy_from_slice(&encoded[1].to_le_bytes());
        }
        let inline = if payload == Payload::Inline { bytes as usize } else { 0 };
        self.send_frame(link, mtt, &frame[..length + inline])?;
        if let Some(Some(entry)) = self.outbound.get_mut(index) {
            entry.credits &= !(1 << credit);
        }
        (progress.at, progress.has_begun) = (progress.at + bytes, true);
        Ok(Step::Sent)
    }

    /// Puts a piece into its slot at the target. Returns false if the send area has no free slot.
    fn put_piece(
        &mut self,
        index: usize,
        credit: u8,
        at: u64,
        bytes: u64,
        origin: Origin<'_>,
    ) -> Result<bool, ChannelError> {
        if self.puts_unread >= self.watermarks.send {
            self.take_notifications();
        }
        let piece_bytes = self.shape.piece_bytes;
        let slot = match origin {
            Origin::Slots(slots) => *slots.get((at / piece_bytes) as usize).ok_or(ChannelError::Size)?,
            Origin::Program(_) => match self.slots.take() {
                Some(slot) => slot,
                None => return Ok(false),
            },
        };
        let offset = u64::from(slot) * piece_bytes;
        if let (Origin::Program(_), Some(to)) = (origin, self.send_area.at(offset, bytes)) {
            // SAFETY: the slot is this piece's, and the message has these bytes.
            unsafe { self.copy_from(origin, at, to, bytes) };
        }
        let Some(Some(entry)) = self.outbound.get(index) else { return Err(ChannelError::NoHandle) };
        let (to, write) = (entry.destination, entry.slots_nla + u64::from(credit) * piece_bytes);
        let operation = Operation::Put { read: self.send_area.nla + offset, write, bytes: bytes as u32 };
        let (vpid, spec) = (to.vpid as u8, spec::REQUESTER | spec::COMPLETER);
        let descriptor = Descriptor { code: code::BT_PUT, node: to.node, vpid, spec, modifiers: 0, operation };
        let posted = self.device.until_room(|| self.device.post(self.id.vpid, options::TE, &descriptor));
        let refused = match posted {
            Ok(Posted::Started) => {
                self.puts_unread += 1;
                return Ok(true);
            }
            Ok(Posted::Refused) => PostError::Memory,
            Err(error) => error,
        };
        if let Origin::Program(_) = origin {
            self.slots.give(slot);
        }
        Err(refused.into())
    }

    /// Copies bytes of a message from an offset on.
    ///
    /// # Safety
    /// The message has `bytes` bytes from there on, and `to` has room for them. A program's memory is readable.
    unsafe fn copy_from(&self, origin: Origin<'_>, at: u64, to: *mut u8, bytes: u64) {
        self.interface().charge_copy(bytes);
        match origin {
            // SAFETY: the caller's.
            Origin::Program(message) => unsafe { message.copy(at, to, bytes) },
            Origin::Slots(slots) => {
                let mut done = 0;
                for (offset, count) in self.runs(slots, at, bytes) {
                    let Some(from) = self.send_area.at(offset, count) else { return };
                    // SAFETY: the slots are the message's; the runs add up to `bytes`.
                    unsafe { std::ptr::copy_nonoverlapping(from, to.add(done as usize), count as usize) };
                    done += count;
                }
            }
        }
    }

    /// The runs of the send area that hold bytes of a message in slots: offset and bytes.
    pub(super) fn runs<'a>(&self, slots: &'a [u8], at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let piece = self.shape.piece_bytes;
        let (mut at, end) = (at, at + bytes);
        std::iter::from_fn(move || {
            let slot = *slots.get((at / piece) as usize).filter(|_| at < end)?;
            let count = (piece - at % piece).min(end - at);
            let offset = u64::from(slot) * piece + at % piece;
            at += count;
            Some((offset, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_parts_are_copied_in_whole_words_from_any_offset() {
        let bytes: Vec<u8> = (1..=60).collect();
        let part = |from: usize, count: usize| Part { start: bytes[from..].as_ptr(), bytes: count as u64 };
        for (header, first, second) in [(0, 0, 0), (3, 5, 9), (8, 16, 0), (1, 0, 7), (13, 8, 8), (0, 3, 2)] {
            let parts = [part(20, first), part(40, second)];
            let message = Gather { header: part(0, header), data: &parts, tag: 9 };
            let mut whole = bytes[..header].to_vec();
            whole.resize(header.next_multiple_of(8), 0);
            whole.extend(bytes[20..20 + first].iter().chain(&bytes[40..40 + second]));
            whole.resize(whole.len().next_multiple_of(8), 0);
            let head = message.head().expect("it is short");
            assert_eq!(head.bytes(), whole.len() as u64);
            for from in 0..=whole.len() {
                for to in from..=whole.len() {
                    let mut copied = vec![0xff; to - from];
                    // SAFETY: the parts are slices, and the vector has room.
                    unsafe { message.copy(from as u64, copied.as_mut_ptr(), (to - from) as u64) };
                    assert_eq!(copied, whole[from..to], "{header} {first} {second}, {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn lengths_that_words_cannot_say_are_refused() {
        assert_eq!((words_of(0), words_of(1), words_of(8), words_of(9)), (Some(0), Some(1), Some(1), Some(2)));
        assert_eq!(words_of(u64::from(WORDS_MAX) * 8), Some(WORDS_MAX));
        assert_eq!((words_of(u64::from(WORDS_MAX) * 8 + 1), words_of(u64::MAX)), (None, None));
    }
}
