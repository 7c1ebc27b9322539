// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: pieces are attached to messages, and whole messages are matched.
//!
//! A piece holds its credit while its bytes are in its slot, or in memory of the library that replaces a VELO message's
//! slot. The credit is returned when the program frees the message, or when the library moves the bytes to a buffer of
//! its own:
//!
//! 1. A message longer than half of the credits moves to a buffer, or to the waiting receive ([`super::sink`]), as it
//!    arrives.
//! 2. So is an incomplete message whose sender has no credit left.
//! 3. While a send waits here, so are messages of senders that have no credit left.
//!
//! Messages that the program has not requested take at most [`KEPT_BYTES`] of buffers. Senders of others wait until a
//! receive requests them.

use std::time::Instant;

use selvedge_host::WaitEnd;
use selvedge_nic::velo::Endpoint;

use super::error::ChannelError;
use super::host_port::HostPort;
use super::inbound::{
    Arriving, AttachedPiece, Inbound, Incoming, LINE_BYTES, PieceBody, Received, SourceFilter, lines_of,
};
use super::sink::Sink;
use super::vpids::vpids_of;
use super::wire::{Control, FRAME_BYTES, Payload, Piece, Route};

/// Limit of the buffers of messages that no receive has requested.
const KEPT_BYTES: u64 = 64 << 20;
/// Number of spare buffers for later messages, and the longest of these.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 8 << 20;

impl HostPort {
    /// Handles a VELO message with a piece.
    pub(super) fn receive_piece(&mut self, source: Endpoint, route: Route, piece: Piece, inline: &[u8]) {
        let all = self.shape.all();
        let Some(inbound) = self.inbound_of(source, route) else {
            log::error!(
                "atoll: dropped a message from node {} in channel {}, which it has not claimed",
                source.node,
                route.channel
            );
            return;
        };
        let bit = 1u64 << (piece.slot & 63);
        let is_waiting = inbound.waiting.iter().any(|waiting| waiting.piece.slot == piece.slot);
        if bit & all == 0 || bit & inbound.held != 0 || is_waiting {
            log::error!("atoll: dropped a piece that node {} sent without a credit", source.node);
            return;
        }
        let (bytes, body) = match piece.payload {
            Payload::Put { bytes } => (bytes.into(), PieceBody::Slot),
            Payload::Inline => {
                let mut words = [0; FRAME_BYTES / 8];
                for (word, bytes) in words.iter_mut().zip(inline.chunks_exact(8)) {
                    *word = bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
                }
                (inline.len() as u64, PieceBody::Inline(words))
            }
        };
        let arriving = Arriving { piece, bytes, body };
        if inbound.waiting.is_empty() && inbound.after.is_none() && matches!(body, PieceBody::Inline(_)) {
            self.attach(route.channel, arriving);
        } else {
            inbound.waiting.push_back(arriving);
            self.settle(route.channel);
        }
    }

    /// Handles a put that has arrived in the receive area.
    pub(super) fn put_arrived(&mut self, offset: u64) {
        let (channel, slot) = self.shape.slot_at(offset);
        if let Some(inbound) = self.inbound.get_mut(usize::from(channel)) {
            inbound.arrived |= 1 << slot;
            self.settle(channel);
        }
    }

    /// Attaches the pieces that have arrived.
    fn settle(&mut self, channel: u16) {
        while let Some(inbound) = self.inbound.get_mut(usize::from(channel)).filter(|inbound| inbound.after.is_none()) {
            let Some(Arriving { piece, body, .. }) = inbound.waiting.front() else { break };
            let bit = 1u64 << piece.slot;
            if matches!(body, PieceBody::Slot) && inbound.arrived & bit == 0 {
                return;
            }
            inbound.arrived &= !bit;
            let Some(first) = inbound.waiting.pop_front() else { break };
            self.attach(channel, first);
        }
        if self.inbound.get(usize::from(channel)).is_some_and(|inbound| inbound.has_left && inbound.after.is_none()) {
            self.settle_after(channel);
            self.free_channel(channel);
        }
    }

    /// Continues the sender's next channel, once all pieces of a channel that it has left are attached.
    fn settle_after(&mut self, channel: u16) {
        let next = self.inbound.iter().position(|inbound| inbound.after == Some(channel));
        if let Some(next) = next {
            self.inbound[next].after = None;
            self.settle(next as u16);
        }
    }

    /// Drops an incomplete message whose sender has left.
    pub(super) fn drop_broken(&mut self, channel: u16) {
        let Some(inbound) = self.inbound.get_mut(usize::from(channel)) else { return };
        if !inbound.has_left || !inbound.waiting.is_empty() || inbound.messages.back().is_none_or(Incoming::is_whole) {
            return;
        }
        let Some(message) = inbound.messages.pop_back() else { return };
        log::warn!("atoll: node {} has left in the middle of a message", message.source.node);
        inbound.held &= !message.mask();
        if message.has_buffer() {
            self.kept_bytes -= message.head.bytes();
        }
    }

