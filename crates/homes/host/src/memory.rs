// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves bytes between processes: the bus of a request.
//!
//! Each end of a move is directly mapped (own memory, or a mapped arena), or reached by cross-memory attach. If both
//! ends need attach (a triggered operation between two other processes), the bytes pass through a buffer of this
//! process.
//!
//! Aligned words of 4 and 8 bytes in directly mapped memory are moved by one load and one store. So a program that
//! polls such a word never sees a torn value.

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::scatter::Region;
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Asker, Bus, Fault};

use crate::config::Path;
use crate::endpoint::{Access, Endpoint, Place};
use selvedge_os::cma::{self, CmaError};
use selvedge_os::process::Identity;
use selvedge_os::{copy, lines};

/// The source of a request's payload.
#[derive(Clone, Copy)]
pub enum Payload<'a> {
    /// There is no payload.
    Nothing,
    /// The initiator's memory.
    Memory(&'a Endpoint, &'a Side),
    /// Bytes that arrived with the packet.
    Bytes(*const u8, u64),
}

/// The destination of a request's reply.
pub enum Reply<'a> {
    Nothing,
    Memory(&'a Endpoint, &'a Side),
    /// The reply travels in a packet.
    Bytes(&'a mut Vec<u8>),
}

/// The bus of one request.
pub struct LiveBus<'a> {
    pub target: &'a Endpoint,
    pub payload: Payload<'a>,
    pub reply: Reply<'a>,
    pub path: Path,
    /// The name of its initiator, if a unit may keep the request.
    pub asker: Option<Asker>,
}

/// A bus without memory, for the owner's changes of its own lists. It fetches the cache lines that peers may hold.
pub struct ListBus;

impl Bus for ListBus {
    #[inline(always)]
    fn prefetch_write<T>(&mut self, record: &T) {
        lines::about_to_change(record);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    From,
    To,
    Gone,
}

const THROUGH_BYTES: usize = 64 << 10;

impl<'a> LiveBus<'a> {
    /// Makes the bus for a command of the initiator, whose payload and reply are in the initiator's own memory.
    #[inline(always)]
    pub fn of(command: &'a Command, initiator: &'a Endpoint, target: &'a Endpoint, path: Path) -> LiveBus<'a> {
        let payload = match command.has_payload() {
            true => Payload::Memory(initiator, &command.source),
            false => Payload::Nothing,
        };
        let reply = match command.has_reply() {
            true => Reply::Memory(initiator, &command.sink),
            false => Reply::Nothing,
        };
        LiveBus { target, payload, reply, path, asker: None }
    }

    /// Makes the bus for a request whose bytes do not pass through it.
    pub fn without_payload(target: &'a Endpoint, path: Path) -> LiveBus<'a> {
        LiveBus { target, payload: Payload::Nothing, reply: Reply::Nothing, path, asker: None }
    }
}

impl LiveBus<'_> {
    fn target_place(&self, address: u64, bytes: u64, access: Access) -> Result<Place, Fault> {
        match self.target.resolve(address, bytes, access, self.path) {
            Place::Unmapped | Place::Unreachable => Err(Fault::Target),
            place => Ok(place),
        }
    }

    fn move_payload(&self, offset: u64, to: Place, bytes: u64) -> Result<(), Fault> {
        match self.payload {
            Payload::Nothing => Err(Fault::Initiator),
            Payload::Bytes(start, held) => {
                if offset > held || bytes > held - offset {
                    return Err(Fault::Initiator);
                }
                let from = Place::Direct(start.wrapping_add(offset as usize).cast_mut());
                copy(from, to, bytes).map_err(initiator_to_target)
            }
            Payload::Memory(initiator, side) => {
                each(initiator, side, offset, bytes, self.path, Access::Read, |from, at, bytes| {
                    copy(from, shift(to, at), bytes).map_err(initiator_to_target)
                })
            }
        }
    }

    fn move_reply(&mut self, from: Place, offset: u64, bytes: u64) -> Result<(), Fault> {
        match &mut self.reply {
            Reply::Nothing => Err(Fault::Initiator),
            Reply::Bytes(buffer) => {
                let end = (offset + bytes) as usize;
                if buffer.len() < end {
                    buffer.resize(end, 0);
                }
                let to = Place::Direct(buffer[offset as usize..].as_mut_ptr());
                copy(from, to, bytes).map_err(target_to_initiator)
            }
            Reply::Memory(initiator, side) => {
                each(initiator, side, offset, bytes, self.path, Access::Write, |to, at, bytes| {
                    copy(shift(from, at), to, bytes).map_err(target_to_initiator)
                })
            }
        }
    }
}

impl Bus for LiveBus<'_> {
    fn asker(&mut self) -> Option<Asker> {
        self.asker
    }

