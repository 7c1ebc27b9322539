// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that wait for a NIC's owner.
//!
//! The mailbox is a ring of slots in the segment. A sender holds the NIC's lock to add a packet. Only the owner removes
//! packets, one thread at a time, so packets are handled in the order of their arrival. A slot holds the header and up
//! to 128 bytes of payload. A longer payload goes to the NIC's heap. If it does not fit there, it goes to a file in the
//! job's directory. The sender writes the file before it takes the lock; the owner removes it.
//!
//! Invariants
//! 1. Slots from `mail_head` to `mail_tail` are complete. A sender that dies before it advances `mail_tail` adds no
//!    packet.
//! 2. The payload of a packet is complete before its slot is. The heap blocks of a packet are freed with it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use selvedge_nic::Register;
use selvedge_nic::packet::{HEADER_BYTES, Packet, Place};
use selvedge_nic::portals::recover::{blocks_for, decode_words};
use selvedge_nic::tables::MAIL_WORDS;

use crate::endpoint::Endpoint;
use crate::lock::Guard;

/// Largest payload that fits into a slot.
pub const INLINE_BYTES: usize = MAIL_WORDS * 8 - HEADER_BYTES;
/// Largest payload that may go to the heap; a larger one goes to a file.
const HEAP_BYTES_MAX: usize = 64 << 10;

/// Why a packet was not accepted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// There is no free slot now.
    Full,
    /// The owner has ended.
    Gone,
    /// The job's directory has no room for the payload.
    NoSpace,
}

/// The first packet of the mailbox, and its payload.
pub struct Taken {
    pub packet: Packet,
    pub body: Body,
}

/// Where a packet's payload is.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub enum Body {
    /// In the packet's slot.
    Inline([u64; MAIL_WORDS]),
    /// In the NIC's heap.
    Heap(*const u8),
    /// Read from a file.
    Read(Vec<u8>),
}

impl Taken {
    /// Address and length of the payload.
    pub fn bytes(&self) -> (*const u8, u64) {
        let start = match &self.body {
            Body::Inline(words) => words.as_ptr().cast::<u8>().wrapping_add(HEADER_BYTES),
            Body::Heap(start) => *start,
            Body::Read(bytes) => bytes.as_ptr(),
        };
        (start, self.packet.payload_bytes)
    }
}

/// What `post` needs to know of the sender.
pub struct Sender<'a> {
    /// The sender's word for locks.
    pub word: u64,
    pub os_pid: u32,
    pub directory: &'a FilePath,
    /// Numbers the sender's spill files.
    pub spills: &'a AtomicU64,
}

/// The name of a sender's spill file.
fn spill_path(directory: &FilePath, os_pid: u32, number: u64) -> PathBuf {
    directory.join(format!("{os_pid}.{number}.spill"))
}

/// Puts a packet into a NIC's mailbox.
pub fn post(target: &Endpoint, sender: &Sender<'_>, packet: &Packet, payload: &[u8]) -> Result<(), PostError> {
    let mut packet =
        Packet { payload_bytes: payload.len() as u64, sender: sender.os_pid, place: Place::Inline, ..*packet };
    if payload.len() > HEAP_BYTES_MAX {
        packet.place = spill(sender, payload)?;
    }
    let mut result = post_locked(target, sender, &mut packet, payload);
    if result == Err(PostError::NoSpace) && packet.place == Place::Inline {
        packet.place = spill(sender, payload)?;
        result = post_locked(target, sender, &mut packet, payload);
    }
    if let (Err(_), Place::Spill(number)) = (result, packet.place) {
        let _ = std::fs::remove_file(spill_path(sender.directory, sender.os_pid, number));
    }
    result
}

/// Whether a mailbox has no free slot now. The answer may be out of date when it returns.
pub fn is_full(target: &Endpoint) -> bool {
    let bell = target.segment.doorbell();
    let waiting = bell.mail_tail.load(Relaxed).wrapping_sub(bell.mail_head.load(Relaxed));
    waiting >= u64::from(target.segment.limits().mail)
}

