// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libvelo2: ports with mailboxes, connections, messages (`include/velo2.h`).

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use selvedge_transport::extoll::connection::PostError;
use selvedge_transport::extoll::messages::{Message, MessageReader};
use selvedge_transport::extoll::{Device, DeviceError};
use selvedge_transport::nic::velo::{Endpoint, Outgoing, PortId, Status, options};

use crate::codes::codes;
use crate::marked::Marked;

codes! {
    texts: &'static CStr;
    Success = 0, c"success";
    Error = 1, c"the library failed";
    InvMsg = 2, c"the message is too long, or not there";
    NoMsg = 3, c"the mailbox is empty";
    NoMatch = 4, c"no message matches";
    FdOpen = 5, c"the process can join no job";
    Mmap = 6, c"no memory for the node's tables";
    InvalidMbox = 7, c"the port is not open, or all ports are";
    InvalidNode = 8, c"no such node";
    TryAgain = 9, c"the mailbox of the destination is full";
    InvMtt = 10, c"the message type is above 3";
}

type Outcome<T = ()> = Result<T, Code>;

fn value(outcome: Outcome) -> i32 {
    outcome.map_or_else(|code| code as i32, |()| Code::Success as i32)
}

impl From<DeviceError> for Code {
    fn from(error: DeviceError) -> Code {
        match error {
            DeviceError::Process(error) => {
                log::error!("libvelo2: {error}");
                Code::FdOpen
            }
            DeviceError::Forked => Code::FdOpen,
            DeviceError::PortsUsed(_) | DeviceError::NotOpen => Code::InvalidMbox,
            DeviceError::NotMapped { .. } | DeviceError::TablesFull { .. } | DeviceError::NoRegion { .. } => {
                Code::Error
            }
        }
    }
}

impl From<PostError> for Code {
    fn from(error: PostError) -> Code {
        match error {
            PostError::Full => Code::TryAgain,
            PostError::Memory | PostError::Length => Code::InvMsg,
            PostError::NoNode => Code::InvalidNode,
            PostError::NotOpen => Code::InvalidMbox,
        }
    }
}

/// `velo2_port_t`.
#[repr(C)]
pub struct UserPort {
    map: *mut c_void,
    nodeid: u32,
    vpid: u32,
}

/// `velo2_connection_t`.
#[repr(C)]
pub struct UserConnection {
    nodeid: u16,
    vpid: u16,
    valid: u32,
    state_map: *mut c_void,
}

const _: () = assert!(size_of::<UserPort>() == 16 && size_of::<UserConnection>() == 16);

/// How long a send waits for room: a program that sends to a port of its own, and does not read it, must go on.
const ROOM_WAIT: Duration = Duration::from_secs(1);
const ROOM_PAUSE: Duration = Duration::from_micros(20);

/// An open port.
#[repr(C)]
pub struct Port {
    mark: AtomicU64,
    device: Arc<Device>,
    id: PortId,
    reader: Mutex<MessageReader>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl Marked for Port {
    const ALIVE: u64 = u64::from_ne_bytes(*b"velo2prt");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Port {
    /// The open port of a program's record.
    ///
    /// # Safety
    /// The record is valid or NULL. What it holds is NULL or from `velo2_open`.
    unsafe fn get<'a>(port: *const UserPort) -> Outcome<&'a Port> {
        // SAFETY: the caller's.
        let map = unsafe { port.as_ref() }.ok_or(Code::InvalidMbox)?.map;
        // SAFETY: the caller's.
        unsafe { Port::from_c(map) }.ok_or(Code::InvalidMbox)
    }

    /// Sends a message, and waits for room in the mailbox of its destination.
    fn send(&self, message: &Outgoing) -> Outcome {
        let mut give_up = None;
        loop {
            match self.device.send(message) {
                Err(PostError::Full) => {}
                done => return Ok(done?),
            }
            let now = Instant::now();
            if now > *give_up.get_or_insert(now + ROOM_WAIT) {
                return Err(Code::TryAgain);
            }
            self.reader().make_room(self.device.interface());
            // The receiver may need the lock and the core to make room.
            std::thread::sleep(ROOM_PAUSE);
        }
    }

    fn reader(&self) -> MutexGuard<'_, MessageReader> {
        self.reader.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

fn open(wanted: Option<u16>) -> Outcome<UserPort> {
    let device = Device::current()?;
    // On a simulated machine no sender can be told that the mailbox is full.
    let full = if device.interface().is_simulated() { 0 } else { options::REFUSE };
    let id = device.open_port(wanted, full)?;
    let reader = MessageReader::new(device.interface(), id.vpid).ok_or(Code::InvalidMbox)?;
    let nodeid = device.node().into();
    let port = Port { mark: AtomicU64::new(0), device, id, reader: Mutex::new(reader) };
    Ok(UserPort { map: port.hand_out().cast(), nodeid, vpid: id.vpid.into() })
}

/// # Safety
/// The record has room for a port, or is NULL.
unsafe fn open_to(port: *mut UserPort, wanted: Option<u16>) -> i32 {
    if port.is_null() {
        return Code::InvalidMbox as i32;
    }
    value(open(wanted).map(|opened| {
        // SAFETY: not null; the caller says that it has room.
        unsafe { port.write(opened) }
    }))
}

/// # Safety
/// As `velo2.h` says: the record has room for a port, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_open(port: *mut UserPort) -> i32 {
    // SAFETY: the caller's.
    unsafe { open_to(port, None) }
}

/// # Safety
/// As `velo2.h` says: the record has room for a port, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_open_vpid(port: *mut UserPort, vpid: u32) -> i32 {
    match u16::try_from(vpid) {
        // SAFETY: the caller's.
        Ok(vpid) => unsafe { open_to(port, Some(vpid)) },
        Err(_) => Code::InvalidMbox as i32,
    }
}

/// # Safety
/// As `velo2.h` says: the record is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_close(port: *mut UserPort) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        if !open.end() {
            return Err(Code::InvalidMbox);
        }
        // SAFETY: `get` has found that it is not null.
        unsafe { (*port).map = std::ptr::null_mut() };
        Ok(open.device.close_port(open.id)?)
    })())
}

