// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank in a forked process, and the simulator's end beside it.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use selvedge_sim_protocol::{RankEnd, Request, SimEnd};

/// Forks a child that runs `work` and exits with the code that it returns.
pub fn fork(work: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: this process has one thread that matters to `work`; the child runs only `work` and exits without unwinding.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(work()),
            pid => pid,
        }
    }
}

pub fn exit_code(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` lives across the call; `pid` is a child that is not waited for yet.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

/// Whether a child of this test has ended. It remains for [`exit_code`].
pub fn has_ended(pid: libc::pid_t) -> bool {
    // SAFETY: all bits zero is a valid `siginfo_t`, and `waitid` only fills it; with P_PID `si_pid` is the field that it sets.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
        info.si_pid() == pid
    }
}

pub fn open(path: &Path) -> RankEnd {
    RankEnd::open(&CString::new(path.as_os_str().as_bytes()).expect("a path")).expect("the page")
}

/// Sleeps until the rank makes a request.
pub fn await_request(end: &SimEnd) -> Request {
    while !end.has_request() {
        if end.begin_sleep() {
            let mut polled = libc::pollfd {
                fd: std::os::fd::AsRawFd::as_raw_fd(&end.wake_pipe().as_fd()),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: `polled` is one `pollfd` that lives across the call.
            unsafe { libc::poll(&mut polled, 1, 10_000) };
        }
        end.end_sleep(true);
    }
    end.request().expect("a request")
}