    fn is_alive(&mut self, process: u64) -> bool {
        Identity::word_is_alive(process)
    }

    #[inline(always)]
    fn reaches(&mut self, address: u64, bytes: u64) -> bool {
        self.target.own
            || self.target.in_place(address, bytes, self.path).is_some()
            || self.target.resolve(address, bytes, Access::Write, self.path) != Place::Unreachable
    }

    #[inline(always)]
    fn put_mapped(&mut self, payload_offset: u64, address: u64, bytes: u64) -> bool {
        let Payload::Memory(initiator, side) = self.payload else { return false };
        let start = side.start.wrapping_add(payload_offset);
        bytes == 0 || (side.iov == NONE && move_at_hand((initiator, start), (self.target, address), bytes, self.path))
    }

    #[inline(always)]
    fn prefetch_write<T>(&mut self, record: &T) {
        lines::about_to_change(record);
    }

    #[inline]
    fn put(&mut self, payload_offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let to = self.target_place(address, bytes, Access::Write)?;
        self.move_payload(payload_offset, to, bytes)
    }

    #[inline]
    fn get(&mut self, address: u64, reply_offset: u64, bytes: u64) -> Result<(), Fault> {
        if let (Reply::Memory(initiator, side), Some(from)) =
            (&self.reply, self.target.in_place(address, bytes, self.path))
        {
            let start = side.start.wrapping_add(reply_offset);
            if side.iov == NONE {
                if let Some(to) = initiator.in_place(start, bytes, self.path) {
                    copy_direct(from.as_ptr(), to.as_ptr(), bytes as usize);
                    return Ok(());
                }
            }
        }
        let from = self.target_place(address, bytes, Access::Read)?;
        self.move_reply(from, reply_offset, bytes)
    }
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = into.len() as u64;
        let from = self.target_place(address, bytes, Access::Read)?;
        copy(from, Place::Direct(into.as_mut_ptr()), bytes).map_err(target_to_initiator)
    }

    #[inline]
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let bytes = from.len() as u64;
        let to = self.target_place(address, bytes, Access::Write)?;
        copy(Place::Direct(from.as_ptr().cast_mut()), to, bytes).map_err(initiator_to_target)
    }

    #[inline]
    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = into.len() as u64;
        self.move_payload(payload_offset, Place::Direct(into.as_mut_ptr()), bytes).map_err(|fault| match fault {
            Fault::Target => Fault::Initiator,
            other => other,
        })
    }

    #[inline]
    fn reply(&mut self, reply_offset: u64, from: &[u8]) -> Result<(), Fault> {
        let bytes = from.len() as u64;
        self.move_reply(Place::Direct(from.as_ptr().cast_mut()), reply_offset, bytes)
    }
}

