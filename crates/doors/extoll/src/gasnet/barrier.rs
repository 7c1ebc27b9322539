// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Barriers in two calls, with names.

use crate::gasnet::active_messages::ActiveMessages;
use crate::gasnet::active_messages::barrier::BarrierError;
use crate::gasnet::active_messages::wire::Mark;

use super::codes::{Code, Outcome, refuse, value};
use super::engine::engine;
use super::messages;

/// Bits of the flags: the barrier has no name; the caller knows that names differ.
const ANONYMOUS: i32 = 1;
const MISMATCH: i32 = 2;

fn mark(id: i32, flags: i32) -> Mark {
    match flags {
        _ if flags & MISMATCH != 0 => Mark::Mismatch,
        _ if flags & ANONYMOUS != 0 => Mark::Anonymous,
        _ => Mark::Named(id),
    }
}

/// The engine, if a segment is attached.
fn attached_engine(name: &str) -> Outcome<&'static ActiveMessages> {
    let engine = engine(name)?;
    if engine.segment_of(engine.node()).is_none() {
        return Err(refuse(Code::NotInit, name, "call gasnet_attach first"));
    }
    Ok(engine)
}

/// Returns the code of an error, and reports an error of the caller.
fn told(name: &str, error: BarrierError) -> Code {
    match error {
        BarrierError::Running | BarrierError::NotRunning => refuse(error.into(), name, error),
        BarrierError::NotReady | BarrierError::Mismatch => error.into(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_barrier_notify(id: i32, flags: i32) {
    const NAME: &str = "gasnet_barrier_notify";
    // The call returns nothing. Errors have been reported.
    let _ = attached_engine(NAME)
        .and_then(|engine| engine.barrier_start(mark(id, flags)).map_err(|error| told(NAME, error)));
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_barrier_wait(id: i32, flags: i32) -> i32 {
    const NAME: &str = "gasnet_barrier_wait";
    value((|| {
        let engine = attached_engine(NAME)?;
        loop {
            match engine.barrier_finish(mark(id, flags)) {
                Err(BarrierError::NotReady) => messages::poll_round(NAME)?,
                ended => return ended.map_err(|error| told(NAME, error)),
            }
        }
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn gasnet_barrier_try(id: i32, flags: i32) -> i32 {
    const NAME: &str = "gasnet_barrier_try";
    value((|| {
        let engine = attached_engine(NAME)?;
        match engine.barrier_finish(mark(id, flags)) {
            Err(BarrierError::NotReady) => {}
            ended => return ended.map_err(|error| told(NAME, error)),
        }
        if messages::gasnet_AMPoll() != 0 {
            return Err(Code::BadArg);
        }
        engine.barrier_finish(mark(id, flags)).map_err(|error| told(NAME, error))
    })())
}
