// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: complete ones, and their building blocks.

use std::ffi::c_void;

use crate::atoll::channels::HostPort;
use crate::atoll::channels::Received;
use crate::atoll::channels::sink::Sink;

use super::codes::{Code, Outcome, value};
use super::objects::{Content, Descriptor, Port};
use super::port::{pack_id, source_filter};

/// The program's buffers and variables for a received message. Each may be NULL.
struct Outputs {
    header: *mut c_void,
    header_bytes: *mut usize,
    data: *mut c_void,
    data_bytes: *mut usize,
    tag: *mut u32,
    source: *mut u32,
}

/// Copies a part of a message to a buffer that has room for `max` bytes.
///
/// # Safety
/// The buffer has room, or is NULL.
unsafe fn copy(port: &HostPort, message: &Received, (at, bytes): (u64, u64), to: *mut c_void, max: usize) {
    let bytes = bytes.min(max as u64);
    if !to.is_null() && bytes != 0 {
        // SAFETY: the caller's.
        unsafe { port.copy(message, at, to.cast(), bytes) };
    }
}

/// The header and the data of a message: start and bytes of each.
fn sections(message: &Received) -> [(u64, u64); 2] {
    [(0, message.header_bytes()), (message.header_bytes(), message.data_bytes())]
}

impl Outputs {
    /// Refuses a buffer without a size.
    fn check(&self) -> Outcome {
        let is_wrong = |buffer: *mut c_void, size: *mut usize| !buffer.is_null() && size.is_null();
        let wrong = is_wrong(self.header, self.header_bytes) || is_wrong(self.data, self.data_bytes);
        if wrong { Err(Code::Pointer) } else { Ok(()) }
    }

    /// The buffers and their sizes.
    ///
    /// # Safety
    /// The sizes can be read or are NULL.
    unsafe fn sink(&self) -> Sink {
        let room = |buffer: *mut c_void, size: *const usize| {
            // SAFETY: not null; the caller says that it can be read.
            let bytes = if buffer.is_null() || size.is_null() { 0 } else { unsafe { size.read() } };
            (buffer.cast(), bytes as u64)
        };
        Sink { header: room(self.header, self.header_bytes), data: room(self.data, self.data_bytes) }
    }

    /// # Safety
    /// The buffers have the room that their sizes say; the outputs have room or are NULL.
    unsafe fn store(&self, port: &HostPort, message: &Received) {
        let buffers = [(self.header, self.header_bytes), (self.data, self.data_bytes)];
        for ((buffer, size), section) in buffers.into_iter().zip(sections(message)) {
            if size.is_null() {
                continue;
            }
            // SAFETY: the caller's.
            unsafe {
                if !message.is_placed() {
                    copy(port, message, section, buffer, size.read());
                }
                size.write(section.1 as usize);
            }
        }
        // SAFETY: the caller's.
        unsafe {
            if !self.tag.is_null() {
                self.tag.write(message.tag());
            }
            if !self.source.is_null() {
                self.source.write(pack_id(message.source().node, port.number_of(message.source())));
            }
        }
    }
}

/// # Safety
/// The port is valid or NULL; the outputs are as [`Outputs::store`] demands.
unsafe fn receive(port: *const c_void, from: u32, outputs: &Outputs, waits: bool) -> Outcome {
    // SAFETY: the caller's.
    let port = unsafe { Port::of(port) }?;
    outputs.check()?;
    let filter = source_filter(port, from)?;
    let message = if waits {
        // SAFETY: the caller's.
        unsafe { port.match_into(filter, outputs.sink()) }
    } else {
        port.match_now(filter)
    }?;
    // SAFETY: the caller's.
    unsafe { outputs.store(port, &message) };
    port.free(message);
    Ok(())
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL; the buffers have the room that their sizes say; outputs have room or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_recv(
    port: *const c_void,
    from: u32,
    header: *mut c_void,
    header_bytes: *mut usize,
    data: *mut c_void,
    data_bytes: *mut usize,
    tag: *mut u32,
    source: *mut u32,
) -> i32 {
    let outputs = Outputs { header, header_bytes, data, data_bytes, tag, source };
    // SAFETY: the caller's.
    value(unsafe { receive(port, from, &outputs, true) })
}

/// # Safety
/// As [`atoll_recv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_recv_nb(
    port: *const c_void,
    from: u32,
    header: *mut c_void,
    header_bytes: *mut usize,
    data: *mut c_void,
    data_bytes: *mut usize,
    tag: *mut u32,
    source: *mut u32,
) -> i32 {
    let outputs = Outputs { header, header_bytes, data, data_bytes, tag, source };
    // SAFETY: the caller's.
    value(unsafe { receive(port, from, &outputs, false) })
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL; outputs have room or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_fast_recv(port: *const c_void, from: u32, operand: *mut u32, source: *mut u32) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::of(port) }?;
        let message = port.match_wait(source_filter(port, from)?, None)?;
        if message.header_bytes() + message.data_bytes() != 0 {
            port.put_back(message);
            return Err(Code::NotFast);
        }
        let (nothing, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        let outputs = Outputs {
            header: nowhere,
            header_bytes: nothing,
            data: nowhere,
            data_bytes: nothing,
            tag: operand,
            source,
        };
        // SAFETY: the caller's.
        unsafe { outputs.store(port, &message) };
        port.free(message);
        Ok(())
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_match(port: *const c_void, from: u32, descriptor: *mut *const Descriptor) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        if descriptor.is_null() {
            return Err(Code::Pointer);
        }
        // SAFETY: the caller's.
        let host_port = unsafe { port.host_port() }?;
        let message = host_port.match_now(source_filter(host_port, from)?)?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { descriptor.write(Descriptor::hold(port, Content::Received(message))) };
        Ok(())
    })())
}

/// # Safety
/// The pointers are valid or NULL; the buffer has `max` bytes or is NULL. `which`: 0 the header, 1 the data.
unsafe fn copy_out(
    port: *const c_void,
    descriptor: *const c_void,
    which: usize,
    to: *mut c_void,
    max: usize,
    size: *mut usize,
) -> Outcome {
    if to.is_null() && max != 0 {
        return Err(Code::Pointer);
    }
    // SAFETY: the caller's.
    unsafe {
        let port = Port::get(port)?;
        let message = Descriptor::of(port, descriptor)?.received()?;
        let section = sections(message)[which];
        copy(port.host_port()?, message, section, to, max);
        if !size.is_null() {
            size.write(section.1 as usize);
        }
    }
    Ok(())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL; the buffer has `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_recv_copy_h(
    port: *const c_void,
    descriptor: *const c_void,
    header: *mut c_void,
    max: usize,
    header_bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { copy_out(port, descriptor, 0, header, max, header_bytes) })
}

/// # Safety
/// As [`atoll_recv_copy_h`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_recv_copy(
    port: *const c_void,
    descriptor: *const c_void,
    data: *mut c_void,
    max: usize,
    data_bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { copy_out(port, descriptor, 1, data, max, data_bytes) })
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_recv_free(port: *const c_void, descriptor: *const c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        unsafe {
            let port = Port::get(port)?;
            let content = Descriptor::of(port, descriptor)?.take(|content| matches!(content, Content::Received(_)))?;
            if let Content::Received(message) = content {
                port.host_port()?.free(message);
            }
        }
        Ok(())
    })())
}