/// # Safety
/// As `velo2.h` says: the records are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_connect(
    port: *mut UserPort,
    connection: *mut UserConnection,
    node: u32,
    vpid: u32,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        if connection.is_null() {
            return Err(Code::Error);
        }
        if node >= open.device.nodes().into() {
            return Err(Code::InvalidNode);
        }
        if vpid >= open.device.ports().into() {
            return Err(Code::InvalidMbox);
        }
        let state_map = std::ptr::from_ref(open).cast_mut().cast();
        let made = UserConnection { nodeid: node as u16, vpid: vpid as u16, valid: 1, state_map };
        // SAFETY: not null; the caller says that it has room.
        unsafe { connection.write(made) };
        Ok(())
    })())
}

/// # Safety
/// As `velo2.h` says: the records are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_disconnect(port: *mut UserPort, connection: *mut UserConnection) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        unsafe { Port::get(port) }?;
        if connection.is_null() {
            return Err(Code::Error);
        }
        let none = UserConnection { nodeid: 0, vpid: 0, valid: 0, state_map: std::ptr::null_mut() };
        // SAFETY: not null; the caller says that it is a connection.
        unsafe { connection.write(none) };
        Ok(())
    })())
}

/// # Safety
/// As `velo2.h` says: the connection is valid or NULL; the buffer has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_send(
    connection: *const UserConnection,
    buffer: *const c_void,
    length: u32,
    tag: u8,
    mtt: u32,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let connection =
            unsafe { connection.as_ref() }.filter(|connection| connection.valid == 1).ok_or(Code::InvalidMbox)?;
        // SAFETY: a connection that is valid holds the port that made it, whose memory is never freed.
        let port = unsafe { Port::from_c(connection.state_map) }.ok_or(Code::InvalidMbox)?;
        if mtt > 3 {
            return Err(Code::InvMtt);
        }
        if buffer.is_null() {
            return Err(Code::InvMsg);
        }
        let message = Outgoing {
            source: Endpoint { node: port.device.node(), vpid: port.id.vpid },
            destination: Endpoint { node: connection.nodeid, vpid: connection.vpid },
            target: Device::target_of(connection.nodeid),
            mtt: mtt as u8,
            tag,
            start: buffer as u64,
            bytes: length,
        };
        port.send(&message)
    })())
}

/// Where a received message goes.
struct Outputs {
    buffer: *mut c_void,
    max: u32,
    length: *mut u32,
    source: *mut u32,
    tag: *mut u8,
    mtt: *mut u8,
}

/// The id of a port, as `VELO2_ADDR_PACK` makes it.
fn packed(endpoint: Endpoint) -> u32 {
    u32::from(endpoint.vpid) << 16 | u32::from(endpoint.node)
}

