// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets in rings: from an initiator that cannot run the target's NIC to the NIC's owner.
//!
//! A process has one ring for packets at each NIC to which it has sent a packet ([`crate::rings`]). A packet is one
//! message of the ring: its header, then its payload. A payload that is too long for the ring goes to a file of the
//! job's directory, the *spill file*. The sender writes it before it enqueues, and the owner removes it. Only the owner
//! dequeues, one thread at a time, under its NIC's lock.
//!
//! Invariants
//! 1. Packets of one process to one NIC are handled in the order in which they were enqueued. Between processes there
//!    is no order.
//! 2. A packet is there as a whole or not at all, also if its sender died ([`selvedge_nic::ring`], invariant 1).
//! 3. After a packet the sender stores 1 to the doorbell's `packets`. The owner stores 0 only under the lock, and looks
//!    for a packet once more after that.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path as FilePath, PathBuf};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use selvedge_nic::Asker;
use selvedge_nic::packet::{HEADER_BYTES, Packet, Place};
use selvedge_nic::ring::{Consumer, Envelope, Message, Producer};
use selvedge_nic::signals::Doorbell;

use crate::endpoint::Endpoint;
use crate::errors::PostError;
use crate::lock::Guard;
use crate::packet_queue::{Sender, Turn};
use crate::rings::{Lines, PACKET_WORDS, Ring, Rings};
use selvedge_os::shortage::{Need, Shortage};

/// The longest payload in a ring; a longer one goes to a file.
pub const RING_PAYLOAD_MAX: usize = Ring::MESSAGE_BYTES_MAX - HEADER_BYTES;
/// Packets of one process that are handled before another's turn.
const BATCH: u32 = 16;

fn spill_path(directory: &FilePath, os_pid: u32, number: u64) -> PathBuf {
    directory.join(format!("{os_pid}.{number}.spill"))
}

fn rings_of<'a>(target: &'a Endpoint, directory: &FilePath) -> Result<Option<&'a Rings>, Shortage> {
    target.packets.rings(|| Rings::open(directory, target.id, target.segment.header().ni, target.owner()))
}

fn with_ring<R>(
    target: &Endpoint,
    sender: &Sender<'_>,
    run: impl FnOnce(&Ring, &mut Producer) -> R,
) -> Result<R, PostError> {
    let rings = match target.packets.mapped() {
        Some(rings) => rings,
        None => rings_at_first(target, sender)?,
    };
    target.packets.with(rings, sender, run)
}

#[cold]
fn rings_at_first<'a>(target: &'a Endpoint, sender: &Sender<'_>) -> Result<&'a Rings, PostError> {
    let rings = rings_of(target, sender.directory).map_err(|shortage| {
        shortage.report();
        PostError::Shortage
    })?;
    // The rings of a process that has ended or closed its NIC are gone, or belong to its successor.
    rings.ok_or(PostError::Gone)
}

/// Enqueues a packet for a NIC.
pub fn enqueue(target: &Endpoint, sender: &Sender<'_>, packet: &Packet, payload: &[u8]) -> Result<(), PostError> {
    if !target.is_ready() {
        return Err(PostError::Gone);
    }
    let mut packet =
        Packet { payload_bytes: payload.len() as u64, sender: sender.os_pid, place: Place::Inline, ..*packet };
    let mut inline = payload;
    if payload.len() > RING_PAYLOAD_MAX {
        if is_full(target, sender) {
            return Err(PostError::Full);
        }
        packet.place = spill(sender, payload)?;
        inline = &[];
    }
    let result = with_ring(target, sender, |ring, producer| enqueue_at(ring, producer, &packet, inline));
    let result = result.and_then(|is_there| if is_there { Ok(()) } else { Err(PostError::Full) });
    match (result, packet.place) {
        (Ok(()), _) => {
            // Pairs with the owner's exchange: a later exchange finds the packet, an earlier one leaves this 1. It is
            // also an exchange: a store over another sender's 1 would hide that sender's packet from the owner.
            target.segment.doorbell().packets.swap(1, SeqCst);
            target.segment.ring();
        }
        (Err(_), Place::Spill(number)) => {
            let _ = std::fs::remove_file(spill_path(sender.directory, sender.os_pid, number));
        }
        _ => {}
    }
    result
}

