// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This rank in its job: its place, and the values that ranks have published.
//!
//! Each rank appends what it has put to a file of its own in the job's directory, before it enters the barrier of a
//! fence. Another rank reads that file when it asks for a value of this rank for the first time after a fence. So a
//! fence costs a rank the same in a job of any size, and a rank keeps the values of those that it asks about.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use selvedge_job::Job;
use selvedge_os::sync::IgnorePoison;

use crate::store::{Published, Stored};
use crate::sys::{ERR_INIT, ERR_NOT_FOUND, ERR_NOT_SUPPORTED, ERROR, NSPACE_BYTES, Proc};
use crate::sys::{RANK_UNDEF, RANK_WILDCARD, SUCCESS, Status, text_in};

/// The namespace of every simulated job; a rank knows no other job. It is not the job's own name, which differs between
/// runs: Open MPI sends texts made from it, and simulations must be identical to the byte.
const NAMESPACE: &str = "simulated";

/// The state between `PMIx_Init` and `PMIx_Finalize`.
pub struct Session {
    job: Job,
    /// Number of inits not yet matched by a finalize.
    users: u32,
    /// Values that were put and that no fence has sent yet.
    pending: Published,
    /// Known values by rank; [`RANK_WILDCARD`] holds those of the job.
    known: BTreeMap<u32, Published>,
    /// Fences so far.
    fences: u64,
    /// By rank: the fences when its file was read.
    read_after: BTreeMap<u32, u64>,
    handlers: usize,
    groups: usize,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().ignore_poison()
}

/// Runs `work` in the session, if there is one.
pub fn within(work: impl FnOnce(&mut Session) -> Status) -> Status {
    lock().as_mut().map_or(ERR_INIT, work)
}

/// Joins the job, or counts one more init.
pub fn begin() -> Result<Proc, Status> {
    let mut session = lock();
    if let Some(session) = session.as_mut() {
        session.users += 1;
        return Ok(session.own());
    }
    let job = Job::join().map_err(|error| {
        report(&error.to_string());
        ERROR
    })?;
    let new = Session {
        job,
        users: 1,
        pending: Published::default(),
        known: BTreeMap::new(),
        fences: 0,
        read_after: BTreeMap::new(),
        handlers: 0,
        groups: 0,
    };
    Ok(session.insert(new).own())
}

/// Counts a finalize; the last one leaves the job.
pub fn end() -> Status {
    let mut session = lock();
    let Some(open) = session.as_mut() else { return ERR_INIT };
    open.users -= 1;
    if open.users > 0 {
        return SUCCESS;
    }
    let left = open.job.finalize();
    *session = None;
    status_of(left.map_err(|error| error.to_string()))
}

pub fn is_open() -> bool {
    lock().is_some()
}

pub fn abort(code: i32, why: &str) -> Status {
    let job = lock().as_ref().map(|session| session.job.clone());
    // The lock is released, because another thread may hold it in a fence.
    job.map_or(ERR_INIT, |job| job.abort(code, why))
}

impl Session {
    /// This rank.
    pub fn own(&self) -> Proc {
        let mut nspace = [0; NSPACE_BYTES];
        for (to, from) in nspace[..NSPACE_BYTES - 1].iter_mut().zip(NAMESPACE.bytes()) {
            *to = from;
        }
        Proc { nspace, rank: self.job.rank() }
    }

    /// Whether `procs` names all ranks of the job: empty, the wildcard, or each rank.
    fn are_all(&self, procs: &[Proc]) -> bool {
        if procs.is_empty() || procs.iter().any(|one| one.rank == RANK_WILDCARD) {
            return true;
        }
        (0..self.job.size()).all(|rank| procs.iter().any(|one| one.rank == rank))
    }

    /// Waits for all ranks. From then on every rank finds the values that all have put.
    pub fn fence(&mut self, procs: &[Proc]) -> Status {
        if !self.are_all(procs) {
            report("a fence of a subset of the ranks is not supported under selvedge sim; use all ranks");
            return ERR_NOT_SUPPORTED;
        }
        let own = std::mem::take(&mut self.pending).to_bytes();
        let appended = match own.is_empty() {
            true => Ok(()),
            false => self.append(&own),
        };
        self.fences += 1;
        status_of(appended.and_then(|()| self.job.barrier().map_err(|error| error.to_string())))
    }

    /// The file with the values that a rank has published.
    fn file_of(&self, rank: u32) -> PathBuf {
        self.job.directory().path().join(format!("{rank}.pmix"))
    }

