// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payload: puts to the segment (long messages) and to bounce memory (medium messages, through staging memory).
//!
//! Bounce memory has a slot for each credit of each node, for requests of other nodes and for their replies. A node can
//! compute where its slots are at every other node, so it puts without asking.
//!
//! The completer at the target writes a notification with the address of the payload's last byte, when the payload has
//! arrived. The requester writes one when it has read a source that the caller wants to reuse.

use std::collections::BTreeMap;
use std::sync::Mutex;

use selvedge_nic::atu::PAGE_BYTES;
use selvedge_nic::rma::{Descriptor, Notification, Operation, code, options, spec};

use super::engine::{ActiveMessages, gathered};
use super::error::{OpenError, SendError};
use super::memory::{AttachRecord, LONG_BYTES_MAX, Memory, PutSources, Segment};
use super::message::Message;
use super::wire::{Category, Encoded, Header, Kind, inline_bytes_max};
use selvedge_process::device::connection::{PostError, Posted};
use selvedge_process::device::staging::Staging;
use selvedge_process::process::Process;

/// Limit of this node's medium payloads that the unit has not read yet.
const STAGING_SLOTS: u64 = 16;
impl ActiveMessages {
    /// Makes and registers this node's segment, zero-filled, and exchanges segments and handlers (of 256) with all
    /// nodes. Collective: on return, every node may send to every other.
    pub fn attach(&self, segment_bytes: u64, handlers: [u64; 4]) -> Result<(), OpenError> {
        if self.memory.get().is_some() {
            return Err(OpenError::Attached);
        }
        let process = Process::current()?;
        let bounce_bytes = 2 * u64::from(self.nodes) * u64::from(self.credits) * self.medium_bytes;
        let (bounce, bounce_nla) = self.region(&process, bounce_bytes + STAGING_SLOTS * self.medium_bytes)?;
        let (start, nla) = if segment_bytes == 0 { (0, 0) } else { self.region(&process, segment_bytes)? };
        let mine = AttachRecord { segment: Segment { start, bytes: segment_bytes, nla }, bounce_nla, handlers };
        let nodes = gathered(&process, &mine.encode())?.iter().map(AttachRecord::decode).collect();
        let (staging, staging_nla) = (bounce + bounce_bytes, bounce_nla + bounce_bytes);
        let staging = Staging::new(staging, staging_nla, self.medium_bytes, STAGING_SLOTS);
        let local = Mutex::new(PutSources { staging, read: BTreeMap::new() });
        let memory = Memory { nodes, bounce, bounce_nla, local };
        self.memory.set(memory).map_err(|_| OpenError::Attached)?;
        // No message arrives before its target has the records of all nodes.
        process.barrier()?;
        Ok(())
    }

    /// Allocates and registers memory that peers map: its address and its first network logical address.
    fn region(&self, process: &Process, bytes: u64) -> Result<(u64, u64), OpenError> {
        // More than the arena's small blocks, so that it starts at a page.
        let whole = bytes.next_multiple_of(PAGE_BYTES).max(8 * PAGE_BYTES);
        let memory = process.alloc(whole as usize).ok_or(OpenError::NoMemory(bytes))?;
        // SAFETY: the arena has just given these bytes to this function.
        unsafe { memory.as_ptr().write_bytes(0, whole as usize) };
        let start = memory.as_ptr() as u64;
        Ok((start, self.device.register(self.ports[0].vpid, start, whole)?))
    }

    /// A node's segment. `None`: the node does not exist, or no segment is attached.
    pub fn segment_of(&self, node: u16) -> Option<Segment> {
        self.memory.get()?.segment_of(node)
    }

    /// The offset in bounce memory of the payload of a message from `source`.
    fn bounce_offset(&self, kind: Kind, source: u16, slot: u16) -> u64 {
        let node = kind.index() as u64 * u64::from(self.nodes) + u64::from(source);
        (node * u64::from(self.credits) + u64::from(slot)) * self.medium_bytes
    }

    /// Address of a payload that has arrived here as a put, and the network logical address of its end. `None`: the
    /// message is invalid.
    pub(super) fn place_of(&self, kind: Kind, source: u16, header: &Header) -> Option<(u64, u64)> {
        let memory = self.memory.get()?;
        if header.slot >= self.credits {
            return None;
        }
        let (start, nla) = match header.category {
            Category::Long => {
                let segment = memory.segment_of(self.node())?;
                if !segment.holds(header.destination, header.bytes.into()) {
                    return None;
                }
                (header.destination, segment.nla_of(header.destination))
            }
            _ if u64::from(header.bytes) > self.medium_bytes => return None,
            _ => {
                let offset = self.bounce_offset(kind, source, header.slot);
                (memory.bounce + offset, memory.bounce_nla + offset)
            }
        };
        Some((start, nla + u64::from(header.bytes)))
    }

    /// Checks a message. After that only the network can refuse it.
    pub(super) fn check(&self, node: u16, message: &Message<'_>) -> Result<(), SendError> {
        let memory = self.memory.get().ok_or(SendError::NotAttached)?;
        let no_node = SendError::NoNode { node: node.into(), nodes: self.nodes };
        let peer = memory.nodes.get(usize::from(node)).ok_or(no_node)?;
        if !peer.has_handler(message.handler) {
            return Err(SendError::NoHandler { node, handler: message.handler });
        }
        let (bytes, most) = match message.category {
            Category::Short => return Ok(()),
            Category::Medium => (message.bytes, self.medium_bytes),
            Category::Long => (message.bytes, LONG_BYTES_MAX),
        };
        if bytes > most {
            return Err(SendError::TooLong { bytes, most });
        }
        if message.category == Category::Long && bytes != 0 && !peer.segment.holds(message.destination, bytes) {
            return Err(SendError::OutsideSegment { node, start: message.destination, bytes });
        }
        Ok(())
    }

