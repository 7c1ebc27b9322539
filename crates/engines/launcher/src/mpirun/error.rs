// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of starting an MPI's launcher.

use std::io;
use std::path::PathBuf;

use selvedge_job::DirectoryError;

use super::family::Family;
use super::network;
use crate::environment::EnvironmentError;
use crate::program::ProgramError;

/// Reasons why a job under an MPI's launcher cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum MpirunError {
    /// The launcher itself cannot be started. The command exits with [`NotStarted::exit_code`].
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    #[error("{option} needs a value")]
    NoValue { option: String },
    #[error("--wrapper: {why}")]
    Wrapper { why: String },
    #[error("--mpi takes openmpi or mpich, not '{name}'")]
    UnknownMpi { name: String },
    #[error("the program is linked to {}, not to {}", .linked.name(), .requested.name())]
    OtherMpi { linked: Family, requested: Family },
    #[error("{} is neither Open MPI's nor MPICH's launcher by its --version; name the MPI with --mpi", .launcher.display())]
    UnknownLauncher { launcher: PathBuf },
    #[error(
        "no launcher of {} was found beside the program's MPI library or in PATH; install that MPI (Debian: openmpi-bin or \
         mpich), or name its launcher with --launcher",
        .wanted.map_or("Open MPI or MPICH", Family::name)
    )]
    NoLauncher { wanted: Option<Family> },
    #[error(
        "{} ({}) is {has}, without libfabric, and cannot load Selvedge's provider; {}",
        .family.name(), .library.display(), network::remedy(*.family)
    )]
    NoLibfabric { family: Family, library: PathBuf, has: String },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("cannot make the folder of job directories")]
    Folder(#[source] DirectoryError),
    #[error("cannot block and read signals")]
    Signals(#[source] io::Error),
    #[error("cannot wait for the launcher")]
    Wait(#[source] io::Error),
    #[error("cannot read signals")]
    NextSignal(#[source] io::Error),
}

/// The launcher does not exist, or may not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error(transparent)]
    Program(ProgramError),
    #[error("cannot start {launcher}: {error}")]
    Spawn { launcher: String, error: io::Error },
}

impl NotStarted {
    /// As shells define it: 127 for a launcher that is not found, 126 for one that cannot be executed.
    pub fn exit_code(&self) -> u8 {
        match self {
            NotStarted::Program(error) => error.exit_code(),
            NotStarted::Spawn { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            NotStarted::Spawn { .. } => 126,
        }
    }
}
