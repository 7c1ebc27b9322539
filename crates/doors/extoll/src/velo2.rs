// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libvelo2: ports with mailboxes, connections, messages (`include/velo2.h`).

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use selvedge_process::device::connection::{PortConnection, PostError, VeloSend};
use selvedge_process::device::messages::MessageReader;
use selvedge_process::device::{Device, DeviceError};
use selvedge_process::nic::velo::{Endpoint, Label, PortId};

use crate::c_object::CObject;
use crate::codes::codes;

codes! {
    texts: &'static CStr;
    Success = 0, c"success";
    Error = 1, c"the library failed";
    InvMsg = 2, c"the message is too long, or cannot be read";
    NoMsg = 3, c"the mailbox is empty";
    NoMatch = 4, c"no message matches";
    FdOpen = 5, c"the process cannot join a job";
    Mmap = 6, c"no memory for the node's tables";
    InvalidMbox = 7, c"the port is not open, or all ports are in use";
    InvalidNode = 8, c"no such node";
    TryAgain = 9, c"the mailbox of the destination is full";
    InvMtt = 10, c"the message type is above 3";
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
            PostError::Shortage => Code::Mmap,
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

/// Limit of a send's wait for room: a program that sends to its own port and does not read it must get control back.
const ROOM_WAIT: Duration = Duration::from_secs(1);
/// Polls for room before the first pause, and the processor's spin hints between two polls.
const ROOM_POLLS: u32 = 64;
const ROOM_POLL_HINTS: u32 = 8;
const ROOM_PAUSE: Duration = Duration::from_micros(20);

/// An open port. One thread at a time uses it and its links, as `velo2.h` demands, so they need no lock.
#[repr(C)]
pub struct Port {
    mark: AtomicU64,
    device: Arc<Device>,
    id: PortId,
    reader: UnsafeCell<MessageReader>,
    /// Number of messages received. Messages sent without a receive in between form a burst.
    turn: Cell<u32>,
    links: RefCell<Vec<&'static Link>>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Port {
    const ALIVE: u64 = u64::from_ne_bytes(*b"velo2prt");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

/// The link from a port to another port. All connections between the two share it. It ends with the port.
#[repr(C)]
pub struct Link {
    mark: AtomicU64,
    port: &'static Port,
    connection: UnsafeCell<PortConnection>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Link {
    const ALIVE: u64 = u64::from_ne_bytes(*b"velo2lnk");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Port {
    /// The open port of a program's record.
    ///
    /// # Safety
    /// The record is valid or NULL. Its pointer is NULL or from `velo2_open`.
    #[inline(always)]
    unsafe fn get(port: *const UserPort) -> Outcome<&'static Port> {
        // SAFETY: the caller's.
        let map = unsafe { port.as_ref() }.ok_or(Code::InvalidMbox)?.map;
        // SAFETY: the caller's.
        unsafe { Port::from_c(map) }.ok_or(Code::InvalidMbox)
    }

    /// # Safety
    /// The calling thread is the one that uses the port, and has no other reference from here.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    unsafe fn reader(&self) -> &mut MessageReader {
        // SAFETY: the caller's.
        unsafe { &mut *self.reader.get() }
    }

    fn link_to(&'static self, destination: Endpoint) -> *mut Link {
        // SAFETY: this thread uses the port, so no other has a reference to a connection.
        let leads_there = |link: &&&'static Link| unsafe { (*link.connection.get()).destination() } == destination;
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.iter().find(leads_there) {
            return std::ptr::from_ref(*link).cast_mut();
        }
        let source = Endpoint { node: self.device.node(), vpid: self.id.vpid };
        let connection = UnsafeCell::new(PortConnection::new(&self.device, source, destination));
        let made = Link { mark: AtomicU64::new(0), port: self, connection }.hand_out();
        // SAFETY: `hand_out` never frees what it makes.
        links.push(unsafe { &*made });
        made
    }

    /// Ends all links. Other links may then use their rings.
    fn end_links(&self) {
        for link in self.links.borrow().iter() {
            link.end();
            // SAFETY: this thread uses the port, so no other has a reference to a connection.
            unsafe { (*link.connection.get()).close() };
        }
    }
}

impl Link {
    /// Sends a message, and waits for room at its destination.
    ///
    /// # Safety
    /// The message is readable. The calling thread is the one that uses the port.
    #[inline(always)]
    unsafe fn send(&self, message: &VeloSend) -> Outcome {
        // SAFETY: the caller's.
        match unsafe { self.send_now(message) } {
            // SAFETY: the caller's.
            Err(PostError::Full) => unsafe { self.send_when_room(message) },
            done => Ok(done?),
        }
    }

    /// # Safety
    /// As [`Link::send`].
    #[inline(always)]
    unsafe fn send_now(&self, message: &VeloSend) -> Result<(), PostError> {
        // SAFETY: the caller's.
        unsafe { (*self.connection.get()).send(&self.port.device, message, self.port.turn.get()) }
    }

    /// # Safety
    /// As [`Link::send`].
    #[cold]
    unsafe fn send_when_room(&self, message: &VeloSend) -> Outcome {
        let port = self.port;
        // A receiver that is running makes room soon.
        for _ in 0..ROOM_POLLS {
            for _ in 0..ROOM_POLL_HINTS {
                std::hint::spin_loop();
            }
            // SAFETY: the caller's.
            match unsafe { self.send_now(message) } {
                Err(PostError::Full) => {}
                done => return Ok(done?),
            }
        }
        let give_up = Instant::now() + ROOM_WAIT;
        loop {
            // SAFETY: the caller's.
            unsafe { port.reader().make_room(port.device.interface()) };
            // The receiver may need the lock and the core to make room.
            std::thread::sleep(ROOM_PAUSE);
            // SAFETY: the caller's.
            match unsafe { self.send_now(message) } {
                Err(PostError::Full) if Instant::now() > give_up => return Err(Code::TryAgain),
                Err(PostError::Full) => {}
                done => return Ok(done?),
            }
        }
    }
}

fn open(wanted: Option<u16>) -> Outcome<UserPort> {
    let device = Device::current()?;
    let (id, reader) = device.open_mailbox(wanted, 0)?;
    let (reader, nodeid) = (UnsafeCell::new(reader), device.node().into());
    let port = Port { mark: AtomicU64::new(0), device, id, reader, turn: Cell::new(0), links: RefCell::default() };
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
        open.end_links();
        // SAFETY: this thread is the one that uses the port.
        if let Some(rings) = unsafe { open.reader() }.port_of_rings() {
            open.device.close_rings(rings, open.id.vpid);
        }
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
        let destination = Endpoint { node: node as u16, vpid: vpid as u16 };
        let state_map = open.link_to(destination).cast();
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
        // SAFETY: a connection that is valid holds a link, whose memory is never freed.
        let link = unsafe { Link::from_c(connection.state_map) }.ok_or(Code::InvalidMbox)?;
        if mtt > 3 {
            return Err(Code::InvMtt);
        }
        if buffer.is_null() {
            return Err(Code::InvMsg);
        }
        // SAFETY: the caller says that the buffer has `length` bytes, and that no other thread uses the port.
        unsafe { link.send(&VeloSend { mtt: mtt as u8, tag, start: buffer.cast(), bytes: length }) }
    })())
}

