// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting. A wait polls, yields or sleeps until it finds what it waits for, and ends the PE if another one is lost.
//!
//! A PE that has ended without `shmem_finalize` never does its part of a barrier, a collective operation or a
//! signal. So a PE that waits ends itself, with the name of the lost PE, its host and the reason. A PE that does not
//! wait goes on.
//!
//! | known from | lost PEs |
//! |---|---|
//! | the launcher's record in the job's directory | of all hosts, under `selvedge run` |
//! | links | of other hosts: killed, cut off, refused, with damaged frames |
//! | claims in the job's directory | of this host, under other launchers |
//!
//! A PE may have no link to the host for which it waits. So one that waits for long watches a PE of the next host, which
//! finds that this host is cut off. It ends, and the launcher, or the end of its own links, tells the others.
//!
//! In virtual time the simulator finds ranks that can never continue.
//!
//! Cost: none for waits below half a second; then a look at a file and at the links twice a second.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use selvedge_process::{Loss, WaitEnd};

use crate::check;
use crate::handles::Ctx;
use crate::world::World;
use crate::world::contexts::ContextSlot;
use crate::world::losses::LostPe;

/// Yields of a wait before it sleeps. Where PEs share cores, the awaited PE is likely to run meanwhile, and a yield
/// costs less than sleeping and waking.
pub(crate) const YIELDS: usize = 50;

/// The time between looks of a wait for lost PEs.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A wait that has lasted this long after a loss ends the PE: what it waits for was not under way.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same after a PE that has exited in order and without `shmem_finalize`: messages of other PEs, which no longer
/// need it, may come late on a busy machine. No PE waits after `shmem_finalize`, but for the last steps of its barrier.
const PATIENCE_AFTER_EXIT: Duration = Duration::from_secs(5);
/// The time for which a PE waits before it watches the next host, where PEs share cores: there waits of seconds are
/// common, and the link that it needs loads libfabric.
const WATCH_AFTER_CROWDED: Duration = Duration::from_secs(5);
/// The exit status of a PE that ends because of a loss.
const EXIT_LOST: i32 = 1;
/// A look checks one in this number of PEs of this host, where there is no launcher's record.
const NEAR_PART: usize = 8;

/// A wait that has lasted for more than its first polls.
#[derive(Default)]
pub(crate) struct LongWait {
    began: Option<Instant>,
    next_look: Option<Instant>,
    is_watching: bool,
}

impl World {
    /// Polls until `poll` returns a value, then sleeps between polls; the NIC makes progress meanwhile. Where PEs share
    /// cores, it yields first, because the awaited PE may need this core.
    #[inline(always)]
    pub fn wait<T>(&self, poll: impl FnMut() -> Option<T>) -> T {
        self.wait_watching(|| true, poll)
    }

