// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job that this process is part of, under any launcher.
//!
//! Chosen in this order: PMI-1 where `PMI_FD` is a socket or `PMI_PORT` is set (`selvedge run`, MPICH's
//! `mpiexec.hydra`), PMIx where `PMIX_NAMESPACE` is set (`prterun`, Open MPI's `mpirun`, Slurm), else this process is
//! rank 0 of 1 in the job named by `SELVEDGE_JOB`, or in `solo`, which all such processes of the user share.
//!
//! Invariants
//! 1. One process joins once: later calls of [`Job::join`] return the same job.
//! 2. All methods may be called from any thread; collective ones wait for each other. [`Job::abort`] waits for none.
//! 3. Joining sends nothing to a PMI-1 launcher if the environment holds the answers, because the program may use the same
//!    socket. The first barrier or exchange sends.
//! 4. A forked child of a rank is not that rank: its calls fail with [`JobError::Forked`].
//!
//! Cost: a barrier is one round trip to the launcher; an exchange is one put for each 750 bytes or so under PMI-1, a
//! barrier, and as many gets for each rank.

mod exit;
mod pmi1;
mod pmix;

use std::env;
use std::fmt;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::directory::{DirectoryError, JobDirectory, parent};
use crate::names::job_name_from;
use crate::sweep::{remove_memory_of_dead_processes, sweep_stale};

use pmi1::{Pmi1, Uninitialised};
use pmix::Pmix;

/// Why this process cannot join a job.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A launcher's environment variable has an impossible value.
    #[error("the environment variable {name}={value} is not {wanted}")]
    BadVariable {
        /// The variable's name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What the value should be.
        wanted: &'static str,
    },
    /// The launcher's answer is not that of its protocol.
    #[error(transparent)]
    Launcher(#[from] JobError),
    /// The job's directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Why a call on a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The launcher closed the connection: it is ending, and the job with it.
    #[error("the launcher has closed the connection, so the job is ending")]
    LauncherGone,
    /// The connection to the launcher failed.
    #[error("cannot {doing} the launcher: {source}")]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The launcher's answer is malformed, or refuses the request.
    #[error("asked the launcher for `{asked}`, it answered `{answer}`")]
    Protocol {
        /// The request, shortened.
        asked: String,
        /// The reply, shortened.
        answer: String,
    },
    /// The launcher uses PMIx, and its library cannot be used.
    #[error("the launcher speaks PMIx, but {why}; set SELVEDGE_PMIX_LIB to the file of its libpmix")]
    PmixLibrary {
        /// The reason, in words.
        why: String,
    },
    /// A PMIx call failed.
    #[error("{call} failed with status {status}")]
    Pmix {
        /// The call's name.
        call: &'static str,
        /// The status, as in `pmix_common.h`.
        status: i32,
    },
    /// A rank has ended without taking part.
    #[error("rank {rank} has ended and gave nothing to the exchange")]
    PeerLost {
        /// That rank.
        rank: u32,
    },
    /// Ranks gave different numbers of bytes where all must give the same.
    #[error("rank {rank} gave {theirs_bytes} bytes to the exchange, this rank {own_bytes}")]
    UnequalLengths {
        /// That rank.
        rank: u32,
        /// The number of bytes that it gave.
        theirs_bytes: usize,
        /// The number of bytes that this rank gave.
        own_bytes: usize,
    },
    /// The job was left by [`Job::finalize`].
    #[error("the job has been left")]
    Finalized,
    /// This process is a forked child of the one that joined.
    #[error("this process was forked by a rank of the job and is not itself one")]
    Forked,
}

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

/// The connection to the launcher, used by one caller at a time.
enum Connection {
    /// Nothing has been sent yet.
    Uninitialised(Uninitialised),
    Pmi1(Pmi1),
    Pmix(Box<Pmix>),
    Solo,
    Left,
}

/// How to end the job without waiting for the thread that holds the connection.
enum AbortPath {
    Pmi1(RawFd),
    Pmix(pmix::Library),
    Solo,
}

static JOINED: Mutex<Option<Job>> = Mutex::new(None);

/// Numbers exchanges, so that no key is used twice. Never reset, because a launcher's key space outlives `finalize`.
static EXCHANGES: AtomicU64 = AtomicU64::new(0);

