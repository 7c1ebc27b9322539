// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers of the program, and packed data of buffers with gaps.

use std::ffi::c_int;

use crate::call::{Call, positive};
use crate::mpi::{Handle, Mpi};
use crate::types;

/// A buffer of the program.
#[derive(Clone, Copy)]
pub struct ProgramBuffer {
    pub memory: *mut u8,
    count: c_int,
    datatype: Handle,
    /// Bytes of its data. Below: bytes from one process's part to the next, if there are several.
    pub bytes: usize,
    stride: isize,
    /// Whether the data are contiguous from the buffer's address on.
    is_contiguous: bool,
}

/// Contiguous data of a buffer: in the program's memory, or packed.
pub struct PackedData {
    pub memory: *mut u8,
    pub packed: Vec<u8>,
}

impl PackedData {
    pub const NONE: PackedData = PackedData { memory: std::ptr::null_mut(), packed: Vec::new() };
}

impl ProgramBuffer {
    /// Describes a buffer. `None`: there are no data, or the type is invalid.
    #[inline]
    pub fn new(call: &Call, memory: *mut u8, count: c_int, datatype: usize) -> Option<ProgramBuffer> {
        let datatype = call.mpi.handle(datatype);
        let elements = positive(count)?;
        match types::of(call.mpi).find(datatype).filter(|known| known.is_contiguous && !memory.is_null()) {
            Some(known) => {
                let bytes = elements * known.bytes;
                Some(ProgramBuffer { memory, count, datatype, bytes, stride: bytes as isize, is_contiguous: true })
            }
            None => ProgramBuffer::of_any_type(call, memory, count, datatype),
        }
    }

    #[cold]
    pub fn of_any_type(call: &Call, memory: *mut u8, count: c_int, datatype: Handle) -> Option<ProgramBuffer> {
        let elements = positive(count).filter(|_| !call.mpi.is_no_type(datatype))?;
        let bytes = elements.checked_mul(call.mpi.type_bytes(datatype).ok()?)?;
        let stride = call.mpi.type_extent(datatype).ok()?.checked_mul(count as isize)?;
        let has_data = bytes > 0 && c_int::try_from(bytes).is_ok();
        has_data.then_some(ProgramBuffer { memory, count, datatype, bytes, stride, is_contiguous: false })
    }

    /// Contiguous memory for the data of `parts` parts.
    #[inline]
    pub fn data(&self, parts: usize) -> Option<PackedData> {
        if self.is_contiguous {
            return Some(PackedData { memory: self.memory, packed: Vec::new() });
        }
        let mut packed = vec![0; self.bytes.checked_mul(parts)?];
        Some(PackedData { memory: packed.as_mut_ptr(), packed })
    }

    /// Gathers the data of a part, if they have to be packed.
    ///
    /// # Safety
    /// The buffer is as the standard requires.
    pub unsafe fn pack(&self, call: &Call, part: usize, data: &mut PackedData) -> Result<(), c_int> {
        let Some(into) = data.packed.chunks_mut(self.bytes).nth(part) else { return Ok(()) };
        let from = self.memory.wrapping_offset(self.stride.wrapping_mul(part as isize));
        // SAFETY: the buffer has `count` elements in each part.
        unsafe { call.mpi.pack(from, self.count, self.datatype, into, call.comm) }
    }

    /// Scatters packed data, part by part: MPICH accepts `MPI_BOTTOM` for the first part only.
    ///
    /// # Safety
    /// The buffer is as the standard requires.
    pub unsafe fn unpack(&self, mpi: &Mpi, data: &PackedData) -> Result<(), c_int> {
        data.packed.chunks(self.bytes).enumerate().try_for_each(|(part, from)| {
            let to = self.memory.wrapping_offset(self.stride.wrapping_mul(part as isize));
            // SAFETY: the buffer has `count` elements in each part.
            unsafe { mpi.unpack(from, to, self.count, self.datatype, mpi.comm_world()) }
        })
    }
}

/// The work left when an operation is over: unpacking the result, and freeing a duplicated type.
pub struct Completion {
    /// Packed data, and the program's buffer for them. `None`: nothing is unpacked.
    result: Option<(ProgramBuffer, PackedData)>,
    /// The operand, if it is packed. It lives until the operation is over.
    _operand: PackedData,
    packs: Result<(), c_int>,
    /// Whether the type is a duplicate that this library has to free.
    owns_type: bool,
}

impl Completion {
    /// Returns `None` if nothing is packed.
    pub fn new(
        result: Option<(ProgramBuffer, PackedData)>,
        operand: PackedData,
        packs: Result<(), c_int>,
    ) -> Option<Box<Completion>> {
        let result = result.filter(|(_, data)| !data.packed.is_empty());
        let is_needed = result.is_some() || !operand.packed.is_empty();
        is_needed.then(|| Box::new(Completion { result, _operand: operand, packs, owns_type: false }))
    }

    /// Duplicates the buffer's type, because the program may free its own.
    pub fn keep_type(&mut self, mpi: &Mpi) -> Result<(), c_int> {
        if let Some((program, _)) = &mut self.result {
            program.datatype = mpi.type_dup(program.datatype)?;
            self.owns_type = true;
        }
        Ok(())
    }

    /// Unpacks the result into the program's buffer.
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

    /// Frees the duplicated type. Nothing is unpacked after that.
    pub fn release(&self, mpi: &Mpi) {
        if let Some((program, _)) = self.result.as_ref().filter(|_| self.owns_type) {
            mpi.type_free(program.datatype);
        }
    }
}
