// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and connections of librma2.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use selvedge_os::sync::IgnorePoison;
use selvedge_process::device::Device;
use selvedge_process::device::notifications::NotificationReader;
use selvedge_process::nic::rma::options;
use selvedge_process::nic::velo::PortId;

use super::codes::{Code, Outcome, value};
use super::regions::Regions;
use crate::c_object::CObject;

const NOTIFICATION_BYTES: u32 = 16;
/// Traffic classes, and their bits in the options.
const CLASSES: u32 = 4;

/// An open port.
#[repr(C)]
pub struct Port {
    mark: AtomicU64,
    pub device: Arc<Device>,
    pub vpid: u16,
    id: PortId,
    reader: Mutex<NotificationReader>,
    regions: Mutex<Regions>,
    /// The open connections, by address.
    connections: Mutex<BTreeMap<usize, &'static Connection>>,
    /// Descriptors that the program has allocated.
    pub descriptors: AtomicU32,
    replay: AtomicI32,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Port {
    const ALIVE: u64 = u64::from_ne_bytes(*b"rma2port");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Port {
    /// The port behind a pointer of C.
    ///
    /// # Safety
    /// As [`CObject::from_c`].
    pub unsafe fn get<'a>(port: *const c_void) -> Outcome<&'a Port> {
        // SAFETY: the caller's.
        unsafe { Port::from_c(port) }.ok_or(Code::InvPort)
    }

    pub fn reader(&self) -> MutexGuard<'_, NotificationReader> {
        self.reader.lock().ignore_poison()
    }

    pub fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().ignore_poison()
    }
}

/// A connection to a port of another node.
#[repr(C)]
pub struct Connection {
    mark: AtomicU64,
    pub node: u16,
    pub vpid: u16,
    pub options: AtomicU32,
    response_class: AtomicU32,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Connection {
    const ALIVE: u64 = u64::from_ne_bytes(*b"rma2conn");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Connection {
    /// The connection behind a pointer of C.
    ///
    /// # Safety
    /// As [`CObject::from_c`].
    pub unsafe fn get<'a>(handle: *const c_void) -> Outcome<&'a Connection> {
        // SAFETY: the caller's.
        unsafe { Connection::from_c(handle) }.ok_or(Code::InvHandle)
    }
}

fn open() -> Outcome<*mut Port> {
    let device = Device::current()?;
    let id = device.open_port(None, options::IRQ | options::KEEP_LOCKS)?;
    let vpid = id.vpid;
    Ok(Port {
        mark: AtomicU64::new(0),
        vpid,
        id,
        reader: Mutex::new(NotificationReader::new(vpid)),
        regions: Mutex::default(),
        connections: Mutex::default(),
        descriptors: AtomicU32::new(0),
        replay: AtomicI32::new(0),
        device,
    }
    .hand_out())
}

/// # Safety
/// As `rma2.h` says: `port` has room for a port, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_open(port: *mut *mut Port) -> i32 {
    if port.is_null() {
        return Code::WrongArg as i32;
    }
    value(open().map(|opened| {
        // SAFETY: not null; the caller says that it has room for a port.
        unsafe { port.write(opened) }
    }))
}

/// # Safety
/// As `rma2.h` says: `port` is a port or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_close(port: *mut c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        if !port.end() {
            return Err(Code::InvPort);
        }
        for connection in port.connections.lock().ignore_poison().values() {
            connection.end();
        }
        port.regions().close();
        Ok(port.device.close_port(port.id)?)
    })())
}

/// # Safety
/// As `rma2.h` says: `handle` has room for a connection, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_connect(
    port: *mut c_void,
    node: u16,
    vpid: u16,
    options: u32,
    handle: *mut *mut Connection,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        if handle.is_null() {
            return Err(Code::WrongArg);
        }
        if node >= port.device.nodes() || vpid >= port.device.ports() {
            return Err(Code::NoRoute);
        }
        let connection = Connection {
            mark: AtomicU64::new(0),
            node,
            vpid,
            options: AtomicU32::new(options),
            response_class: AtomicU32::new(options & options::TC),
        }
        .hand_out();
        // SAFETY: `hand_out` made the object, whose memory is never freed.
        let known = unsafe { &*connection };
        port.connections.lock().ignore_poison().insert(connection as usize, known);
        // SAFETY: not null; the caller says that it has room for a connection.
        unsafe { handle.write(connection) };
        Ok(())
    })())
}

/// # Safety
/// As `rma2.h` says: both are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_disconnect(port: *mut c_void, handle: *mut c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        // SAFETY: the caller's.
        let connection = unsafe { Connection::get(handle) }?;
        let known = port.connections.lock().ignore_poison().remove(&(handle as usize));
        if known.is_none() || !connection.end() {
            return Err(Code::NoConnect);
        }
        Ok(())
    })())
}

/// Defines a function that reads a property of a port or a connection.
macro_rules! read {
    ($($name:ident($kind:ident) -> $type:ty, $wrong:expr, $get:expr;)*) => {
        $(
            /// # Safety
            /// As `rma2.h` says: the pointer is valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(object: *const c_void) -> $type {
                // SAFETY: the caller's.
                unsafe { $kind::get(object) }.map_or($wrong, $get)
            }
        )*
    };
}

