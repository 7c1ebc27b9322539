// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the program before anything is started, so that a wrong name gives one error, not one for each rank.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Reasons why a program cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub enum ProgramError {
    NotFound { program: PathBuf },
    NotInPath { program: PathBuf, here: bool },
    Directory { path: PathBuf },
    NotExecutable { path: PathBuf },
    OtherMachine { path: PathBuf, machine: &'static str },
}

impl ProgramError {
    /// The exit code of shells: 127 for a program that is not found, 126 for one that may not be executed.
    pub fn exit_code(&self) -> u8 {
        match self {
            ProgramError::NotFound { .. } | ProgramError::NotInPath { .. } => 127,
            ProgramError::Directory { .. } | ProgramError::NotExecutable { .. } | ProgramError::OtherMachine { .. } => {
                126
            }
        }
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::NotFound { program } => write!(f, "{} does not exist", program.display()),
            ProgramError::NotInPath { program, here: false } => {
                write!(f, "{} is not in PATH; give its path", program.display())
            }
            ProgramError::NotInPath { program, here: true } => {
                write!(f, "{0} is not in PATH (to run the one in this folder: ./{0})", program.display())
            }
            ProgramError::Directory { path } => write!(f, "{} is a directory, not a program", path.display()),
            ProgramError::NotExecutable { path } => {
                write!(f, "{} is not executable; run: chmod +x", path.display())
            }
            ProgramError::OtherMachine { path, machine } => {
                let own = std::env::consts::ARCH;
                write!(f, "{} is a program for {machine}, and this machine is {own}; compile it here", path.display())
            }
        }
    }
}

impl std::error::Error for ProgramError {}

/// Finds the executable file of a program name, as a shell does.
pub fn find(program: &OsStr, search_path: &OsStr) -> Result<PathBuf, ProgramError> {
    let name = Path::new(program);
    if program.as_encoded_bytes().contains(&b'/') {
        return check(name).unwrap_or_else(|| Err(ProgramError::NotFound { program: name.to_owned() }));
    }
    let mut refused = None;
    for directory in std::env::split_paths(search_path) {
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        match check(&directory.join(name)) {
            Some(Ok(path)) => return Ok(path),
            Some(Err(error)) if !program.is_empty() => refused = refused.or(Some(error)),
            _ => {}
        }
    }
    let here = !program.is_empty() && matches!(check(name), Some(Ok(_)));
    Err(refused
        .filter(|error| !matches!(error, ProgramError::Directory { .. }))
        .unwrap_or_else(|| ProgramError::NotInPath { program: name.to_owned(), here }))
}

/// Checks that a program is for this machine, if it is an ELF file. A shell would take it for a script.
pub fn check_machine(path: &Path) -> Result<(), ProgramError> {
    let other = crate::executable::other_machine(path).filter(|_| !has_emulator());
    other.map_or(Ok(()), |machine| Err(ProgramError::OtherMachine { path: path.to_owned(), machine }))
}

/// Whether the kernel runs programs of other machines by an emulator.
fn has_emulator() -> bool {
    let known = fs::read_dir("/proc/sys/fs/binfmt_misc").into_iter().flatten().flatten();
    known.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("qemu-"))
}

/// Checks one file. `None`: there is no such file.
fn check(path: &Path) -> Option<Result<PathBuf, ProgramError>> {
    let meta = fs::metadata(path).ok()?;
    let path = path.to_owned();
    Some(if meta.is_dir() {
        Err(ProgramError::Directory { path })
    } else if access(&path, Access::EXEC_OK).is_err() {
        Err(ProgramError::NotExecutable { path })
    } else {
        Ok(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("selvedge-program-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("directory")).expect("made");
        for (file, mode) in [("plain", 0o600), ("runs", 0o700)] {
            fs::write(folder.join(file), "#!/bin/sh\n").expect("written");
            fs::set_permissions(folder.join(file), fs::Permissions::from_mode(mode)).expect("set");
        }
        folder
    }

    #[test]
    fn paths_are_taken_as_they_are() {
        let folder = folder("paths");
        let find = |name: &str| find(folder.join(name).as_os_str(), OsStr::new(""));
        assert_eq!(find("runs"), Ok(folder.join("runs")));
        assert_eq!(find("none").map_err(|error| error.exit_code()), Err(127));
        assert_eq!(find("plain").map_err(|error| error.exit_code()), Err(126));
        assert_eq!(find("directory").map_err(|error| error.exit_code()), Err(126));
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn names_are_searched_in_path() {
        let folder = folder("names");
        let path = std::env::join_paths([Path::new("/nonexistent"), &folder]).expect("no colons");
        let find = |name: &str| find(OsStr::new(name), &path);
        assert_eq!(find("runs"), Ok(folder.join("runs")));
        assert_eq!(find("plain"), Err(ProgramError::NotExecutable { path: folder.join("plain") }));
        for absent in ["none", "directory", ""] {
            assert_eq!(find(absent).map_err(|error| error.exit_code()), Err(127), "{absent:?}");
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_program_here_gets_a_hint() {
        let error = ProgramError::NotInPath { program: "prog".into(), here: true };
        assert!(error.to_string().contains("./prog"));
    }
}
