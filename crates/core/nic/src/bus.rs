// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The services that a NIC needs from its home.
//!
//! The initiator's memory appears as two streams of bytes: the *payload* of a request (offset 0 is its first byte) and
//! the *reply*. The target's memory has its owner's addresses. Addresses come from tables that peers write, so every
//! access can fail and none is trusted.

/// Reasons for which bytes could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The target's memory is not mapped there, or not writable (`PTL_NI_SEGV`).
    Target,
    /// The initiator's memory is not mapped there.
    Initiator,
    /// The process that owns the memory has ended.
    Gone,
}

/// A unit of work that a home may price. Live homes ignore them; a simulated one turns them into time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A list entry or unexpected header was compared.
    EntrySearched,
    /// A record of a table was read or written: the portal table entry or port of a request, a stored header, an
    /// unlinked entry. Records with steps of their own are not counted here.
    TableAccess,
    /// A transfer of this many bytes was started.
    Transfer(u64),
    /// An event was written to a queue.
    EventPosted,
    /// A counter was changed.
    CounterUpdated,
    /// The TLB had the entry of a page.
    TlbHit,
    /// The entry of a page was read from its global address table.
    AddressTableRead,
    /// A slot of a mailbox, which is one cache line, was written.
    SlotWritten,
    /// A notification was written to a queue.
    Notification,
}

/// The initiator of a request, as its home names it. The NIC stores these numbers and returns them with the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// Destination of the answer.
    pub origin: u64,
    /// The process that waits for the answer ([`Bus::is_alive`]). 0: the home drops requests of a dead process.
    pub process: u64,
    /// The request that is answered.
    pub token: u64,
}

/// The memory transfers of one request. See the module's documentation for the address spaces. The default methods
/// behave like a bus to no memory.
pub trait Bus {
    /// Whether this process can access this range of the target's memory. If not, the request changes nothing and is
    /// sent to the target's owner.
    fn reaches(&mut self, _address: u64, _bytes: u64) -> bool {
        false
    }
    /// As [`Bus::put`], if both memories are mapped, so that no system call is needed. False: they are not, and nothing
    /// has changed.
    #[inline(always)]
    fn put_mapped(&mut self, _payload_offset: u64, _address: u64, _bytes: u64) -> bool {
        false
    }
    /// Copies payload to the target's memory.
    fn put(&mut self, _payload_offset: u64, _address: u64, _bytes: u64) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// Copies the target's memory to the reply.
    fn get(&mut self, _address: u64, _reply_offset: u64, _bytes: u64) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// Reads the target's memory. Aligned words of 8 bytes are read whole.
    fn read(&mut self, _address: u64, _into: &mut [u8]) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// Writes the target's memory. Aligned words of 8 bytes are written whole.
    fn write(&mut self, _address: u64, _from: &[u8]) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// Reads payload.
    fn payload(&mut self, _payload_offset: u64, _into: &mut [u8]) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// Writes the reply.
    fn reply(&mut self, _reply_offset: u64, _from: &[u8]) -> Result<(), Fault> {
        Err(Fault::Gone)
    }
    /// The initiator of the request, for a later answer if a unit keeps the request
    /// ([`Verdict::Kept`](crate::portals::Verdict::Kept)). None: the request must be answered now.
    fn asker(&mut self) -> Option<Asker> {
        None
    }
    /// Whether a process still runs ([`Asker::process`]).
    fn is_alive(&mut self, _process: u64) -> bool {
        true
    }
    /// Prices a step.
    #[inline(always)]
    fn charge(&mut self, _step: Step) {}
    /// Prefetches the cache lines of a record that is about to change. Affects time only.
    #[inline(always)]
    fn prefetch_write<T>(&mut self, _record: &T) {}
}

/// A bus without memory or prices: for transitions that move no bytes.
pub struct NoMemory;

impl Bus for NoMemory {}

/// A bus with only the payload of a request, which lies in this process's memory.
pub struct Payload<'a>(pub &'a [u8]);

impl Bus for Payload<'_> {
    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = usize::try_from(payload_offset).ok().and_then(|at| self.0.get(at..at.checked_add(into.len())?));
        into.copy_from_slice(from.ok_or(Fault::Initiator)?);
        Ok(())
    }
}

/// A bus that reports each step to an observer.
pub struct Metered<B, M> {
    pub bus: B,
    pub meter: M,
}

impl<B: Bus, M: FnMut(Step)> Bus for Metered<B, M> {
    fn reaches(&mut self, address: u64, bytes: u64) -> bool {
        self.bus.reaches(address, bytes)
    }
    fn put_mapped(&mut self, payload_offset: u64, address: u64, bytes: u64) -> bool {
        self.bus.put_mapped(payload_offset, address, bytes)
    }
    fn put(&mut self, payload_offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        self.bus.put(payload_offset, address, bytes)
    }
    fn get(&mut self, address: u64, reply_offset: u64, bytes: u64) -> Result<(), Fault> {
        self.bus.get(address, reply_offset, bytes)
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.bus.read(address, into)
    }
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.bus.write(address, from)
    }
    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.bus.payload(payload_offset, into)
    }
    fn reply(&mut self, reply_offset: u64, from: &[u8]) -> Result<(), Fault> {
        self.bus.reply(reply_offset, from)
    }
    fn asker(&mut self) -> Option<Asker> {
        self.bus.asker()
    }
    fn is_alive(&mut self, process: u64) -> bool {
        self.bus.is_alive(process)
    }
    fn charge(&mut self, step: Step) {
        (self.meter)(step);
    }
    fn prefetch_write<T>(&mut self, record: &T) {
        self.bus.prefetch_write(record);
    }
}