    /// The channel that a peer left last, if pieces of it are missing.
    pub(super) fn last_incomplete_of(&self, source: Endpoint) -> Option<u16> {
        let is_it =
            |inbound: &&Inbound| inbound.source == Some(source) && inbound.has_left && !inbound.waiting.is_empty();
        let last = self.inbound.iter().filter(is_it).max_by_key(|inbound| inbound.number)?;
        self.inbound.iter().position(|inbound| inbound.number == last.number).map(|at| at as u16)
    }

    fn attach(&mut self, channel: u16, Arriving { piece, bytes, body }: Arriving) {
        let (all, filter, kept) = (self.shape.all(), self.filter, self.kept_bytes);
        let Some(inbound) = self.inbound.get_mut(usize::from(channel)) else { return };
        let Some(source) = inbound.source else { return };
        inbound.held |= 1 << piece.slot;
        if let Some(head) = piece.head {
            let (buffer, pieces) = (Vec::new(), Vec::new());
            inbound.messages.push_back(Incoming { source, head, arrived: 0, buffer, sink: None, moved: 0, pieces });
        }
        let fits = |last: &&mut Incoming| {
            (piece.head.is_some() || !last.is_whole()) && last.arrived + bytes <= last.head.bytes()
        };
        let Some(last) = inbound.messages.back_mut().filter(fits) else {
            log::error!("atoll: dropped a piece from node {} that belongs to no message", source.node);
            return self.release(channel, 1 << piece.slot);
        };
        last.arrived += bytes;
        last.pieces.push(AttachedPiece { slot: piece.slot, bytes, body });
        let (is_whole, total, is_moved) = (last.is_whole(), last.head.bytes(), last.is_moved());
        if is_whole {
            self.whole.push_back(channel);
        }
        let has_no_credit = (inbound.held | inbound.pending) == all;
        let is_long = total > u64::from(self.shape.credits / 2) * self.shape.piece_bytes;
        if is_moved || is_long || (has_no_credit && !is_whole) {
            if is_moved || filter.includes(source) || kept + total <= KEPT_BYTES {
                let at = inbound.messages.len() - 1;
                self.move_to_buffer(channel, at);
            } else {
                self.is_kept_waiting = true;
            }
        }
        if has_no_credit {
            self.return_credits(channel);
        }
    }

    /// Whether the message may go to the waiting receive: it is the next one that this receive can get.
    fn takes_sink(&self, channel: u16, at: usize) -> bool {
        let passes_filter = |inbound: &Inbound| {
            let mut sources = inbound.messages.iter().map(|message| message.source);
            sources.any(|source| self.filter.includes(source))
        };
        let others = || self.inbound.iter().enumerate().filter(|(other, _)| *other != usize::from(channel));
        matches!(self.filter, SourceFilter::From { .. })
            && at == 0
            && !others().any(|(_, inbound)| passes_filter(inbound))
    }

    /// Moves the arrived bytes of a message to the waiting receive, or to a buffer, and returns their credits.
    fn move_to_buffer(&mut self, channel: u16, at: usize) {
        let sink = self.sink.filter(|_| self.takes_sink(channel, at));
        let HostPort { inbound, shape, receive_area, spare, kept_bytes, device, .. } = self;
        let Some(message) = inbound.get_mut(usize::from(channel)).and_then(|inbound| inbound.messages.get_mut(at))
        else {
            return;
        };
        let lines = lines_of(&message.head);
        if let Some(sink) = sink.filter(|sink| !message.is_moved() && sink.holds(&message.head)) {
            message.sink = Some(sink);
            self.sink = None;
        }
        if !message.is_moved() && lines != 0 {
            let fitting = spare.iter().position(|buffer| buffer.capacity() >= lines);
            let mut buffer = fitting.map(|at| spare.swap_remove(at)).unwrap_or_default();
            if buffer.try_reserve_exact(lines).is_err() {
                log::error!("atoll: no memory for a message of {} bytes; its sender waits", message.head.bytes());
                return;
            }
            message.buffer = buffer;
            *kept_bytes += message.head.bytes();
        }
        let to = message.buffer.as_mut_ptr().cast::<u8>();
        let mut freed = 0;
        for piece in message.pieces.drain(..) {
            let from = match &piece.body {
                PieceBody::Inline(words) => Some(words.as_ptr().cast::<u8>()),
                PieceBody::Slot => {
                    receive_area.at(shape.slot_offset(channel, piece.slot), piece.bytes).map(|from| from.cast_const())
                }
            };
            if let Some(from) = from {
                // SAFETY: the source has the bytes of a piece, which `attach` has found to be within the message, and so within its buffer
                // or its sink.
                unsafe {
                    match &message.sink {
                        Some(sink) => sink.write(&message.head, message.moved, from, piece.bytes),
                        None => {
                            std::ptr::copy_nonoverlapping(from, to.add(message.moved as usize), piece.bytes as usize)
                        }
                    }
                }
            }
            device.interface().charge_copy(piece.bytes);
            message.moved += piece.bytes;
            freed |= 1u64 << piece.slot;
        }
        self.release(channel, freed);
    }

