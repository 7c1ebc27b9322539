// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of an applet: its ranks, its connections, and the messages that receives have passed over.
//!
//! Invariant: a message that waits here has arrived before all messages of its sender that are still in the port.

use std::collections::{BTreeMap, VecDeque};

use crate::atoll::atollrun;
use crate::atoll::channels::send::{Gather, Part};
use crate::atoll::channels::{ChannelError, HostPort, Received, SourceFilter};
use crate::atoll::objects::Port;
use crate::atoll::port::{pack_id, source_filter};

use super::codes::{Code, Outcome};

/// The most bytes of messages that wait, beside one message.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// Length of a message's header: its length in bytes.
const HEADER_BYTES: usize = 8;

/// Messages that a receive or probe selects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    pub from: Option<u32>,
    pub tag: Option<u32>,
}

impl Selection {
    fn includes(&self, about: &About) -> bool {
        self.from.is_none_or(|from| from == about.from) && self.tag.is_none_or(|tag| tag == about.tag)
    }
}

/// The description of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub from: u32,
    pub tag: u32,
    pub bytes: usize,
}

struct Message {
    about: About,
    data: Vec<u8>,
}

pub struct Applet {
    /// Id of each rank's port, and the ranks by id.
    ids: Vec<u32>,
    ranks: BTreeMap<u32, u32>,
    /// Connection to each rank; 0: none yet.
    handles: Vec<u32>,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
}

/// The port of the applet's process.
///
/// # Safety
/// One thread at a time is in the library, as `swordfish.h` demands.
unsafe fn port<'a>() -> Outcome<&'a mut HostPort> {
    // SAFETY: the port is from `atollrun_init`, or NULL; one thread uses it.
    Ok(unsafe { Port::of(atollrun::atollrun_port()) }?)
}

impl Applet {
    /// Joins the job, and learns the ports of all ranks.
    pub fn start() -> Outcome<Applet> {
        // A connection takes room at the peer, so that only those in use are made.
        atollrun::atollrun_set_auto_connect(0);
        match atollrun::atollrun_init(std::ptr::null_mut(), std::ptr::null_mut()) {
            0 => {}
            code => {
                let text = crate::atoll::codes::Code::text_of(code).unwrap_or(c"an unknown error");
                log::error!("SWORDFISH_Init: {}", text.to_string_lossy());
                return Err(Code::Job);
            }
        }
        let ids: Vec<u32> = (0..atollrun::atollrun_size()).map(|rank| atollrun::atollrun_id(rank)).collect();
        let ranks = (0..).zip(&ids).map(|(rank, id)| (*id, rank)).collect();
        let handles = vec![0; ids.len()];
        Ok(Applet { ids, ranks, handles, waiting: VecDeque::new(), waiting_bytes: 0 })
    }

    /// The rank with this number.
    pub fn rank(&self, number: i32) -> Outcome<u32> {
        u32::try_from(number).ok().filter(|rank| (*rank as usize) < self.ids.len()).ok_or(Code::Rank)
    }

    /// Sends a message.
    ///
    /// # Safety
    /// `data` has `bytes` readable bytes; one thread is in the library.
    pub unsafe fn send(&mut self, to: u32, tag: u32, data: *const u8, bytes: usize) -> Outcome {
        // SAFETY: the caller's.
        let port = unsafe { port() }?;
        let handle = &mut self.handles[to as usize];
        let id = self.ids[to as usize];
        if *handle == 0 {
            *handle = port.connect(id as u16, (id >> 16) as u8)?;
        }
        let length = (bytes as u64).to_le_bytes();
        let part = |start: *const u8, bytes: usize| Part { start, bytes: bytes as u64 };
        let message = Gather { header: part(length.as_ptr(), HEADER_BYTES), data: &[part(data, bytes)], tag };
        // SAFETY: the header is here; the caller says that the data can be read.
        match unsafe { port.send(&[*handle], &message) } {
            // Nothing of the message has been sent. The route may have changed, so the channel is connected anew.
            Err(ChannelError::Invalid) => {
                let _ = port.disconnect(*handle);
                *handle = 0;
                *handle = port.connect(id as u16, (id >> 16) as u8)?;
                // SAFETY: as before.
                Ok(unsafe { port.send(&[*handle], &message) }?)
            }
            sent => Ok(sent?),
        }
    }