/// The program's variables for a received message.
struct Outputs {
    buffer: *mut c_void,
    max: u32,
    length: *mut u32,
    source: *mut u32,
    tag: *mut u8,
    mtt: *mut u8,
}

/// The id of a port, as `VELO2_ADDR_PACK` makes it.
#[inline(always)]
fn pack_id(endpoint: Endpoint) -> u32 {
    u32::from(endpoint.vpid) << 16 | u32::from(endpoint.node)
}

impl Outputs {
    #[inline(always)]
    fn room(&self) -> (*mut u8, usize) {
        match self.buffer.is_null() {
            true => (std::ptr::dangling_mut(), 0),
            false => (self.buffer.cast(), self.max as usize),
        }
    }

    /// Writes the fields of a message's label to the program's variables. The bytes are in the buffer already.
    ///
    /// # Safety
    /// The outputs have room for a number or are NULL.
    #[inline(always)]
    unsafe fn store(&self, label: Label) {
        // SAFETY: the caller's.
        unsafe {
            if !self.length.is_null() {
                self.length.write(label.bytes());
            }
            if !self.source.is_null() {
                self.source.write(pack_id(label.source()));
            }
            if !self.tag.is_null() {
                self.tag.write(label.tag());
            }
            if !self.mtt.is_null() {
                self.mtt.write(label.mtt());
            }
        }
    }
}

impl Port {
    /// Counts a received message.
    #[inline(always)]
    fn next_turn(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
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
        let outputs = Outputs { buffer, max, length, source, tag, mtt };
        let (to, room) = outputs.room();
        // SAFETY: the caller's: no other thread uses the port, and the buffer and the outputs have room.
        unsafe {
            let open = Port::get(port)?;
            let label = open.reader().probe(open.device.interface(), to, room).ok_or(Code::NoMsg)?;
            open.next_turn();
            outputs.store(label);
        }
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
        let outputs = Outputs { buffer, max, length, source, tag, mtt };
        let (to, room) = outputs.room();
        // SAFETY: as in `velo2_probe_recv`.
        unsafe {
            let open = Port::get(port)?;
            let waited = open.reader().wait(open.device.interface(), None, to, room);
            let label = waited.map_err(|_| Code::Error)?;
            open.next_turn();
            outputs.store(label);
        }
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
        let matches = |label: Label| {
            (source == ANY_SOURCE || source == pack_id(label.source()))
                && (tag == ANY || tag == u32::from(label.tag()))
                && (mtt == ANY || mtt == u32::from(label.mtt()))
        };
        let interface = open.device.interface();
        // SAFETY: the caller says that no other thread uses the port.
        let reader = unsafe { open.reader() };
        let Some(message) = reader.match_now(interface, matches) else {
            return Err(if reader.has_message(interface) { Code::NoMatch } else { Code::NoMsg });
        };
        open.next_turn();
        let none = std::ptr::null_mut();
        let outputs = Outputs { buffer, max, length, source: from, tag: none, mtt: none };
        let ((to, room), payload) = (outputs.room(), message.payload());
        // SAFETY: the caller says that the buffer and the outputs have room.
        unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len().min(room));
            outputs.store(message.label);
        }
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
        // SAFETY: the caller says that no other thread uses the port.
        if unsafe { open.reader() }.has_message(interface) {
            return Ok(());
        }
        interface.found_nothing();
        Err(Code::NoMsg)
    })())
}

/// Defines a function that reads a property of a port.
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
