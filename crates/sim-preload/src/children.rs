// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that a rank starts have the processor's counter: a process keeps the fault of [`crate::counter`] when it executes
//! another program, and gives it to its children; but nobody answers for it there before our library is loaded, if it ever is.
//!
//! So the fault is off while one of these functions runs, in the thread that calls it, and on again when it is back. Forked children
//! have it off already, so that `fork` with any of the `exec` functions works. Not seen: those of any number of arguments (`execl`,
//! `execlp`, `execle`) in the place of the rank itself or after `vfork`, and system calls that the program makes past the library.

use std::ffi::{c_char, c_int, c_void};

use crate::counter::WhileReal;
use crate::real::next;

type Words = *const *const c_char;

macro_rules! with_the_counter_real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            let _real = WhileReal::begin();
            next!($name($($argument),*): fn($($type),*) -> $result)
        }
    )*};
}
with_the_counter_real! {
    execve(path: *const c_char, arguments: Words, environment: Words) -> c_int;
    execv(path: *const c_char, arguments: Words) -> c_int;
    execvp(file: *const c_char, arguments: Words) -> c_int;
    execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int;
    fexecve(fd: c_int, arguments: Words, environment: Words) -> c_int;
    system(command: *const c_char) -> c_int;
    posix_spawn(pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Words,
        environment: Words) -> c_int;
    posix_spawnp(pid: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Words,
        environment: Words) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    let _real = WhileReal::begin();
    let stream = next!(popen(command, mode): fn(*const c_char, *const c_char) -> isize);
    stream as *mut c_void
}
