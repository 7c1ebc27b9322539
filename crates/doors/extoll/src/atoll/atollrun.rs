// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `atollrun_*` (`include/atollrun.h`): the start of a program of libatoll (seed 002, section 2.3.2: the class Atollrun).

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

use selvedge_os::sync::IgnorePoison;
use selvedge_process::launched;
use selvedge_process::process::Process;

use super::codes::{Code, Outcome, value};
use super::descriptors::NO_ID;
use super::objects::Port;
use super::port::{self, source_filter};

/// The program's settings before the start, and the results of the start.
struct State {
    connects: bool,
    tests: bool,
    is_verbose: bool,
    /// The port's address, 0 before the start; ids and connections of all ranks.
    port: usize,
    ids: Vec<u32>,
    handles: Vec<u32>,
}

static STATE: Mutex<State> = Mutex::new(State {
    connects: true,
    tests: false,
    is_verbose: false,
    port: 0,
    ids: Vec::new(),
    handles: Vec::new(),
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().ignore_poison()
}

/// Maps a failure to join the job, or to exchange with its other processes.
fn joined<T>(result: Result<T, impl std::fmt::Display>) -> Outcome<T> {
    result.map_err(|error| {
        log::error!("atollrun_init: {error}");
        Code::Job
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_set_auto_connect(enabled: i32) {
    state().connects = enabled != 0;
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_set_communication_test(enabled: i32) {
    state().tests = enabled != 0;
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_set_verbose(enabled: i32) {
    state().is_verbose = enabled != 0;
}

/// The launcher passes nothing on the command line, so it is left as it is.
#[unsafe(no_mangle)]
pub extern "C" fn atollrun_init(_argc: *mut i32, _argv: *mut *mut *mut i8) -> i32 {
    let mut state = state();
    if state.port != 0 {
        return Code::Success as i32;
    }
    value(start(&mut state))
}

fn start(state: &mut State) -> Outcome {
    let process = joined(Process::current())?;
    joined(process.join())?;
    let opened = port::open(None)?;
    state.port = opened as usize;
    // SAFETY: `open` has just made it.
    let port = unsafe { Port::of(opened.cast()) }?;
    let own = port::pack_id(port.node(), port.number());
    // All ports are open when the exchange returns.
    let all = joined(process.exchange(&own.to_le_bytes()))?;
    state.ids = all.chunks_exact(4).filter_map(|id| Some(u32::from_le_bytes(*id.first_chunk()?))).collect();
    state.handles = vec![0; state.ids.len()];
    if state.connects || state.tests {
        for (id, handle) in state.ids.iter().zip(&mut state.handles) {
            *handle = port.connect(*id as u16, (*id >> 16) as u8)?;
        }
    }
    if state.tests {
        test(port, state)?;
    }
    if state.is_verbose {
        let (rank, size, tests) = (launched::rank(), state.ids.len(), if state.tests { ", tested" } else { "" });
        // One write, so that several ranks do not mix their lines.
        let line = format!("atollrun: rank {rank} of {size}, Hostport {}{tests}\n", port.number());
        eprint!("{line}");
    }
    Ok(())
}

/// Sends this rank's number to every rank, and checks theirs.
fn test(port: &mut crate::atoll::channels::HostPort, state: &State) -> Outcome {
    use crate::atoll::channels::send::{Gather, Part};
    let (nothing, rank) = (Part { start: std::ptr::null(), bytes: 0 }, launched::rank() as u32);
    // SAFETY: the message has no bytes.
    unsafe { port.send(&state.handles, &Gather { header: nothing, data: &[], tag: rank }) }?;
    for (peer, id) in (0..).zip(&state.ids) {
        let message = port.match_wait(source_filter(port, *id)?, None)?;
        let (tag, bytes) = (message.tag(), message.data_bytes());
        port.free(message);
        if (tag, bytes) != (peer, 0) {
            log::error!("atollrun_init: rank {peer} sent {tag} in the communication test");
            return Err(Code::Error);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_finalize() -> i32 {
    let mut state = state();
    let port = std::mem::take(&mut state.port) as *const c_void;
    state.ids.clear();
    state.handles.clear();
    drop(state);
    if port.is_null() {
        return Code::Port as i32;
    }
    // No rank closes its port while others still send to it.
    let met = launched::barrier();
    // SAFETY: the port is from `open`.
    let closed = unsafe { port::atoll_close(port) };
    launched::finalize();
    if met == 0 { closed } else { Code::Job as i32 }
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_rank() -> i32 {
    launched::rank()
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_size() -> i32 {
    launched::size()
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_port() -> *const c_void {
    state().port as *const c_void
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_handle(rank: i32) -> u32 {
    usize::try_from(rank).ok().and_then(|rank| state().handles.get(rank).copied()).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn atollrun_id(rank: i32) -> u32 {
    usize::try_from(rank).ok().and_then(|rank| state().ids.get(rank).copied()).unwrap_or(NO_ID)
}