    /// Sends the payload of a checked message, and makes the message that follows it.
    pub(super) fn prepare(
        &self,
        kind: Kind,
        node: u16,
        slot: u16,
        message: &Message<'_>,
    ) -> Result<Encoded, SendError> {
        let mut header = Header {
            category: message.category,
            is_put: false,
            handler: message.handler,
            slot,
            bytes: message.bytes as u32,
            destination: message.destination,
        };
        let mut inline: &[u8] = &[];
        match message.category {
            Category::Short => header.bytes = 0,
            _ if message.bytes == 0 => {}
            Category::Medium if message.bytes as usize <= inline_bytes_max(message.arguments.len()) => {
                // SAFETY: the contract of the C function: these bytes are readable.
                inline = unsafe { std::slice::from_raw_parts(message.start as *const u8, message.bytes as usize) };
            }
            Category::Medium => {
                header.is_put = true;
                self.put_staged(kind, node, slot, message)?;
            }
            Category::Long => {
                header.is_put = true;
                self.put_long(node, message)?;
            }
        }
        Encoded::new(&header, message.arguments, inline).ok_or(SendError::Post(PostError::Length))
    }

    fn put_staged(&self, kind: Kind, node: u16, slot: u16, message: &Message<'_>) -> Result<(), SendError> {
        let memory = self.memory.get().ok_or(SendError::NotAttached)?;
        let there = memory.nodes.get(usize::from(node)).ok_or(SendError::NotAttached)?.bounce_nla;
        let staged = self.wait_for_unit(|| memory.local().staging.take())?;
        // SAFETY: the slot was free, so only this function uses it, and no message is longer. The caller of the C function says that
        // the source can be read.
        unsafe {
            let (from, to) = (message.start as *const u8, staged.start as *mut u8);
            std::ptr::copy_nonoverlapping(from, to, message.bytes as usize);
        }
        let write = there + self.bounce_offset(kind, self.node(), slot);
        let put = self.put(node, staged.nla, write, message.bytes, spec::REQUESTER | spec::COMPLETER);
        if put.is_err() {
            memory.local().staging.give_back(staged.nla);
        }
        put
    }

    /// Puts long payload into the target's segment. Returns when the source was read; at once if the source is in this
    /// node's segment and the caller does not reuse it yet.
    fn put_long(&self, node: u16, message: &Message<'_>) -> Result<(), SendError> {
        let memory = self.memory.get().ok_or(SendError::NotAttached)?;
        let there = memory.segment_of(node).ok_or(SendError::NotAttached)?;
        let own = memory.segment_of(self.node()).ok_or(SendError::NotAttached)?;
        let write = there.nla_of(message.destination);
        if own.holds(message.start, message.bytes) {
            let read = own.nla_of(message.start);
            if message.is_async {
                return self.put(node, read, write, message.bytes, spec::COMPLETER);
            }
            self.put(node, read, write, message.bytes, spec::REQUESTER | spec::COMPLETER)?;
            return self.wait_until_read(memory, read + message.bytes);
        }
        let vpid = self.ports[0].vpid;
        let region = self.device.register(vpid, message.start, message.bytes).map_err(SendError::Source)?;
        let read = region + message.start % PAGE_BYTES;
        let put = self
            .put(node, read, write, message.bytes, spec::REQUESTER | spec::COMPLETER)
            .and_then(|()| self.wait_until_read(memory, read + message.bytes));
        let pages = (message.start % PAGE_BYTES + message.bytes).div_ceil(PAGE_BYTES);
        if let Err(error) = self.device.unregister(vpid, region, pages) {
            log::error!("gasnet: {error}");
        }
        put
    }

    fn wait_until_read(&self, memory: &Memory, end: u64) -> Result<(), SendError> {
        self.wait_for_unit(|| {
            let mut local = memory.local();
            let count = local.read.get_mut(&end)?;
            *count -= 1;
            if *count == 0 {
                local.read.remove(&end);
            }
            Some(())
        })
    }

    /// Waits for a value of `look`, which notifications of this node's own puts cause. No handler runs meanwhile.
    fn wait_for_unit<T>(&self, mut look: impl FnMut() -> Option<T>) -> Result<T, SendError> {
        if let Some(found) = look() {
            return Ok(found);
        }
        let look = || {
            self.reader().take_notifications(self);
            look()
        };
        self.interface().wait(None, look).map_err(|_| SendError::Aborted)
    }

    fn put(&self, node: u16, read: u64, write: u64, bytes: u64, spec: u8) -> Result<(), SendError> {
        let vpid = self.peer(node).ok_or(SendError::NotAttached)?.vpids[0] as u8;
        let operation = Operation::Put { read, write, bytes: bytes as u32 };
        let descriptor = Descriptor { code: code::BT_PUT, node, vpid, spec, modifiers: 0, operation };
        match self.device.until_room(|| self.device.post(self.ports[0].vpid, options::TE, &descriptor))? {
            Posted::Started => Ok(()),
            Posted::Refused => Err(SendError::Post(PostError::Memory)),
        }
    }

    /// Handles the notification that the source of an own put was read.
    pub(super) fn source_was_read(&self, notification: &Notification) {
        let Some(memory) = self.memory.get() else { return };
        let last = notification.word0 + u64::from(notification.size);
        let mut local = memory.local();
        if !local.staging.give_back(last) {
            *local.read.entry(last + 1).or_insert(0) += 1;
        }
    }
}
