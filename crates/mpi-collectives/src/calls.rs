// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collective operations: what of them a group carries out. None: the MPI does.
//!
//! Each process must come to the same answer. Counts, types and operations of a reduction are the same at all of them (MPI 4.1, 6.9); of a
//! broadcast and an allgather only the data's size is, so buffers of any type are taken, and those with gaps are packed.

use std::ffi::c_int;

use selvedge_nic::aggregation::Failure;
use selvedge_shm::aggregation::{Buffer, Elements, Member, Pending, log};

use crate::mpi::{Handle, Mpi, SUCCESS, library};
use crate::{groups, types};

/// The MPI and the handles of a call.
struct Call {
    mpi: &'static Mpi,
    comm: Handle,
    name: &'static str,
}

impl Call {
    fn new(name: &'static str, comm: usize) -> Option<Call> {
        let mpi = library()?;
        let comm = mpi.handle(comm);
        (!mpi.is_no_comm(comm)).then_some(Call { mpi, comm, name })
    }

    /// How a type is reduced, and the bytes of so many elements.
    #[inline]
    fn elements(&self, datatype: usize, op: usize, count: c_int) -> Option<(&'static Elements, usize)> {
        let (datatype, op) = (self.mpi.handle(datatype), self.mpi.handle(op));
        let elements = types::of(self.mpi).elements(datatype, op)?;
        Some((elements, positive(count)? * elements.size_bytes()))
    }

    /// The operand and the result of a reduction.
    #[inline]
    fn buffer(&self, from: *const u8, to: *mut u8, result_is_used: bool) -> Option<Buffer> {
        let from = if from == self.mpi.in_place() { to } else { from };
        let is_missing = from.is_null() || (result_is_used && to.is_null());
        (!is_missing).then_some(Buffer { from, to })
    }

    /// Runs an operation of the communicator's group.
    #[inline]
    fn run(&self, operation: impl FnOnce(&Member) -> Option<Pending>) -> Option<c_int> {
        let mut member = groups::of(self.mpi, self.comm)?;
        let pending = operation(&member)?;
        let outcome = member.complete(pending, &mut || self.mpi.progress());
        // The program's error handler may call an operation of the communicator.
        drop(member);
        Some(outcome.map_or_else(|failure| self.failed(failure), |()| SUCCESS))
    }

    #[cold]
    fn failed(&self, failure: Failure) -> c_int {
        log::error(|| format!("{} on communicator {:#x}: {failure}", self.name, self.comm));
        self.mpi.fail(self.comm, self.mpi.err_other())
    }
}

fn positive(count: c_int) -> Option<usize> {
    usize::try_from(count).ok().filter(|&count| count > 0)
}

/// MPI 4.1, 6.3.
pub fn barrier(comm: usize) -> Option<c_int> {
    Call::new("MPI_Barrier", comm)?.run(|_| Some(Pending::barrier()))
}

/// MPI 4.1, 6.9.6.
///
/// # Safety
/// The buffers are as the standard requires.
#[inline]
pub unsafe fn allreduce(
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("MPI_Allreduce", comm)?;
    let (elements, bytes) = call.elements(datatype, op, count)?;
    let buffer = call.buffer(from, to, true)?;
    // SAFETY: the buffers have so many bytes.
    call.run(|_| Some(unsafe { Pending::allreduce(elements, buffer, bytes) }))
}

/// MPI 4.1, 6.9.1.
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn reduce(
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    root: c_int,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("MPI_Reduce", comm)?;
    let (elements, bytes) = call.elements(datatype, op, count)?;
    let root = usize::try_from(root).ok()?;
    // A result is used at the root alone. Where it is not, the argument may be anything.
    let buffer = call.buffer(from, to, false)?;
    call.run(|member| {
        if root >= member.size() || (member.rank() == root && to.is_null()) {
            return None;
        }
        // SAFETY: the buffers have so many bytes.
        Some(unsafe { Pending::reduce(elements, root, buffer, bytes) })
    })
}

/// MPI 4.1, 6.10.
///
/// # Safety
/// The buffers are as the standard requires; there is a count for each process.
pub unsafe fn reduce_scatter(
    from: *const u8,
    to: *mut u8,
    counts: *const c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("MPI_Reduce_scatter", comm)?;
    // SAFETY: the standard requires a count for each process.
    let count = |process: usize| unsafe { *counts.wrapping_add(process) };
    // SAFETY: by this function's contract.
    unsafe { scatter(&call, (from, to), count, datatype, op) }
}

/// MPI 4.1, 6.10.
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn reduce_scatter_block(
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("MPI_Reduce_scatter_block", comm)?;
    // SAFETY: by this function's contract.
    unsafe { scatter(&call, (from, to), |_| count, datatype, op) }
}

/// # Safety
/// The buffers are as the standard requires.
unsafe fn scatter(
    call: &Call,
    (from, to): (*const u8, *mut u8),
    count: impl Fn(usize) -> c_int,
    datatype: usize,
    op: usize,
) -> Option<c_int> {
    let (elements, each) = call.elements(datatype, op, 1)?;
    let (rank, size) = call.mpi.place(call.comm).ok()??;
    let (mut bytes, mut own) = (0, 0..0);
    for process in 0..size {
        let start = bytes;
        bytes += usize::try_from(count(process)).ok()?.checked_mul(each)?;
        if process == rank {
            own = start..bytes;
        }
    }
    if bytes == 0 {
        return None;
    }
    let buffer = call.buffer(from, to, false)?;
    // SAFETY: the buffers have so many bytes.
    call.run(|_| Some(unsafe { Pending::reduce_scatter(elements, buffer, bytes, own) }))
}

