// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job that this process is part of, under any launcher.
//!
//! Chosen in this order: PMI-1 where `PMI_FD` is a socket or `PMI_PORT` is set (`selvedge run`, MPICH's
//! `mpiexec.hydra`), PMIx where `PMIX_NAMESPACE` is set (`prterun`, Open MPI's `mpirun`, Slurm), else this process is
//! rank 0 of 1 in the job named by `SELVEDGE_JOB`, or in `solo`, which all such processes of the user share.
//!
//! | file | has |
//! |---|---|
//! | `errors`, `environment` | errors; variables of launchers |
//! | `pmi1`, `pmix` | the clients of the two protocols |
//! | `connection` | requests to a launcher of any kind |
//! | this one | [`Job`] |
//! | `exit`, `join` | leaving a job at exit; joining one |
//!
//! Invariants
//! 1. One process joins once: later calls of [`Job::join`] return the same job.
//! 2. All methods may be called from any thread; collective ones wait for each other. [`Job::abort`] waits for none.
//! 3. Joining sends nothing to a PMI-1 launcher if the environment holds the answers, because the program may use the
//!    same socket. The first barrier or exchange sends.
//! 4. A forked child of a rank is not that rank: its calls fail with [`JobError::Forked`].
//!
//! Cost: a barrier is one round trip to the launcher. So is an exchange under `selvedge run`; each rank then reads a file.
//! Under another PMI-1 launcher it is one put for each 750 bytes or so, a barrier, and as many gets for each rank.

mod connection;
mod environment;
mod errors;
mod exit;
mod join;
mod pmi1;
mod pmix;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use connection::{AbortPath, Connection};

use crate::directory::JobDirectory;
use selvedge_os::sync::IgnorePoison;

pub use errors::{JobError, JoinError};

/// The kind of launcher that started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `selvedge run`.
    Selvedge,
    /// Another launcher that speaks PMI-1.
    Pmi1,
    /// A launcher that speaks PMIx.
    Pmix,
    /// No launcher.
    Solo,
}

/// The job that this process is part of. Clones are the same job.
#[derive(Clone)]
pub struct Job {
    inner: Arc<Inner>,
}

struct Inner {
    rank: u32,
    size: u32,
    launcher: Launcher,
    directory: JobDirectory,
    os_pid: u32,
    abort: AbortPath,
    connection: Mutex<Connection>,
}

static JOINED: Mutex<Option<Job>> = Mutex::new(None);

impl Inner {
    fn new(
        rank: u32,
        size: u32,
        launcher: Launcher,
        directory: JobDirectory,
        abort: AbortPath,
        connection: Connection,
    ) -> Inner {
        let os_pid = std::process::id();
        Inner { rank, size, launcher, directory, os_pid, abort, connection: Mutex::new(connection) }
    }
}

impl Job {
    /// Returns this process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// Returns the number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// Returns the job's name, which is the directory's.
    pub fn name(&self) -> &str {
        self.inner.directory.name()
    }

    /// Returns the directory of the job's files on this machine.
    pub fn directory(&self) -> &JobDirectory {
        &self.inner.directory
    }

    /// Returns the kind of launcher that started this process.
    pub fn launcher(&self) -> Launcher {
        self.inner.launcher
    }

    /// Whether `selvedge run` started this process; then it also removes the directory and writes tombstones.
    pub fn under_selvedge_run(&self) -> bool {
        self.inner.launcher == Launcher::Selvedge
    }

    /// Waits until every living rank has called it.
    pub fn barrier(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.initialised()?.barrier()
    }

    /// Gathers the bytes of every rank at every rank, concatenated in rank order. All ranks must give the same number.
    pub fn exchange(&self, mine: &[u8]) -> Result<Vec<u8>, JobError> {
        let each = self.exchange_each(mine)?;
        for (rank, theirs) in (0..).zip(&each) {
            if theirs.len() != mine.len() {
                return Err(JobError::UnequalLengths { rank, theirs_bytes: theirs.len(), own_bytes: mine.len() });
            }
        }
        Ok(each.concat())
    }

    /// Gathers the bytes of every rank at every rank, by rank. The numbers of bytes may differ.
    pub fn exchange_each(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.check_process()?;
        let tables = self.under_selvedge_run().then_some(&self.inner.directory);
        self.initialised()?.exchange((self.inner.rank, self.inner.size), mine, tables)
    }

    /// Publishes bytes under a name, for any rank to look up. They are visible after this rank's next barrier at the latest. A name
    /// is published once.
    pub fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        self.check_process()?;
        self.initialised()?.publish(name, bytes)
    }

    /// Whether a name alone finds what was published. Otherwise [`Job::look_up`] needs the rank that has published it.
    pub fn finds_by_name(&self) -> bool {
        self.inner.launcher != Launcher::Pmix
    }

    /// Returns the bytes that a rank has published under a name; None if this rank can see none.
    pub fn look_up(&self, name: &str, rank: u32) -> Result<Option<Vec<u8>>, JobError> {
        self.check_process()?;
        self.initialised()?.look_up(name, rank)
    }

    /// Ends the whole job with an exit code for the launcher to return, and prints the reason on standard error.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        let rank = self.inner.rank;
        say(&format!("selvedge: rank {rank} aborts the job with code {code}: {why}\n"));
        self.inner.abort.abort(code, why);
        exit_now(code)
    }

    /// Ends the whole job because the program has finished, with an exit code that may be 0.
    ///
    /// Ends this process at once: no destructors and no exit handlers run, but C's streams are flushed.
    pub fn end_all(&self, code: i32) -> ! {
        // SAFETY: `fflush` of a null pointer flushes every open stream.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        self.inner.abort.end(code);
        // SAFETY: `_exit` takes a number and does not return; it has no preconditions.
        unsafe { libc::_exit(code) }
    }

    /// Leaves the job: sends the launcher this rank's finalize message, and removes the directory if this was the last
    /// process in it and `selvedge run` does not remove it. Release claims first. Leaving twice has no further effect.
    pub fn finalize(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.leave(self.inner.connection.lock().ignore_poison(), false)
    }

    /// As [`Job::finalize`], for a process that ends: it gives up the claims that it still has.
    pub fn finalize_at_exit(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.leave(self.inner.connection.lock().ignore_poison(), true)
    }

    fn leave(&self, mut connection: MutexGuard<'_, Connection>, is_ending: bool) -> Result<(), JobError> {
        let Some(sent) = connection.leave() else { return Ok(()) };
        if !self.under_selvedge_run() {
            self.inner.directory.leave(is_ending);
        }
        sent
    }

    fn initialised(&self) -> Result<MutexGuard<'_, Connection>, JobError> {
        let mut connection = self.inner.connection.lock().ignore_poison();
        connection.initialise()?;
        Ok(connection)
    }

    fn is_left(&self) -> bool {
        matches!(*self.inner.connection.lock().ignore_poison(), Connection::Left)
    }

    fn check_process(&self) -> Result<(), JobError> {
        if std::process::id() == self.inner.os_pid { Ok(()) } else { Err(JobError::Forked) }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { rank, size, launcher, .. } = &*self.inner;
        write!(f, "Job({}, rank {rank} of {size}, {launcher:?})", self.name())
    }
}

/// Ends the process at once. An exit code that would mean success becomes 1.
fn exit_now(code: i32) -> ! {
    let code = if code & 0xff == 0 { 1 } else { code };
    // SAFETY: `_exit` takes a number and does not return; it has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Prints on standard error, and ignores failures, because an abort must continue even if the stream is closed or full.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

#[cfg(test)]
#[path = "../job_tests.rs"]
mod tests;
