// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values in a buffer that a program sends to a peer by its own messages: Open MPI describes processes this way when it
//! makes an intercommunicator. `libpmix` cannot do it, because it asks its server for the peer's packing.
//!
//! | bytes | content |
//! |---|---|
//! | 2 | type |
//! | 4 | number of values |
//! | for each value | of a fixed width: its bytes; a string: 4 bytes of length, [`NO_STRING`] for a null pointer, then its text |
//!
//! Invariant: a call that fails leaves the buffer unchanged. Data packed by a peer are checked.

use std::ffi::{CStr, c_char, c_void};

use crate::store::{copied, width};
use crate::sys::{ERR_BAD_PARAM, ERR_NOMEM, ERR_NOT_SUPPORTED, Proc, SUCCESS, Status, kind, slice_at};

const ERR_UNPACK_INADEQUATE_SPACE: Status = -19;
const ERR_UNPACK_FAILURE: Status = -20;
const ERR_READ_PAST_END: Status = -50;

const NO_STRING: u32 = u32::MAX;

/// `pmix_data_buffer_t`.
#[repr(C)]
pub struct DataBuffer {
    base: *mut u8,
    /// The place of the next value to pack, and to unpack.
    pack: *mut u8,
    unpack: *mut u8,
    allocated: usize,
    used: usize,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<DataBuffer>() == 40);

/// Bytes of a value in an array of the program; `None` if the type cannot be packed.
fn element_bytes(kind: u16) -> Option<usize> {
    match kind {
        kind::STRING => Some(size_of::<*const c_char>()),
        kind::PROC => Some(size_of::<Proc>()),
        kind => width(kind),
    }
}

/// Packs an array of values.
///
/// # Safety
/// `from` points to `count` values of the type.
unsafe fn packed(from: *const u8, count: usize, kind: u16) -> Option<Vec<u8>> {
    let bytes = element_bytes(kind)?;
    let mut into = Vec::new();
    into.extend_from_slice(&kind.to_ne_bytes());
    into.extend_from_slice(&u32::try_from(count).ok()?.to_ne_bytes());
    if kind != kind::STRING {
        // SAFETY: by this function's contract.
        into.extend_from_slice(unsafe { slice_at(from, bytes.checked_mul(count)?) });
        return Some(into);
    }
    // SAFETY: by this function's contract.
    for &string in unsafe { slice_at(from.cast::<*const c_char>(), count) } {
        if string.is_null() {
            into.extend_from_slice(&NO_STRING.to_ne_bytes());
            continue;
        }
        // SAFETY: a string of the program that is not null is a C string.
        let text = unsafe { CStr::from_ptr(string) }.to_bytes();
        into.extend_from_slice(&u32::try_from(text.len()).ok().filter(|&length| length != NO_STRING)?.to_ne_bytes());
        into.extend_from_slice(text);
    }
    Some(into)
}

fn take<'a>(from: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Status> {
    let (taken, rest) = from.split_at_checked(bytes).ok_or(ERR_READ_PAST_END)?;
    *from = rest;
    Ok(taken)
}