impl Job {
    /// Joins the job that this process was started in. Every later call returns the same job, even after it was left,
    /// because a launcher admits a process once. Only without a launcher does a call after leaving, or in a forked child,
    /// join again.
    pub fn join() -> Result<Job, JoinError> {
        let mut joined = lock(&JOINED);
        if let Some(job) = joined.as_ref() {
            let ours = job.inner.os_pid == std::process::id();
            let can_rejoin = job.launcher() == Launcher::Solo && (!ours || job.is_left());
            if !can_rejoin {
                return if ours { Ok(job.clone()) } else { Err(JobError::Forked.into()) };
            }
        }
        let inner = join_launcher()?;
        log::debug!("rank {} of {} in job {} ({:?})", inner.rank, inner.size, inner.directory.name(), inner.launcher);
        let job = Job { inner: Arc::new(inner) };
        *joined = Some(job.clone());
        if job.launcher() != Launcher::Selvedge {
            exit::leave_at_exit();
        }
        Ok(job)
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// The job's name, which is that of its directory.
    pub fn name(&self) -> &str {
        self.inner.directory.name()
    }

    /// The directory of the job's files on this machine.
    pub fn directory(&self) -> &JobDirectory {
        &self.inner.directory
    }

    /// The launcher that started this process.
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
        match &mut *self.initialised()? {
            Connection::Pmi1(pmi) => pmi.barrier(),
            Connection::Pmix(pmix) => pmix.fence(false),
            Connection::Solo => Ok(()),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
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

    /// Gathers the bytes of every rank at every rank, by rank. Each rank may give any number.
    pub fn exchange_each(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.check_process()?;
        let mut connection = self.initialised()?;
        let nth = EXCHANGES.fetch_add(1, Ordering::Relaxed);
        let (own, size) = (self.inner.rank, self.inner.size);
        match &mut *connection {
            Connection::Pmi1(pmi) => {
                pmi.put(&format!("{nth}-{own}"), mine)?;
                pmi.barrier()?;
                // Absent after a barrier: the rank was dead when the barrier completed without it.
                let of = |rank| pmi.get(&format!("{nth}-{rank}"))?.ok_or(JobError::PeerLost { rank });
                collect(own, size, mine, of)
            }
            Connection::Pmix(pmix) => {
                pmix.put(&nth.to_string(), mine)?;
                pmix.fence(true)?;
                collect(own, size, mine, |rank| pmix.get(&nth.to_string(), rank)?.ok_or(JobError::PeerLost { rank }))
            }
            Connection::Solo => Ok(vec![mine.to_vec()]),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// Publishes bytes under a name, for any rank to look up. They are visible after this rank's next barrier at the latest. A name
    /// is published once.
    pub fn publish(&self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        self.check_process()?;
        match &mut *self.initialised()? {
            Connection::Pmi1(pmi) => pmi.put(name, bytes),
            Connection::Pmix(pmix) => pmix.put(name, bytes),
            Connection::Solo => Ok(()),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// The bytes that a rank has published under a name; None: none, as far as this rank can see.
    pub fn look_up(&self, name: &str, rank: u32) -> Result<Option<Vec<u8>>, JobError> {
        self.check_process()?;
        match &mut *self.initialised()? {
            Connection::Pmi1(pmi) => pmi.get(name),
            Connection::Pmix(pmix) => pmix.get(name, rank),
            Connection::Solo => Ok(None),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// Ends the whole job with an exit code for the launcher to return, and prints the reason on standard error.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        let rank = self.inner.rank;
        say(&format!("selvedge: rank {rank} aborts the job with code {code}: {why}\n"));
        match &self.inner.abort {
            AbortPath::Pmi1(fd) => pmi1::send_abort(*fd, code),
            AbortPath::Pmix(library) => library.abort(code, why),
            AbortPath::Solo => {}
        }
        exit::exit_now(code)
    }

    /// Ends the whole job because the program has finished, with an exit code that may be 0.
    ///
    /// Ends this process at once: no destructors and no exit handlers run, but C's streams are flushed.
    pub fn end_all(&self, code: i32) -> ! {
        // SAFETY: `fflush` of a null pointer flushes every open stream.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        match &self.inner.abort {
            AbortPath::Pmi1(fd) => pmi1::send_end(*fd, code),
            AbortPath::Pmix(library) => library.abort(code, "the program has ended the job"),
            AbortPath::Solo => {}
        }
        // SAFETY: `_exit` takes a number and does not return; it has no preconditions.
        unsafe { libc::_exit(code) }
    }

    /// Leaves the job: sends the launcher this rank's finalize message, and removes the directory if this was the last
    /// process in it and `selvedge run` does not remove it. Release claims first. Leaving twice has no further effect.
    pub fn finalize(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.leave(lock(&self.inner.connection), false)
    }

    /// As [`Job::finalize`], for a process that ends: it gives up the claims that it still has.
    pub fn finalize_at_exit(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.leave(lock(&self.inner.connection), true)
    }

    fn leave(&self, mut connection: MutexGuard<'_, Connection>, is_ending: bool) -> Result<(), JobError> {
        let sent = match std::mem::replace(&mut *connection, Connection::Left) {
            Connection::Pmi1(pmi) => pmi.finalize(),
            Connection::Pmix(pmix) => pmix.finalize(),
            Connection::Uninitialised(_) | Connection::Solo => Ok(()),
            Connection::Left => return Ok(()),
        };
        if !self.under_selvedge_run() {
            self.inner.directory.leave(is_ending);
        }
        sent
    }

    /// The connection, initialised.
    fn initialised(&self) -> Result<MutexGuard<'_, Connection>, JobError> {
        let mut connection = lock(&self.inner.connection);
        if let Connection::Uninitialised(uninitialised) = &*connection {
            *connection = Connection::Pmi1(uninitialised.start()?);
        }
        Ok(connection)
    }

    fn is_left(&self) -> bool {
        matches!(*lock(&self.inner.connection), Connection::Left)
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

/// What each rank gave to an exchange, by rank.
fn collect(
    own: u32,
    size: u32,
    mine: &[u8],
    mut of: impl FnMut(u32) -> Result<Vec<u8>, JobError>,
) -> Result<Vec<Vec<u8>>, JobError> {
    (0..size).map(|rank| if rank == own { Ok(mine.to_vec()) } else { of(rank) }).collect()
}

fn join_launcher() -> Result<Inner, JoinError> {
    if let Some(pmi) = Uninitialised::from_environment()? {
        let directory = enter(&parent(), pmi.job_name())?;
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(inner(rank, size, Launcher::Pmi1, directory, abort, Connection::Uninitialised(pmi)));
    }
    if let Some(pmi) = Pmi1::from_environment()? {
        let ours = env::var("SELVEDGE_JOB").is_ok_and(|name| name == pmi.kvs_name());
        let (launcher, directory) = if ours {
            (Launcher::Selvedge, JobDirectory::open(pmi.kvs_name())?)
        } else {
            (Launcher::Pmi1, enter(&parent(), &job_name_from(pmi.kvs_name()))?)
        };
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(inner(rank, size, launcher, directory, abort, Connection::Pmi1(pmi)));
    }
    if env::var_os("PMIX_NAMESPACE").is_some() {
        let pmix = Pmix::init()?;
        let directory = enter(&parent(), &job_name_from(&pmix.namespace()))?;
        let (rank, size, abort) = (pmix.rank(), pmix.size(), AbortPath::Pmix(pmix.library()));
        return Ok(inner(rank, size, Launcher::Pmix, directory, abort, Connection::Pmix(Box::new(pmix))));
    }
    let name = env::var("SELVEDGE_JOB").ok().filter(|name| !name.is_empty());
    if name.is_none() {
        warn_of_srun();
    }
    let directory = enter(&parent(), name.as_deref().unwrap_or("solo"))?;
    Ok(inner(0, 1, Launcher::Solo, directory, AbortPath::Solo, Connection::Solo))
}

fn inner(
    rank: u32,
    size: u32,
    launcher: Launcher,
    directory: JobDirectory,
    abort: AbortPath,
    connection: Connection,
) -> Inner {
    Inner { rank, size, launcher, directory, os_pid: std::process::id(), abort, connection: Mutex::new(connection) }
}

/// Opens the job's directory where there is no launcher of ours: processes make it themselves and clear what dead ones left. The first
/// process removes what killed jobs of this user have left, because their launchers do not know our files.
fn enter(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
    if !JobDirectory::exists_in(parent, name) {
        sweep_stale(parent);
    }
    let directory = JobDirectory::create_in(parent, name)?;
    remove_memory_of_dead_processes(&directory);
    Ok(directory)
}

/// Says that the processes which Slurm has started without PMI do not know each other.
fn warn_of_srun() {
    let of = |name| number(name).ok().flatten();
    if let (Some(0), Some(count @ 2..)) = (of("SLURM_PROCID"), of("SLURM_STEP_NUM_TASKS")) {
        log::warn!(
            "srun has started {count} processes without PMI: each is a job of its own; use --mpi=pmi2 or --mpi=pmix"
        );
    }
}

/// Reads a number that a launcher has put into the environment.
fn number(name: &'static str) -> Result<Option<u32>, JoinError> {
    let Some(value) = env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(JoinError::BadVariable { name, value, wanted: "a number" }),
    }
}

/// Prints on standard error, and ignores failures: an abort goes on even if the stream is closed or full.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "../job_tests.rs"]
mod tests;
