// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that a rank starts read the processor's real cycle counter.
//!
//! A process keeps the fault of [`crate::counter`] when it executes another program, and its children inherit it. Until
//! this library is loaded there, if ever, the fault is not handled.
//!
//! So these functions switch the fault off in the calling thread, and on again when they return. Forked children have
//! it off already, so `fork` followed by any `exec` function works. Not covered: the variadic functions (`execl`,
//! `execlp`, `execle`) called by the rank itself or after `vfork`, and system calls that bypass the C library.

use std::ffi::{c_char, c_int, c_void};

use crate::counter::RealCounter;
use crate::real::next;

type StringArray = *const *const c_char;

macro_rules! with_real_counter {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let _real = RealCounter::enable();
            next!($name($($argument),*): fn($($type),*) -> $result)
        }
    )*};
}
with_real_counter! {
    execve(path: *const c_char, arguments: StringArray, environment: StringArray) -> c_int;
    execv(path: *const c_char, arguments: StringArray) -> c_int;
    execvp(file: *const c_char, arguments: StringArray) -> c_int;
    execvpe(file: *const c_char, arguments: StringArray, environment: StringArray) -> c_int;
    fexecve(fd: c_int, arguments: StringArray, environment: StringArray) -> c_int;
    system(command: *const c_char) -> c_int;
    posix_spawn(pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: StringArray,
        environment: StringArray) -> c_int;
    posix_spawnp(pid: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: StringArray,
        environment: StringArray) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    let _real = RealCounter::enable();
    let stream = next!(popen(command, mode): fn(*const c_char, *const c_char) -> isize);
    stream as *mut c_void
}
