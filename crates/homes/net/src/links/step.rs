// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A step of progress: hands over packets that have arrived, and sends packets that wait.

use std::time::{Duration, Instant};

use selvedge_host::links::add;
use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use super::progress_state::ProgressState;
use super::shared::Shared;
use crate::endpoint::{Completion, ReceivedFrame};
use crate::errors::LinkError;
use crate::frame::FrameError;
use crate::ids::{NicName, PeerId};
use crate::incoming::{Frame, PacketReceiver, RejectedFrame};
use crate::settings::Check;
use crate::sink::ProgressCaller;

/// Rounds in a row in which something arrived, before waiting packets are sent.
const ROUNDS_PER_FLUSH: u32 = 8;
/// Empty polls of a program in a row, without a packet between them, before waiting packets are sent. Then the program
/// is at rest. A program that has just taken a message often sends one, and a response travels with it. The progress
/// thread does not wait for such polls.
const IDLE_POLLS: u32 = 4;

/// Less than the time that the kernel takes to unmap memory. A thread that makes its next step sooner has unmapped none.
const UNMAP_MIN: Duration = Duration::from_nanos(400);

impl ProgressState {
    /// Hands over packets that have arrived. If there are none, sends packets that wait. Returns whether there may be
    /// more.
    pub(super) fn step(&mut self, shared: &Shared, caller: ProgressCaller) -> bool {
        shared.state.serve();
        let (mut failed, mut unsent) = (Vec::new(), Vec::new());
        let may_have_unmapped = self.stepped.take().is_none_or(|at| at.elapsed() >= UNMAP_MIN);
        let (unmapped, uses_program_memory);
        let more = {
            let mut senders = shared.lock();
            unmapped = if may_have_unmapped { senders.unmapped_places() } else { Vec::new() };
            if may_have_unmapped && senders.find_unmapped_payloads() {
                senders.send_all(&shared.settings, &mut failed, &mut unsent);
            }
            let more = senders.poll(&mut self.completions);
            uses_program_memory = senders.uses_program_memory();
            let has_come = |event: &Completion| matches!(event, Completion::Received(_) | Completion::Read { .. });
            let is_idle = !self.completions.iter().any(has_come);
            self.rounds = if is_idle { 0 } else { self.rounds + 1 };
            let is_busy = senders.has_taken() || !is_idle;
            self.idle_rounds = if is_busy { 0 } else { self.idle_rounds + 1 };
            let is_at_rest = self.idle_rounds >= if caller == ProgressCaller::Thread { 1 } else { IDLE_POLLS };
            if is_at_rest {
                senders.note_rest();
            }
            if is_at_rest || self.rounds % ROUNDS_PER_FLUSH == ROUNDS_PER_FLUSH - 1 {
                senders.send_all(&shared.settings, &mut failed, &mut unsent);
            }
            more
        };
        unmapped.into_iter().for_each(|tag| self.place_unmapped(tag));
        let found = more || !self.completions.is_empty();
        let mut used = Vec::new();
        for completion in std::mem::take(&mut self.completions) {
            match completion {
                Completion::Received(frame) => self.take_received(shared, frame, caller, &mut used),
                Completion::Sent { tag } => shared.lock().frame_completed(tag),
                Completion::NotSent { tag, why } => {
                    shared.lock().frame_completed(tag);
                    failed.push((PeerId(tag), LinkError::Endpoint(why)));
                }
                Completion::Read { tag, result } => self.take_read(shared, (tag, result), caller),
            }
        }
        self.take_delayed(shared, caller, &mut used);
        shared.recycle(used);
        self.read_payloads(shared, caller, &mut failed);
        // The program's next packet carries its responses. The progress thread cannot tell when it comes, so it sends
        // them.
        if caller == ProgressCaller::Thread && !more {
            shared.lock().send_all(&shared.settings, &mut failed, &mut unsent);
        }
        for (peer, (to, packet)) in unsent {
            log::error!("the program has unmapped memory of a message before another host had it; the message fails");
            shared.sink.unreadable(peer, to, &packet);
        }
        for (peer, error) in failed {
            shared.lose(shared.lock(), peer, &error);
        }
        self.stepped = uses_program_memory.then(Instant::now);
        found
    }