    /// Receives the oldest message of a selection, and waits for it. `Err` with the message's description: it has no
    /// room, and waits here.
    ///
    /// # Safety
    /// `data` has `room` bytes; one thread is in the library.
    pub unsafe fn receive(
        &mut self,
        selection: Selection,
        data: *mut u8,
        room: usize,
    ) -> Result<About, (Code, Option<About>)> {
        // SAFETY: the caller's.
        let port = unsafe { port() }.map_err(|code| (code, None))?;
        let filter = self.filter(port, selection).map_err(|code| (code, None))?;
        loop {
            if let Some(at) = self.waiting.iter().position(|message| selection.includes(&message.about)) {
                let about = self.waiting[at].about;
                if about.bytes > room {
                    return Err((Code::Size, Some(about)));
                }
                let Some(message) = self.waiting.remove(at) else { continue };
                self.waiting_bytes -= message.data.len();
                // SAFETY: the message has no more bytes than the room; a vector is not the program's memory.
                unsafe { std::ptr::copy_nonoverlapping(message.data.as_ptr(), data, about.bytes) };
                return Ok(about);
            }
            if self.waiting_bytes > WAITING_BYTES_MAX {
                return Err((Code::Full, None));
            }
            let received = port.match_wait(filter, None).map_err(|error| (error.into(), None))?;
            let Some(about) = self.about(port, &received) else {
                port.free(received);
                continue;
            };
            if selection.includes(&about) && about.bytes <= room {
                // SAFETY: the caller says that there is room.
                unsafe { port.copy(&received, HEADER_BYTES as u64, data, about.bytes as u64) };
                port.free(received);
                return Ok(about);
            }
            self.keep(port, about, received);
        }
    }

    /// Describes the oldest message of a selection that has arrived.
    ///
    /// # Safety
    /// One thread is in the library.
    pub unsafe fn probe(&mut self, selection: Selection) -> Outcome<About> {
        // SAFETY: the caller's.
        let port = unsafe { port() }?;
        let filter = self.filter(port, selection)?;
        if let Some(message) = self.waiting.iter().find(|message| selection.includes(&message.about)) {
            return Ok(message.about);
        }
        loop {
            if self.waiting_bytes > WAITING_BYTES_MAX {
                return Err(Code::Full);
            }
            let received = port.match_now(filter)?;
            let Some(about) = self.about(port, &received) else {
                port.free(received);
                continue;
            };
            self.keep(port, about, received);
            if selection.includes(&about) {
                return Ok(about);
            }
        }
    }

    fn filter(&self, port: &HostPort, selection: Selection) -> Outcome<SourceFilter> {
        match selection.from {
            Some(rank) => Ok(source_filter(port, self.ids[rank as usize])?),
            None => Ok(SourceFilter::Any),
        }
    }

    /// Describes a message of the port, which may come from a process that is no applet.
    fn about(&self, port: &mut HostPort, received: &Received) -> Option<About> {
        let id = pack_id(received.source().node, port.number_of(received.source()));
        let mut length = [0; HEADER_BYTES];
        if received.header_bytes() as usize == HEADER_BYTES {
            // SAFETY: the array has as many bytes.
            unsafe { port.copy(received, 0, length.as_mut_ptr(), HEADER_BYTES as u64) };
        }
        let bytes = u64::from_le_bytes(length);
        match self.ranks.get(&id) {
            Some(&from) if bytes <= received.data_bytes() => {
                Some(About { from, tag: received.tag(), bytes: bytes as usize })
            }
            _ => {
                log::error!("swordfish: a message from node {} is not an applet's", received.source().node);
                None
            }
        }
    }

    /// Moves a message out of the port, so that it holds no room of its sender.
    fn keep(&mut self, port: &mut HostPort, about: About, received: Received) {
        let mut data = vec![0; about.bytes];
        // SAFETY: the vector has as many bytes.
        unsafe { port.copy(&received, HEADER_BYTES as u64, data.as_mut_ptr(), about.bytes as u64) };
        port.free(received);
        self.waiting_bytes += data.len();
        self.waiting.push_back(Message { about, data });
    }
}
