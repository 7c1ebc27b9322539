// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `swordfish.h`.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use selvedge_host::simulated;
use selvedge_os::sync::IgnorePoison;

use super::applet::{About, Applet, Selection};
use super::codes::{Code, Outcome, value};
use crate::atoll::atollrun;

static APPLET: Mutex<Option<Applet>> = Mutex::new(None);

/// As in `swordfish.h`.
#[repr(C)]
pub struct Status {
    from: i32,
    tag: u32,
    bytes: usize,
}

const _: () = assert!(size_of::<Status>() == 16);

fn applet() -> MutexGuard<'static, Option<Applet>> {
    APPLET.lock().ignore_poison()
}

/// # Safety
/// `status` has room for a status, or is NULL.
unsafe fn store(status: *mut Status, about: &About) {
    if !status.is_null() {
        // SAFETY: not null; the caller says that it has room.
        unsafe { status.write(Status { from: about.from as i32, tag: about.tag, bytes: about.bytes }) };
    }
}

/// The launcher passes nothing on the command line, so it is left as it is.
#[unsafe(export_name = "SWORDFISH_Init")]
pub extern "C" fn init(_argc: *mut i32, _argv: *mut *mut *mut c_char) -> i32 {
    let mut applet = applet();
    if applet.is_some() {
        return Code::Success as i32;
    }
    value(Applet::start().map(|started| *applet = Some(started)))
}

#[unsafe(export_name = "SWORDFISH_Finish")]
pub extern "C" fn finish() -> i32 {
    if applet().take().is_none() {
        return Code::Job as i32;
    }
    let done = atollrun::atollrun_finalize();
    match crate::atoll::codes::Code::ALL.iter().find(|code| **code as i32 == done) {
        Some(crate::atoll::codes::Code::Success) => Code::Success as i32,
        Some(code) => Code::from(*code) as i32,
        None => Code::Error as i32,
    }
}

#[unsafe(export_name = "SWORDFISH_Size")]
pub extern "C" fn size() -> i32 {
    atollrun::atollrun_size()
}

#[unsafe(export_name = "SWORDFISH_Rank")]
pub extern "C" fn rank() -> i32 {
    atollrun::atollrun_rank()
}

#[unsafe(export_name = "SWORDFISH_Time")]
pub extern "C" fn time() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the variable has room for the time. A simulated rank's clock shows virtual time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[unsafe(export_name = "SWORDFISH_ConsumeTime")]
pub extern "C" fn consume_time(nanoseconds: u64) -> i32 {
    let wanted = Duration::from_nanos(nanoseconds);
    if simulated::is_simulated() {
        // A simulated rank computes while it sleeps: no other rank needs its processor.
        std::thread::sleep(wanted);
    } else {
        let begin = Instant::now();
        while begin.elapsed() < wanted {
            std::hint::spin_loop();
        }
    }
    Code::Success as i32
}

/// # Safety
/// As `swordfish.h` says: `data` has `bytes` bytes, which do not change during the call, or is NULL.
#[unsafe(export_name = "SWORDFISH_Send")]
pub unsafe extern "C" fn send(to: i32, tag: u32, data: *const c_void, bytes: usize) -> i32 {
    value((|| {
        let mut applet = applet();
        let applet = applet.as_mut().ok_or(Code::Job)?;
        let to = applet.rank(to)?;
        if data.is_null() && bytes > 0 {
            return Err(Code::Pointer);
        }
        // SAFETY: the caller says that the data can be read; the lock lets one thread in.
        unsafe { applet.send(to, tag, data.cast(), bytes) }
    })())
}

/// # Safety
/// As `swordfish.h` says: `data` has `room` bytes; `status` has room, or is NULL.
unsafe fn receive(from: Option<i32>, tag: Option<u32>, data: *mut c_void, room: usize, status: *mut Status) -> i32 {
    value((|| {
        let mut applet = applet();
        let applet = applet.as_mut().ok_or(Code::Job)?;
        let from = from.map(|from| applet.rank(from)).transpose()?;
        if data.is_null() && room > 0 {
            return Err(Code::Pointer);
        }
        // SAFETY: the caller says that there is room; the lock lets one thread in.
        let received = unsafe { applet.receive(Selection { from, tag }, data.cast(), room) };
        let about = match &received {
            Ok(about) => Some(about),
            Err((_, about)) => about.as_ref(),
        };
        if let Some(about) = about {
            // SAFETY: the caller's.
            unsafe { store(status, about) };
        }
        received.map(|_| ()).map_err(|(code, _)| code)
    })())
}

/// # Safety
/// As [`receive`].
#[unsafe(export_name = "SWORDFISH_Recv")]
pub unsafe extern "C" fn recv(data: *mut c_void, room: usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { receive(None, None, data, room, status) }
}

/// # Safety
/// As [`receive`].
#[unsafe(export_name = "SWORDFISH_RecvFrom")]
pub unsafe extern "C" fn recv_from(from: i32, data: *mut c_void, room: usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { receive(Some(from), None, data, room, status) }
}

/// # Safety
/// As [`receive`].
#[unsafe(export_name = "SWORDFISH_RecvTag")]
pub unsafe extern "C" fn recv_tag(tag: u32, data: *mut c_void, room: usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { receive(None, Some(tag), data, room, status) }
}

/// # Safety
/// `status` has room for a status, or is NULL.
unsafe fn look(from: Option<i32>, tag: Option<u32>, status: *mut Status) -> i32 {
    let found = || -> Outcome<About> {
        let mut applet = applet();
        let applet = applet.as_mut().ok_or(Code::Job)?;
        let from = from.map(|from| applet.rank(from)).transpose()?;
        // SAFETY: the lock lets one thread in.
        unsafe { applet.probe(Selection { from, tag }) }
    };
    value(found().map(|about| {
        // SAFETY: the caller's.
        unsafe { store(status, &about) };
    }))
}

/// # Safety
/// `status` has room for a status, or is NULL.
#[unsafe(export_name = "SWORDFISH_Probe")]
pub unsafe extern "C" fn probe(status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { look(None, None, status) }
}

/// # Safety
/// `status` has room for a status, or is NULL.
#[unsafe(export_name = "SWORDFISH_ProbeFrom")]
pub unsafe extern "C" fn probe_from(from: i32, status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { look(Some(from), None, status) }
}

/// # Safety
/// `status` has room for a status, or is NULL.
#[unsafe(export_name = "SWORDFISH_ProbeTag")]
pub unsafe extern "C" fn probe_tag(tag: u32, status: *mut Status) -> i32 {
    // SAFETY: the caller's.
    unsafe { look(None, Some(tag), status) }
}

#[unsafe(export_name = "SWORDFISH_Strerror")]
pub extern "C" fn strerror(code: i32) -> *const c_char {
    Code::text_of(code).unwrap_or(c"an unknown error").as_ptr()
}