read! {
    rma2_handle_get_node(Connection) -> u16, u16::MAX, |connection| connection.node;
    rma2_handle_get_vpid(Connection) -> u16, u16::MAX, |connection| connection.vpid;
    rma2_get_nodeid(Port) -> u16, u16::MAX, |port| port.device.node();
    rma2_get_vpid(Port) -> u16, u16::MAX, |port| port.vpid;
    rma2_get_node_num(Port) -> u16, 0, |port| port.device.nodes();
    rma2_get_proc_num(Port) -> u16, 0, |port| port.device.ports();
    rma2_get_queue_size(Port) -> u32, 0, |port| port.device.interface().limits().notifications * NOTIFICATION_BYTES;
    rma2_get_queue_segment_size(Port) -> u32, 0, |port| port.device.interface().limits().notifications * NOTIFICATION_BYTES;
    rma2_get_replay_buffer_mode(Port) -> i32, 0, |port| port.replay.load(Relaxed);
}

/// Does nothing: every command is accepted or refused at once, so none waits to be sent again.
///
/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_replay_buffer_drain(port: *const c_void) {
    // SAFETY: the caller's.
    if let Ok(port) = unsafe { Port::get(port) } {
        port.device.interface().poll();
    }
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_set_replay_mode(port: *const c_void, mode: i32) {
    // SAFETY: the caller's.
    if let Ok(port) = unsafe { Port::get(port) } {
        port.replay.store(mode & 7, Relaxed);
    }
}

/// Accepts a queue size that is not above the actual one.
unsafe fn set_size(port: *const c_void, bytes: u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        let most = port.device.interface().limits().notifications * NOTIFICATION_BYTES;
        if bytes <= most { Ok(()) } else { Err(Code::NoMem) }
    }))
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_set_queue_size(port: *const c_void, bytes: u32) -> i32 {
    // SAFETY: the caller's.
    unsafe { set_size(port, bytes) }
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_set_queue_segment_size(port: *const c_void, bytes: u32) -> i32 {
    // SAFETY: the caller's.
    unsafe { set_size(port, bytes) }
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_set_protectionid(port: *const c_void, id: u16) -> i32 {
    // A page belongs to the port that registered it, and a port has the protection id 0.
    // SAFETY: the contract of this function.
    value(unsafe { Port::get(port) }.and(if id == 0 { Ok(()) } else { Err(Code::NotYet) }))
}

/// Both objects of a call.
///
/// # Safety
/// As [`CObject::from_c`], for both.
pub unsafe fn port_and_connection<'a>(
    port: *const c_void,
    handle: *const c_void,
) -> Outcome<(&'a Port, &'a Connection)> {
    // SAFETY: the caller's.
    unsafe { Ok((Port::get(port)?, Connection::get(handle)?)) }
}

/// Sets the connection's interrupt option. A live program does not need it: every notification wakes a waiting program.
///
/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_request_interrupt(port: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.map(|(_, connection)| {
        connection.options.fetch_or(options::IRQ, Relaxed);
    }))
}

/// Refuses options to which no port has the right.
///
/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_request_rra(port: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and(Err(Code::NotYet)))
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_request_physical_access(port: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and(Err(Code::NotYet)))
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_interrupt(port: *const c_void, handle: *const c_void) -> u32 {
    // SAFETY: the caller's.
    unsafe { port_and_connection(port, handle) }
        .map_or(0, |(_, connection)| u32::from(connection.options.load(Relaxed) & options::IRQ != 0))
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_rra(port: *const c_void, handle: *const c_void) -> u32 {
    // SAFETY: the caller's.
    let _ = unsafe { port_and_connection(port, handle) };
    0
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_physical_access(port: *const c_void, handle: *const c_void) -> u32 {
    // SAFETY: the caller's.
    let _ = unsafe { port_and_connection(port, handle) };
    0
}

/// # Safety
/// As `rma2.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_request_tcs(
    port: *const c_void,
    handle: *const c_void,
    request: u32,
    response: u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and_then(|(_, connection)| {
        if request >= CLASSES || response >= CLASSES {
            return Err(Code::InvValue);
        }
        let others = connection.options.load(Relaxed) & !options::TC;
        connection.options.store(others | request, Relaxed);
        connection.response_class.store(response, Relaxed);
        Ok(())
    }))
}

/// # Safety
/// As `rma2.h` says: the outputs have room for a number, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_tcs(
    port: *const c_void,
    handle: *const c_void,
    request: *mut u32,
    response: *mut u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { port_and_connection(port, handle) }.and_then(|(_, connection)| {
        if request.is_null() || response.is_null() {
            return Err(Code::WrongArg);
        }
        // SAFETY: not null; the caller says that they have room.
        unsafe {
            ptr::write(request, connection.options.load(Relaxed) & options::TC);
            ptr::write(response, connection.response_class.load(Relaxed));
        }
        Ok(())
    }))
}
