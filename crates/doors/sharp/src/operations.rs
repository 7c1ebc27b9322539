// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts callers' requests to operations of a group: types, operations, buffers.

use std::ffi::{c_int, c_uint};
use std::ops::Range;

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Buffer, Elements, Pending, part_of_window};
use selvedge_nic::arithmetic::{Datatype, Located, Operation};

use crate::interface::{BcastSpec, DATA_BUFFER, DataDesc, Error, GatherSpec, MEM_TYPE_CUDA, MEM_TYPE_HOST, ReduceSpec};

/// Types by their numbers: `SHARP_DTYPE_UNSIGNED` to `SHARP_DTYPE_INT8`.
const DATATYPES: [Datatype; 12] = [
    Datatype::Uint32,
    Datatype::Int32,
    Datatype::Uint64,
    Datatype::Int64,
    Datatype::Float,
    Datatype::Double,
    Datatype::Uint16,
    Datatype::Int16,
    Datatype::Half,
    Datatype::Bfloat16,
    Datatype::Uint8,
    Datatype::Int8,
];

/// Operations by their numbers: `SHARP_OP_MAX` to `SHARP_OP_BXOR`.
const OPERATIONS: [Operation; 10] = [
    Operation::Max,
    Operation::Min,
    Operation::Sum,
    Operation::Prod,
    Operation::Land,
    Operation::Band,
    Operation::Lor,
    Operation::Bor,
    Operation::Lxor,
    Operation::Bxor,
];
const OP_MAXLOC: c_uint = 10;
const OP_MINLOC: c_uint = 11;

/// The types that a tag may have, as bits.
const TAGS: u64 = 0b1111;

/// Bits of all types, of the types of tags, and of all operations.
pub fn masks() -> (u64, u64, u64) {
    ((1 << DATATYPES.len()) - 1, TAGS, (1 << (OP_MINLOC + 1)) - 1)
}

fn elements(spec: &ReduceSpec) -> Result<Elements, Error> {
    let datatype = |number: c_uint| DATATYPES.get(number as usize).copied();
    let value = datatype(spec.dtype).ok_or(Error::NotSupported)?;
    let found = match spec.op {
        OP_MAXLOC | OP_MINLOC => {
            let operation = if spec.op == OP_MAXLOC { Operation::Max } else { Operation::Min };
            let tag = datatype(spec.tag_dtype).and_then(|tag| Located::new(value, tag));
            tag.and_then(|pair| Elements::of_pairs(operation, pair))
        }
        number => {
            let operation = OPERATIONS.get(number as usize);
            operation.and_then(|&operation| Elements::of_values(operation, value))
        }
    };
    found.ok_or(Error::NotSupported)
}

/// Memory of `bytes` in a description. A length of 0 was not set by the caller.
fn memory(desc: &DataDesc, bytes: usize) -> Result<*mut u8, Error> {
    if desc.kind != DATA_BUFFER || desc.mem_type != MEM_TYPE_HOST {
        return Err(Error::NotSupported);
    }
    if desc.ptr.is_null() || (desc.length != 0 && desc.length < bytes) {
        return Err(Error::Invalid);
    }
    Ok(desc.ptr)
}

fn bytes_of(elements: &Elements, length: usize) -> Result<usize, Error> {
    length.checked_mul(elements.size_bytes()).filter(|&bytes| bytes != 0).ok_or(Error::Invalid)
}

fn root_of(root: c_int, group: &CollectiveGroup) -> Result<usize, Error> {
    usize::try_from(root).ok().filter(|&root| root < group.size()).ok_or(Error::Invalid)
}

/// # Safety
/// The buffers of the description stay until the operation is over.
pub unsafe fn allreduce(spec: &ReduceSpec, _: &CollectiveGroup) -> Result<Pending, Error> {
    let elements = elements(spec)?;
    let bytes = bytes_of(&elements, spec.length)?;
    let buffer = Buffer { from: memory(&spec.sbuf_desc, bytes)?, to: memory(&spec.rbuf_desc, bytes)? };
    // SAFETY: by this function's contract.
    Ok(unsafe { Pending::allreduce(&elements, buffer, bytes) })
}

