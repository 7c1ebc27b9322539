// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of setting up a job and of supervising it.

use std::error::Error;
use std::io;

use selvedge_job::DirectoryError;

use crate::hosts::{HostsError, ServiceError};
use crate::program::ProgramError;
use crate::rank::runner::RunnerError;

/// Reasons why a job could not be set up or supervised. A failed rank is no error: it decides the exit code.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// The user's list of hosts cannot be used.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// There is no such program, or it may not be executed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its wrapper or debugger cannot be used.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    #[error("cannot block and read signals")]
    Signals(#[source] io::Error),
    #[error("cannot make the job's directory")]
    Directory(#[source] DirectoryError),
    #[error("cannot write the job's record")]
    Record(#[source] DirectoryError),
    #[error("cannot write the job's share of aggregation nodes")]
    Grant(#[source] DirectoryError),
    #[error("cannot find the file of this command")]
    OwnFile(#[source] io::Error),
    #[error("cannot find the name of the working folder")]
    WorkingFolder(#[source] io::Error),
    #[error("cannot take standard input and output")]
    StandardStreams(#[source] io::Error),
    #[error("the kernel gives no random bytes: {0}")]
    Random(io::Error),
    /// The aggregation manager or a node of the job did not start.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A system call of the launcher failed: waiting, pipes, limits.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// An error with all its causes, in one line. A cause that the text names already is not repeated.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot read hosts.txt: {0}")]
        Named(#[source] io::Error),
        #[error("cannot read hosts.txt")]
        Unnamed(#[source] io::Error),
    }

    #[test]
    fn a_cause_is_named_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let wanted = format!("cannot read hosts.txt: {}", missing());
        assert_eq!(with_causes(&Outer::Named(missing())), wanted);
        assert_eq!(with_causes(&Outer::Unnamed(missing())), wanted);
    }
}