/// The data of a program's buffer: where it lies, or packed.
struct Data {
    memory: *mut u8,
    bytes: usize,
    packed: Option<Vec<u8>>,
}

impl Data {
    /// None: there is none, or MPI says that the type is none.
    #[inline]
    fn new(call: &Call, memory: *mut u8, count: c_int, datatype: usize) -> Option<Data> {
        let datatype = call.mpi.handle(datatype);
        let known = types::of(call.mpi).known(datatype).filter(|known| known.is_contiguous && !memory.is_null());
        match known {
            Some(known) => Some(Data { memory, bytes: positive(count)? * known.bytes, packed: None }),
            None => Data::of_any_type(call, count, datatype),
        }
    }

    #[cold]
    fn of_any_type(call: &Call, count: c_int, datatype: Handle) -> Option<Data> {
        let count = positive(count).filter(|_| !call.mpi.is_no_type(datatype))?;
        let each = call.mpi.type_bytes(datatype).ok()?;
        let bytes = count.checked_mul(each).filter(|&bytes| bytes > 0 && c_int::try_from(bytes).is_ok())?;
        let mut packed = vec![0; bytes];
        Some(Data { memory: packed.as_mut_ptr(), bytes, packed: Some(packed) })
    }
}

/// MPI 4.1, 6.4.
///
/// # Safety
/// The buffer is as the standard requires.
pub unsafe fn bcast(memory: *mut u8, count: c_int, datatype: usize, root: c_int, comm: usize) -> Option<c_int> {
    let call = Call::new("MPI_Bcast", comm)?;
    let root = usize::try_from(root).ok()?;
    let mut data = Data::new(&call, memory, count, datatype)?;
    let (mpi, datatype) = (call.mpi, call.mpi.handle(datatype));
    let mut packs = Ok(());
    let mut is_root = false;
    let outcome = call.run(|member| {
        if root >= member.size() {
            return None;
        }
        is_root = member.rank() == root;
        if let (Some(packed), true) = (&mut data.packed, is_root) {
            // SAFETY: the buffer has so many elements.
            packs = unsafe { mpi.pack(memory, count, datatype, packed, call.comm) };
        }
        // SAFETY: the data has so many bytes.
        Some(unsafe { Pending::broadcast(root, data.memory, data.bytes) })
    })?;
    if let (Some(packed), false, SUCCESS) = (&data.packed, is_root, outcome) {
        // SAFETY: the buffer has so many elements.
        packs = unsafe { mpi.unpack(packed, memory, count, datatype, call.comm) };
    }
    Some(packs.err().unwrap_or(outcome))
}

/// MPI 4.1, 6.7.
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn allgather(from: (*const u8, c_int, usize), to: (*mut u8, c_int, usize), comm: usize) -> Option<c_int> {
    let call = Call::new("MPI_Allgather", comm)?;
    let mpi = call.mpi;
    let (rank, size) = mpi.place(call.comm).ok()??;
    // All data at this process, of which its own may be a part already.
    let mut result = Data::new(&call, to.0, to.1, to.2)?;
    let each = result.bytes;
    let to_type = mpi.handle(to.2);
    if let Some(packed) = &mut result.packed {
        *packed = vec![0; each.checked_mul(size)?];
        result.memory = packed.as_mut_ptr();
    }
    let mut packs = Ok(());
    let mut source = None;
    let operand = if from.0 == mpi.in_place() {
        if let Some(packed) = &mut result.packed {
            // This process's part of the buffer.
            let stride = mpi.type_extent(to_type).ok()?.checked_mul(to.1 as isize)?.checked_mul(rank as isize)?;
            let part = to.0.wrapping_offset(stride);
            // SAFETY: the buffer has so many elements for each process.
            packs = unsafe { mpi.pack(part, to.1, to_type, &mut packed[rank * each..(rank + 1) * each], call.comm) };
        }
        result.memory.wrapping_add(rank * each).cast_const()
    } else {
        let data = source.insert(Data::new(&call, from.0.cast_mut(), from.1, from.2)?);
        if let Some(packed) = &mut data.packed {
            // SAFETY: the buffer has so many elements.
            packs = unsafe { mpi.pack(from.0, from.1, mpi.handle(from.2), packed, call.comm) };
        }
        data.memory.cast_const()
    };
    let buffer = Buffer { from: operand, to: result.memory };
    // SAFETY: the data has so many bytes, and as many of each process.
    let outcome = call.run(|_| Some(unsafe { Pending::allgather(buffer, each) }))?;
    if let (Some(packed), SUCCESS) = (&result.packed, outcome) {
        let stride = mpi.type_extent(to_type).ok()?.checked_mul(to.1 as isize)?;
        // One process's data after the other's: MPICH takes `MPI_BOTTOM` for the first only.
        for (process, part) in packed.chunks(each).enumerate() {
            let into = to.0.wrapping_offset(stride.wrapping_mul(process as isize));
            // SAFETY: the buffer has so many elements of each process.
            packs = packs.and_then(|()| unsafe { mpi.unpack(part, into, to.1, to_type, call.comm) });
        }
    }
    Some(packs.err().unwrap_or(outcome))
}
