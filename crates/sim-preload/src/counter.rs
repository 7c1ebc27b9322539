// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processor's counter of cycles (`rdtsc`, `rdtscp`), which libraries read past the system.
//!
//! Linux can make a process fault that reads it (`prctl(PR_SET_TSC)`). Here that fault gives the virtual time, as a counter of
//! 1 GHz. So `SIGSEGV` has a handler of this library's; what the program says of that signal is kept and followed for all other
//! faults. A read takes the system some microseconds, and the program what reading a clock costs.
//!
//! A process keeps that fault when it executes another program, whose loader reads the counter before any library of ours is there:
//! [`crate::children`]. Forked children have the processor's counter back. [`UNWANTED_BY`] leaves it to the rank, too.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::SeqCst};

use libc::{sigaction as Action, siginfo_t, ucontext_t};
use selvedge_sim_protocol::{RankEnd, UPTIME_S};

use crate::real::next;

const PR_SET_TSC: c_int = 26;
const PR_TSC_ENABLE: c_ulong = 1;
const PR_TSC_SIGSEGV: c_ulong = 2;

/// The environment variable, and what it has to be.
const UNWANTED_BY: &[u8] = b"SELVEDGE_SIM_TSC=0";

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// What the program wants done; null: the default. Leaked, for a handler may be reading it.
static WANTED: AtomicPtr<Action> = AtomicPtr::new(ptr::null_mut());

/// Answers for the counter from now on, in a rank; elsewhere the processor does.
///
/// # Safety
/// `environment` is what the loader passes: strings up to a null. The system's own functions know none so early.
pub unsafe fn install(environment: *const *const c_char) {
    // SAFETY: plain calls. The handler takes the arguments of SA_SIGINFO; all zero is an action.
    unsafe {
        if RankEnd::of_process().is_none() {
            libc::prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
            return;
        }
        if is_unwanted(environment) {
            return;
        }
        let mut action: Action = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        if real_sigaction(libc::SIGSEGV, &action, ptr::null_mut()) == 0
            && libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0
        {
            INSTALLED.store(true, SeqCst);
            libc::pthread_atfork(None, None, Some(give_back));
        }
    }
}

/// Whether the environment asks for the processor's counter.
///
/// # Safety
/// As of [`install`].
unsafe fn is_unwanted(mut environment: *const *const c_char) -> bool {
    // SAFETY: strings up to a null.
    unsafe {
        while !environment.is_null() && !(*environment).is_null() {
            if CStr::from_ptr(*environment).to_bytes() == UNWANTED_BY {
                return true;
            }
            environment = environment.add(1);
        }
    }
    false
}

/// After a fork, in the child.
extern "C" fn give_back() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) };
}

/// While it lives, this thread has the processor's counter, and hands that on to the programs that it starts.
pub struct WhileReal;

impl WhileReal {
    pub fn begin() -> WhileReal {
        give_back();
        WhileReal
    }
}

impl Drop for WhileReal {
    fn drop(&mut self) {
        if INSTALLED.load(Acquire) && RankEnd::of_process().is_some() {
            // SAFETY: no memory is involved.
            unsafe { libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) };
        }
    }
}

fn real_sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    next!(sigaction(signal, action, before): fn(c_int, *const Action, *mut Action) -> c_int)
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the system passes to a handler of this kind.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    if RankEnd::of_process().is_some_and(|end| answer(end, context)) {
        return;
    }
    pass_on(signal, info, context);
}

/// Carries out the instruction that faulted, if it is one that reads the counter.
fn answer(end: &RankEnd, context: &mut ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as *const u8;
    let fault = registers[libc::REG_TRAPNO as usize];
    // A general protection fault: the instruction was fetched, so its bytes can be read. They are at most three.
    const GENERAL_PROTECTION: i64 = 13;
    if fault != GENERAL_PROTECTION || at.is_null() {
        return false;
    }
    // SAFETY: as just said; the third byte is looked at only where the first two want one.
    let length = unsafe {
        match (at.read(), at.add(1).read()) {
            (0x0f, 0x31) => 2,
            (0x0f, 0x01) if at.add(2).read() == 0xf9 => {
                registers[libc::REG_RCX as usize] = 0;
                3
            }
            _ => return false,
        }
    };
    let count = UPTIME_S * 1_000_000_000 + end.read_clock() / 1000;
    registers[libc::REG_RAX as usize] = (count & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (count >> 32) as i64;
    registers[libc::REG_RIP as usize] += length;
    true
}

/// Does what the program wants done about a fault of its own.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: &mut ucontext_t) {
    // SAFETY: null, or leaked.
    let wanted = unsafe { WANTED.load(Acquire).as_ref() };
    let handler = wanted.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
        // The instruction faults again, and then the system does what it does without a handler.
        // SAFETY: all zero is the default.
        unsafe {
            let default: Action = std::mem::zeroed();
            real_sigaction(signal, &default, ptr::null_mut());
        }
        return;
    }
    let with_information = wanted.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the program's handler, of the kind that it said.
    unsafe {
        if with_information {
            let call: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            call(signal, info, ptr::from_mut(context).cast());
        } else {
            let call: extern "C" fn(c_int) = std::mem::transmute(handler);
            call(signal);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    if signal != libc::SIGSEGV || !INSTALLED.load(Acquire) {
        return real_sigaction(signal, action, before);
    }
    // SAFETY: null, or the caller's structures; what was kept is null or leaked; all zero is the default.
    unsafe {
        let kept = WANTED.load(Acquire).as_ref().copied().unwrap_or_else(|| std::mem::zeroed());
        if let Some(action) = action.as_ref() {
            WANTED.store(Box::into_raw(Box::new(*action)), SeqCst);
        }
        if let Some(before) = before.as_mut() {
            *before = kept;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if number != libc::SIGSEGV || !INSTALLED.load(Acquire) {
        return next!(signal(number, handler): fn(c_int, libc::sighandler_t) -> libc::sighandler_t);
    }
    // SAFETY: all zero is an action.
    let (mut action, mut before): (Action, Action) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    sigaction(number, &action, &mut before);
    before.sa_sigaction
}