fn post_locked(target: &Endpoint, sender: &Sender<'_>, packet: &mut Packet, payload: &[u8]) -> Result<(), PostError> {
    if !target.is_ready() {
        return Err(PostError::Gone);
    }
    let mut guard = target.segment.lock(sender.word);
    let bell = guard.signals.doorbell;
    let (head, tail) = (bell.mail_head.load(Acquire), bell.mail_tail.load(Relaxed));
    let capacity = guard.tables.mail.len() as u64;
    if capacity == 0 || tail.wrapping_sub(head) >= capacity {
        return Err(PostError::Full);
    }
    let inline = packet.place == Place::Inline && payload.len() <= INLINE_BYTES;
    if packet.place == Place::Inline && !inline {
        let block = guard.heap_alloc(blocks_for(payload.len() as u64)).map_err(|_| PostError::NoSpace)?;
        match target.segment.heap_at(block) {
            // SAFETY: `held` says that the block has room for the payload, and the heap allocated it for this packet
            // just now.
            Some((start, held)) if held >= payload.len() as u64 => unsafe {
                std::ptr::copy_nonoverlapping(payload.as_ptr(), start, payload.len());
            },
            _ => {
                guard.heap_free(block);
                return Err(PostError::NoSpace);
            }
        }
        packet.place = Place::Heap(block);
    }
    let mut bytes = [0u8; MAIL_WORDS * 8];
    bytes[..HEADER_BYTES].copy_from_slice(&packet.encode(false));
    if inline {
        bytes[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
    }
    let slot = &mut guard.tables.mail[(tail % capacity) as usize];
    for (word, eight) in slot.words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
    }
    bell.mail_tail.store(tail.wrapping_add(1), Release);
    guard.signals.registers.add(Register::Mail, 1);
    Ok(())
}

fn spill(sender: &Sender<'_>, payload: &[u8]) -> Result<Place, PostError> {
    let number = sender.spills.fetch_add(1, Relaxed);
    let path = spill_path(sender.directory, sender.os_pid, number);
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(payload));
    match written {
        Ok(()) => Ok(Place::Spill(number)),
        Err(error) => {
            log::error!("{}: {error}", path.display());
            let _ = std::fs::remove_file(&path);
            Err(PostError::NoSpace)
        }
    }
}

/// Returns the next packet of the own mailbox. It stays there until [`discard`].
pub fn peek(own: &Endpoint, guard: &mut Guard<'_>, directory: &FilePath) -> Option<Result<Taken, String>> {
    let bell = guard.signals.doorbell;
    let (head, tail) = (bell.mail_head.load(Relaxed), bell.mail_tail.load(Acquire));
    let capacity = guard.tables.mail.len() as u64;
    if head == tail || capacity == 0 {
        return None;
    }
    let words = guard.tables.mail[(head % capacity) as usize].words;
    let packet = match decode_words(&words) {
        Ok(packet) => packet,
        Err(error) => return Some(Err(format!("{error:?}"))),
    };
    let body = match packet.place {
        Place::Inline if packet.payload_bytes <= INLINE_BYTES as u64 => Body::Inline(words),
        Place::Inline => return Some(Err("more payload than its slot holds".into())),
        Place::Heap(block) => match own.segment.heap_at(block) {
            Some((start, held)) if held >= packet.payload_bytes => Body::Heap(start),
            _ => return Some(Err("payload outside of the heap".into())),
        },
        Place::Spill(number) => {
            let path = spill_path(directory, packet.sender, number);
            match read_spill(&path, packet.payload_bytes) {
                Ok(bytes) => Body::Read(bytes),
                Err(error) => return Some(Err(format!("{}: {error}", path.display()))),
            }
        }
    };
    Some(Ok(Taken { packet, body }))
}

/// Removes the packet that was returned last.
pub fn discard(guard: &mut Guard<'_>, taken: Option<&Taken>) {
    if let Some(Taken { packet: Packet { place: Place::Heap(block), .. }, .. }) = taken {
        guard.heap_free(*block);
    }
    let head = &guard.signals.doorbell.mail_head;
    head.store(head.load(Relaxed).wrapping_add(1), Release);
}

fn read_spill(path: &FilePath, bytes: u64) -> std::io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let status = file.metadata()?;
    // SAFETY: geteuid takes no pointer and cannot fail.
    if status.uid() != unsafe { libc::geteuid() } || status.len() != bytes {
        return Err(std::io::Error::other("not the file that the packet tells of"));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    file.take(bytes).read_to_end(&mut content)?;
    let _ = std::fs::remove_file(path);
    Ok(content)
}
