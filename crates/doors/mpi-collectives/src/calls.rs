// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collective operations that a group carries out, blocking or not ([`Form`]). `None`: the MPI does.
//!
//! All processes must decide alike. For a reduction, counts, types and operations are the same at all of them (MPI 4.1,
//! 6.9). For a broadcast and an allgather only the size of the data is, so buffers of any type are accepted, and those
//! with gaps are packed.

use std::ffi::{c_int, c_void};
use std::ptr;

use selvedge_collectives::one_host::{Buffer, Pending};
use selvedge_nic::aggregation::Failure;

use crate::buffers::{Completion, PackedData, ProgramBuffer};
use crate::call::{Call, Form};
use crate::group::Group;
use crate::mpi::SUCCESS;
use crate::requests::Request;
use crate::{component, groups, outstanding};

struct Ready {
    pending: Pending,
    /// The work left when the operation is over. `None`: nothing.
    after: Option<Box<Completion>>,
}

impl Ready {
    #[inline]
    fn reduction(pending: Pending) -> Ready {
        Ready { pending, after: None }
    }
}

impl Call {
    /// Runs an operation in the communicator's group, or starts it.
    #[inline]
    fn run(&self, operation: impl FnOnce(&Group) -> Option<Ready>) -> Option<c_int> {
        match self.form {
            Form::Blocking => self.wait(operation),
            Form::Nonblocking(request) => self.start(operation, request),
        }
    }

    #[inline]
    fn wait(&self, operation: impl FnOnce(&Group) -> Option<Ready>) -> Option<c_int> {
        let mut group = groups::of(self.mpi, self.comm)?;
        let Ready { pending, after } = operation(&group).filter(|ready| group.supports(&ready.pending))?;
        let outcome = group.complete(pending, &mut || self.mpi.progress());
        // Released first: the program's error handler may call an operation on the communicator.
        drop(group);
        Some(match (outcome, after) {
            (Err(failure), _) => self.failed(failure),
            // SAFETY: the operation is over, and the caller has the buffers.
            (Ok(()), Some(after)) => unsafe { after.finish(self.mpi) }.err().unwrap_or(SUCCESS),
            (Ok(()), None) => SUCCESS,
        })
    }

    fn start(&self, operation: impl FnOnce(&Group) -> Option<Ready>, request: *mut c_void) -> Option<c_int> {
        let state = groups::for_nonblocking(self.mpi, self.comm)?;
        let mut group = state.as_ref()?.lock().ok()?;
        if request.is_null() || groups::leaves_nonblocking(self.mpi).is_some() {
            return None;
        }
        let Ready { pending, mut after } = operation(&group).filter(|ready| group.supports(&ready.pending))?;
        // The program may free the type before the operation is over.
        if let Some(Err(code)) = after.as_mut().map(|after| after.keep_type(self.mpi)) {
            return Some(code);
        }
        // SAFETY: the program has a place for the request there.
        match unsafe { Request::begin(*self, ptr::from_ref(state).cast(), after, request) } {
            Ok(started) => outstanding::start(self.mpi, state, &mut group, pending, started),
            Err(code) => return Some(code),
        }
        Some(SUCCESS)
    }

    #[cold]
    fn failed(&self, failure: Failure) -> c_int {
        self.log(failure);
        match component::is_active() {
            true => self.mpi.err_other(),
            false => self.mpi.fail(self.comm, self.mpi.err_other()),
        }
    }
}

/// `MPI_Barrier` (MPI 4.1, 6.3).
pub fn barrier(form: Form, comm: usize) -> Option<c_int> {
    Call::new("Barrier", form, comm)?.run(|_| Some(Ready::reduction(Pending::barrier())))
}

/// `MPI_Allreduce` (MPI 4.1, 6.9.6).
///
/// # Safety
/// The buffers are as the standard requires.
#[inline]
pub unsafe fn allreduce(
    form: Form,
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Allreduce", form, comm)?;
    let (elements, bytes) = call.elements(datatype, op, count)?;
    let buffer = call.buffer(from, to, true)?;
    // SAFETY: the buffers have `bytes` bytes.
    call.run(|_| Some(Ready::reduction(unsafe { Pending::allreduce(elements, buffer, bytes) })))
}

