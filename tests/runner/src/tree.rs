// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The built tree that the tests use: `$SELVEDGE_PREFIX`, or `build/` of this workspace (`make build`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Root of this workspace.
pub fn workspace() -> PathBuf {
    absolute(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

pub fn prefix() -> PathBuf {
    setting("SELVEDGE_PREFIX").map_or_else(|| workspace().join("build"), |prefix| absolute(PathBuf::from(prefix)))
}

/// Folder of `check.h` and `check.c`.
pub fn check_folder() -> PathBuf {
    workspace().join("tests/include")
}

/// The `selvedge` command, which starts jobs and simulates them.
pub fn launcher() -> PathBuf {
    prefix().join("bin/selvedge")
}

/// Description of a machine, for `selvedge sim`.
pub fn machine(name: &str) -> PathBuf {
    workspace().join(format!("machines/{name}.toml"))
}

/// Variable of the environment; an empty one counts as unset.
pub fn setting(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Checks that the files exist.
///
/// # Errors
/// A message that names the first missing file.
pub fn require<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), String> {
    match files.into_iter().find(|file| !file.exists()) {
        None => Ok(()),
        Some(file) => Err(format!("{} is missing: run `make build`, or set SELVEDGE_PREFIX", file.display())),
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}