    /// Marks these slots as free, and reports them to the sender when the watermark is reached.
    fn release(&mut self, channel: u16, freed: u64) {
        let (all, laziness) = (self.shape.all(), self.watermarks.receive);
        let Some(inbound) = self.inbound.get_mut(usize::from(channel)) else { return };
        inbound.held &= !freed;
        inbound.pending |= freed;
        // A sender without any credit must not wait for the watermark.
        if inbound.pending.count_ones() >= laziness || (inbound.held | inbound.pending) == all {
            self.return_credits(channel);
        }
    }

    fn return_credits(&mut self, channel: u16) {
        let Some(inbound) = self.inbound.get_mut(usize::from(channel)) else { return };
        let slots = std::mem::take(&mut inbound.pending);
        if slots != 0 {
            self.control_to_source(channel.into(), Control::Credits { slots });
        }
    }

    /// Returns credits to senders that have none left, while a send waits here.
    pub(super) fn make_room(&mut self) {
        for channel in 0..self.shape.channels {
            self.is_kept_waiting |= self.relieve(channel, SourceFilter::Nothing);
        }
    }

    /// Moves messages of a channel whose sender has no credit left to buffers: incomplete ones that `filter` includes,
    /// or with `Nothing` all that fit the limit. Returns true if the sender of an incomplete one still has no credit.
    fn relieve(&mut self, channel: u16, filter: SourceFilter) -> bool {
        let all = self.shape.all();
        let has_credit = |inbound: &Inbound| inbound.held == 0 || (inbound.held | inbound.pending) != all;
        let Some(inbound) = self.inbound.get(usize::from(channel)).filter(|inbound| !has_credit(inbound)) else {
            return false;
        };
        for at in 0..inbound.messages.len() {
            let Some(message) = self.inbound[usize::from(channel)].messages.get(at) else { break };
            let is_wanted = match filter {
                SourceFilter::Nothing => self.kept_bytes + message.head.bytes() <= KEPT_BYTES,
                _ => filter.includes(message.source) && !message.is_whole(),
            };
            if is_wanted {
                self.move_to_buffer(channel, at);
            }
        }
        let inbound = &self.inbound[usize::from(channel)];
        !has_credit(inbound) && inbound.messages.back().is_some_and(|last| !last.is_whole())
    }

    /// Takes the next whole message that the filter includes.
    fn take_whole(&mut self, filter: SourceFilter) -> Option<Received> {
        let HostPort { whole, inbound, .. } = self;
        let head = |channel: &u16| inbound.get(usize::from(*channel)).and_then(|inbound| inbound.messages.front());
        let at = whole.iter().position(|channel| head(channel).is_some_and(|first| filter.includes(first.source)))?;
        let channel = whole.remove(at)?;
        let message = inbound.get_mut(usize::from(channel))?.messages.pop_front()?;
        Some(Received { channel, message })
    }

    /// Matches the next message that the filter includes, if it has arrived.
    pub fn match_now(&mut self, filter: SourceFilter) -> Result<Received, ChannelError> {
        if let Some(found) = self.look(filter) {
            self.interface().found_something();
            return Ok(found);
        }
        self.interface().poll();
        match self.look(filter) {
            Some(found) => {
                self.interface().found_something();
                Ok(found)
            }
            None => {
                self.interface().found_nothing();
                Err(ChannelError::NoMessage)
            }
        }
    }

    /// Waits for the next message that the filter includes, and matches it.
    pub fn match_wait(&mut self, filter: SourceFilter, deadline: Option<Instant>) -> Result<Received, ChannelError> {
        self.check_held(filter)?;
        let device = self.device.clone();
        device.interface().wait(deadline, || self.look(filter)).map_err(|end| match end {
            WaitEnd::Aborted => ChannelError::Aborted,
            _ => ChannelError::NoMessage,
        })
    }

    /// As [`HostPort::match_wait`]. A long message may go to the sink as it arrives ([`Received::is_placed`]).
    ///
    /// # Safety
    /// The sink's buffers have the sizes that it names.
    pub unsafe fn match_into(&mut self, filter: SourceFilter, sink: Sink) -> Result<Received, ChannelError> {
        self.sink = Some(sink);
        let matched = self.match_wait(filter, None);
        if self.sink.take().is_none() && !matched.as_ref().is_ok_and(Received::is_placed) {
            self.leave_sink();
        }
        matched
    }

