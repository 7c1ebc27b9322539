// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The start and the end of a GASNet program: job, handler table, segments.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, OnceLock};

use crate::gasnet::active_messages::ActiveMessages;
use selvedge_process::nic::atu::PAGE_BYTES;

use super::codes::{Code, Outcome, refuse, value};
use super::messages;

/// The smallest handler number of a program; those below belong to libraries that GASNet itself has.
const HANDLERS_OWN: usize = 128;
const HANDLERS: usize = 256;
/// The version of `gasnet.h` that this library has been made for.
const INTERFACE: i32 = 1;

static ENGINE: OnceLock<ActiveMessages> = OnceLock::new();
/// Held during a start, so that two threads do not start at once.
static STARTING: Mutex<Option<i32>> = Mutex::new(None);
static TABLE: [AtomicUsize; HANDLERS] = [const { AtomicUsize::new(0) }; HANDLERS];

/// `gasnet_handlerentry_t`.
#[repr(C)]
pub struct HandlerEntry {
    index: u8,
    function: *const c_void,
}

/// `gasnet_seginfo_t`.
#[repr(C)]
pub struct SegmentInfo {
    start: *mut c_void,
    bytes: usize,
}

/// The engine, for a call that needs it.
pub fn engine(function: &str) -> Outcome<&'static ActiveMessages> {
    ENGINE.get().ok_or_else(|| refuse(Code::NotInit, function, "gasnet_init comes first"))
}

/// The engine, if there is one.
pub fn existing() -> Option<&'static ActiveMessages> {
    ENGINE.get()
}

/// The handler with this number. NULL: it is not registered.
pub fn handler(number: u8) -> *const c_void {
    // Pairs with the store with release in `register`.
    TABLE[usize::from(number)].load(Acquire) as *const c_void
}

/// Starts. `mode` is the threading mode, `interface` the version of the header.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_gasnet_init(mode: i32, interface: i32) -> i32 {
    const NAME: &str = "gasnet_init";
    value((|| {
        let mut starting = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
        if interface != INTERFACE {
            return Err(refuse(
                Code::BadArg,
                NAME,
                "gasnet.h and the library are of different versions: compile again",
            ));
        }
        if ENGINE.get().is_some() {
            let other = if *starting == Some(mode) { "" } else { ", by a part compiled for another threading mode" };
            return Err(refuse(Code::NotInit, NAME, format_args!("GASNet is initialised already{other}")));
        }
        let engine = ActiveMessages::open(messages::run).map_err(|error| refuse((&error).into(), NAME, error))?;
        let _ = ENGINE.set(engine);
        *starting = Some(mode);
        Ok(())
    })())
}

/// Enters a handler table. Numbers 0 become free ones, from 128 on, in the order of the table. Returns which numbers exist.
fn register(table: &mut [HandlerEntry]) -> Result<[u64; 4], String> {
    let mut exist = [0u64; 4];
    for entry in table.iter() {
        let number = usize::from(entry.index);
        if entry.function.is_null() {
            return Err(format!("the function of handler {number} is NULL"));
        }
        if number == 0 {
            continue;
        }
        if number < HANDLERS_OWN {
            return Err(format!("handler {number} is not a program's: choose 0, or 128 to 255"));
        }
        if exist[number / 64] >> (number % 64) & 1 != 0 {
            return Err(format!("handler {number} is in the table twice"));
        }
        exist[number / 64] |= 1 << (number % 64);
    }
    for entry in table.iter_mut().filter(|entry| entry.index == 0) {
        let is_free = |number: &usize| exist[number / 64] >> (number % 64) & 1 == 0;
        let number = (HANDLERS_OWN..HANDLERS).find(is_free).ok_or("there are more than 128 handlers")?;
        exist[number / 64] |= 1 << (number % 64);
        entry.index = number as u8;
    }
    for entry in table.iter() {
        TABLE[usize::from(entry.index)].store(entry.function as usize, Release);
    }
    Ok(exist)
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
                "{bytes} bytes are more than gasnet_getMaxLocalSegmentSize, {most}; GASNET_MAX_SEGSIZE raises it"
            )));
        }
        if engine.segment_of(engine.node()).is_some() {
            return Err(refuse(Code::NotInit, NAME, "the segment is attached already"));
        }
        let entries = match count {
            0 => &mut [],
            // SAFETY: not null; the caller says that it has so many entries.
            _ => unsafe { std::slice::from_raw_parts_mut(table, count) },
        };
        let exist = register(entries).map_err(bad)?;
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
            return Err(refuse(Code::NotInit, NAME, "gasnet_attach comes first"));
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

/// Ends this node, and the others.
#[unsafe(no_mangle)]
pub extern "C" fn gasnet_exit(status: i32) -> ! {
    if let Some(engine) = ENGINE.get() {
        // SAFETY: NULL means all output streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        engine.leave(status);
    }
    std::process::exit(status)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_mynode() -> u32 {
    ENGINE.get().map_or(0, |engine| engine.node().into())
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_nodes() -> u32 {
    ENGINE.get().map_or(1, |engine| engine.nodes().into())
}

/// The launcher gives every node the same environment.
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
    ENGINE.get().map_or(0, |engine| engine.segment_bytes_max() as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_getMaxGlobalSegmentSize() -> usize {
    ENGINE.get().map_or(0, |engine| engine.segment_bytes_max_everywhere() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing() {}

    fn entries(numbers: &[u8]) -> Vec<HandlerEntry> {
        numbers.iter().map(|index| HandlerEntry { index: *index, function: nothing as *const c_void }).collect()
    }

    #[test]
    fn a_table_gets_free_numbers_or_is_refused() {
        let mut table = entries(&[0, 129, 0, 255]);
        let exist = register(&mut table).expect("it is legal");
        assert_eq!(table.iter().map(|entry| entry.index).collect::<Vec<_>>(), [128, 129, 130, 255]);
        assert_eq!(exist, [0, 0, 0b111, 1 << 63]);
        for wrong in [&[127][..], &[200, 200], &[0; 129]] {
            assert!(register(&mut entries(wrong)).is_err(), "{wrong:?}");
        }
        assert!(register(&mut entries(&[0; 128])).is_ok());
        assert!(register(&mut [HandlerEntry { index: 0, function: std::ptr::null() }]).is_err());
    }
}
