// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders of one user: their place, access to them, locks on them, and their removal.
//!
//! Invariants
//! 1. A folder is a real directory of the effective user without access for others. Anything else is refused, so no
//!    other user can lead this process to other files.
//! 2. After taking a lock a process compares the path with the locked folder, so it never works in one that was just
//!    removed.
//! 3. A folder first gets a name that no job has, then loses its files: no process finds half of it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use selvedge_os::shortage::{Need, Shortage};

pub(crate) const REMOVED_PREFIX: &str = ".gone-";

/// Reasons for which a job directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A job name that is not one plain file name.
    #[error("`{name}` cannot name a job: give 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`")]
    BadName {
        /// The name as given.
        name: String,
    },
    /// No such job on this machine; it may have ended.
    #[error("no job directory {}: the job has ended, or its launcher has another SELVEDGE_DIR", .path.display())]
    Missing {
        /// The missing path.
        path: PathBuf,
    },
    /// The folder that should hold the directory does not exist.
    #[error("{}: no such folder; create it, or set SELVEDGE_DIR to another one", .path.display())]
    NoParent {
        /// The missing folder.
        path: PathBuf,
    },
    /// There is no descriptor, space or permission for it.
    #[error(transparent)]
    Shortage(Shortage),
    /// The operating system refused to make the directory.
    #[error("cannot make {}: {error}; set SELVEDGE_DIR to a folder in which you can make files", .path.display())]
    NotMade {
        /// The directory.
        path: PathBuf,
        /// The operating system's error. Not a `source`: the text has it already.
        error: io::Error,
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
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The file or directory that was accessed.
        path: PathBuf,
        /// The operating system's error. Not a `source`: the text has it already.
        error: io::Error,
    },
}

impl DirectoryError {
    pub(crate) fn io(doing: &'static str, path: &Path, error: impl Into<io::Error>) -> DirectoryError {
        let error = error.into();
        match Shortage::of_io(&error, Need::File(path)) {
            Some(shortage) => DirectoryError::Shortage(shortage),
            None => DirectoryError::Io { doing, path: path.to_owned(), error },
        }
    }
}

/// Returns the parent of this user's job directories: `SELVEDGE_DIR`, else `/dev/shm`, else `TMPDIR`, else `/tmp`; or the
/// folder that [`usable_folder`] has made there.
pub fn jobs_folder() -> PathBuf {
    found_in(shared_folder())
}

/// Returns the folder of a random name that is in use in this parent, else the parent.
fn found_in(parent: PathBuf) -> PathBuf {
    if is_taken(&parent) { private_folder(&parent).unwrap_or(parent) } else { parent }
}

fn shared_folder() -> PathBuf {
    if let Some(path) = selvedge_settings::nonempty("SELVEDGE_DIR") {
        return path.into();
    }
    let memory = Path::new("/dev/shm");
    if rustix::fs::access(memory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok() {
        return memory.to_owned();
    }
    env::var_os("TMPDIR").filter(|path| !path.is_empty()).map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// Returns [`jobs_folder`] as an absolute path, for a launcher, which gives it to its ranks as `SELVEDGE_DIR`. Where
/// another user has taken the name of this user's directory, it first makes a folder of a random name:
/// `selvedge-<uid>.<16 hexadecimal digits>`.
pub fn usable_folder() -> Result<PathBuf, DirectoryError> {
    let parent = shared_folder();
    usable_in(std::path::absolute(&parent).map_err(|error| DirectoryError::io("find", &parent, error))?)
}

fn usable_in(parent: PathBuf) -> Result<PathBuf, DirectoryError> {
    let parent = found_in(parent);
    if !is_taken(&parent) {
        return Ok(parent);
    }
    let random = RandomState::new().build_hasher().finish();
    let private = parent.join(format!("{}{random:016x}", private_prefix()));
    make(&private)?;
    check(&private)?;
    log::warn!(
        "{} is not a directory of this user: files of jobs go to {}",
        user_directory(&parent).display(),
        private.display()
    );
    Ok(private)
}

/// Whether another user's file, or one that is no directory, has the name of this user's directory.
fn is_taken(parent: &Path) -> bool {
    let checked = check(&user_directory(parent));
    matches!(checked, Err(DirectoryError::NotOurs { .. } | DirectoryError::NotADirectory { .. }))
}

/// Returns the first of this user's folders of a random name.
fn private_folder(parent: &Path) -> Option<PathBuf> {
    let prefix = private_prefix();
    let is_private = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&prefix)) && check(path).is_ok()
    };
    files_in(parent).into_iter().filter(is_private).min()
}