    /// Moves an incomplete message from its receive's sink to a buffer, because the receive has ended.
    #[cold]
    fn leave_sink(&mut self) {
        let HostPort { inbound, kept_bytes, .. } = self;
        for message in inbound.iter_mut().flat_map(|inbound| &mut inbound.messages) {
            let Some(sink) = message.sink.take() else { continue };
            message.buffer.reserve_exact(lines_of(&message.head));
            *kept_bytes += message.head.bytes();
            // SAFETY: the sink holds the message, and the buffer has room for all of it.
            unsafe { sink.read(&message.head, message.buffer.as_mut_ptr().cast(), message.moved) };
        }
    }

    fn look(&mut self, filter: SourceFilter) -> Option<Received> {
        if let Some(found) = self.take_whole(filter) {
            return Some(found);
        }
        self.filter = filter;
        self.process_arrivals();
        if self.is_kept_waiting {
            self.is_kept_waiting =
                (0..self.shape.channels).fold(false, |waits, channel| self.relieve(channel, filter) | waits);
        }
        self.filter = SourceFilter::Nothing;
        self.take_whole(filter)
    }

    /// Refuses a receive from a port whose channel is full of matched messages that were not freed: it would never end.
    fn check_held(&self, filter: SourceFilter) -> Result<(), ChannelError> {
        let SourceFilter::From { .. } = filter else { return Ok(()) };
        let is_held = |inbound: &Inbound| {
            inbound.source.is_some_and(|source| filter.includes(source))
                && inbound.held == self.shape.all()
                && inbound.messages.is_empty()
        };
        if self.inbound.iter().any(is_held) { Err(ChannelError::AllHeld) } else { Ok(()) }
    }

    /// The filter for messages of a host port of a node.
    pub fn filter_of(&self, node: u16, number: u8) -> Option<SourceFilter> {
        vpids_of(number, self.device.ports()).map(|vpids| SourceFilter::From { node, vpids })
    }

    /// Whether a message can be received now. Polls the NIC.
    pub fn has_message(&mut self) -> bool {
        let is_there = !self.whole.is_empty() || (self.poll() && !self.whole.is_empty());
        match is_there {
            true => self.interface().found_something(),
            false => self.interface().found_nothing(),
        }
        is_there
    }

    /// Puts a just matched message back: the next receive that includes it gets it.
    pub fn put_back(&mut self, received: Received) {
        let Received { channel, message } = received;
        if let Some(inbound) = self.inbound.get_mut(usize::from(channel)) {
            inbound.messages.push_front(message);
            self.whole.push_front(channel);
        }
    }

    /// Copies bytes of a message from an offset on. The header comes first, then the data.
    ///
    /// # Safety
    /// `to` has room for `bytes`.
    pub unsafe fn copy(&self, received: &Received, offset: u64, to: *mut u8, bytes: u64) {
        let message = &received.message;
        let end = (offset + bytes).min(message.head.bytes());
        let mut from = offset;
        self.interface().charge_copy(end.saturating_sub(from));
        let mut visit = |start: *const u8, begins: u64, bytes: u64| {
            if from < end && from < begins + bytes {
                let count = end.min(begins + bytes) - from;
                // SAFETY: the range is within the piece; the caller says that there is room.
                unsafe {
                    let (start, to) = (start.add((from - begins) as usize), to.add((from - offset) as usize));
                    std::ptr::copy_nonoverlapping(start, to, count as usize);
                }
                from += count;
            }
        };
        visit(message.buffer.as_ptr().cast(), 0, message.moved);
        let mut begins = message.moved;
        for piece in &message.pieces {
            match &piece.body {
                PieceBody::Inline(words) => visit(words.as_ptr().cast(), begins, piece.bytes),
                PieceBody::Slot => {
                    if let Some(start) =
                        self.receive_area.at(self.shape.slot_offset(received.channel, piece.slot), piece.bytes)
                    {
                        visit(start, begins, piece.bytes);
                    }
                }
            }
            begins += piece.bytes;
        }
    }

    /// Frees a message: its slots, or its buffer.
    pub fn free(&mut self, received: Received) {
        let Received { channel, message } = received;
        let mask = message.mask();
        if message.has_buffer() {
            self.kept_bytes -= message.head.bytes();
            if self.spare.len() < SPARE_MAX && message.buffer.capacity() * LINE_BYTES <= SPARE_BYTES_MAX {
                self.spare.push(message.buffer);
            }
        }
        self.release(channel, mask);
        self.free_channel(channel);
    }
}