fn number(from: &mut &[u8]) -> Result<u32, Status> {
    take(from, 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}

/// Unpacks at most `most` values of a type: their bytes as the program has them, and their number. Memory of strings
/// comes from the C library's allocator.
fn unpacked(from: &mut &[u8], kind: u16, most: usize) -> Result<(Vec<u8>, usize), Status> {
    let bytes = element_bytes(kind).ok_or(ERR_NOT_SUPPORTED)?;
    if take(from, 2)? != kind.to_ne_bytes() {
        return Err(ERR_UNPACK_FAILURE);
    }
    let count = number(from)? as usize;
    if count > most {
        return Err(ERR_UNPACK_INADEQUATE_SPACE);
    }
    if kind != kind::STRING {
        let all = take(from, bytes.checked_mul(count).ok_or(ERR_READ_PAST_END)?)?;
        return Ok((all.to_vec(), count));
    }
    // All lengths are checked before any string is made.
    let mut texts = Vec::new();
    for _ in 0..count {
        let length = number(from)?;
        texts.push(if length == NO_STRING { None } else { Some(take(from, length as usize)?) });
    }
    let mut strings = Vec::new();
    for text in texts {
        let string = match text {
            None => std::ptr::null_mut(),
            Some(text) => copied(text, 1).ok_or(ERR_NOMEM)?,
        };
        strings.extend_from_slice(&string.expose_provenance().to_ne_bytes());
    }
    Ok((strings, count))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_pack(
    _: *const Proc,
    buffer: *mut DataBuffer,
    from: *const c_void,
    count: i32,
    kind: u16,
) -> Status {
    // SAFETY: `pmix.h` requires `buffer` to be null or to point to a buffer.
    let (Some(buffer), Ok(count)) = (unsafe { buffer.as_mut() }, usize::try_from(count)) else { return ERR_BAD_PARAM };
    // SAFETY: `pmix.h` requires `count` values of the type.
    let Some(bytes) = (unsafe { packed(from.cast(), count, kind) }) else { return ERR_NOT_SUPPORTED };
    let Some(used) = buffer.used.checked_add(bytes.len()) else { return ERR_NOMEM };
    let taken = buffer.unpack.addr().wrapping_sub(buffer.base.addr()).min(buffer.used);
    if used > buffer.allocated {
        let room = used.next_power_of_two();
        // SAFETY: `base` is null, or comes from the C library's allocator, as `pmix.h` says of buffers.
        let grown = unsafe { libc::realloc(buffer.base.cast(), room) }.cast::<u8>();
        if grown.is_null() {
            return ERR_NOMEM;
        }
        (buffer.base, buffer.allocated) = (grown, room);
    }
    // SAFETY: the memory has room for `used` bytes, of which `buffer.used` were there before.
    unsafe { buffer.base.add(buffer.used).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    buffer.used = used;
    (buffer.pack, buffer.unpack) = (buffer.base.wrapping_add(used), buffer.base.wrapping_add(taken));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_unpack(
    _: *const Proc,
    buffer: *mut DataBuffer,
    into: *mut c_void,
    count: *mut i32,
    kind: u16,
) -> Status {
    // SAFETY: `pmix.h` requires each to be null or to point to a buffer and a number.
    let (Some(buffer), Some(count)) = (unsafe { (buffer.as_mut(), count.as_mut()) }) else { return ERR_BAD_PARAM };
    let Ok(most) = usize::try_from(*count) else { return ERR_BAD_PARAM };
    let taken = buffer.unpack.addr().wrapping_sub(buffer.base.addr());
    // SAFETY: `pmix.h` says that a buffer has `used` bytes.
    let Some(mut left) = (unsafe { slice_at(buffer.base, buffer.used) }).get(taken..) else { return ERR_READ_PAST_END };
    match unpacked(&mut left, kind, most) {
        Ok((values, unpacked)) => {
            // SAFETY: `pmix.h` requires room for `count` values.
            unsafe { into.cast::<u8>().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
            *count = unpacked as i32;
            buffer.unpack = buffer.base.wrapping_add(buffer.used - left.len());
            SUCCESS
        }
        Err(status) => {
            *count = 0;
            status
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> DataBuffer {
        let null = std::ptr::null_mut();
        DataBuffer { base: null, pack: null, unpack: null, allocated: 0, used: 0 }
    }

    fn free(buffer: &DataBuffer) {
        // SAFETY: it came from `realloc`.
        unsafe { libc::free(buffer.base.cast()) };
    }

    fn pack<T>(buffer: &mut DataBuffer, values: &[T], kind: u16) -> Status {
        // SAFETY: the values are of the type.
        unsafe { PMIx_Data_pack(std::ptr::null(), buffer, values.as_ptr().cast(), values.len() as i32, kind) }
    }

    fn unpack<T>(buffer: &mut DataBuffer, values: &mut [T], kind: u16) -> (Status, i32) {
        let mut count = values.len() as i32;
        // SAFETY: the caller has room for this number of values.
        let status =
            unsafe { PMIx_Data_unpack(std::ptr::null(), buffer, values.as_mut_ptr().cast(), &mut count, kind) };
        (status, count)
    }

    #[test]
    fn what_is_packed_is_unpacked_in_its_order() {
        let mut buffer = empty();
        let process = Proc { nspace: [7; crate::sys::NSPACE_BYTES], rank: 9 };
        let strings = [c"node3".as_ptr(), std::ptr::null(), c"".as_ptr()];
        assert_eq!(pack(&mut buffer, &[process], kind::PROC), SUCCESS);
        assert_eq!(pack(&mut buffer, &[1u32, 2, 3], kind::UINT32), SUCCESS);
        assert_eq!(pack(&mut buffer, &strings, kind::STRING), SUCCESS);
        let mut processes = [Proc { nspace: [0; crate::sys::NSPACE_BYTES], rank: 0 }];
        assert_eq!(unpack(&mut buffer, &mut processes, kind::PROC), (SUCCESS, 1));
        assert_eq!((processes[0].nspace, processes[0].rank), (process.nspace, 9));
        // A value is unpacked between two that are packed.
        assert_eq!(pack(&mut buffer, &[true], kind::BOOL), SUCCESS);
        let mut numbers = [0u32; 4];
        assert_eq!(unpack(&mut buffer, &mut [0u32; 2], kind::UINT32), (ERR_UNPACK_INADEQUATE_SPACE, 0));
        assert_eq!(unpack(&mut buffer, &mut numbers, kind::SIZE), (ERR_UNPACK_FAILURE, 0));
        assert_eq!((unpack(&mut buffer, &mut numbers, kind::UINT32), numbers), ((SUCCESS, 3), [1, 2, 3, 0]));
        let mut texts: [*mut c_char; 3] = [std::ptr::null_mut(); 3];
        assert_eq!(unpack(&mut buffer, &mut texts, kind::STRING), (SUCCESS, 3));
        // SAFETY: strings that were made for us.
        unsafe {
            assert_eq!((CStr::from_ptr(texts[0]), CStr::from_ptr(texts[2])), (c"node3", c""));
            texts.iter().for_each(|text| libc::free(text.cast()));
        }
        assert!(texts[1].is_null());
        let mut flags = [0u8];
        assert_eq!((unpack(&mut buffer, &mut flags, kind::BOOL), flags), ((SUCCESS, 1), [1]));
        assert_eq!(unpack(&mut buffer, &mut flags, kind::BOOL), (ERR_READ_PAST_END, 0));
        assert_eq!(pack(&mut buffer, &[0u64; 3], kind::BYTE_OBJECT), ERR_NOT_SUPPORTED);
        free(&buffer);
    }

    #[test]
    fn a_buffer_that_is_cut_or_changed_is_refused_or_read_within_its_bytes() {
        let mut buffer = empty();
        assert_eq!(pack(&mut buffer, &[c"some text".as_ptr(), c"more".as_ptr()], kind::STRING), SUCCESS);
        // SAFETY: the buffer has `used` bytes.
        let whole = unsafe { std::slice::from_raw_parts(buffer.base, buffer.used) }.to_vec();
        for cut in 0..whole.len() {
            assert_eq!(unpacked(&mut &whole[..cut], kind::STRING, 2), Err(ERR_READ_PAST_END), "{cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x80;
            if let Ok((strings, count)) = unpacked(&mut &changed[..], kind::STRING, 2) {
                assert_eq!(count, 2);
                for string in strings.chunks(8) {
                    let address = usize::from_ne_bytes(string.try_into().expect("8 bytes"));
                    // SAFETY: a string that was made for us.
                    unsafe { libc::free(std::ptr::with_exposed_provenance_mut(address)) };
                }
            }
        }
        free(&buffer);
    }
}
