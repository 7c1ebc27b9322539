// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's options of a job. They travel unchanged to the agents of other hosts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::program::{self, ProgramError};
use crate::rank::runner::Gdb;

/// The options of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobOptions {
    /// The number of processes.
    pub ranks: u32,
    /// Hosts to run on, as `a,b:2,c`, each with its slots. `None`, and no host file: this host.
    pub hosts: Option<String>,
    /// A file with a host on each line, if `hosts` is `None`.
    pub hostfile: Option<PathBuf>,
    /// Start an aggregation node on each of several hosts.
    pub aggregation: bool,
    /// `None`: [`Binding::Core`] if there are at least as many cores as ranks.
    pub bind: Option<Binding>,
    /// `None`: from the ranks' environment.
    pub mode: Option<NicMode>,
    /// `None`: from the ranks' environment.
    pub path: Option<MemoryPath>,
    /// Variables to set in the ranks, in addition to ours.
    pub env: Vec<(String, String)>,
    /// Time limit of the job.
    pub timeout: Option<Duration>,
    /// Write the ranks' output in whole lines, each marked with its rank.
    pub tag_output: bool,
    /// Let the other ranks continue when one fails.
    pub keep_going: bool,
    /// The words of a command that runs each rank's program, as `valgrind -q`; `{rank}` is the rank's number. Empty: none.
    pub wrapper: Vec<String>,
    /// Ranks that run under gdb, without the wrapper.
    pub gdb: Option<Gdb>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// The core that a rank is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// Rank i on the i-th core that the launcher may use, starting again after the last core.
    Core,
    /// The kernel chooses.
    None,
}

/// The process that runs a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NicMode {
    /// A sender runs the target's NIC itself.
    Nic,
    /// A NIC runs when its own program calls the library.
    Host,
}

/// The way to the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryPath {
    /// The fastest path that works.
    Auto,
    /// Only memory from selvedge_alloc, which is mapped.
    Shared,
    /// The kernel copies between processes (cross-memory attach).
    Cma,
    /// Through slots in shared memory.
    Bounce,
}

impl JobOptions {
    /// The program as the user has named it.
    pub fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Finds the program's file, in the ranks' `PATH`. It must be for this machine.
    pub fn executable(&self) -> Result<PathBuf, ProgramError> {
        let file = program::find(self.program(), &self.search_path())?;
        program::check_machine(&file)?;
        Ok(file)
    }

    /// The ranks' `PATH`.
    pub(crate) fn search_path(&self) -> OsString {
        let given = self.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
        given.or_else(|| std::env::var_os("PATH")).unwrap_or_default()
    }
}

impl NicMode {
    /// The value of `SELVEDGE_MODE`.
    pub fn name(self) -> &'static str {
        match self {
            NicMode::Nic => "nic",
            NicMode::Host => "host",
        }
    }
}

impl MemoryPath {
    /// The value of `SELVEDGE_PATH`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryPath::Auto => "auto",
            MemoryPath::Shared => "shared",
            MemoryPath::Cma => "cma",
            MemoryPath::Bounce => "bounce",
        }
    }
}