/// Visits the pieces of an initiator's memory: `visit(place, offset within the range, bytes)`.
#[inline]
fn each(
    initiator: &Endpoint,
    side: &Side,
    offset: u64,
    bytes: u64,
    path: Path,
    access: Access,
    mut visit: impl FnMut(Place, u64, u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut piece = |address: u64, at: u64, bytes: u64| match initiator.resolve(address, bytes, access, path) {
        Place::Unmapped | Place::Unreachable => Err(Fault::Initiator),
        place => visit(place, at, bytes),
    };
    if side.iov == NONE {
        return piece(side.start.wrapping_add(offset), 0, bytes);
    }
    let region = Region { start: 0, iov: side.iov, iov_count: side.iov_count };
    let from = side.start.wrapping_add(offset);
    initiator.segment.look_at_heap();
    region.pieces(initiator.segment.signals().heap, from, bytes, Fault::Initiator, piece)
}

/// Moves bytes from an initiator to a target if both ends are directly mapped. False if they are not, and nothing has
/// changed.
#[inline(always)]
pub(crate) fn move_at_hand(from: (&Endpoint, u64), to: (&Endpoint, u64), bytes: u64, path: Path) -> bool {
    let ((initiator, start), (target, address)) = (from, to);
    if bytes == 0 {
        return true;
    }
    let Some(to) = target.in_place(address, bytes, path) else { return false };
    let Some(from) = readable_here(initiator, start, bytes, path) else { return false };
    copy_direct(from, to.as_ptr(), bytes as usize);
    true
}

/// Returns a range of an initiator's memory, if it is directly mapped.
#[inline(always)]
pub(crate) fn readable_here(initiator: &Endpoint, start: u64, bytes: u64, path: Path) -> Option<*const u8> {
    match initiator.in_place(start, bytes, path) {
        Some(from) => Some(from.as_ptr().cast_const()),
        None if initiator.own && initiator.resolve(start, bytes, Access::Read, path) != Place::Unmapped => {
            Some(start as *const u8)
        }
        None => None,
    }
}

/// Whether this process can reach all of an initiator's memory.
pub fn side_is_reachable(initiator: &Endpoint, side: &Side, bytes: u64, path: Path) -> bool {
    let mut reachable = true;
    let _ =
        visit_places(initiator, side, bytes, Access::Read, path, &mut |place| reachable &= place != Place::Unreachable);
    reachable
}

/// Whether all of an initiator's memory is mapped there, and this process can reach it.
pub(crate) fn side_is_usable(initiator: &Endpoint, side: &Side, bytes: u64, access: Access, path: Path) -> bool {
    let mut usable = true;
    let found = |place| usable &= !matches!(place, Place::Unreachable | Place::Unmapped);
    visit_places(initiator, side, bytes, access, path, &mut { found }).is_ok() && usable
}

fn visit_places(
    initiator: &Endpoint,
    side: &Side,
    bytes: u64,
    access: Access,
    path: Path,
    visit: &mut dyn FnMut(Place),
) -> Result<(), Fault> {
    let mut piece = |address: u64, _: u64, bytes: u64| -> Result<(), Fault> {
        visit(initiator.resolve(address, bytes, access, path));
        Ok(())
    };
    if bytes == 0 {
        Ok(())
    } else if side.iov == NONE {
        piece(side.start, 0, bytes)
    } else {
        let region = Region { start: 0, iov: side.iov, iov_count: side.iov_count };
        initiator.segment.look_at_heap();
        region.pieces(initiator.segment.signals().heap, side.start, bytes, Fault::Initiator, piece)
    }
}

/// Copies an initiator's memory into a buffer.
pub fn gather(initiator: &Endpoint, side: &Side, bytes: u64, path: Path) -> Result<Vec<u8>, Fault> {
    let count = usize::try_from(bytes).map_err(|_| Fault::Initiator)?;
    let mut buffer = Vec::with_capacity(count);
    let start: *mut u8 = buffer.as_mut_ptr();
    if bytes != 0 {
        each(initiator, side, 0, bytes, path, Access::Read, |from, at, bytes| {
            copy(from, Place::Direct(start.wrapping_add(at as usize)), bytes).map_err(initiator_to_target)
        })?;
    }
    // SAFETY: the capacity is no less, and the pieces that `each` has copied without an error are all of the bytes.
    unsafe { buffer.set_len(count) };
    Ok(buffer)
}

/// Copies bytes into an initiator's memory.
pub fn scatter(initiator: &Endpoint, side: &Side, from: *const u8, bytes: u64, path: Path) -> Result<(), Fault> {
    if bytes == 0 {
        return Ok(());
    }
    each(initiator, side, 0, bytes, path, Access::Write, |to, at, bytes| {
        copy(Place::Direct(from.wrapping_add(at as usize).cast_mut()), to, bytes).map_err(target_to_initiator)
    })
}

fn shift(place: Place, by: u64) -> Place {
    match place {
        Place::Direct(start) => Place::Direct(start.wrapping_add(by as usize)),
        Place::Remote { pid, address } => Place::Remote { pid, address: address.wrapping_add(by) },
        other => other,
    }
}

#[cold]
fn initiator_to_target(end: End) -> Fault {
    match end {
        End::From => Fault::Initiator,
        End::To => Fault::Target,
        End::Gone => Fault::Gone,
    }
}

#[cold]
fn target_to_initiator(end: End) -> Fault {
    match end {
        End::From => Fault::Target,
        End::To => Fault::Initiator,
        End::Gone => Fault::Gone,
    }
}

/// Moves bytes. `resolve` has checked the direct places.
#[inline(always)]
fn copy(from: Place, to: Place, bytes: u64) -> Result<(), End> {
    match (from, to) {
        (Place::Direct(from), Place::Direct(to)) => {
            copy_direct(from, to, bytes as usize);
            Ok(())
        }
        _ => copy_attached(from, to, bytes as usize),
    }
}

#[inline(always)]
pub(crate) fn copy_direct(from: *const u8, to: *mut u8, bytes: usize) {
    let aligned = |bytes: usize| (from as usize | to as usize) & (bytes - 1) == 0;
    // SAFETY: `resolve` found both ranges mapped and usable. Other processes and threads may touch them at the same
    // time, as with any network interface; words are moved whole by volatile accesses, the rest by memmove.
    unsafe {
        match bytes {
            8 if aligned(8) => to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile()),
            4 if aligned(4) => to.cast::<u32>().write_volatile(from.cast::<u32>().read_volatile()),
            _ if bytes < copy::LONG_BYTES => std::ptr::copy(from, to, bytes),
            _ => copy::long(from, to, bytes),
        }
    }
}