impl Outputs {
    /// Hands a message to the program.
    ///
    /// # Safety
    /// The buffer has `max` bytes; the others have room for a number or are NULL.
    unsafe fn store(&self, message: &Message) {
        let payload = message.payload();
        let bytes = payload.len().min(self.max as usize);
        // SAFETY: the caller's.
        unsafe {
            if !self.buffer.is_null() {
                std::ptr::copy_nonoverlapping(payload.as_ptr(), self.buffer.cast(), bytes);
            }
            if !self.length.is_null() {
                self.length.write(payload.len() as u32);
            }
            if !self.source.is_null() {
                self.source.write(packed(message.status.source));
            }
            if !self.tag.is_null() {
                self.tag.write(message.status.tag);
            }
            if !self.mtt.is_null() {
                self.mtt.write(message.status.mtt);
            }
        }
    }
}

/// # Safety
/// As `velo2.h` says: the port is valid or NULL; the buffer has `max` bytes; the outputs have room or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_probe_recv(
    port: *mut UserPort,
    buffer: *mut c_void,
    max: u32,
    length: *mut u32,
    source: *mut u32,
    tag: *mut u8,
    mtt: *mut u8,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        let message = open.reader().probe(open.device.interface(), |_| true).ok_or(Code::NoMsg)?;
        // SAFETY: the caller's.
        unsafe { Outputs { buffer, max, length, source, tag, mtt }.store(&message) };
        Ok(())
    })())
}

/// # Safety
/// As [`velo2_probe_recv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_recv(
    port: *mut UserPort,
    buffer: *mut c_void,
    max: u32,
    length: *mut u32,
    source: *mut u32,
    tag: *mut u8,
    mtt: *mut u8,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        let message = open.reader().wait(open.device.interface(), None, |_| true).map_err(|_| Code::Error)?;
        // SAFETY: the caller's.
        unsafe { Outputs { buffer, max, length, source, tag, mtt }.store(&message) };
        Ok(())
    })())
}

/// The wildcards of `velo2_match_recv`.
const ANY_SOURCE: u32 = u32::MAX;
const ANY: u32 = 0x100;

/// # Safety
/// As [`velo2_probe_recv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_match_recv(
    port: *mut UserPort,
    source: u32,
    tag: u32,
    mtt: u32,
    buffer: *mut c_void,
    max: u32,
    length: *mut u32,
    from: *mut u32,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        let matches = |status: &Status| {
            (source == ANY_SOURCE || source == packed(status.source))
                && (tag == ANY || tag == u32::from(status.tag))
                && (mtt == ANY || mtt == u32::from(status.mtt))
        };
        let interface = open.device.interface();
        let mut reader = open.reader();
        let Some(message) = reader.probe(interface, matches) else {
            return Err(if reader.has_message(interface) { Code::NoMatch } else { Code::NoMsg });
        };
        let none = std::ptr::null_mut();
        // SAFETY: the caller's.
        unsafe { Outputs { buffer, max, length, source: from, tag: none, mtt: none }.store(&message) };
        Ok(())
    })())
}

/// # Safety
/// As `velo2.h` says: the port is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velo2_check(port: *mut UserPort) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let open = unsafe { Port::get(port) }?;
        let interface = open.device.interface();
        interface.poll();
        if open.reader().has_message(interface) {
            return Ok(());
        }
        interface.found_nothing();
        Err(Code::NoMsg)
    })())
}

/// Defines a function that reads something of a port.
macro_rules! read {
    ($($name:ident, $wrong:expr, $get:expr;)*) => {
        $(
            /// # Safety
            /// As `velo2.h` says: the port is valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(port: *const UserPort) -> u32 {
                // SAFETY: the caller's.
                unsafe { Port::get(port) }.map_or($wrong, $get)
            }
        )*
    };
}

read! {
    velo2_get_nodeid, u32::MAX, |port| port.device.node().into();
    velo2_get_vpid, u32::MAX, |port| port.id.vpid.into();
    velo2_get_node_num, 0, |port| port.device.nodes().into();
    velo2_get_proc_num, 0, |port| port.device.ports().into();
    velo2_get_mailbox_slots, 0, |port| port.device.interface().limits().mailbox_slots;
}

#[unsafe(no_mangle)]
pub extern "C" fn velo2_strerror(code: i32) -> *const c_char {
    Code::text_of(code).unwrap_or(c"an unknown error").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        // SAFETY: the function returns a string that is never freed.
        assert_eq!(unsafe { CStr::from_ptr(velo2_strerror(99)) }, c"an unknown error");
    }
}
