// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job this process is part of, whoever started it.
//!
//! Chosen in this order: PMI-1 where `PMI_FD` is a socket or `PMI_PORT` is set (`selvedge run`, MPICH's
//! `mpiexec.hydra`), PMIx where `PMIX_NAMESPACE` is set (`prterun`, Open MPI's `mpirun`, Slurm), else this process is
//! rank 0 of 1 in the job named by `SELVEDGE_JOB`, else `solo`, which all such processes of the user share.
//!
//! Invariants
//! 1. One process joins once: later calls of [`Job::join`] give the same job.
//! 2. All methods may be called from any thread; collective ones wait for each other. [`Job::abort`] waits for nobody.
//! 3. Joining says nothing to a PMI-1 launcher that can be known without: the program may speak to it on the same socket.
//!    The first barrier or exchange does.
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::directory::{DirectoryError, JobDirectory};
use crate::names::job_name_from;
use crate::sweep::remove_memory_of_the_dead;

use pmi1::{Pmi1, Unspoken};
use pmix::Pmix;

/// Why this process has no job.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The launcher's environment says something impossible.
    #[error("the environment variable {name}={value} is not {wanted}")]
    BadVariable {
        /// The variable's name.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// The launcher does not answer as it should.
    #[error(transparent)]
    Launcher(#[from] JobError),
    /// The job's directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Why a call on a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The launcher closed the connection: it, and with it the job, is ending.
    #[error("the launcher is gone")]
    LauncherGone,
    /// The connection to the launcher failed.
    #[error("cannot {doing} the launcher: {source}")]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The launcher's answer makes no sense, or refuses.
    #[error("asked the launcher for `{asked}`, it answered `{answer}`")]
    Protocol {
        /// The request, shortened.
        asked: String,
        /// The reply, shortened.
        answer: String,
    },
    /// PMIx was asked for, and its library cannot be used.
    #[error("the launcher speaks PMIx, but {why} (SELVEDGE_PMIX_LIB may name the library)")]
    PmixLibrary {
        /// What is wrong, in words.
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
        /// Who.
        rank: u32,
    },
    /// Ranks gave different numbers of bytes where all must give the same.
    #[error("rank {rank} gave {theirs_bytes} bytes to the exchange, this rank {own_bytes}")]
    UnequalLengths {
        /// Who.
        rank: u32,
        /// How much that rank gave.
        theirs_bytes: usize,
        /// How much this one gave.
        own_bytes: usize,
    },
    /// The job was left by [`Job::finalize`].
    #[error("the job has been left")]
    Finalized,
    /// This process is a fork of the one that joined.
    #[error("this process was forked by a rank of the job and is not itself one")]
    Forked,
}

/// Who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `selvedge run`.
    Selvedge,
    /// Another launcher that speaks PMI-1.
    Pmi1,
    /// A launcher that speaks PMIx.
    Pmix,
    /// None.
    Solo,
}

/// The job this process is part of. Clones are the same job.
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
    link: Mutex<Link>,
}

/// The way to the launcher; one caller at a time.
enum Link {
    /// Nothing has been said yet.
    Unspoken(Unspoken),
    Pmi1(Pmi1),
    Pmix(Box<Pmix>),
    Solo,
    Left,
}

/// How to end the job without waiting for whoever holds the link.
enum AbortPath {
    Pmi1(RawFd),
    Pmix(pmix::Library),
    Solo,
}

static JOINED: Mutex<Option<Job>> = Mutex::new(None);

/// Numbers exchanges, so that no key is used twice; never reset, because a launcher's key space outlives `finalize`.
static EXCHANGES: AtomicU64 = AtomicU64::new(0);

impl Job {
    /// Joins the job that this process was started in. Every later call gives the same job, also when it was left:
    /// a launcher admits a process once. Only without a launcher does joining after leaving, or in a forked child,
    /// start afresh.
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

    /// Where the job's files lie on this machine.
    pub fn directory(&self) -> &JobDirectory {
        &self.inner.directory
    }

    /// Who started this process.
    pub fn launcher(&self) -> Launcher {
        self.inner.launcher
    }

    /// Whether `selvedge run` started this process; then it also removes the directory and writes tombstones.
    pub fn under_our_launcher(&self) -> bool {
        self.inner.launcher == Launcher::Selvedge
    }

    /// Waits until every living rank is here.
    pub fn barrier(&self) -> Result<(), JobError> {
        self.check_process()?;
        match &mut *self.speaking()? {
            Link::Pmi1(pmi) => pmi.barrier(),
            Link::Pmix(pmix) => pmix.fence(false),
            Link::Solo => Ok(()),
            Link::Unspoken(_) | Link::Left => Err(JobError::Finalized),
        }
    }

    /// Gives every rank the bytes of every rank, one after the other in rank order. All must give equally many.
    pub fn exchange(&self, mine: &[u8]) -> Result<Vec<u8>, JobError> {
        let each = self.exchange_each(mine)?;
        for (rank, theirs) in (0..).zip(&each) {
            if theirs.len() != mine.len() {
                return Err(JobError::UnequalLengths { rank, theirs_bytes: theirs.len(), own_bytes: mine.len() });
            }
        }
        Ok(each.concat())
    }

