// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests, replies, handlers, polls.
//!
//! Invariants
//! 1. A token is that of the handler that runs on this thread, or it is refused. It is never followed.
//! 2. A handler sends no request and does not poll. A thread that holds a lock or is in a section without interrupts does neither.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::gasnet::active_messages::payload::LONG_BYTES_MAX;
use crate::gasnet::active_messages::wire::{ARGUMENTS_MAX, Category};
use crate::gasnet::active_messages::{Delivery, Message, SendError, Token};
use selvedge_process::Process;

use super::codes::{Code, Outcome, refuse, value};
use super::{job, locks};

/// `GASNET_WAIT_SPIN`, `_BLOCK` and `_SPINBLOCK`.
const WAIT_SPIN: i32 = 0;
const WAIT_MODE_MAX: i32 = 2;

thread_local! {
    /// The token of the handler that runs on this thread.
    static RUNNING: Cell<*const Token> = const { Cell::new(ptr::null()) };
}

static WAIT_MODE: AtomicI32 = AtomicI32::new(WAIT_MODE_MAX);

/// A payload and where it goes, as `gasnet.h` hands it on.
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

/// What the arguments of a call say.
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

/// Whether a call that runs handlers is permitted now.
fn may_run_handlers(name: &str) -> Outcome {
    let why = if !RUNNING.get().is_null() {
        "a handler sends no requests and does not poll or wait: reply, and leave the rest to the program"
    } else if locks::held() != 0 {
        "this thread holds a handler-safe lock, which a handler may want: unlock it first"
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
/// As the functions of `gasnet.h` do: the payload is a record or NULL, and its source has so many bytes; there are `count` arguments.
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
        let engine = job::engine(name)?;
        may_run_handlers(name)?;
        // SAFETY: the caller's.
        let message = unsafe { message((name, category), handler, payload, (arguments, count)) }?;
        engine.request(node, &message).map_err(|error| refused(name, &error))
    })())
}

/// The token of the handler that runs here.
fn running(name: &str, token: *const c_void) -> Outcome<&'static Token> {
    let running = RUNNING.get();
    if running.is_null() || !ptr::eq(running.cast(), token) {
        return Err(refuse(Code::BadArg, name, "the token is not that of the handler that runs on this thread"));
    }
    // SAFETY: `run` has set the pointer, to a token that lives until the handler returns; the caller is within the handler.
    Ok(unsafe { &*running })
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
        let engine = job::engine(name)?;
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
            return Err(refuse(Code::BadArg, NAME, "the place for the node is NULL"));
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
        let engine = job::engine(NAME)?;
        may_run_handlers(NAME)?;
        engine.poll();
        Ok(())
    })())
}

/// One round of a wait: polls, and without messages waits a little. `name` is the function that waits.
pub fn wait_a_little(name: &str) -> Outcome {
    let engine = job::engine(name)?;
    may_run_handlers(name)?;
    match WAIT_MODE.load(Relaxed) {
        WAIT_SPIN => {
            engine.poll();
        }
        _ => engine.poll_or_wait(),
    }
    Ok(())
}

/// One round of `GASNET_BLOCKUNTIL`. It cannot return an error, and the program would wait for ever: so the job ends.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_gasnet_wait() {
    if wait_a_little("GASNET_BLOCKUNTIL").is_err() {
        match Process::current() {
            Ok(process) => process.abort(1, "GASNET_BLOCKUNTIL is not permitted here"),
            Err(_) => std::process::abort(),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_set_waitmode(mode: i32) -> i32 {
    if !(0..=WAIT_MODE_MAX).contains(&mode) {
        let why = format!("there is no mode {mode}: GASNET_WAIT_SPIN, _BLOCK or _SPINBLOCK");
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
    job::existing().map_or(0, |engine| engine.medium_bytes_max() as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxLongRequest() -> usize {
    LONG_BYTES_MAX as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_AMMaxLongReply() -> usize {
    LONG_BYTES_MAX as usize
}

/// Runs the handler of a message.
pub fn run(delivery: &Delivery<'_>) {
    let function = job::handler(delivery.handler);
    if function.is_null() {
        log::error!(
            "gasnet: node {} wants handler {}, which is not registered here",
            delivery.token.source,
            delivery.handler
        );
        return;
    }
    let (before, held) = (RUNNING.replace(delivery.token), locks::held());
    // SAFETY: the program has registered the function for this number, and says that it takes what such messages bring.
    unsafe { call(function, delivery) };
    RUNNING.set(before);
    if locks::held() != held {
        log::error!("gasnet: handler {} has returned with a handler-safe lock", delivery.handler);
    }
}

/// Calls a C function with so many arguments.
///
/// # Safety
/// The function takes a token, for medium and long messages a buffer and its size, and so many arguments of 32 bits.
unsafe fn call(function: *const c_void, delivery: &Delivery<'_>) {
    type Token = *const c_void;
    let token: Token = ptr::from_ref(delivery.token).cast();
    let (a, payload, bytes) = (delivery.arguments, delivery.payload, delivery.bytes);
    macro_rules! argument {
        ($number:literal) => {
            i32
        };
    }
    macro_rules! calls {
        ($($count:literal: $($number:literal)*;)*) => {
            match (a.len(), delivery.category) {
                $(($count, Category::Short) => {
                    type Handler = unsafe extern "C" fn(Token, $(argument!($number)),*);
                    // SAFETY: the caller's.
                    unsafe { std::mem::transmute::<*const c_void, Handler>(function)(token, $(a[$number]),*) }
                }
                ($count, Category::Medium | Category::Long) => {
                    type Handler = unsafe extern "C" fn(Token, *mut u8, usize, $(argument!($number)),*);
                    // SAFETY: the caller's.
                    unsafe {
                        std::mem::transmute::<*const c_void, Handler>(function)(token, payload, bytes, $(a[$number]),*)
                    }
                })*
                // The engine hands on no more arguments.
                _ => {}
            }
        };
    }
    calls! {
        0: ;
        1: 0;
        2: 0 1;
        3: 0 1 2;
        4: 0 1 2 3;
        5: 0 1 2 3 4;
        6: 0 1 2 3 4 5;
        7: 0 1 2 3 4 5 6;
        8: 0 1 2 3 4 5 6 7;
        9: 0 1 2 3 4 5 6 7 8;
        10: 0 1 2 3 4 5 6 7 8 9;
        11: 0 1 2 3 4 5 6 7 8 9 10;
        12: 0 1 2 3 4 5 6 7 8 9 10 11;
        13: 0 1 2 3 4 5 6 7 8 9 10 11 12;
        14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13;
        15: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
        16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    }
}
