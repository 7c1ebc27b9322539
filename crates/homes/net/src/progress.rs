// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress thread. It sleeps until something comes, and hands it over while the program computes.
//!
//! While the program itself polls, the thread stays out of the endpoint: it only looks after the control connections, and checks every
//! [`PROGRAM_POLLS`] whether the program still does.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::links::{EndpointSleep, Links, Who};

/// How long the thread leaves the endpoint to a program that polls, before it checks again.
const PROGRAM_POLLS: Duration = Duration::from_millis(1);
/// The longest sleep while something waits for time to pass, or the endpoint has nothing to sleep on.
const SHORT: Duration = Duration::from_millis(1);
/// Times in a row that the endpoint's descriptor may wake the thread for nothing. Some providers leave it readable (`net` of libfabric 1.17);
/// then the endpoint is polled until something comes.
const VAIN_WAKES_MAX: u32 = 64;
/// The longest sleep. What other processes of the host leave to this one waits so long at most, because they cannot wake the thread.
const LONG: Duration = Duration::from_millis(20);

/// Starts the thread. It ends when the links are closed.
pub(crate) fn start(links: &Arc<Links>) -> std::io::Result<JoinHandle<()>> {
    let links = links.clone();
    spawn("selvedge-links", move || run(&links))
}

/// Starts a thread that takes no signals of the program.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    // The program's signals are the program's: a thread takes over the mask of the one that starts it.
    // SAFETY: both sets live across the calls, and the second call puts the mask back that the first has stored.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new().name(name.into()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

fn run(links: &Links) {
    let mut polls = links.polls.load(Relaxed);
    let mut vain_wakes = 0;
    while !links.closing.load(SeqCst) {
        let now = links.polls.load(Relaxed);
        let program_polls = now != polls && !links.rests.load(SeqCst);
        polls = now;
        links.program_polls.store(program_polls, SeqCst);
        let (found, waits) = {
            let mut turn = links.take_turn();
            links.advance_control(&mut turn);
            let found = !program_polls && links.step(&mut turn, Who::Thread);
            (found, links.waits_for_time(&turn))
        };
        if found {
            vain_wakes = 0;
            continue;
        }
        links.tend();
        let mut polled = vec![PollFd::from_borrowed_fd(links.control_descriptor(), PollFlags::IN)];
        let mut timeout = if waits { SHORT } else { LONG };
        match if program_polls { EndpointSleep::Closed } else { links.endpoint_sleep() } {
            EndpointSleep::Closed if program_polls => timeout = PROGRAM_POLLS,
            EndpointSleep::Closed => {}
            EndpointSleep::NotNow => continue,
            EndpointSleep::Never => timeout = SHORT,
            EndpointSleep::On(_) if vain_wakes > VAIN_WAKES_MAX => timeout = SHORT,
            EndpointSleep::On(descriptors) => {
                // SAFETY: the endpoint of frames is closed only after this thread has ended. The descriptor of a reader that is closed
                // meanwhile may be another file's: then the thread wakes for nothing, or sleeps its time.
                let borrowed = descriptors.into_iter().map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) });
                polled.extend(borrowed.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
            }
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        let _ = poll(&mut polled, Some(&timeout));
        if polled.iter().skip(1).any(|endpoint| !endpoint.revents().is_empty()) {
            vain_wakes += 1;
        }
    }
}
