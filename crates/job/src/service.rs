// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Service numbers: names that programs agree on before they run, as ports are between hosts.
//!
//! A process binds a number in a directory to words of its own (where it can be reached); others ask for them. A binding
//! is a file `service.<number>`: the [`Identity`] of its process on the first line, its words on the second.
//!
//! Invariants
//! 1. A living process's number is nobody else's; a dead one's is free.
//! 2. Binding happens under the directory's lock, and a file appears with its whole content.
//! 3. A forked child inherits the value but not the number: dropping it there changes nothing.
//!
//! Cost: a few system calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::directory::{DirectoryError, JobDirectory};
use crate::identity::Identity;

/// How a binding's file begins; its number follows.
const PREFIX: &str = "service.";
/// Of a binding's file; longer ones are not ours.
const BYTES_MAX: u64 = 512;

/// Why a service number cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A living process has it.
    #[error("service {service} is in use by process {}", .by.pid)]
    InUse {
        /// The number.
        service: u16,
        /// Who has it.
        by: Identity,
    },
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] DirectoryError),
}

/// A service number that is this process's until the value is dropped.
#[derive(Debug)]
pub struct Service {
    file: PathBuf,
    owner: Identity,
}

/// The files of this process's bindings, to tell them from what it left when it started this program by exec.
static BOUND: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn bound() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    BOUND.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Binds a service number to words that others shall get ([`JobDirectory::service`]): one line.
    pub fn bind_service(&self, service: u16, words: &str) -> Result<Service, ServiceError> {
        let (file, owner) = (self.service_file(service), Identity::own());
        let _turn = self.take_turn()?;
        if let Some((by, _)) = read(&file) {
            let is_used = if by == owner { bound().contains(&file) } else { by.is_alive() };
            if is_used {
                return Err(ServiceError::InUse { service, by });
            }
        }
        self.replace(&file, format!("{}{words}\n", owner.to_line()).as_bytes())?;
        bound().insert(file.clone());
        Ok(Service { file, owner })
    }

    /// What a living process has bound to a service number.
    pub fn service(&self, service: u16) -> Option<String> {
        read(&self.service_file(service)).filter(|(by, _)| by.is_alive()).map(|(_, words)| words)
    }

    fn service_file(&self, service: u16) -> PathBuf {
        self.path().join(format!("{PREFIX}{service}"))
    }
}

/// Whether a file is a binding of a process that is gone.
pub(crate) fn is_of_the_dead(file: &Path) -> bool {
    let is_binding = file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    is_binding && read(file).is_none_or(|(by, _)| !by.is_alive())
}

fn read(file: &Path) -> Option<(Identity, String)> {
    let meta = fs::symlink_metadata(file).ok()?;
    if !meta.is_file() || meta.len() > BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines();
    Some((Identity::from_line(lines.next()?)?, lines.next()?.to_owned()))
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
