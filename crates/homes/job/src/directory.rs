// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of a job: where it is, how its files are called, and who may access them.
//!
//! `<parent>/selvedge-<uid>/<job>/`, where the parent is `SELVEDGE_DIR`, else `/dev/shm`, else `TMPDIR`, else `/tmp`.
//!
//! | name | what | made by |
//! |---|---|---|
//! | `job` | [`JobRecord`], one line of JSON | the launcher |
//! | `host` | nothing; there with several hosts, so that no two of them take the same directory | the agent of the host |
//! | `<pid>.claim` | the process that has a Portals process id ([`crate::Claim`]) | the claimant |
//! | `<pid>.<ni>.nic` | a NIC's segment | the claimant |
//! | `<pid>.<ni>.rings` | the rings into a NIC | the claimant |
//! | `<ospid>.arena`, `<ospid>.<k>.spill` | a process's shared memory | that process |
//! | `<ospid>.dead` | [`Tombstone`] | the launcher, when the process ends early |
//!
//! Invariants
//! 1. Both directories are real directories of the effective user without access for others; anything else is
//!    refused, so no other user can lead this process to other files.
//! 2. Every process that has a job directory open holds a shared `flock` on it, which the kernel drops when the last
//!    holder dies. A process that clears or removes a directory holds the lock exclusively. After taking the lock a process
//!    compares the path with the locked directory, so it never works in one that was just removed.
//! 3. Files appear with their whole content or not at all (written under a temporary name, then linked or renamed).

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::identity::Identity;
use crate::names::is_job_name;

/// Why a job directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A job name that is not one plain file name.
    #[error("`{name}` cannot name a job: 1 to 64 letters, digits, `.`, `_` or `-` are wanted, not starting with `.`")]
    BadName {
        /// The name as given.
        name: String,
    },
    /// No such job on this machine, or it has ended.
    #[error("there is no job directory {}", .path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// A file of another kind has the name.
    #[error("{} is not a directory (a {what})", .path.display())]
    NotADirectory {
        /// The path that was checked.
        path: PathBuf,
        /// The kind of file that has the name.
        what: &'static str,
    },
    /// The directory belongs to another user, who may have put it there on purpose.
    #[error("{} belongs to user {owner_uid}, not to user {own_uid}; set SELVEDGE_DIR to a directory of your own", .path.display())]
    NotOurs {
        /// The path that was checked.
        path: PathBuf,
        /// Its owner.
        owner_uid: u32,
        /// The effective user of this process.
        own_uid: u32,
    },
    /// Other users may enter or change it.
    #[error("{} has mode {mode:04o}, which gives other users access; run: chmod 700 {}", .path.display(), .path.display())]
    TooOpen {
        /// The path that was checked.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The file or directory that was accessed.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl DirectoryError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> DirectoryError {
        DirectoryError::Io { doing, path: path.to_owned(), source: source.into() }
    }
}

