// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The start and the end of a GASNet program: job, segments.

use std::ffi::{c_char, c_void};
use std::sync::Mutex;

use crate::gasnet::active_messages::ActiveMessages;
use selvedge_os::sync::IgnorePoison;
use selvedge_process::nic::atu::PAGE_BYTES;

use super::codes::{Code, refuse, value};
use super::engine::{engine, start, started};
use super::handlers::{self, HandlerEntry};

/// Version of `gasnet.h` for which this library was made.
const INTERFACE: i32 = 1;

/// Held during a start, so that two threads do not start at once.
static STARTING: Mutex<Option<i32>> = Mutex::new(None);

/// `gasnet_seginfo_t`.
#[repr(C)]
pub struct SegmentInfo {
    start: *mut c_void,
    bytes: usize,
}

/// Starts GASNet. `mode` is the threading mode, `interface` the version of the header.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_gasnet_init(mode: i32, interface: i32) -> i32 {
    const NAME: &str = "gasnet_init";
    value((|| {
        let mut starting = STARTING.lock().ignore_poison();
        if interface != INTERFACE {
            return Err(refuse(Code::BadArg, NAME, "gasnet.h and the library have different versions: recompile"));
        }
        if started().is_some() {
            let other = if *starting == Some(mode) { "" } else { ", by a part compiled for another threading mode" };
            return Err(refuse(Code::NotInit, NAME, format_args!("GASNet is initialised already{other}")));
        }
        let engine = ActiveMessages::open(handlers::run).map_err(|error| refuse((&error).into(), NAME, error))?;
        start(engine);
        *starting = Some(mode);
        Ok(())
    })())
}

/// # Safety
/// As `gasnet.h` says: the table has `count` entries, or is NULL with a count of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_attach(
    table: *mut HandlerEntry,
    count: i32,
    segment_bytes: usize,
    _heap_offset_min: usize,
) -> i32 {
    const NAME: &str = "gasnet_attach";
    value((|| {
        let engine = engine(NAME)?;
        let bytes = segment_bytes as u64;
        let bad = |why: String| refuse(Code::BadArg, NAME, why);
        let count = usize::try_from(count).map_err(|_| bad(format!("{count} entries: the count is negative")))?;
        if count != 0 && table.is_null() {
            return Err(bad("the handler table is NULL".into()));
        }
        if bytes % PAGE_BYTES != 0 {
            return Err(bad(format!("{bytes} bytes are not a multiple of GASNET_PAGESIZE")));
        }
        if bytes > engine.segment_bytes_max() {
            let most = engine.segment_bytes_max();
            return Err(bad(format!(
                "{bytes} bytes exceed gasnet_getMaxLocalSegmentSize, {most}; GASNET_MAX_SEGSIZE raises it"
            )));
        }
        if engine.segment_of(engine.node()).is_some() {
            return Err(refuse(Code::NotInit, NAME, "the segment is attached already"));
        }
        let entries = match count {
            0 => &mut [],
            // SAFETY: not null; the caller guarantees `count` entries.
            _ => unsafe { std::slice::from_raw_parts_mut(table, count) },
        };
        let exist = handlers::register(entries).map_err(bad)?;
        engine.attach(bytes, exist).map_err(|error| refuse((&error).into(), NAME, error))
    })())
}

/// # Safety
/// As `gasnet.h` says: the table has room for `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_getSegmentInfo(table: *mut SegmentInfo, count: i32) -> i32 {
    const NAME: &str = "gasnet_getSegmentInfo";
    value((|| {
        let engine = engine(NAME)?;
        if engine.segment_of(engine.node()).is_none() {
            return Err(refuse(Code::NotInit, NAME, "call gasnet_attach first"));
        }
        if table.is_null() || count < 0 {
            return Err(refuse(Code::BadArg, NAME, "the table is NULL, or its number of entries is negative"));
        }
        for node in 0..engine.nodes().min(count.min(u16::MAX.into()) as u16) {
            let Some(segment) = engine.segment_of(node) else { break };
            let info = SegmentInfo { start: segment.start as *mut c_void, bytes: segment.bytes as usize };
            // SAFETY: not null; the caller says that it has room for more entries than this number.
            unsafe { table.add(node.into()).write(info) };
        }
        Ok(())
    })())
}

/// Ends this node and the others.
#[unsafe(no_mangle)]
pub extern "C" fn gasnet_exit(status: i32) -> ! {
    if let Some(engine) = started() {
        // SAFETY: NULL means all output streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        engine.leave(status);
    }
    std::process::exit(status)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_mynode() -> u32 {
    started().map_or(0, |engine| engine.node().into())
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_nodes() -> u32 {
    started().map_or(1, |engine| engine.nodes().into())
}

/// Reads the node's own environment: the launcher gives every node the same one.
///
/// # Safety
/// As `gasnet.h` says: the name is a string, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_getenv(name: *const c_char) -> *mut c_char {
    if name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: not null; the caller says that it is a string.
    unsafe { libc::getenv(name) }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_getMaxLocalSegmentSize() -> usize {
    started().map_or(0, |engine| engine.segment_bytes_max() as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_getMaxGlobalSegmentSize() -> usize {
    started().map_or(0, |engine| engine.segment_bytes_max_everywhere() as usize)
}
