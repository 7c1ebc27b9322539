// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that block until a descriptor is readable, in a rank with one thread and an armed timer: time passes until the
//! timer, whose descriptor is read, or whose signal interrupts the call (a read with an alarm as its limit). Without an
//! armed timer these calls are the kernel's; in a rank with several threads another one waits for the timer.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, sockaddr, socklen_t, ssize_t};
use selvedge_os::raw;
use selvedge_sim_protocol::{Cause, NEVER, RankEnd};

use crate::handlers::Held;
use crate::real::next;
use crate::refuse;
use crate::timer_files::is_readable;
use crate::waits::{Ended, Wait};

/// Lets time pass until the call can go on. False: a handler has interrupted it.
fn may_go_on(file: c_int, flags: c_int) -> bool {
    let Some(end) = RankEnd::if_attached().filter(|end| end.has_alarm()) else { return true };
    end.expire_alarms();
    let wait = Wait { cause: Cause::Outside, ..Wait::until(end, NEVER) };
    if flags & libc::MSG_DONTWAIT != 0 || !wait.is_virtual() || !blocks(file) {
        return true;
    }
    while wait.is_virtual() {
        match wait.run(|nap_ns| is_readable(file, nap_ns)) {
            Ended::Interrupted(signal) if !Held::restarts_after(signal) => return false,
            Ended::Interrupted(_) | Ended::Limit => {}
            Ended::Event(_) => break,
        }
    }
    true
}

/// Looks functions up that a forked child may call, in which another thread's lock of the loader may be held.
pub fn prepare() {
    read(-1, std::ptr::null_mut(), 0);
    crate::timer_files::close(-1);
    crate::futexes::syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0);
}

fn blocks(file: c_int) -> bool {
    // SAFETY: the call takes numbers only.
    let flags = unsafe { raw::call(libc::SYS_fcntl, [file as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK == 0
}

macro_rules! that_block {
    ($($name:ident($file:ident $(, $argument:ident: $type:ty)*), $flags:expr, $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($file: c_int $(, $argument: $type)*) -> $result {
            match may_go_on($file, $flags) {
                true => next!($name($file $(, $argument)*): fn(c_int $(, $type)*) -> $result),
                false => refuse(libc::EINTR) as $result,
            }
        }
    )*};
}
that_block! {
    read(file, into: *mut c_void, bytes: usize), 0, ssize_t;
    __read_chk(file, into: *mut c_void, bytes: usize, room: usize), 0, ssize_t;
    readv(file, into: *const iovec, count: c_int), 0, ssize_t;
    recv(file, into: *mut c_void, bytes: usize, flags: c_int), flags, ssize_t;
    __recv_chk(file, into: *mut c_void, bytes: usize, room: usize, flags: c_int), flags, ssize_t;
    recvfrom(file, into: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, length: *mut socklen_t), flags, ssize_t;
    recvmsg(file, into: *mut msghdr, flags: c_int), flags, ssize_t;
    accept(file, from: *mut sockaddr, length: *mut socklen_t), 0, c_int;
    accept4(file, from: *mut sockaddr, length: *mut socklen_t, _flags: c_int), 0, c_int;
}
