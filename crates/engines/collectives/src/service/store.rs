// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service's state as a file: the manager's, and the identities of the hosts and jobs.
//!
//! The file is replaced as a whole, so a service that dies leaves the old or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use selvedge_manager::frame;
use serde::{Deserialize, Serialize};

use crate::service::wire::{HostPlace, JobName, LinkBytes};

const MAGIC: &str = "selvedge-manager-service";
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// By number: place, name, and the link of the node.
    pub hosts: Vec<(HostPlace, String, Option<LinkBytes>)>,
    /// Name, number, and the number of the next process.
    pub jobs: Vec<(JobName, u32, u32)>,
    /// The result of `Manager::save`.
    pub manager: String,
}

impl Stored {
    pub fn new(
        hosts: Vec<(HostPlace, String, Option<LinkBytes>)>,
        jobs: Vec<(JobName, u32, u32)>,
        manager: Vec<u8>,
    ) -> Stored {
        Stored { hosts, jobs, manager: String::from_utf8(manager).unwrap_or_default() }
    }

    /// Replaces the file. Afterwards the stored changes may be carried out.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&frame::close(MAGIC, VERSION, self))?;
        file.sync_all()?;
        fs::rename(&new, path)
    }

    /// Reads the file. `None`: it does not exist.
    pub fn read(path: &Path) -> Result<Option<Stored>, String> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let body = frame::open(MAGIC, VERSION, &bytes).map_err(|error| format!("not a manager's state: {error}"))?;
        serde_json::from_slice(body).map(Some).map_err(|error| format!("not a manager's state: {error}"))
    }
}
