// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A communicator, which is a group, and its operations under way.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard};

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Buffer, Elements, Pending, part_of_window};
use selvedge_nic::aggregation::Failure;
use selvedge_os::sync::IgnorePoison;

use crate::bootstrap::{Handle, Listening, SocketBootstrap};
use crate::interface::{BYTES_MAX, Error, datatype, operation};
use crate::log;

/// Operations that a live group has under way; below, bytes of the longest that its node carries out itself.
const CREDITS: u32 = 8;
const BYTES: u32 = 16 << 10;

/// `collComm`.
pub struct Comm(Arc<Group>);

/// The group's operations, which NCCL's threads begin and test.
struct Group(Mutex<CollectiveGroup>);

// SAFETY: it is not `Send` because of the addresses of operands and results. Those are the caller's buffers, which no thread owns.
unsafe impl Send for Group {}
// SAFETY: the lock is held for whatever is done with it.
unsafe impl Sync for Group {}

/// An operation that NCCL tests.
pub struct Request {
    group: Arc<Group>,
    number: u64,
    bytes: usize,
    what: &'static str,
}

/// The bytes of a vector that an operation covers: each rank has `each` bytes of the vector.
#[derive(Clone, Copy)]
pub struct Window {
    pub each: usize,
    pub offset: usize,
    pub bytes: usize,
}

impl Group {
    /// A thread that has panicked leaves the operations as they were.
    fn lock(&self) -> MutexGuard<'_, CollectiveGroup> {
        self.0.lock().ignore_poison()
    }
}

/// The reduction of elements. `None`: NCCL may not request it.
pub fn elements(datatype_number: c_int, operation_number: c_int) -> Option<Elements> {
    Elements::of_values(operation(operation_number)?, datatype(datatype_number)?)
}

impl Comm {
    /// Collective: forms the group.
    pub fn connect(listening: &Listening, handles: &[Handle], rank: usize) -> Result<Comm, Error> {
        let size = handles.len();
        let formed = SocketBootstrap::new(listening, handles, rank)
            .and_then(|mut bootstrap| CollectiveGroup::form((rank, size), None, (CREDITS, BYTES), &mut bootstrap));
        match formed {
            Ok(operations) => {
                log::info(&format!("rank {rank} of {size} is in the group"));
                Ok(Comm(Arc::new(Group(Mutex::new(operations)))))
            }
            Err(reason) => {
                log::warn(&format!("no group for rank {rank} of {size}: {reason}"));
                Err(Error::System)
            }
        }
    }

    /// # Safety
    /// Buffers are the caller's, for `count` elements, until the request is over.
    pub unsafe fn allreduce(&self, elements: &Elements, buffer: Buffer, count: usize) -> Result<Request, Error> {
        let bytes = count.checked_mul(elements.size_bytes()).ok_or(Error::Argument)?;
        check(buffer.from, bytes)?;
        check(buffer.to, bytes)?;
        // SAFETY: by this function's contract.
        Ok(self.begin(unsafe { Pending::allreduce(elements, buffer, bytes) }, bytes, "iallreduce"))
    }

    /// Gathers a window. The operand begins with this rank's part of it.
    ///
    /// # Safety
    /// As for [`Comm::allreduce`].
    pub unsafe fn allgather(&self, buffer: Buffer, window: Window) -> Result<Request, Error> {
        let (size, _) = self.place();
        let range = window.range(size)?;
        check(buffer.to, range.len())?;
        check(buffer.from, range.len())?;
        // SAFETY: by this function's contract.
        let pending = unsafe { Pending::allgather_window(buffer, window.each, range) };
        Ok(self.begin(pending, window.bytes, "iallgather"))
    }

    /// Reduces a window. The result begins with this rank's part of it.
    ///
    /// # Safety
    /// As for [`Comm::allreduce`].
    pub unsafe fn reduce_scatter(&self, elements: &Elements, buffer: Buffer, window: Window) -> Result<Request, Error> {
        let (size, rank) = self.place();
        let range = window.range(size)?;
        let is_whole = |bytes: usize| bytes % elements.size_bytes() == 0;
        if ![window.each, window.offset, window.bytes].into_iter().all(is_whole) {
            return Err(Error::Argument);
        }
        check(buffer.from, range.len())?;
        check(buffer.to, range.len())?;
        let own = part_of_window(&range, window.each, rank);
        // SAFETY: by this function's contract.
        let pending = unsafe { Pending::reduce_scatter(elements, buffer, range.len(), own) };
        Ok(self.begin(pending, window.each, "ireducescatter"))
    }

    /// The number of ranks, and this rank.
    fn place(&self) -> (usize, usize) {
        let operations = self.0.lock();
        (operations.size(), operations.rank())
    }

    fn begin(&self, pending: Pending, bytes: usize, what: &'static str) -> Request {
        Request { group: self.0.clone(), number: self.0.lock().add(pending), bytes, what }
    }
}

fn check(memory: *const u8, bytes: usize) -> Result<(), Error> {
    match !memory.is_null() && (1..=BYTES_MAX).contains(&bytes) {
        true => Ok(()),
        false => Err(Error::Argument),
    }
}

impl Window {
    fn range(&self, size: usize) -> Result<std::ops::Range<usize>, Error> {
        let end = self.offset.checked_add(self.bytes).ok_or(Error::Argument)?;
        let whole = self.each.checked_mul(size).ok_or(Error::Argument)?;
        if end > whole { Err(Error::Argument) } else { Ok(self.offset..end) }
    }
}

impl Request {
    /// The bytes of the operation once it is over; `None` before.
    pub fn test(&self) -> Option<Result<usize, Error>> {
        let outcome = self.group.lock().test(self.number)?;
        Some(outcome.map(|()| self.bytes).map_err(|failure| {
            log::warn(&format!("{}: {failure}", self.what));
            error_of(failure)
        }))
    }
}

impl Drop for Request {
    /// An operation that is not over progresses with the communicator's other operations.
    fn drop(&mut self) {
        self.group.lock().take(self.number);
    }
}

fn error_of(failure: Failure) -> Error {
    match failure {
        Failure::Lost => Error::Remote,
        Failure::OperationMismatch | Failure::GroupMismatch | Failure::NoSuchOperation | Failure::TooLong => {
            Error::Usage
        }
        _ => Error::Internal,
    }
}
