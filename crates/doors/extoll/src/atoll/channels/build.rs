// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that a program fills in place: it takes slots of the send area, copies header and data, then commits.
//!
//! A message is built as it is sent: its header in whole words, then its data. Bytes not copied are zero.

use super::area;
use super::error::ChannelError;
use super::host_port::HostPort;
use super::outbound::Handle;
use super::send::{Origin, Progress, words_of};
use super::wire::{Head, WORD};

/// A message under construction.
#[derive(Debug)]
pub struct Building {
    slots: Vec<u8>,
    /// Bytes of its slots, in whole words.
    capacity: u64,
    header_bytes: u64,
    data_bytes: u64,
    /// Bytes of data copied so far.
    filled: u64,
    has_header: bool,
    /// Whether it, or pieces of it, have left.
    is_gone: bool,
    pub tag: u32,
    pub handle: Option<Handle>,
}

impl Building {
    /// Whether it has left or was freed.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Sets both lengths, within the message's capacity. The header's length is fixed once something was copied.
    pub fn set_lengths(&mut self, header_bytes: u64, data_bytes: u64) -> Result<(), ChannelError> {
        let whole = |bytes: u64| words_of(bytes).map(|words| u64::from(words) * WORD).ok_or(ChannelError::Size);
        let is_begun = self.has_header || self.filled != 0;
        if whole(header_bytes)? + whole(data_bytes)? > self.capacity || (is_begun && header_bytes != self.header_bytes)
        {
            return Err(ChannelError::Size);
        }
        (self.header_bytes, self.data_bytes) = (header_bytes, data_bytes);
        self.filled = self.filled.min(data_bytes);
        Ok(())
    }

    /// Bytes of data that can still be copied.
    pub fn room(&self) -> u64 {
        self.data_bytes - self.filled
    }

    fn data_at(&self) -> u64 {
        self.header_bytes.next_multiple_of(WORD)
    }
}

impl HostPort {
    /// Bytes of the longest message that can be built. [`HostPort::send`] sends longer ones.
    pub fn build_bytes_max(&self) -> u64 {
        u64::from(area::BUILDING_MAX) * self.shape.piece_bytes
    }

    /// Takes slots of the send area for a message. `NoRoom`: too few are free now; messages under way will free theirs.
    pub fn build(&mut self, header_bytes: u64, data_bytes: u64) -> Result<Building, ChannelError> {
        let (header, data) = (words_of(header_bytes), words_of(data_bytes));
        let (Some(header), Some(data)) = (header, data) else { return Err(ChannelError::Size) };
        let capacity = (u64::from(header) + u64::from(data)) * WORD;
        let count = capacity.div_ceil(self.shape.piece_bytes);
        if count > area::BUILDING_MAX.into() {
            return Err(ChannelError::Size);
        }
        let taken = self.slots.take_many(count as u32);
        let slots = match taken {
            Some(slots) => slots,
            None => {
                self.poll();
                self.slots.take_many(count as u32).ok_or(ChannelError::NoRoom)?
            }
        };
        let building = Building {
            slots,
            capacity,
            header_bytes,
            data_bytes,
            filled: 0,
            has_header: false,
            is_gone: false,
            tag: 0,
            handle: None,
        };
        Ok(building)
    }

    /// Copies the header, or its first bytes.
    ///
    /// # Safety
    /// `from` has `bytes` readable bytes.
    pub unsafe fn copy_header(&mut self, to: &mut Building, from: *const u8, bytes: u64) -> Result<(), ChannelError> {
        if bytes > to.header_bytes {
            return Err(ChannelError::Size);
        }
        // SAFETY: the caller's.
        unsafe { self.write(&to.slots, 0, from, bytes) };
        self.zero(&to.slots, bytes, to.data_at() - bytes);
        to.has_header = true;
        Ok(())
    }

    /// Copies data behind the data copied before.
    ///
    /// # Safety
    /// `from` has `bytes` readable bytes.
    pub unsafe fn copy_data(&mut self, to: &mut Building, from: *const u8, bytes: u64) -> Result<(), ChannelError> {
        if bytes > to.room() {
            return Err(ChannelError::Size);
        }
        // SAFETY: the caller's.
        unsafe { self.write(&to.slots, to.data_at() + to.filled, from, bytes) };
        to.filled += bytes;
        Ok(())
    }

    /// Sends a message to its connection, and waits for credits. Then the message is empty. After an error it is
    /// unchanged, unless pieces of it have left.
    pub fn commit(&mut self, message: &mut Building) -> Result<(), ChannelError> {
        let index = self.index_of(message.handle.ok_or(ChannelError::NoHandle)?)?;
        let words = |bytes| words_of(bytes).ok_or(ChannelError::Size);
        let (header_words, data_words) = (words(message.header_bytes)?, words(message.data_bytes)?);
        if !message.has_header {
            self.zero(&message.slots, 0, message.data_at());
        }
        let (from, to) = (message.data_at() + message.filled, message.data_at() + u64::from(data_words) * WORD);
        self.zero(&message.slots, from, to - from);
        let mut progress = Progress::new(Head { tag: message.tag, header_words, data_words });
        let sent = self.send_whole(index, &mut progress, Origin::Slots(&message.slots));
        if sent.is_ok() || progress.has_begun() {
            self.end_built(std::mem::take(&mut message.slots), &progress);
            message.is_gone = true;
        }
        sent
    }

    /// Frees a message that is not sent.
    pub fn abandon(&mut self, message: Building) {
        message.slots.into_iter().for_each(|slot| self.slots.give(slot));
    }

    /// # Safety
    /// `from` has `bytes` readable bytes.
    unsafe fn write(&mut self, slots: &[u8], at: u64, from: *const u8, bytes: u64) {
        self.interface().charge_copy(bytes);
        let mut done = 0;
        for (offset, count) in self.runs(slots, at, bytes) {
            let Some(to) = self.send_area.at(offset, count) else { return };
            // SAFETY: the slots are the message's alone; the runs add up to at most `bytes`.
            unsafe { std::ptr::copy_nonoverlapping(from.add(done as usize), to, count as usize) };
            done += count;
        }
    }

    fn zero(&mut self, slots: &[u8], at: u64, bytes: u64) {
        for (offset, count) in self.runs(slots, at, bytes) {
            let Some(to) = self.send_area.at(offset, count) else { return };
            // SAFETY: the slots are the message's alone.
            unsafe { to.write_bytes(0, count as usize) };
        }
    }
}
