// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processor's cycle counter (`rdtsc`, `rdtscp`), which libraries read without a system call.
//!
//! Linux can make reads of the counter fault (`prctl(PR_SET_TSC)`). This library handles that fault and returns the
//! virtual time as a counter of 1 GHz. It installs a handler of `SIGSEGV`, keeps the program's own action for that
//! signal, and carries it out for every other fault. A read takes some microseconds of real time; the program is
//! charged the virtual cost of reading a clock.
//!
//! A process keeps the fault when it executes another program, whose loader reads the counter before this library is
//! loaded: [`crate::children`] switches it off there. Forked children have the real counter. With [`DISABLED_BY`] in
//! its environment the rank has the real counter, too.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::SeqCst};

use libc::{sigaction as Action, siginfo_t, ucontext_t};
use selvedge_sim_protocol::{RankEnd, UPTIME_S};

use crate::calibration;
use crate::handlers;
use crate::real::next;

const PR_SET_TSC: c_int = 26;
const PR_TSC_ENABLE: c_ulong = 1;
const PR_TSC_SIGSEGV: c_ulong = 2;

/// The variable and the value that leave the real counter to the rank.
const DISABLED_BY: &[u8] = b"SELVEDGE_SIM_TSC=0";

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The program's own action for `SIGSEGV`; null: the default. Leaked when replaced, because a handler may be reading it.
static PROGRAM_ACTION: AtomicPtr<Action> = AtomicPtr::new(ptr::null_mut());

/// Makes the counter virtual in a rank, and real elsewhere, in case the process inherited the fault.
///
/// # Safety
/// `environment` is that of the loader: C strings, then a null pointer. (The C library's `getenv` does not work so
/// early.)
pub unsafe fn install(environment: *const *const c_char) {
    // SAFETY: `prctl` and `pthread_atfork` touch no memory of ours. All bits zero is a valid `sigaction`, and `on_fault` has the
    // type that SA_SIGINFO asks for. `environment` is the loader's array, as this function requires.
    unsafe {
        if RankEnd::of_process().is_none() {
            libc::prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
            return;
        }
        if is_disabled(environment) {
            return;
        }
        let mut action: Action = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
        let mut before: Action = std::mem::zeroed();
        if real_sigaction(libc::SIGSEGV, &action, &mut before) == 0
            && libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0
        {
            // The runtime of a sanitizer has its handler already.
            PROGRAM_ACTION.store(Box::into_raw(Box::new(before)), SeqCst);
            INSTALLED.store(true, SeqCst);
            libc::pthread_atfork(None, None, Some(enable_real_counter));
        }
    }
}

/// Whether the environment requests the real counter.
///
/// # Safety
/// `environment` is null, or C strings and then a null pointer.
unsafe fn is_disabled(mut environment: *const *const c_char) -> bool {
    // SAFETY: the loop reads entries up to the null pointer that ends the array; each entry before it is a C string.
    unsafe {
        while !environment.is_null() && !(*environment).is_null() {
            if CStr::from_ptr(*environment).to_bytes() == DISABLED_BY {
                return true;
            }
            environment = environment.add(1);
        }
    }
    false
}

/// Runs in a forked child.
extern "C" fn enable_real_counter() {
    // SAFETY: this `prctl` option passes no pointers.
    unsafe { libc::prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) };
}

/// Gives the thread, and the programs that it starts, the real counter while this value lives.
pub struct RealCounter;

impl RealCounter {
    pub fn enable() -> RealCounter {
        enable_real_counter();
        RealCounter
    }
}

impl Drop for RealCounter {
    fn drop(&mut self) {
        if INSTALLED.load(Acquire) && RankEnd::of_process().is_some() {
            // SAFETY: this `prctl` option passes no pointers.
            unsafe { libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) };
        }
    }
}

fn real_sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    next!(sigaction(signal, action, before): fn(c_int, *const Action, *mut Action) -> c_int)
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes an SA_SIGINFO handler a valid `ucontext_t`, and no other reference to it exists.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    if RankEnd::of_process().is_some_and(|end| emulate_read(end, context)) {
        return;
    }
    forward(signal, info, context);
}

/// Carries out the instruction that faulted, if it reads the counter. Returns false if it does not.
fn emulate_read(end: &RankEnd, context: &mut ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as *const u8;
    let fault = registers[libc::REG_TRAPNO as usize];
    // An instruction with a general protection fault was fetched, so its bytes can be read. They are at most three.
    const GENERAL_PROTECTION: i64 = 13;
    if fault != GENERAL_PROTECTION || at.is_null() {
        return false;
    }
    // SAFETY: the processor fetched the instruction at `at`, so its first two bytes are readable. The third is read only
    // after two bytes that begin an instruction of three.
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
    let count = UPTIME_S * 1_000_000_000 + end.read_clock() / 1000 + calibration::slept_ns_for(at);
    registers[libc::REG_RAX as usize] = (count & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (count >> 32) as i64;
    registers[libc::REG_RIP as usize] += length;
    true
}

fn forward(signal: c_int, info: *mut siginfo_t, context: &mut ucontext_t) {
    // SAFETY: the pointer is null or comes from a leaked box, which is never freed or changed.
    let action = unsafe { PROGRAM_ACTION.load(Acquire).as_ref() };
    let handler = action.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
        // The instruction faults again, and the kernel carries out the default action.
        // SAFETY: all bits zero is a valid `sigaction`: the default action.
        unsafe {
            let default: Action = std::mem::zeroed();
            real_sigaction(signal, &default, ptr::null_mut());
        }
        return;
    }
    let with_information = action.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the program installed this handler, and its SA_SIGINFO flag says which of the two types the handler has.
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
pub extern "C-unwind" fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int {
    if signal != libc::SIGSEGV || !INSTALLED.load(Acquire) {
        let result = real_sigaction(signal, action, before);
        handlers::forget();
        return result;
    }
    // SAFETY: C requires `action` and `before` to be null or to point to a `sigaction`. The stored action is null or a
    // leaked box. All bits zero is a valid `sigaction`: the default action.
    unsafe {
        let previous = PROGRAM_ACTION.load(Acquire).as_ref().copied().unwrap_or_else(|| std::mem::zeroed());
        if let Some(action) = action.as_ref() {
            PROGRAM_ACTION.store(Box::into_raw(Box::new(*action)), SeqCst);
        }
        if let Some(before) = before.as_mut() {
            *before = previous;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if number != libc::SIGSEGV || !INSTALLED.load(Acquire) {
        let before = next!(signal(number, handler): fn(c_int, libc::sighandler_t) -> libc::sighandler_t);
        handlers::forget();
        return before;
    }
    // SAFETY: all bits zero is a valid `sigaction`.
    let (mut action, mut before): (Action, Action) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    sigaction(number, &action, &mut before);
    before.sa_sigaction
}