/// Enqueues a packet in a ring. False if there is no room.
fn enqueue_at(ring: &Ring, producer: &mut Producer, packet: &Packet, payload: &[u8]) -> bool {
    let length = HEADER_BYTES + payload.len();
    let Some(reserved) = ring.reserve(producer, length) else { return false };
    let to = ptr::from_ref(ring).cast::<u8>().cast_mut().wrapping_add(reserved.offset);
    // SAFETY: the reserved room is within the ring and has this many bytes. It belongs to this process until it publishes.
    // The ring consists of atomics, so it may be written through a shared reference's address.
    unsafe {
        ptr::copy_nonoverlapping(packet.encode(false).as_ptr(), to, HEADER_BYTES);
        ptr::copy_nonoverlapping(payload.as_ptr(), to.wrapping_add(HEADER_BYTES), payload.len());
    }
    ring.publish_reserved::<Lines>(producer, &Envelope::default(), length, 0, reserved);
    true
}

/// Whether this process's ring has no room for a packet now.
pub fn is_full(target: &Endpoint, sender: &Sender<'_>) -> bool {
    let has_room = with_ring(target, sender, |ring, producer| ring.reserve(producer, HEADER_BYTES).is_some());
    has_room == Ok(false)
}

/// Maps a NIC's rings, so that [`wait_at`] can poll those of other processes. `wait_at` itself opens no file, because it
/// is called under a lock.
pub fn open(target: &Endpoint, directory: &FilePath) {
    if let Err(shortage) = rings_of(target, directory) {
        shortage.end_process();
    }
}

/// Whether packets of the process `from` wait at a NIC, which is locked. `own`: the id of this process.
#[inline(always)]
pub(crate) fn wait_for(target: &Endpoint, from: u64, own: u64, guard: &Guard<'_>) -> bool {
    guard.signals.doorbell.has_packets() && wait_at(target, from, from == own)
}

/// Whether packets of the process `from` wait at a NIC. `own`: it is this process. The answer is final for the holder
/// of the NIC's lock, unless that process is enqueuing now.
fn wait_at(target: &Endpoint, from: u64, own: bool) -> bool {
    // If this process has not mapped the rings, it has enqueued nothing there. Other processes may have.
    let Some(rings) = target.packets.mapped() else { return !own };
    let ring = rings.packet_ring(pid_of(from));
    ring.is_some_and(|ring| ring.poll().is_some())
}

/// Returns the number of the ring of a process of this host, from its id.
fn pid_of(id: u64) -> usize {
    id as u32 as usize
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
            let _ = std::fs::remove_file(&path);
            match Shortage::of_io(&error, Need::Space(&path, payload.len() as u64)) {
                Some(shortage) => shortage.report(),
                None => log::error!("{}: {error}", path.display()),
            }
            Err(PostError::Shortage)
        }
    }
}

// ---- the owner ----

/// Enqueues any bytes for a NIC as a packet, for a test that plays a hostile peer. False if there is no room.
pub(crate) fn enqueue_bytes(target: &Endpoint, sender: &Sender<'_>, bytes: &[u8]) -> bool {
    let enqueued = with_ring(target, sender, |ring, producer| {
        let Some(reserved) = ring.reserve(producer, bytes.len()) else { return false };
        let to = ptr::from_ref(ring).cast::<u8>().cast_mut().wrapping_add(reserved.offset);
        // SAFETY: see `enqueue_at`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        ring.publish_reserved::<Lines>(producer, &Envelope::default(), bytes.len(), 0, reserved);
        true
    });
    target.segment.doorbell().packets.swap(1, SeqCst);
    enqueued == Ok(true)
}

/// A packet that waits in a ring of the own NIC.
pub struct WaitingPacket<'a> {
    ring: &'a Ring,
    consumer: Consumer,
    message: Message,
}

/// Returns the name of a packet's initiator, if a unit may keep its request.
pub(crate) fn asker(packet: &Packet) -> Option<Asker> {
    let Packet { origin, token, sender, .. } = *packet;
    // Without a start time the word names any process with this number.
    (token != 0).then(|| Asker { origin, process: u64::from(sender) << 32, token })
}

/// A packet that was read: its header, and the place of its payload.
pub struct Taken {
    pub packet: Packet,
    body: Body,
}

enum Body {
    Ring(*const u8),
    Read(Vec<u8>),
}

impl Taken {
    /// Returns address and length of the payload. A payload in a ring is valid until the packet is dequeued.
    pub fn bytes(&self) -> (*const u8, u64) {
        let start = match &self.body {
            Body::Ring(start) => *start,
            Body::Read(bytes) => bytes.as_ptr(),
        };
        (start, self.packet.payload_bytes)
    }
}

