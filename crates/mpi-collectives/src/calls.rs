// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collective operations: what of them a group carries out. None: the MPI does.
//!
//! Each process must come to the same answer. Counts, types and operations of a reduction are the same at all of them (MPI 4.1, 6.9); of a
//! broadcast and an allgather only the data's size is, so buffers of any type are taken, and those with gaps are packed.

use std::ffi::c_int;

use selvedge_nic::aggregation::Failure;
use selvedge_shm::aggregation::{Buffer, Elements, Pending, log};

use crate::groups::Group;
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
    fn run(&self, operation: impl FnOnce(&Group) -> Option<Pending>) -> Option<c_int> {
        let mut group = groups::of(self.mpi, self.comm)?;
        let pending = operation(&group)?;
        let outcome = group.complete(pending, &mut || self.mpi.progress())?;
        // The program's error handler may call an operation of the communicator.
        drop(group);
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
    call.run(|group| {
        if root >= group.size() || (group.rank() == root && to.is_null()) {
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
    let buffer = call.buffer(from, to, false)?;
    call.run(|group| {
        let (mut bytes, mut own) = (0, 0..0);
        for process in 0..group.size() {
            let start = bytes;
            bytes += usize::try_from(count(process)).ok()?.checked_mul(each)?;
            if process == group.rank() {
                own = start..bytes;
            }
        }
        // SAFETY: the buffers have so many bytes.
        (bytes != 0).then(|| unsafe { Pending::reduce_scatter(elements, buffer, bytes, own) })
    })
}

/// A buffer of the program.
#[derive(Clone, Copy)]
struct Program {
    memory: *mut u8,
    count: c_int,
    datatype: Handle,
    /// Bytes of its data; those from one process's part to the next, if it has several.
    bytes: usize,
    stride: isize,
    /// Whether the data follow on each other without gaps, from the buffer's address on.
    is_contiguous: bool,
}

/// Data of a buffer, without gaps: where the program has them, or packed.
struct Data {
    memory: *mut u8,
    packed: Vec<u8>,
}

impl Program {
    /// None: there are no data, or MPI says that the type is none.
    #[inline]
    fn new(call: &Call, memory: *mut u8, count: c_int, datatype: usize) -> Option<Program> {
        let datatype = call.mpi.handle(datatype);
        let elements = positive(count)?;
        match types::of(call.mpi).known(datatype).filter(|known| known.is_contiguous && !memory.is_null()) {
            Some(known) => {
                let bytes = elements * known.bytes;
                Some(Program { memory, count, datatype, bytes, stride: bytes as isize, is_contiguous: true })
            }
            None => Program::of_any_type(call, memory, count, datatype),
        }
    }

    #[cold]
    fn of_any_type(call: &Call, memory: *mut u8, count: c_int, datatype: Handle) -> Option<Program> {
        let elements = positive(count).filter(|_| !call.mpi.is_no_type(datatype))?;
        let bytes = elements.checked_mul(call.mpi.type_bytes(datatype).ok()?)?;
        let stride = call.mpi.type_extent(datatype).ok()?.checked_mul(count as isize)?;
        let has_data = bytes > 0 && c_int::try_from(bytes).is_ok();
        has_data.then_some(Program { memory, count, datatype, bytes, stride, is_contiguous: false })
    }

    /// Room for the data of so many parts.
    #[inline]
    fn data(&self, parts: usize) -> Option<Data> {
        if self.is_contiguous {
            return Some(Data { memory: self.memory, packed: Vec::new() });
        }
        let mut packed = vec![0; self.bytes.checked_mul(parts)?];
        Some(Data { memory: packed.as_mut_ptr(), packed })
    }

    /// Gathers the data of a part, if they have to be packed.
    ///
    /// # Safety
    /// The buffer is as the standard requires.
    unsafe fn pack(&self, call: &Call, part: usize, data: &mut Data) -> Result<(), c_int> {
        let Some(into) = data.packed.chunks_mut(self.bytes).nth(part) else { return Ok(()) };
        let from = self.memory.wrapping_offset(self.stride.wrapping_mul(part as isize));
        // SAFETY: the buffer has so many elements in each part.
        unsafe { call.mpi.pack(from, self.count, self.datatype, into, call.comm) }
    }

    /// Scatters packed data, one part after the other: MPICH takes `MPI_BOTTOM` for the first only.
    ///
    /// # Safety
    /// The buffer is as the standard requires.
    unsafe fn unpack(&self, call: &Call, data: &Data) -> Result<(), c_int> {
        data.packed.chunks(self.bytes).enumerate().try_for_each(|(part, from)| {
            let to = self.memory.wrapping_offset(self.stride.wrapping_mul(part as isize));
            // SAFETY: the buffer has so many elements in each part.
            unsafe { call.mpi.unpack(from, to, self.count, self.datatype, call.comm) }
        })
    }
}

/// MPI 4.1, 6.4.
///
/// # Safety
/// The buffer is as the standard requires.
pub unsafe fn bcast(memory: *mut u8, count: c_int, datatype: usize, root: c_int, comm: usize) -> Option<c_int> {
    let call = Call::new("MPI_Bcast", comm)?;
    let root = usize::try_from(root).ok()?;
    let buffer = Program::new(&call, memory, count, datatype)?;
    let mut data = buffer.data(1)?;
    let mut packs = Ok(());
    let mut is_root = false;
    let outcome = call.run(|group| {
        if root >= group.size() {
            return None;
        }
        is_root = group.rank() == root;
        if is_root {
            // SAFETY: by this function's contract.
            packs = unsafe { buffer.pack(&call, 0, &mut data) };
        }
        // SAFETY: the data has so many bytes.
        Some(unsafe { Pending::broadcast(root, data.memory, buffer.bytes) })
    })?;
    if !is_root && outcome == SUCCESS {
        // SAFETY: by this function's contract.
        packs = unsafe { buffer.unpack(&call, &data) };
    }
    Some(packs.err().unwrap_or(outcome))
}

/// MPI 4.1, 6.7.
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn allgather(from: (*const u8, c_int, usize), to: (*mut u8, c_int, usize), comm: usize) -> Option<c_int> {
    let call = Call::new("MPI_Allgather", comm)?;
    let into = Program::new(&call, to.0, to.1, to.2)?;
    // None: this process's data are in its part of the result.
    let source = match from.0 == call.mpi.in_place() {
        true => None,
        false => Some(Program::new(&call, from.0.cast_mut(), from.1, from.2)?),
    };
    let (mut result, mut operand) = (None, None);
    let mut packs = Ok(());
    let outcome = call.run(|group| {
        let result = result.insert(into.data(group.size())?);
        let own = match &source {
            Some(source) => {
                let operand = operand.insert(source.data(1)?);
                // SAFETY: by this function's contract.
                packs = unsafe { source.pack(&call, 0, operand) };
                operand.memory
            }
            None => {
                // SAFETY: by this function's contract.
                packs = unsafe { into.pack(&call, group.rank(), result) };
                result.memory.wrapping_add(group.rank() * into.bytes)
            }
        };
        let buffer = Buffer { from: own, to: result.memory };
        // SAFETY: the data has so many bytes, and as many of each process.
        Some(unsafe { Pending::allgather(buffer, into.bytes) })
    })?;
    if let (Some(result), SUCCESS) = (&result, outcome) {
        // SAFETY: by this function's contract.
        packs = packs.and_then(|()| unsafe { into.unpack(&call, result) });
    }
    Some(packs.err().unwrap_or(outcome))
}
