// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests, replies, polls.
//!
//! Invariant: no handler, lock holder or thread in a section without interrupts sends a request or polls.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::gasnet::active_messages::wire::{ARGUMENTS_MAX, Category};
use crate::gasnet::active_messages::{LONG_BYTES_MAX, Message, SendError};
use selvedge_process::Process;

use super::codes::{Code, Outcome, refuse, value};
use super::engine::{engine, started};
use super::handlers::{is_running, running};
use super::locks;

/// `GASNET_WAIT_SPIN`, `_BLOCK` and `_SPINBLOCK`.
const WAIT_SPIN: i32 = 0;
const WAIT_MODE_MAX: i32 = 2;

static WAIT_MODE: AtomicI32 = AtomicI32::new(WAIT_MODE_MAX);

/// A payload and its destination, as `gasnet.h` passes them.
#[repr(C)]
pub struct Payload {
    source: *const c_void,
    bytes: usize,
    destination: *mut c_void,
    is_async: i32,
}

const FAMILIES: [[&str; 3]; 2] = [
    ["gasnet_AMRequestShort", "gasnet_AMRequestMedium", "gasnet_AMRequestLong"],
    ["gasnet_AMReplyShort", "gasnet_AMReplyMedium", "gasnet_AMReplyLong"],
];

fn category(number: i32) -> Category {
    match number {
        0 => Category::Short,
        1 => Category::Medium,
        _ => Category::Long,
    }
}

/// The message described by the arguments of a call.
///
/// # Safety
/// The payload is a record or NULL; there are `count` arguments, if the count is legal.
unsafe fn message<'a>(
    (name, category): (&str, Category),
    handler: u8,
    payload: *const Payload,
    (arguments, count): (*const i32, i32),
) -> Outcome<Message<'a>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= ARGUMENTS_MAX).ok_or_else(|| {
        refuse(Code::BadArg, name, format_args!("{count} arguments: a message has 0 to {ARGUMENTS_MAX}"))
    })?;
    let arguments = match count {
        0 => &[],
        // SAFETY: the caller's.
        _ => unsafe { std::slice::from_raw_parts(arguments, count) },
    };
    let none = Payload { source: ptr::null(), bytes: 0, destination: ptr::null_mut(), is_async: 0 };
    // SAFETY: the caller's.
    let payload = unsafe { payload.as_ref() }.unwrap_or(&none);
    Ok(Message {
        category,
        handler,
        arguments,
        start: payload.source as u64,
        bytes: payload.bytes as u64,
        destination: payload.destination as u64,
        is_async: payload.is_async != 0,
    })
}

fn refused(name: &str, error: &SendError) -> Code {
    refuse(error.into(), name, error)
}

/// Refuses calls that run handlers while this thread may not run them.
fn may_run_handlers(name: &str) -> Outcome {
    let why = if is_running() {
        "a handler may not send requests, poll or wait: reply, and leave the rest to the program"
    } else if locks::held() != 0 {
        "this thread holds a handler-safe lock, which a handler may need: unlock it first"
    } else if locks::is_without_interrupts() {
        "this thread is in a section without interrupts: call gasnet_resume_interrupts first"
    } else {
        return Ok(());
    };
    Err(refuse(Code::BadArg, name, why))
}

/// Sends a request.
///
/// # Safety
/// As the functions of `gasnet.h`: the payload is a record or NULL, its source is readable; there are `count`
/// arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_gasnet_request(
    kind: i32,
    node: u32,
    handler: u8,
    payload: *const Payload,
    arguments: *const i32,
    count: i32,
) -> i32 {
    let category = category(kind);
    let name = FAMILIES[0][category as usize];
    value((|| {
        let engine = engine(name)?;
        may_run_handlers(name)?;
        // SAFETY: the caller's.
        let message = unsafe { message((name, category), handler, payload, (arguments, count)) }?;
        engine.request(node, &message).map_err(|error| refused(name, &error))
    })())
}

/// Replies to a request.
///
/// # Safety
/// As [`selvedge_gasnet_request`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_gasnet_reply(
    kind: i32,
    token: *const c_void,
    handler: u8,
    payload: *const Payload,
    arguments: *const i32,
    count: i32,
) -> i32 {
    let category = category(kind);
    let name = FAMILIES[1][category as usize];
    value((|| {
        let engine = engine(name)?;
        let token = running(name, token)?;
        // SAFETY: the caller's.
        let message = unsafe { message((name, category), handler, payload, (arguments, count)) }?;
        engine.reply(token, &message).map_err(|error| refused(name, &error))
    })())
}

/// # Safety
/// As `gasnet.h` says: the output has room for a node, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gasnet_AMGetMsgSource(token: *const c_void, node: *mut u32) -> i32 {
    const NAME: &str = "gasnet_AMGetMsgSource";
    value((|| {
        let token = running(NAME, token)?;
        if node.is_null() {
            return Err(refuse(Code::BadArg, NAME, "the pointer to the node is NULL"));
        }
        // SAFETY: not null; the caller says that it has room.
        unsafe { node.write(token.source.into()) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMPoll() -> i32 {
    const NAME: &str = "gasnet_AMPoll";
    value((|| {
        let engine = engine(NAME)?;
        may_run_handlers(NAME)?;
        engine.poll();
        Ok(())
    })())
}

/// One round of a wait: polls, and waits briefly if there is no message. `name` is the function that waits.
pub fn poll_round(name: &str) -> Outcome {
    let engine = engine(name)?;
    may_run_handlers(name)?;
    match WAIT_MODE.load(Relaxed) {
        WAIT_SPIN => {
            engine.poll();
        }
        _ => engine.poll_or_wait(),
    }
    Ok(())
}

/// One round of `GASNET_BLOCKUNTIL`. It cannot return an error, so an error ends the job.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_gasnet_wait() {
    if poll_round("GASNET_BLOCKUNTIL").is_err() {
        match Process::current() {
            Ok(process) => process.abort(1, "GASNET_BLOCKUNTIL is not permitted here"),
            Err(_) => std::process::abort(),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_set_waitmode(mode: i32) -> i32 {
    if !(0..=WAIT_MODE_MAX).contains(&mode) {
        let why = format!("mode {mode} does not exist: use GASNET_WAIT_SPIN, _BLOCK or _SPINBLOCK");
        return refuse(Code::BadArg, "gasnet_set_waitmode", why) as i32;
    }
    WAIT_MODE.store(mode, Relaxed);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxArgs() -> usize {
    ARGUMENTS_MAX
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxMedium() -> usize {
    started().map_or(0, |engine| engine.medium_bytes_max() as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxLongRequest() -> usize {
    LONG_BYTES_MAX as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxLongReply() -> usize {
    LONG_BYTES_MAX as usize
}