    /// Takes a frame that has arrived, through the faulty network if there is one. `used` gets the frames that are used
    /// up.
    fn take_received(&mut self, shared: &Shared, frame: ReceivedFrame, caller: ProgressCaller, used: &mut Vec<Frame>) {
        let Some(mut faulty) = self.faulty.take() else {
            return self.take_frame(shared, Frame::Received(frame), caller, used);
        };
        faulty.take(&frame, Instant::now(), |copy| self.take_frame(shared, Frame::Copied(copy), caller, used));
        self.faulty = Some(faulty);
        used.push(Frame::Received(frame));
    }

    fn take_delayed(&mut self, shared: &Shared, caller: ProgressCaller, used: &mut Vec<Frame>) {
        let Some(mut faulty) = self.faulty.take() else { return };
        faulty.release(Instant::now(), |copy| self.take_frame(shared, Frame::Copied(copy), caller, used));
        self.faulty = Some(faulty);
    }

    /// Hands a frame's packets over. `used` gets the frames that are used up.
    fn take_frame(&mut self, shared: &Shared, frame: Frame, caller: ProgressCaller, used: &mut Vec<Frame>) {
        let link = frame.get(4..8).and_then(|bytes| bytes.first_chunk().copied()).map(u32::from_le_bytes);
        let link = link.and_then(|link| Some((link as usize, self.incoming.get_mut(link as usize)?)));
        let Some((number, incoming)) = link else {
            // A damaged frame may carry the number of another link. It is sent again.
            let level = if shared.settings.check == Check::None { log::Level::Warn } else { log::Level::Debug };
            log::log!(level, "a frame of {} bytes on an unknown link was dropped", frame.len());
            return used.push(frame);
        };
        let link = incoming.peer().and_then(|peer| {
            let outgoing = &mut shared.lock().peers[peer].outgoing;
            outgoing.peer_answered();
            outgoing.link().cloned()
        });
        let (bytes, before) = (frame.len() as u64, incoming.counts());
        let taken = incoming.take(frame, &SinkReceiver { shared, caller }, used);
        if let Some(link) = link {
            let (counters, now) = (&link.received, incoming.counts());
            for (counter, by) in [
                (&counters.frames, 1),
                (&counters.frame_bytes, bytes),
                (&counters.packets, now.packets - before.packets),
                (&counters.packet_bytes, now.packet_bytes.wrapping_sub(before.packet_bytes)),
                (&counters.damaged, now.damaged - before.damaged),
                (&counters.unordered, now.unordered - before.unordered),
            ] {
                add(counter, by);
            }
        }
        if incoming.reads().is_some_and(|reads| !reads.is_empty()) && !self.waiting.contains(&number) {
            self.waiting.push(number);
        }
        if let Err(why) = taken {
            if why == RejectedFrame::Foreign {
                log::warn!("a frame was dropped: {why}");
            } else if let Some(peer) = incoming.peer() {
                let error = match shared.settings.check {
                    Check::None => LinkError::Damaged(why.to_string()),
                    Check::Crc | Check::Mac => LinkError::Disconnected(why.to_string()),
                };
                shared.lose(shared.lock(), peer, &error);
            }
        }
    }
}

struct SinkReceiver<'a> {
    shared: &'a Shared,
    caller: ProgressCaller,
}

impl PacketReceiver for SinkReceiver<'_> {
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64 {
        self.shared.sink.payload_max(from, to, packet)
    }

    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]) {
        self.shared.sink.packet(from, to, packet, payload, self.caller);
    }

    fn payloads_read(&self, peer: PeerId, count: u64) -> Result<(), FrameError> {
        self.shared.lock().payloads_read(peer, count)
    }
}