    /// As `wait`. Where every PE has a core, the first polls are skipped while `is_due` returns false.
    #[inline(always)]
    pub fn wait_watching<T>(&self, mut is_due: impl FnMut() -> bool, mut poll: impl FnMut() -> Option<T>) -> T {
        if self.oversubscribed {
            for _ in 0..YIELDS {
                self.progress();
                if let Some(found) = poll() {
                    return found;
                }
                std::thread::yield_now();
            }
        }
        loop {
            if let Some(found) = self.wait_while_open(&mut is_due, &mut poll) {
                return found;
            }
            // Another thread's finalize has closed the interface, so nothing can arrive.
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// As `wait_watching`, but does not yield first. None: the interface was closed.
    #[inline(always)]
    pub(crate) fn wait_while_open<T>(
        &self,
        mut is_due: impl FnMut() -> bool,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        // The first part has its polls, and ends before it sleeps. So a short wait reads no clock.
        let mut deadline = (!self.interface.is_simulated()).then_some(self.losses.past);
        let mut long = LongWait::default();
        loop {
            match self.interface.wait_watching(deadline, &mut is_due, &mut poll) {
                Ok(found) => return Some(found),
                Err(WaitEnd::TimedOut) => deadline = Some(self.keep_waiting(&mut long)),
                Err(_) => return None,
            }
        }
    }

    /// Waits until every command of a context that has begun has ended.
    pub(crate) fn wait_for_commands(&self, commands: &ContextSlot) {
        let Some(end) = commands.end(self.interface) else { return };
        let Some(failures) = self.wait_while_open(|| true, end) else { return };
        if commands.are_new(failures) {
            self.end_if_one_is_lost();
            check::report(format_args!(
                "operations have failed ({failures} so far on this context): their PE has no such memory, or has ended"
            ));
        }
    }

    /// As [`World::wait_for_commands`], for a context by its handle. The invalid context has no commands.
    pub(crate) fn quiet(&self, ctx: Ctx) {
        if let Some(commands) = self.contexts.find(ctx) {
            self.wait_for_commands(commands);
        }
    }

    /// Returns the deadline of the next part of a wait. Does not return if a PE is lost and the wait is too long.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep_waiting(&self, wait: &mut LongWait) -> Instant {
        let now = Instant::now();
        let began = *wait.began.get_or_insert(now);
        let next = wait.next_look.get_or_insert(now + LOOK_AGAIN);
        if now >= *next {
            *next = now + LOOK_AGAIN;
            if let Some(lost) = self.first_lost(NEAR_PART) {
                if now >= began.max(lost.since) + lost.patience {
                    self.end_after(lost);
                }
            }
            let is_long = !self.oversubscribed || now >= began + WATCH_AFTER_CROWDED;
            if let Some(pe) = self.losses.watched.filter(|_| is_long && !wait.is_watching) {
                wait.is_watching = true;
                self.interface.watch_remote(self.nics[pe].id);
            }
        }
        *wait.next_look.get_or_insert(now + LOOK_AGAIN)
    }

    /// Ends this PE if one is lost. For a wait for operations of which some have failed.
    #[cold]
    fn end_if_one_is_lost(&self) {
        if !self.interface.is_simulated() {
            if let Some(lost) = self.first_lost(1) {
                self.end_after(lost);
            }
        }
    }

    /// Looks for a lost PE. Of the PEs of this host, one in `part` is checked.
    fn first_lost(&self, part: usize) -> Option<&LostPe> {
        if self.losses.first.get().is_none() {
            if let Some((pe, why, patience)) = self.find_lost(part) {
                let lost = LostPe { pe, why, since: Instant::now(), patience };
                self.losses.first.get_or_init(|| lost);
            }
        }
        self.losses.first.get()
    }

    /// Returns the reason for which a PE is lost, if this PE knows of it.
    #[cold]
    pub(crate) fn loss_of(&self, pe: usize) -> Option<String> {
        let recorded = self.process.directory().lost_ranks().unwrap_or_default();
        let how = recorded.into_iter().find(|lost| lost.rank as usize == pe).map(|lost| lost.how);
        how.or_else(|| self.interface.remote_loss(self.nics[pe].id).map(|loss| loss.why))
    }

    fn find_lost(&self, part: usize) -> Option<(usize, String, Duration)> {
        if self.losses.is_recorded {
            let lost = self.process.directory().lost_ranks();
            // The next look may succeed.
            let lost = lost.inspect_err(|why| log::info!("lost PEs are not known: {why}")).unwrap_or_default();
            // One that has failed counts before one that has exited.
            let first = lost.iter().find(|lost| lost.has_failed).or(lost.first());
            if let Some(lost) = first.filter(|lost| (lost.rank as usize) < self.n_pes) {
                let patience = if lost.has_failed { PATIENCE } else { PATIENCE_AFTER_EXIT };
                return Some((lost.rank as usize, lost.how.clone(), patience));
            }
        } else if let Some((pe, patience)) = self.find_lost_near(part) {
            return Some((pe, "its process has ended without shmem_finalize".to_owned(), patience));
        }
        let ends = self.nics.iter().enumerate().filter(|(_, nic)| !nic.is_near).filter_map(|(pe, nic)| {
            let Loss { is_orderly, why } = self.interface.remote_loss(nic.id)?;
            // The launcher records the PEs that have ended before they had finalized.
            if is_orderly && self.losses.is_recorded {
                return None;
            }
            let patience = if is_orderly { PATIENCE_AFTER_EXIT } else { PATIENCE };
            Some((pe, why, patience))
        });
        // One that has failed counts before one that has exited.
        ends.min_by_key(|&(pe, _, patience)| (patience, pe))
    }

    /// Finds a PE of this host whose process has ended. One that has left the job in order has given up the claim of its
    /// Portals id.
    fn find_lost_near(&self, part: usize) -> Option<(usize, Duration)> {
        let count = self.n_pes.div_ceil(part);
        let start = self.losses.next_near.fetch_add(count, Relaxed);
        let directory = self.process.directory();
        let end_of = |pe: usize| match directory.claimant(self.nics[pe].id as u16) {
            _ if !self.nics[pe].is_near => None,
            Ok(None) => Some((pe, PATIENCE_AFTER_EXIT)),
            Ok(Some(who)) if !who.is_alive() => Some((pe, PATIENCE)),
            Ok(Some(_)) | Err(_) => None,
        };
        (0..count).find_map(|step| end_of(start.wrapping_add(step) % self.n_pes))
    }

    /// Ends this PE. The launcher, and the end of its links, tell the others.
    fn end_after(&self, lost: &LostPe) -> ! {
        let LostPe { pe, why, .. } = lost;
        let host = self.losses.host_of(*pe);
        let line =
            format!("selvedge: PE {}: PE {pe} on {host} is lost: {why}; this PE waits, and ends itself\n", self.me);
        // A single write, so that PEs that share standard error do not mix their lines.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        // SAFETY: flushes the program's streams. Then the process ends without `atexit`, whose functions may wait.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(EXIT_LOST)
        }
    }
}
