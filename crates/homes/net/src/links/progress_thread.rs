// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress thread. It sleeps until something arrives, and hands it over while the program computes.
//!
//! While the program itself polls, the thread stays out of the endpoint: it only serves the control connections, and
//! checks every [`PROGRAM_POLLS`] whether the program still polls.

use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::progress_state::ProgressState;
use super::senders::EndpointSleep;
use super::shared::Shared;
use crate::sink::ProgressCaller;
use selvedge_os::sync::IgnorePoison;

/// The time that the thread leaves the endpoint to a program that polls, before it checks again.
const PROGRAM_POLLS: Duration = Duration::from_millis(1);
/// The longest sleep while a timer runs, or the endpoint has no descriptor to sleep on.
const SHORT: Duration = Duration::from_millis(1);
/// Wakes in a row for nothing, after which the thread no longer sleeps on the endpoint's descriptor, and polls the
/// endpoint until something arrives. Some providers leave the descriptor readable (`net` of libfabric 1.17).
const VAIN_WAKES_MAX: u32 = 64;
/// Times in a row that the endpoint asks to be polled before a sleep, and then has nothing. After these the thread sleeps
/// between polls, at first for [`FIRST_PAUSE`] and ever longer: `ofi_rxm` asks so as long as it connects.
const POSTPONED_MAX: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// The longest sleep. It bounds the delay of work that other processes of the host leave to this one, because they
/// cannot wake the thread.
const LONG: Duration = Duration::from_millis(20);

pub(super) fn run(shared: &Shared, progress: &Mutex<ProgressState>) {
    // The first step sends the packets that gathered before; later ones wake this thread.
    shared.state.thread_started();
    let mut polls = shared.polls.number();
    let (mut vain_wakes, mut postponed) = (0, 0);
    while !shared.state.load().is_closing() {
        let now = shared.polls.number();
        let has_polled = now != polls;
        polls = now;
        if !has_polled {
            shared.state.program_computes();
        }
        let program_polls = has_polled && shared.state.program_polls();
        let waits = {
            let mut progress = progress.lock().ignore_poison();
            progress.advance_control(shared);
            if !program_polls && progress.step(shared, ProgressCaller::Thread) {
                (vain_wakes, postponed) = (0, 0);
                continue;
            }
            progress.waits_for_time(shared)
        };
        shared.sink.run_owner_work();
        let mut polled = vec![PollFd::from_borrowed_fd(shared.watch.fd(), PollFlags::IN)];
        let mut timeout = if waits { SHORT } else { LONG };
        let sleep = if program_polls { EndpointSleep::Closed } else { shared.lock().endpoint_sleep() };
        match sleep {
            EndpointSleep::Closed if program_polls => timeout = PROGRAM_POLLS,
            EndpointSleep::Closed => {}
            EndpointSleep::NotNow => {
                postponed += 1;
                let Some(doublings) = u32::checked_sub(postponed, POSTPONED_MAX + 1) else { continue };
                timeout = (FIRST_PAUSE * 2u32.pow(doublings.min(6))).min(SHORT);
            }
            EndpointSleep::Never => timeout = SHORT,
            EndpointSleep::On(_) if vain_wakes > VAIN_WAKES_MAX => timeout = SHORT,
            EndpointSleep::On(descriptors) => {
                postponed = 0;
                // SAFETY: the endpoint of frames is closed only after this thread has ended. The descriptor of a reader
                // that was closed meanwhile may belong to another file: then the thread wakes for nothing, or sleeps
                // its full time.
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