/// The parent of all users' job directories: `SELVEDGE_DIR`, else `/dev/shm`, else `TMPDIR`, else `/tmp`.
pub fn parent() -> PathBuf {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = given("SELVEDGE_DIR") {
        return path;
    }
    let memory = Path::new("/dev/shm");
    if rustix::fs::access(memory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok() {
        return memory.to_owned();
    }
    given("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// This user's directory below a parent.
pub(crate) fn user_directory(parent: &Path) -> PathBuf {
    parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()))
}

/// An open job directory. No process sweeps it while it is open.
#[derive(Debug)]
pub struct JobDirectory {
    name: String,
    path: PathBuf,
    lock: OwnedFd,
}

impl JobDirectory {
    /// Opens the directory of a job that exists, below [`parent`].
    pub fn open(name: &str) -> Result<JobDirectory, DirectoryError> {
        JobDirectory::open_in(&parent(), name)
    }

    /// Opens the directory of a job that exists, below the parent given.
    pub fn open_in(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
        let (user, path) = paths(parent, name)?;
        loop {
            check(&user)?;
            check(&path)?;
            if let Some(lock) = lock_shared(&path, &mut |_| ())? {
                return Ok(JobDirectory { name: name.to_owned(), path, lock });
            }
        }
    }

    /// Whether a job has a directory below the parent given.
    pub(crate) fn exists_in(parent: &Path, name: &str) -> bool {
        user_directory(parent).join(name).is_dir()
    }

    /// Opens a job's directory below [`parent`], and makes it if it does not exist.
    ///
    /// Clears what dead processes left in a directory that no process uses.
    pub fn create(name: &str) -> Result<JobDirectory, DirectoryError> {
        JobDirectory::create_in(&parent(), name)
    }

    /// As [`JobDirectory::create`], below the parent given.
    pub fn create_in(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
        let (user, path) = paths(parent, name)?;
        loop {
            make(&user)?;
            check(&user)?;
            make(&path)?;
            match check(&path) {
                // Another process has swept the directory since it was made.
                Err(DirectoryError::Missing { .. }) => continue,
                other => other?,
            }
            match lock_shared(&path, &mut crate::sweep::clear_if_unused) {
                Ok(Some(lock)) => return Ok(JobDirectory { name: name.to_owned(), path, lock }),
                Ok(None) | Err(DirectoryError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// The job's name, which is the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The segment of a process's NIC: Portals process id, interface number.
    pub fn nic(&self, pid: u16, ni: u8) -> PathBuf {
        self.path.join(format!("{pid}.{ni}.nic"))
    }

    /// The shared memory of an operating system process.
    pub fn arena(&self, os_pid: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.arena"))
    }

    /// The file for the [`Tombstone`] of an operating system process.
    pub fn tombstone(&self, os_pid: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.dead"))
    }

    /// Additional shared memory of an operating system process, by number.
    pub fn spill(&self, os_pid: u32, k: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.{k}.spill"))
    }

    /// The job's share of aggregation nodes, if it has one.
    pub fn grant(&self) -> PathBuf {
        self.path.join("grant")
    }

    /// The claim file of a Portals process id.
    pub fn claim_file(&self, pid: u16) -> PathBuf {
        self.path.join(format!("{pid}.claim"))
    }

    /// Makes a file of the job with this content, or replaces the one of that name, in one step. Mode 0600.
    pub fn replace(&self, path: &Path, content: &[u8]) -> Result<(), DirectoryError> {
        let temporary = self.write_temporary(content)?;
        fs::rename(&temporary, path).map_err(|error| {
            let _ = fs::remove_file(&temporary);
            DirectoryError::io("put in place", path, error)
        })
    }

    /// Makes a file of the job with this content in one step. `Ok(false)`: the name is taken. Mode 0600.
    pub(crate) fn make_new(&self, path: &Path, content: &[u8]) -> Result<bool, DirectoryError> {
        let temporary = self.write_temporary(content)?;
        let linked = fs::hard_link(&temporary, path);
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(DirectoryError::io("make", path, error)),
        }
    }

    fn write_temporary(&self, content: &[u8]) -> Result<PathBuf, DirectoryError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!(".new-{}-{nth}", std::process::id()));
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, content));
        written.map_err(|error| DirectoryError::io("write", &path, error))?;
        Ok(path)
    }

    /// Removes the directory and its content, even while other processes use it. For the launcher, when its job has ended.
    pub fn remove(self) -> Result<(), DirectoryError> {
        crate::sweep::remove_directory(&self.path)
    }

    /// Releases this process's lock on the directory, and removes the directory if no other process has it open and no living process
    /// has a claim in it. Of processes that leave at the same time, the last one removes it.
    ///
    /// `is_ending`: this process gives up the claims that it still has. True when removed.
    pub fn leave(&self, is_ending: bool) -> bool {
        let own = Identity::own();
        // Before the lock is given up: whoever then gets it alone finds claims of processes only that go on.
        for (pid, _) in self.claimants().into_iter().filter(|(_, who)| is_ending && *who == own) {
            let _ = fs::remove_file(self.claim_file(pid));
        }
        // Unlock first, then try the exclusive lock. With one combined step, two processes that leave together would each see the
        // other's lock, and neither would remove the directory.
        let _ = flock(&self.lock, FlockOperation::NonBlockingUnlock);
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return false;
        }
        let needed = self.claimants().iter().any(|(_, who)| who.is_alive());
        let removed =
            !needed && is_locked_path(&self.lock, &self.path) && crate::sweep::remove_directory(&self.path).is_ok();
        let _ = flock(&self.lock, FlockOperation::NonBlockingUnlock);
        removed
    }

    /// Every claim in the directory, dead or alive, in order of Portals process id.
    pub fn claimants(&self) -> Vec<(u16, Identity)> {
        crate::claim::claimants_in(&self.path)
    }

    /// The launcher's record of the job; `None` without a launcher of ours, or when unreadable.
    pub fn record(&self) -> Option<JobRecord> {
        JobRecord::read(&self.path)
    }

    /// The launcher's tombstone of this process; `None` if it has written none.
    pub fn tombstone_of(&self, who: Identity) -> Option<Tombstone> {
        Tombstone::read(&self.tombstone(who.pid)).filter(|stone| stone.who == who)
    }
}

fn paths(parent: &Path, name: &str) -> Result<(PathBuf, PathBuf), DirectoryError> {
    if !is_job_name(name) {
        return Err(DirectoryError::BadName { name: name.to_owned() });
    }
    let user = user_directory(parent);
    let path = user.join(name);
    Ok((user, path))
}

fn make(path: &Path) -> Result<(), DirectoryError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(DirectoryError::io("make", path, error)),
        _ => Ok(()),
    }
}

