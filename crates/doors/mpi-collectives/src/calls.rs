// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collective operations: what of them a group carries out, while the call waits or after it has returned ([`Form`]). None: the MPI does.
//!
//! Each process must come to the same answer. Counts, types and operations of a reduction are the same at all of them (MPI 4.1, 6.9); of a
//! broadcast and an allgather only the data's size is, so buffers of any type are taken, and those with gaps are packed.

use std::ffi::{c_int, c_void};

use selvedge_collectives::one_host::{Buffer, Elements, Pending, log};
use selvedge_nic::aggregation::Failure;

use crate::mpi::{Handle, Mpi, SUCCESS, library};
use crate::requests::Request;
use crate::under_way::Group;
use crate::{component, groups, types, under_way};

/// A call of an operation.
#[derive(Clone, Copy)]
pub struct Call {
    pub mpi: &'static Mpi,
    pub comm: Handle,
    form: Form,
    name: &'static str,
}

/// How an operation is called.
#[derive(Clone, Copy)]
pub enum Form {
    /// It waits.
    Blocking,
    /// It starts the operation, and its request goes here.
    Nonblocking(*mut c_void),
}

/// An operation that can begin.
struct Ready {
    pending: Pending,
    /// What is to be done when it is over. None: nothing.
    after: Option<Box<After>>,
}

impl Ready {
    #[inline]
    fn reduction(pending: Pending) -> Ready {
        Ready { pending, after: None }
    }
}

impl Call {
    /// `name`: without what the names of MPI begin with.
    fn new(name: &'static str, form: Form, comm: usize) -> Option<Call> {
        let mpi = library()?;
        let comm = mpi.handle(comm);
        (!mpi.is_no_comm(comm)).then_some(Call { mpi, comm, form, name })
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

    /// Runs an operation of the communicator's group, or starts it.
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
        // The program's error handler may call an operation of the communicator.
        drop(group);
        Some(match (outcome, after) {
            (Err(failure), _) => self.failed(failure),
            // SAFETY: the operation is over, and the caller has the buffers.
            (Ok(()), Some(after)) => unsafe { after.finish(self.mpi) }.err().unwrap_or(SUCCESS),
            (Ok(()), None) => SUCCESS,
        })
    }

    fn start(&self, operation: impl FnOnce(&Group) -> Option<Ready>, request: *mut c_void) -> Option<c_int> {
        let known = groups::of_operations_under_way(self.mpi, self.comm)?;
        let mut group = known.as_ref()?.lock().ok()?;
        if request.is_null() || groups::leaves_nonblocking(self.mpi).is_some() {
            return None;
        }
        let Ready { pending, mut after } = operation(&group).filter(|ready| group.supports(&ready.pending))?;
        // The program may free the type before the operation is over.
        if let Some(Err(code)) = after.as_mut().map(|after| after.keep_type(self.mpi)) {
            return Some(code);
        }
        // SAFETY: the program has a place for the request there.
        match unsafe { Request::begin(*self, known, after, request) } {
            Ok(started) => under_way::start(self.mpi, known, &mut group, pending, started),
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

    pub fn log(&self, failure: Failure) {
        let Call { form, name, comm, .. } = self;
        log::error(|| match form {
            Form::Blocking => format!("MPI_{name} on communicator {comm:#x}: {failure}"),
            Form::Nonblocking(_) => format!("MPI_I{} on communicator {comm:#x}: {failure}", name.to_lowercase()),
        });
    }
}

fn positive(count: c_int) -> Option<usize> {
    usize::try_from(count).ok().filter(|&count| count > 0)
}

/// MPI 4.1, 6.3.
pub fn barrier(form: Form, comm: usize) -> Option<c_int> {
    Call::new("Barrier", form, comm)?.run(|_| Some(Ready::reduction(Pending::barrier())))
}

/// MPI 4.1, 6.9.6.
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
    // SAFETY: the buffers have so many bytes.
    call.run(|_| Some(Ready::reduction(unsafe { Pending::allreduce(elements, buffer, bytes) })))
}

/// MPI 4.1, 6.9.1.
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
    // A result is used at the root alone. Where it is not, the argument may be anything.
    let buffer = call.buffer(from, to, false)?;
    call.run(|group| {
        if root >= group.size() || (group.rank() == root && to.is_null()) {
            return None;
        }
        // SAFETY: the buffers have so many bytes.
        Some(Ready::reduction(unsafe { Pending::reduce(elements, root, buffer, bytes) }))
    })
}