    /// Gives every rank the bytes of every rank, by rank; each may give as many as it likes.
    pub fn exchange_each(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.check_process()?;
        let mut link = self.speaking()?;
        let nth = EXCHANGES.fetch_add(1, Ordering::Relaxed);
        let (own, size) = (self.inner.rank, self.inner.size);
        match &mut *link {
            Link::Pmi1(pmi) => {
                pmi.put(nth, own, mine)?;
                pmi.barrier()?;
                (0..size).map(|rank| if rank == own { Ok(mine.to_vec()) } else { pmi.get(nth, rank) }).collect()
            }
            Link::Pmix(pmix) => {
                pmix.put(nth, mine)?;
                pmix.fence(true)?;
                (0..size).map(|rank| if rank == own { Ok(mine.to_vec()) } else { pmix.get(nth, rank) }).collect()
            }
            Link::Solo => Ok(vec![mine.to_vec()]),
            Link::Unspoken(_) | Link::Left => Err(JobError::Finalized),
        }
    }

    /// Ends the whole job, with this exit code for the launcher to give, and says why on standard error.
    ///
    /// Ends this process at once: no destructors, no exit handlers.
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

    /// Ends the whole job because the program says that it is done, with an exit code that may be 0.
    ///
    /// Ends this process at once: no destructors, no exit handlers; but what it wrote to C's streams is written.
    pub fn end_all(&self, code: i32) -> ! {
        // SAFETY: null: every stream.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        match &self.inner.abort {
            AbortPath::Pmi1(fd) => pmi1::send_end(*fd, code),
            AbortPath::Pmix(library) => library.abort(code, "the program has ended the job"),
            AbortPath::Solo => {}
        }
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(code) }
    }

    /// Leaves the job: tells the launcher that this rank ends in order, and removes the directory if this was the last
    /// process in it and no launcher of ours will. Release claims before. Leaving twice is leaving once.
    pub fn finalize(&self) -> Result<(), JobError> {
        self.check_process()?;
        self.leave(lock(&self.inner.link), true)
    }

    fn leave(&self, mut link: MutexGuard<'_, Link>, own_claims_count: bool) -> Result<(), JobError> {
        let told = match std::mem::replace(&mut *link, Link::Left) {
            Link::Pmi1(pmi) => pmi.finalize(),
            Link::Pmix(pmix) => pmix.finalize(),
            Link::Unspoken(_) | Link::Solo => Ok(()),
            Link::Left => return Ok(()),
        };
        if !self.under_our_launcher() {
            self.inner.directory.leave(own_claims_count);
        }
        told
    }

    /// The link, no longer [`Link::Unspoken`].
    fn speaking(&self) -> Result<MutexGuard<'_, Link>, JobError> {
        let mut link = lock(&self.inner.link);
        if let Link::Unspoken(unspoken) = &*link {
            *link = Link::Pmi1(unspoken.speak()?);
        }
        Ok(link)
    }

    fn is_left(&self) -> bool {
        matches!(*lock(&self.inner.link), Link::Left)
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

fn join_launcher() -> Result<Inner, JoinError> {
    if let Some(pmi) = Unspoken::from_environment()? {
        let directory = enter(pmi.job_name())?;
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(inner(rank, size, Launcher::Pmi1, directory, abort, Link::Unspoken(pmi)));
    }
    if let Some(pmi) = Pmi1::from_environment()? {
        let ours = env::var("SELVEDGE_JOB").is_ok_and(|name| name == pmi.kvs_name());
        let (launcher, directory) = if ours {
            (Launcher::Selvedge, JobDirectory::open(pmi.kvs_name())?)
        } else {
            (Launcher::Pmi1, enter(&job_name_from(pmi.kvs_name()))?)
        };
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(inner(rank, size, launcher, directory, abort, Link::Pmi1(pmi)));
    }
    if env::var_os("PMIX_NAMESPACE").is_some() {
        let pmix = Pmix::init()?;
        let directory = enter(&job_name_from(&pmix.namespace()))?;
        let (rank, size, abort) = (pmix.rank(), pmix.size(), AbortPath::Pmix(pmix.library()));
        return Ok(inner(rank, size, Launcher::Pmix, directory, abort, Link::Pmix(Box::new(pmix))));
    }
    let name = env::var("SELVEDGE_JOB").ok().filter(|name| !name.is_empty());
    let directory = enter(name.as_deref().unwrap_or("solo"))?;
    Ok(inner(0, 1, Launcher::Solo, directory, AbortPath::Solo, Link::Solo))
}

fn inner(rank: u32, size: u32, launcher: Launcher, directory: JobDirectory, abort: AbortPath, link: Link) -> Inner {
    Inner { rank, size, launcher, directory, os_pid: std::process::id(), abort, link: Mutex::new(link) }
}

/// Without a launcher of ours, processes make the directory themselves and clear what dead ones left.
fn enter(name: &str) -> Result<JobDirectory, DirectoryError> {
    let directory = JobDirectory::create(name)?;
    remove_memory_of_the_dead(&directory);
    Ok(directory)
}

/// Reads a number that a launcher put into the environment.
fn number(name: &'static str) -> Result<Option<u32>, JoinError> {
    let Some(value) = env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(JoinError::BadVariable { name, value, wanted: "a number" }),
    }
}

/// Standard error may be closed or full; an abort goes on all the same.
fn say(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "../job_tests.rs"]
mod tests;