/// Returns the next packet of the own NIC, whose lock is held. It stays until [`WaitingPacket::dequeue`]. If there is
/// none, the doorbell's `packets` is 0 afterwards.
pub fn find<'a>(rings: &'a Rings, turn: &mut Turn, bell: &Doorbell) -> Option<WaitingPacket<'a>> {
    if let Some(found) = find_once(rings, turn) {
        return Some(found);
    }
    bell.packets.swap(0, AcqRel);
    let found = find_once(rings, turn);
    if found.is_some() {
        bell.packets.swap(1, SeqCst);
    }
    found
}

/// Whether a packet waits in any ring.
pub fn any(rings: &Rings) -> bool {
    next_ring(rings, 0).is_some()
}

/// Whether a packet of the process with this id waits.
pub fn any_of(rings: &Rings, id: u64) -> bool {
    let ring = rings.packet_ring(pid_of(id));
    ring.is_some_and(|ring| ring.poll().is_some())
}

fn find_once<'a>(rings: &'a Rings, turn: &mut Turn) -> Option<WaitingPacket<'a>> {
    loop {
        let stays = turn.left != 0 && rings.packet_ring(turn.pid).is_some_and(|ring| ring.poll().is_some());
        if !stays {
            (turn.pid, turn.left) = (next_ring(rings, turn.pid + 1)?, BATCH);
        }
        turn.left -= 1;
        let ring = rings.packet_ring(turn.pid)?;
        let consumer = ring.consumer();
        match ring.next::<Lines>(&consumer) {
            Ok(Some(message)) => return Some(WaitingPacket { ring, consumer, message }),
            Ok(None) => turn.left = 0,
            Err(_) => {
                log::error!("the ring of process {} contains data that is not a packet; the ring is closed", turn.pid);
                rings.close_packets(turn.pid);
            }
        }
    }
}

/// Returns the first ring with a packet, from the ring `from` on, in a circle.
fn next_ring(rings: &Rings, from: usize) -> Option<usize> {
    let (first, below) = (from / 64, u64::MAX.checked_shl(from as u32 % 64).unwrap_or(0));
    (0..=PACKET_WORDS).find_map(|step| {
        let word = (first + step) % PACKET_WORDS;
        let mut bits = rings.packets_claimed(word);
        match step {
            0 => bits &= below,
            PACKET_WORDS => bits &= !below,
            _ => {}
        }
        while bits != 0 {
            let pid = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if rings.packet_ring(pid).is_some_and(|ring| ring.poll().is_some()) {
                return Some(pid);
            }
        }
        None
    })
}

impl WaitingPacket<'_> {
    /// Reads the packet's header, and its spill file if it has one.
    pub fn read(&self, directory: &FilePath) -> Result<Taken, String> {
        let Message { offset, length, .. } = self.message;
        if length < HEADER_BYTES {
            return Err("shorter than a header".into());
        }
        let start = ptr::from_ref(self.ring).cast::<u8>().wrapping_add(offset);
        let mut header = [0; HEADER_BYTES];
        // SAFETY: the message is within the ring, and at least as long as a header.
        unsafe { ptr::copy_nonoverlapping(start, header.as_mut_ptr(), HEADER_BYTES) };
        let packet = Packet::decode(&header).map_err(|error| format!("{error:?}"))?;
        let body = match packet.place {
            Place::Inline if packet.payload_bytes <= (length - HEADER_BYTES) as u64 => {
                Body::Ring(start.wrapping_add(HEADER_BYTES))
            }
            Place::Inline => return Err("more payload than its message holds".into()),
            Place::Spill(number) => {
                let path = spill_path(directory, packet.sender, number);
                let bytes = read_spill(&path, packet.payload_bytes);
                let lack = bytes.as_ref().err().and_then(|error| Shortage::of_io(error, Need::File(&path)));
                if let Some(shortage) = lack {
                    // Dropped, the packet would look as if it had never been sent.
                    shortage.end_process();
                }
                Body::Read(bytes.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        Ok(Taken { packet, body })
    }

    /// Dequeues the packet. Its payload in the ring is no longer valid.
    pub fn dequeue(mut self) {
        self.ring.dequeue(&mut self.consumer, &self.message);
    }
}

fn read_spill(path: &FilePath, bytes: u64) -> std::io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let status = file.metadata()?;
    // SAFETY: geteuid only reads.
    if status.uid() != unsafe { libc::geteuid() } || status.len() != bytes {
        return Err(std::io::Error::other("not the file of the packet"));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    file.take(bytes).read_to_end(&mut content)?;
    let _ = std::fs::remove_file(path);
    Ok(content)
}