/// MPI 4.1, 6.10.
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

/// MPI 4.1, 6.10.
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
        // SAFETY: the buffers have so many bytes.
        (bytes != 0).then(|| Ready::reduction(unsafe { Pending::reduce_scatter(elements, buffer, bytes, own) }))
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

impl Data {
    const NONE: Data = Data { memory: std::ptr::null_mut(), packed: Vec::new() };
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
    unsafe fn unpack(&self, mpi: &Mpi, data: &Data) -> Result<(), c_int> {
        data.packed.chunks(self.bytes).enumerate().try_for_each(|(part, from)| {
            let to = self.memory.wrapping_offset(self.stride.wrapping_mul(part as isize));
            // SAFETY: the buffer has so many elements in each part.
            unsafe { mpi.unpack(from, to, self.count, self.datatype, mpi.comm_world()) }
        })
    }
}

/// What is left of a call when its operation is over.
pub struct After {
    /// Packed data, and the program's buffer for them. None: it does not get any.
    result: Option<(Program, Data)>,
    /// The operand, if it is packed.
    _operand: Data,
    /// What packing said.
    packs: Result<(), c_int>,
    /// The type is a handle of this library's.
    owns_type: bool,
}

impl After {
    /// None: nothing is packed.
    fn new(result: Option<(Program, Data)>, operand: Data, packs: Result<(), c_int>) -> Option<Box<After>> {
        let result = result.filter(|(_, data)| !data.packed.is_empty());
        let is_needed = result.is_some() || !operand.packed.is_empty();
        is_needed.then(|| Box::new(After { result, _operand: operand, packs, owns_type: false }))
    }

    /// Keeps the type of the buffer for itself.
    fn keep_type(&mut self, mpi: &Mpi) -> Result<(), c_int> {
        if let Some((program, _)) = &mut self.result {
            program.datatype = mpi.type_dup(program.datatype)?;
            self.owns_type = true;
        }
        Ok(())
    }

    /// Brings the result to where the program wants it.
    ///
    /// # Safety
    /// The buffers of the call are as the standard requires.
    pub unsafe fn finish(&self, mpi: &Mpi) -> Result<(), c_int> {
        let Some((program, data)) = &self.result else { return self.packs };
        // SAFETY: by this function's contract.
        let unpacks = self.packs.and_then(|()| unsafe { program.unpack(mpi, data) });
        self.release(mpi);
        unpacks
    }

    /// Gives the type back that it has kept. Nothing is unpacked any more.
    pub fn release(&self, mpi: &Mpi) {
        if let Some((program, _)) = self.result.as_ref().filter(|_| self.owns_type) {
            mpi.type_free(program.datatype);
        }
    }
}

/// MPI 4.1, 6.4.
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
    let buffer = Program::new(&call, memory, count, datatype)?;
    call.run(|group| {
        let mut data = buffer.data(1).filter(|_| root < group.size())?;
        // SAFETY: the data has so many bytes.
        let pending = unsafe { Pending::broadcast(root, data.memory, buffer.bytes) };
        let after = match group.rank() == root {
            true => {
                // SAFETY: by this function's contract.
                let packs = unsafe { buffer.pack(&call, 0, &mut data) };
                After::new(None, data, packs)
            }
            false => After::new(Some((buffer, data)), Data::NONE, Ok(())),
        };
        Some(Ready { pending, after })
    })
}

/// MPI 4.1, 6.7.
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
    let into = Program::new(&call, to.0, to.1, to.2)?;
    // None: this process's data are in its part of the result.
    let source = match from.0 == call.mpi.in_place() {
        true => None,
        false => Some(Program::new(&call, from.0.cast_mut(), from.1, from.2)?),
    };
    call.run(|group| {
        let (mut result, mut operand, mut packs) = (into.data(group.size())?, Data::NONE, Ok(()));
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
        // SAFETY: the data has so many bytes, and as many of each process.
        let pending = unsafe { Pending::allgather(buffer, into.bytes) };
        Some(Ready { pending, after: After::new(Some((into, result)), operand, packs) })
    })
}