    fn append(&self, values: &[u8]) -> Result<(), String> {
        let path = self.file_of(self.job.rank());
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| file.write_all(values));
        written.map_err(|error| format!("cannot publish values in {}: {error}", path.display()))
    }

    /// Reads the values that a rank has published, unless this was done after the last fence.
    fn learn(&mut self, rank: u32) -> Result<(), Status> {
        let is_known = rank == self.job.rank() || self.read_after.get(&rank) == Some(&self.fences);
        if is_known || rank >= self.job.size() || self.fences == 0 {
            return Ok(());
        }
        let path = self.file_of(rank);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|error| {
                report(&format!("cannot read the values of rank {rank} in {}: {error}", path.display()));
                ERROR
            })?,
        };
        self.read_after.insert(rank, self.fences);
        match self.known.entry(rank).or_default().add(&bytes) {
            true => Ok(()),
            false => Err(status_of(Err(format!("rank {rank} has published malformed values")))),
        }
    }

    /// Waits for all ranks, and returns the number of a new group.
    pub fn group(&mut self, procs: &[Proc]) -> Result<usize, Status> {
        match self.fence(procs) {
            SUCCESS => {
                self.groups += 1;
                Ok(self.groups)
            }
            status => Err(status),
        }
    }

    /// Publishes a value: at once for this rank, with the next fence for the others.
    pub fn put(&mut self, key: &str, value: Stored) -> Status {
        self.pending.values.insert(key.to_owned(), value.clone());
        self.store(self.job.rank(), key, value)
    }

    /// Stores a value of a rank for this process only.
    pub fn store(&mut self, rank: u32, key: &str, value: Stored) -> Status {
        self.known.entry(rank).or_default().values.insert(key.to_owned(), value);
        SUCCESS
    }

    /// The rank of a `pmix_proc_t`; `None` if it is of another job.
    pub fn rank_of(&self, process: Option<&Proc>) -> Option<u32> {
        let Some(process) = process else { return Some(self.job.rank()) };
        let name = text_in(&process.nspace);
        (name.is_empty() || name == NAMESPACE).then_some(process.rank)
    }

    pub fn get(&mut self, process: Option<&Proc>, key: &str) -> Result<Stored, Status> {
        let rank = self.rank_of(process).ok_or(ERR_NOT_FOUND)?;
        let is_wild = rank == RANK_UNDEF || rank == RANK_WILDCARD;
        // Without a rank: the value of any rank that has published it. No rank publishes a key of the standard for all.
        let others = if is_wild && !key.starts_with("pmix.") { 0..self.job.size() } else { 0..0 };
        let own = is_wild.then(|| self.job.rank());
        for rank in [rank].into_iter().chain(own).chain(others) {
            self.learn(rank)?;
            if let Some(value) = self.known.get(&rank).and_then(|published| published.values.get(key)) {
                return Ok(value.clone());
            }
        }
        if DIRECTORIES.contains(&key) {
            return Ok(Stored::text(&self.job.directory().path().display().to_string()));
        }
        place(key, if rank >= RANK_WILDCARD { self.job.rank() } else { rank }, self.job.size()).ok_or(ERR_NOT_FOUND)
    }

    pub fn next_handler(&mut self) -> usize {
        self.handlers += 1;
        self.handlers
    }
}

/// Keys of directories for a program's files. All are the job's own directory, which is removed with the job.
const DIRECTORIES: [&str; 3] = ["pmix.tmpdir", "pmix.nsdir", "pmix.pdir"];

/// A rank's place in the job, by key: each rank is on its own node.
fn place(key: &str, rank: u32, size: u32) -> Option<Stored> {
    if rank >= size {
        return None;
    }
    Some(match key {
        "pmix.job.size" | "pmix.univ.size" | "pmix.max.size" | "pmix.num.nodes" | "pmix.job.napps" => {
            Stored::uint32(if key == "pmix.job.napps" { 1 } else { size })
        }
        "pmix.local.size" | "pmix.node.size" | "pmix.app.size" => {
            Stored::uint32(if key == "pmix.app.size" { size } else { 1 })
        }
        "pmix.appnum" | "pmix.aldr" => Stored::uint32(0),
        "pmix.rank" | "pmix.grank" | "pmix.lldr" => Stored::rank(rank),
        "pmix.apprank" => Stored::rank(rank),
        "pmix.lrank" | "pmix.nrank" => Stored::uint16(0),
        "pmix.nodeid" => Stored::uint32(rank),
        "pmix.hname" => Stored::text(&format!("node{rank}")),
        "pmix.lpeers" => Stored::text(&rank.to_string()),
        "pmix.jobid" | "pmix.nspace" => Stored::text(NAMESPACE),
        "pmix.spawned" => Stored::flag(false),
        "pmix.tdir.rmclean" => Stored::flag(true),
        _ => return None,
    })
}

fn status_of(result: Result<(), String>) -> Status {
    match result {
        Ok(()) => SUCCESS,
        Err(why) => {
            report(&why);
            ERROR
        }
    }
}

/// Prints on standard error. A failure is ignored, because the stream may be closed.
pub fn report(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "selvedge: PMIx: {text}");
}

/// Prints on standard error with `SELVEDGE_LOG=debug` or `trace`.
pub fn log_debug(text: impl FnOnce() -> String) {
    static WANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let wanted = || std::env::var("SELVEDGE_LOG").is_ok_and(|level| matches!(level.as_str(), "debug" | "trace"));
    if *WANTED.get_or_init(wanted) {
        report(&text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranks_of_the_job_have_a_place() {
        let value = |key| place(key, 2, 4);
        assert_eq!(value("pmix.job.size"), Some(Stored::uint32(4)));
        assert_eq!(value("pmix.local.size"), Some(Stored::uint32(1)), "each on a node of its own");
        assert_eq!(value("pmix.lpeers"), Some(Stored::text("2")));
        assert_eq!(value("pmix.hname"), Some(Stored::text("node2")));
        assert_eq!(value("pmix.unheard.of"), None);
        assert_eq!(place("pmix.job.size", 4, 4), None);
    }
}