/// Fails unless `path` is a directory that only this user can access.
pub(crate) fn check(path: &Path) -> Result<(), DirectoryError> {
    let path = path.to_owned();
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DirectoryError::Missing { path }),
        Err(source) => return Err(DirectoryError::Io { doing: "look at", path, source }),
    };
    if !meta.is_dir() {
        let what = if meta.is_symlink() { "symbolic link" } else { "file" };
        return Err(DirectoryError::NotADirectory { path, what });
    }
    let own_uid = rustix::process::geteuid().as_raw();
    if meta.uid() != own_uid {
        return Err(DirectoryError::NotOurs { path, owner_uid: meta.uid(), own_uid });
    }
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(DirectoryError::TooOpen { path, mode });
    }
    Ok(())
}

/// Opens a directory and locks it. `when_alone` runs under the exclusive lock, if no other process has the directory open.
///
/// `Ok(None)`: the directory was removed meanwhile and must be looked up again.
fn lock_shared(path: &Path, when_alone: &mut dyn FnMut(&Path)) -> Result<Option<OwnedFd>, DirectoryError> {
    let fd = open_directory(path)?;
    if flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() && is_locked_path(&fd, path) {
        when_alone(path);
    }
    match flock(&fd, FlockOperation::LockShared) {
        Ok(()) => Ok(is_locked_path(&fd, path).then_some(fd)),
        // The file system has no locks: only the identities in claims protect the directory there.
        Err(error) => {
            log::debug!("no lock on {}: {error}", path.display());
            Ok(Some(fd))
        }
    }
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, DirectoryError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => DirectoryError::Missing { path: path.to_owned() },
        error => DirectoryError::io("open", path, error),
    })
}

pub(crate) fn flock(fd: &OwnedFd, operation: FlockOperation) -> Result<(), Errno> {
    loop {
        match rustix::fs::flock(fd, operation) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Whether the path still names the directory that was opened.
pub(crate) fn is_locked_path(fd: &OwnedFd, path: &Path) -> bool {
    match (rustix::fs::fstat(fd), rustix::fs::lstat(path)) {
        (Ok(opened), Ok(named)) => opened.st_dev == named.st_dev && opened.st_ino == named.st_ino,
        _ => false,
    }
}

/// The launcher's record of its job: the file `job`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The launcher's process. The job is over when it has ended.
    pub launcher: Identity,
    /// The job's name.
    pub name: String,
    /// Number of ranks.
    pub size: u32,
    /// The program as the user gave it.
    pub program: String,
}

impl JobRecord {
    /// Writes the file into a job's directory.
    pub fn write(&self, directory: &JobDirectory) -> Result<(), DirectoryError> {
        let mut line = serde_json::json!({
            "pid": self.launcher.pid,
            "start": self.launcher.start,
            "name": self.name,
            "size": self.size,
            "program": self.program,
        })
        .to_string();
        line.push('\n');
        directory.replace(&directory.path.join("job"), line.as_bytes())
    }

    /// Reads the file from the directory at `path`; `None` when absent or unreadable.
    pub fn read(path: &Path) -> Option<JobRecord> {
        let value = read_json(&path.join("job"))?;
        Some(JobRecord {
            launcher: identity_in(&value)?,
            name: value.get("name")?.as_str()?.to_owned(),
            size: u32::try_from(value.get("size")?.as_u64()?).ok()?,
            program: value.get("program")?.as_str()?.to_owned(),
        })
    }
}

/// The launcher's record of a process that ended early: the file `<ospid>.dead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The process that ended.
    pub who: Identity,
    /// Its rank in the job.
    pub rank: u32,
    /// How it ended, in words: `was killed by SIGSEGV`, `exited with status 3`.
    pub how: String,
}

impl Tombstone {
    /// Writes the file into a job's directory.
    pub fn write(&self, directory: &JobDirectory) -> Result<(), DirectoryError> {
        let value = serde_json::json!({
            "pid": self.who.pid,
            "start": self.who.start,
            "rank": self.rank,
            "how": self.how,
        });
        let mut line = String::new();
        let _ = writeln!(line, "{value}");
        directory.replace(&directory.tombstone(self.who.pid), line.as_bytes())
    }

    /// Reads one; `None` when absent or unreadable.
    pub fn read(path: &Path) -> Option<Tombstone> {
        let value = read_json(path)?;
        Some(Tombstone {
            who: identity_in(&value)?,
            rank: u32::try_from(value.get("rank")?.as_u64()?).ok()?,
            how: value.get("how")?.as_str()?.to_owned(),
        })
    }
}

fn read_json(path: &Path) -> Option<serde_json::Value> {
    let meta = fs::symlink_metadata(path).ok()?;
    // The file is one line of JSON; a larger one is not ours.
    if !meta.is_file() || meta.len() > 1 << 20 {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn identity_in(value: &serde_json::Value) -> Option<Identity> {
    Some(Identity { pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?, start: value.get("start")?.as_u64()? })
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