#[inline(never)]
fn copy_attached(from: Place, to: Place, bytes: usize) -> Result<(), End> {
    let ended = |error: CmaError, end: End| match error {
        CmaError::NoSuchProcess => End::Gone,
        _ => end,
    };
    match (from, to) {
        (Place::Direct(from), Place::Remote { pid, address }) => {
            // SAFETY: `resolve` found `from` readable. The kernel checks `address`, which is memory that its owner
            // offered.
            unsafe { cma::write(pid, address, from, bytes) }.map_err(|error| ended(error, End::To))
        }
        (Place::Remote { pid, address }, Place::Direct(to)) => {
            // SAFETY: `resolve` found `to` writable for `bytes` bytes, and the kernel checks `address`.
            unsafe { cma::read(pid, address, to, bytes) }.map_err(|error| ended(error, End::From))
        }
        (Place::Remote { .. }, Place::Remote { .. }) => {
            let mut buffer = vec![0u8; bytes.min(THROUGH_BYTES)];
            let mut done = 0;
            while done < bytes {
                let step = (bytes - done).min(buffer.len());
                copy_attached(shift(from, done as u64), Place::Direct(buffer.as_mut_ptr()), step)?;
                copy_attached(Place::Direct(buffer.as_mut_ptr()), shift(to, done as u64), step)?;
                done += step;
            }
            Ok(())
        }
        _ => Err(End::From),
    }
}