/// # Safety
/// As for [`allreduce`].
pub unsafe fn reduce(spec: &ReduceSpec, group: &CollectiveGroup) -> Result<Pending, Error> {
    let (elements, root) = (elements(spec)?, root_of(spec.root, group)?);
    let bytes = bytes_of(&elements, spec.length)?;
    let from = memory(&spec.sbuf_desc, bytes)?;
    let to = if root == group.rank() { memory(&spec.rbuf_desc, bytes)? } else { std::ptr::null_mut() };
    // SAFETY: by this function's contract.
    Ok(unsafe { Pending::reduce(&elements, root, Buffer { from, to }, bytes) })
}

/// Reduces and scatters. The length is that of the part that a process receives. If the operand is not as long as all
/// parts, it is a window of them: it begins at `offset` bytes, each process's part is as long as its buffer, and the
/// buffer begins with the bytes of the part that are in the window.
///
/// # Safety
/// As for [`allreduce`].
pub unsafe fn reduce_scatter(spec: &ReduceSpec, group: &CollectiveGroup) -> Result<Pending, Error> {
    let elements = elements(spec)?;
    let each = bytes_of(&elements, spec.length)?;
    let bytes = each.checked_mul(group.size()).ok_or(Error::Invalid)?;
    let (each, window) = match spec.sbuf_desc.length {
        0 => (each, 0..bytes),
        length if length == bytes => (each, 0..bytes),
        length => (spec.rbuf_desc.length, window_of(spec.offset, length, spec.rbuf_desc.length, group)?),
    };
    if window.len() % elements.size_bytes() != 0 || each % elements.size_bytes() != 0 {
        return Err(Error::Invalid);
    }
    let own = part_of_window(&window, each, group.rank());
    let buffer = Buffer { from: memory(&spec.sbuf_desc, window.len())?, to: memory(&spec.rbuf_desc, own.len())? };
    // SAFETY: by this function's contract.
    Ok(unsafe { Pending::reduce_scatter(&elements, buffer, window.len(), own) })
}

/// A window of a vector in which each process has `each` bytes.
fn window_of(offset: usize, length: usize, each: usize, group: &CollectiveGroup) -> Result<Range<usize>, Error> {
    let whole = each.checked_mul(group.size()).ok_or(Error::Invalid)?;
    let end = offset.checked_add(length).filter(|&end| end <= whole && length != 0).ok_or(Error::Invalid)?;
    Ok(offset..end)
}

/// Gathers. Callers set the lengths of the buffers; type and size may be anything. A result that is shorter than all
/// data is a window of them, which begins at `offset`; the operand then begins with its bytes in the window.
///
/// # Safety
/// As for [`allreduce`].
pub unsafe fn allgather(spec: &GatherSpec, group: &CollectiveGroup) -> Result<Pending, Error> {
    // Callers may leave the kinds of memory unset (NCCL's plugin). So both must say device memory to be refused.
    if spec.sbuf_desc.mem_type == MEM_TYPE_CUDA && spec.rbuf_desc.mem_type == MEM_TYPE_CUDA {
        return Err(Error::NotSupported);
    }
    let source = DataDesc { mem_type: MEM_TYPE_HOST, ..spec.sbuf_desc };
    let result = DataDesc { mem_type: MEM_TYPE_HOST, ..spec.rbuf_desc };
    let each = source.length;
    let bytes = each.checked_mul(group.size()).filter(|&bytes| bytes != 0).ok_or(Error::Invalid)?;
    if result.length == 0 || result.length >= bytes {
        let buffer = Buffer { from: memory(&source, each)?, to: memory(&result, bytes)? };
        // SAFETY: by this function's contract.
        return Ok(unsafe { Pending::allgather(buffer, each) });
    }
    let window = window_of(spec.offset, result.length, each, group)?;
    let buffer = Buffer { from: memory(&source, 0)?, to: memory(&result, window.len())? };
    // SAFETY: by this function's contract.
    Ok(unsafe { Pending::allgather_window(buffer, each, window) })
}

/// # Safety
/// As for [`allreduce`].
pub unsafe fn bcast(spec: &BcastSpec, group: &CollectiveGroup) -> Result<Pending, Error> {
    let root = root_of(spec.root, group)?;
    if spec.size == 0 {
        return Err(Error::Invalid);
    }
    let memory = memory(&spec.buf_desc, spec.size)?;
    // SAFETY: by this function's contract.
    Ok(unsafe { Pending::broadcast(root, memory, spec.size) })
}