fn private_prefix() -> String {
    format!("selvedge-{}.", rustix::process::geteuid().as_raw())
}

pub(crate) fn user_directory(parent: &Path) -> PathBuf {
    parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()))
}

/// Makes a folder that only this user can access, unless the path exists.
pub(crate) fn make(path: &Path) -> Result<(), DirectoryError> {
    let Err(error) = fs::DirBuilder::new().mode(0o700).create(path) else { return Ok(()) };
    match (error.kind(), path.parent()) {
        (io::ErrorKind::AlreadyExists, _) => Ok(()),
        (io::ErrorKind::NotFound, Some(parent)) if !parent.exists() => {
            Err(DirectoryError::NoParent { path: parent.to_owned() })
        }
        _ => Err(match Shortage::of_io(&error, Need::File(path)) {
            Some(shortage) => DirectoryError::Shortage(shortage),
            None => DirectoryError::NotMade { path: path.to_owned(), error },
        }),
    }
}

/// Fails unless `path` is a directory that only this user can access.
pub(crate) fn check(path: &Path) -> Result<(), DirectoryError> {
    let path = path.to_owned();
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DirectoryError::Missing { path }),
        Err(error) => return Err(DirectoryError::io("look at", &path, error)),
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

/// Opens a directory and locks it. `when_alone` runs under the exclusive lock, if no other process has the directory
/// open.
///
/// `Ok(None)`: the directory was removed meanwhile and must be looked up again.
pub(crate) fn lock_shared(path: &Path, when_alone: &mut dyn FnMut(&Path)) -> Result<Option<OwnedFd>, DirectoryError> {
    let fd = open_directory(path)?;
    if flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() && is_locked_path(&fd, path) {
        when_alone(path);
    }
    match flock(&fd, FlockOperation::LockShared) {
        Ok(()) => Ok(is_locked_path(&fd, path).then_some(fd)),
        // The file system has no locks. There, only the identities in claims protect the directory.
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

/// Removes a directory and all in it. The caller holds its lock exclusively, or owns the job.
pub(crate) fn remove_directory(path: &Path) -> Result<(), DirectoryError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    let gone = path.with_file_name(format!("{REMOVED_PREFIX}{}-{nth}", std::process::id()));
    fs::rename(path, &gone).map_err(|error| DirectoryError::io("remove", path, error))?;
    fs::remove_dir_all(&gone).map_err(|error| DirectoryError::io("remove", &gone, error))
}

pub(crate) fn files_in(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().filter_map(io::Result::ok).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Parent;

    #[test]
    fn another_users_directory_is_left_alone_and_a_random_folder_used() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make another user's directory");
            return;
        }
        let parent = Parent::new();
        let path = parent.path().to_owned();
        assert_eq!(usable_in(path.clone()).expect("nothing is in the way"), path);
        fs::create_dir(parent.user()).expect("made");
        std::os::unix::fs::chown(parent.user(), Some(12345), None).expect("root may");
        // A folder of the kind that is not this user's own is passed over.
        let trap = path.join(format!("{}0000000000000000", private_prefix()));
        fs::create_dir(&trap).expect("made");
        std::os::unix::fs::chown(&trap, Some(12345), None).expect("root may");
        assert_eq!(found_in(path.clone()), path, "there is none yet");

        let made = usable_in(path.clone()).expect("made");
        assert_eq!(made.parent(), Some(path.as_path()));
        assert_eq!(fs::symlink_metadata(&made).expect("there").permissions().mode() & 0o7777, 0o700);
        assert_eq!(usable_in(path.clone()).expect("found again"), made);
        assert_eq!(found_in(path), made, "processes without a launcher find it");
        assert_eq!(usable_in(made.clone()).expect("told by SELVEDGE_DIR"), made);
    }

    #[test]
    fn a_symbolic_link_in_the_way_is_not_followed() {
        let parent = Parent::new();
        std::os::unix::fs::symlink("/nonexistent", parent.user()).expect("made");
        let made = usable_in(parent.path().to_owned()).expect("made");
        assert_ne!(made, parent.path());
        assert!(check(&made).is_ok());
    }
}
