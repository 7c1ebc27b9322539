// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank's memory, and the bus by which transitions of its NIC access it.
//!
//! Addresses from 0 are the program's own memory. The address range from [`ARRIVALS_AT`] on is for unexpected messages:
//! each is a separate allocation, kept until it is taken. From [`LANDING_AT`] on each request has a buffer for the
//! payload that it sends or receives.
//!
//! Costs: O(1) for the buffer of a request; O(log n) to store or take one of n unexpected messages.

use std::collections::VecDeque;

use selvedge_nic::{Asker, Bus, Fault, Step};

use crate::node::{Bytes, Meter};

/// First address of unexpected messages.
pub const ARRIVALS_AT: u64 = 1 << 48;
/// Size of their address range.
pub const ARRIVALS_BYTES: u64 = 1 << 46;
/// Address of the first request's buffer.
pub const LANDING_AT: u64 = 1 << 63;
/// Bytes from one request's buffer to the next: the longest message.
pub const LANDING_BYTES: u64 = 1 << 36;

/// Returns the address of a request's buffer.
pub fn landing_of(request: u32) -> u64 {
    LANDING_AT + u64::from(request) * LANDING_BYTES
}

/// A rank's memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// The program's memory.
    pub own: Vec<u8>,
    /// Unexpected messages, in order of their addresses, which the NIC assigns ascending. `None`: taken.
    arrivals: VecDeque<(u64, Option<Bytes>)>,
    landings: Vec<Bytes>,
}

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory { own: vec![0; bytes], ..Memory::default() }
    }

    /// Makes buffers for n requests.
    pub fn reserve(&mut self, requests: usize) {
        self.landings.resize_with(requests.max(self.landings.len()), Bytes::new);
    }

    /// Takes the payload in the buffer of a request, or the unexpected payload at an address.
    pub fn take(&mut self, address: u64) -> Bytes {
        if let Some((index, _)) = place(address) {
            return self.landings.get_mut(index).map(std::mem::take).unwrap_or_default();
        }
        let Ok(at) = self.arrivals.binary_search_by_key(&address, |(address, _)| *address) else { return Bytes::new() };
        let taken = self.arrivals[at].1.take().unwrap_or_default();
        while matches!(self.arrivals.front(), Some((_, None))) {
            self.arrivals.pop_front();
        }
        while matches!(self.arrivals.back(), Some((_, None))) {
            self.arrivals.pop_back();
        }
        taken
    }

    /// Returns the unexpected payload at an address.
    pub fn arrival(&self, address: u64) -> Option<&[u8]> {
        let at = self.arrivals.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        self.arrivals[at].1.as_deref()
    }

    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let (piece, at): (&[u8], usize) = match place(address) {
            Some((index, at)) => (self.landings.get(index).ok_or(Fault::Target)?, at),
            None => (&self.own, usize::try_from(address).map_err(|_| Fault::Target)?),
        };
        let end = at.checked_add(into.len()).ok_or(Fault::Target)?;
        into.copy_from_slice(piece.get(at..end).ok_or(Fault::Target)?);
        Ok(())
    }

    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        if let Some((index, at)) = place(address) {
            let piece = self.landings.get_mut(index).ok_or(Fault::Target)?;
            let end = at.checked_add(from.len()).ok_or(Fault::Target)?;
            if at == 0 && piece.is_empty() {
                piece.extend_from_slice(from);
                return Ok(());
            }
            if piece.len() < end {
                piece.resize(end, 0);
            }
            piece[at..end].copy_from_slice(from);
            return Ok(());
        }
        if (ARRIVALS_AT..ARRIVALS_AT + ARRIVALS_BYTES).contains(&address) {
            if from.is_empty() {
                return Ok(());
            }
            let at = self.arrivals.partition_point(|(other, _)| *other < address);
            self.arrivals.insert(at, (address, Some(Bytes::from_slice(from))));
            return Ok(());
        }
        let at = usize::try_from(address).map_err(|_| Fault::Target)?;
        let end = at.checked_add(from.len()).ok_or(Fault::Target)?;
        self.own.get_mut(at..end).ok_or(Fault::Target)?.copy_from_slice(from);
        Ok(())
    }
}

/// Returns the request whose buffer contains an address, and the offset in it.
fn place(address: u64) -> Option<(usize, usize)> {
    let inside = address.checked_sub(LANDING_AT)?;
    Some(((inside / LANDING_BYTES) as usize, (inside % LANDING_BYTES) as usize))
}

/// The bus of one request: its payload has arrived with it, and its reply travels back.
pub(super) struct MemoryBus<'a> {
    pub memory: &'a mut Memory,
    pub payload: &'a [u8],
    /// Names the request in a late answer of a unit that keeps it.
    pub token: u64,
    pub reply: &'a mut Vec<u8>,
    pub meter: &'a mut dyn Meter,
}

impl MemoryBus<'_> {
    fn payload_at(&self, offset: u64, bytes: u64) -> Result<std::ops::Range<usize>, Fault> {
        let at = usize::try_from(offset).map_err(|_| Fault::Initiator)?;
        let end = at.checked_add(usize::try_from(bytes).map_err(|_| Fault::Initiator)?).ok_or(Fault::Initiator)?;
        if end > self.payload.len() { Err(Fault::Initiator) } else { Ok(at..end) }
    }

    fn reply_space(&mut self, offset: u64, bytes: usize) -> Result<&mut [u8], Fault> {
        let at = usize::try_from(offset).map_err(|_| Fault::Initiator)?;
        let end = at.checked_add(bytes).ok_or(Fault::Initiator)?;
        if self.reply.len() < end {
            self.reply.resize(end, 0);
        }
        Ok(&mut self.reply[at..end])
    }
}

impl Bus for MemoryBus<'_> {
    fn reaches(&mut self, _: u64, _: u64) -> bool {
        true
    }

    fn put_mapped(&mut self, payload_offset: u64, address: u64, bytes: u64) -> bool {
        self.put(payload_offset, address, bytes).is_ok()
    }

    fn put(&mut self, payload_offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let range = self.payload_at(payload_offset, bytes)?;
        self.memory.write(address, &self.payload[range])
    }

    fn get(&mut self, address: u64, reply_offset: u64, bytes: u64) -> Result<(), Fault> {
        let length = usize::try_from(bytes).map_err(|_| Fault::Target)?;
        self.reply_space(reply_offset, length)?;
        let to = usize::try_from(reply_offset).map_err(|_| Fault::Initiator)?;
        self.memory.read(address, &mut self.reply[to..to + length])
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(address, into)
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.memory.write(address, from)
    }

    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let range = self.payload_at(payload_offset, into.len() as u64)?;
        into.copy_from_slice(&self.payload[range]);
        Ok(())
    }

    fn reply(&mut self, reply_offset: u64, from: &[u8]) -> Result<(), Fault> {
        self.reply_space(reply_offset, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn asker(&mut self) -> Option<Asker> {
        Some(Asker { token: self.token, ..Asker::default() })
    }

    fn charge(&mut self, step: Step) {
        self.meter.charge(step);
    }
}
