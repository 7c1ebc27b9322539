// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service numbers: names that programs agree on before they run, like ports between hosts.
//!
//! A process binds a number in a directory to a line of text, its address; other processes look it up. A binding is a
//! file `service.<number>`: the [`Identity`] of its process on the first line, its text on the second.
//!
//! Invariants
//! 1. The number of a living process belongs to no other process. The number of a dead process is free.
//! 2. Binding happens under the directory's lock, and a file appears with its whole content.
//! 3. A forked child inherits the value but not the number: dropping the value there changes nothing.
//!
//! Cost: a few system calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::directory::JobDirectory;
use crate::folder::DirectoryError;
use crate::records::{identity_of, line_of, read_small};
use selvedge_os::process::Identity;
use selvedge_os::sync::IgnorePoison;

/// Prefix of a binding's file name; its number follows.
const PREFIX: &str = "service.";
/// The longest file of a binding; longer files are not ours.
const BYTES_MAX: u64 = 512;

/// Reasons for which a service number cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A living process has bound it.
    #[error("service {service} is in use by process {}", .by.pid)]
    InUse {
        /// The number.
        service: u16,
        /// The process that has bound it.
        by: Identity,
    },
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] DirectoryError),
}

/// A service number that belongs to this process until the value is dropped.
#[derive(Debug)]
pub struct Service {
    file: PathBuf,
    owner: Identity,
}

/// The files of this program's bindings. An earlier program may have left other bindings in this process before `exec`.
static BOUND: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn bound() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    BOUND.lock().ignore_poison()
}

impl Drop for Service {
    fn drop(&mut self) {
        // In a forked child the number is still the parent's.
        if std::process::id() == self.owner.pid {
            let _ = fs::remove_file(&self.file);
            bound().remove(&self.file);
        }
    }
}

impl JobDirectory {
    /// Binds a service number to one line of text, which other processes get from [`JobDirectory::service`].
    pub fn bind_service(&self, service: u16, text: &str) -> Result<Service, ServiceError> {
        let (file, owner) = (self.service_file(service), Identity::own());
        let _lock = self.lock_claims()?;
        if let Some((by, _)) = read(&file)? {
            let is_used = if by == owner { bound().contains(&file) } else { by.is_alive() };
            if is_used {
                return Err(ServiceError::InUse { service, by });
            }
        }
        self.replace(&file, format!("{}{text}\n", line_of(owner)).as_bytes())?;
        bound().insert(file.clone());
        Ok(Service { file, owner })
    }

    /// Returns the text that a living process has bound to a service number.
    pub fn service(&self, service: u16) -> Option<String> {
        read(&self.service_file(service)).ok().flatten().filter(|(by, _)| by.is_alive()).map(|(_, text)| text)
    }

    fn service_file(&self, service: u16) -> PathBuf {
        self.path().join(format!("{PREFIX}{service}"))
    }
}

/// Whether a file is the binding of a dead process, or a malformed binding.
pub(crate) fn is_dead_binding(file: &Path) -> bool {
    let is_binding = file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    // What cannot be read may name a living process.
    is_binding && read(file).is_ok_and(|binding| binding.is_none_or(|(by, _)| !by.is_alive()))
}

fn read(file: &Path) -> Result<Option<(Identity, String)>, DirectoryError> {
    let content = read_small(file, BYTES_MAX)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let binding = |content: String| {
        let mut lines = content.lines();
        Some((identity_of(lines.next()?)?, lines.next()?.to_owned()))
    };
    Ok(content.and_then(binding))
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