/// `MPI_Reduce` (MPI 4.1, 6.9.1).
///
/// # Safety
/// The buffers are as the standard requires.
#[expect(clippy::too_many_arguments, reason = "those of MPI, and the form")]
pub unsafe fn reduce(
    form: Form,
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    root: c_int,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Reduce", form, comm)?;
    let (elements, bytes) = call.elements(datatype, op, count)?;
    let root = usize::try_from(root).ok()?;
    // Only the root has a result buffer. Elsewhere the argument may be anything.
    let buffer = call.buffer(from, to, false)?;
    call.run(|group| {
        if root >= group.size() || (group.rank() == root && to.is_null()) {
            return None;
        }
        // SAFETY: the buffers have `bytes` bytes.
        Some(Ready::reduction(unsafe { Pending::reduce(elements, root, buffer, bytes) }))
    })
}

/// `MPI_Reduce_scatter` (MPI 4.1, 6.10).
///
/// # Safety
/// The buffers are as the standard requires; there is a count for each process.
pub unsafe fn reduce_scatter(
    form: Form,
    from: *const u8,
    to: *mut u8,
    counts: *const c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Reduce_scatter", form, comm)?;
    // SAFETY: the standard requires a count for each process.
    let count = |process: usize| unsafe { *counts.wrapping_add(process) };
    // SAFETY: by this function's contract.
    unsafe { scatter(&call, (from, to), count, datatype, op) }
}

/// `MPI_Reduce_scatter_block` (MPI 4.1, 6.10).
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn reduce_scatter_block(
    form: Form,
    from: *const u8,
    to: *mut u8,
    count: c_int,
    datatype: usize,
    op: usize,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Reduce_scatter_block", form, comm)?;
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
        // SAFETY: the buffers have `bytes` bytes.
        (bytes != 0).then(|| Ready::reduction(unsafe { Pending::reduce_scatter(elements, buffer, bytes, own) }))
    })
}

/// `MPI_Bcast` (MPI 4.1, 6.4).
///
/// # Safety
/// The buffer is as the standard requires.
pub unsafe fn bcast(
    form: Form,
    memory: *mut u8,
    count: c_int,
    datatype: usize,
    root: c_int,
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Bcast", form, comm)?;
    let root = usize::try_from(root).ok()?;
    let buffer = ProgramBuffer::new(&call, memory, count, datatype)?;
    call.run(|group| {
        let mut data = buffer.data(1).filter(|_| root < group.size())?;
        // SAFETY: the data have `bytes` bytes.
        let pending = unsafe { Pending::broadcast(root, data.memory, buffer.bytes) };
        let after = match group.rank() == root {
            true => {
                // SAFETY: by this function's contract.
                let packs = unsafe { buffer.pack(&call, 0, &mut data) };
                Completion::new(None, data, packs)
            }
            false => Completion::new(Some((buffer, data)), PackedData::NONE, Ok(())),
        };
        Some(Ready { pending, after })
    })
}

/// `MPI_Allgather` (MPI 4.1, 6.7).
///
/// # Safety
/// The buffers are as the standard requires.
pub unsafe fn allgather(
    form: Form,
    from: (*const u8, c_int, usize),
    to: (*mut u8, c_int, usize),
    comm: usize,
) -> Option<c_int> {
    let call = Call::new("Allgather", form, comm)?;
    let into = ProgramBuffer::new(&call, to.0, to.1, to.2)?;
    // `None`: this process's data are already in its part of the result.
    let source = match from.0 == call.mpi.in_place() {
        true => None,
        false => Some(ProgramBuffer::new(&call, from.0.cast_mut(), from.1, from.2)?),
    };
    call.run(|group| {
        let (mut result, mut operand, mut packs) = (into.data(group.size())?, PackedData::NONE, Ok(()));
        let own = match &source {
            Some(source) => {
                operand = source.data(1)?;
                // SAFETY: by this function's contract.
                packs = unsafe { source.pack(&call, 0, &mut operand) };
                operand.memory
            }
            None => {
                // SAFETY: by this function's contract.
                packs = packs.and(unsafe { into.pack(&call, group.rank(), &mut result) });
                result.memory.wrapping_add(group.rank() * into.bytes)
            }
        };
        let buffer = Buffer { from: own, to: result.memory };
        // SAFETY: the operand has this process's bytes, and the result has room for those of all processes.
        let pending = unsafe { Pending::allgather(buffer, into.bytes) };
        Some(Ready { pending, after: Completion::new(Some((into, result)), operand, packs) })
    })
}
