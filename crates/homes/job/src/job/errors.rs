// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of joining a job, and of calls on it.

use crate::folder::DirectoryError;

/// Reasons for which this process cannot join a job.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A launcher's environment variable has an impossible value.
    #[error("the environment variable {name}={value} is not {wanted}")]
    BadVariable {
        /// The variable's name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The kind of value that it should have.
        wanted: &'static str,
    },
    /// The launcher's answer breaks its protocol.
    #[error(transparent)]
    Launcher(#[from] JobError),
    /// The job's directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// Reasons for which a call on a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The launcher closed the connection: it is ending, and the job with it.
    #[error("the launcher has closed the connection, so the job is ending")]
    LauncherGone,
    /// The connection to the launcher failed.
    #[error("cannot {doing} the launcher: {error}")]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The operating system's error. Not a `source`: the text has it already.
        error: std::io::Error,
    },
    /// The launcher's answer is malformed, or refuses the request.
    #[error("the launcher answered `{answer}` to the request `{asked}`")]
    Protocol {
        /// The request, shortened.
        asked: String,
        /// The reply, shortened.
        answer: String,
    },
    /// The launcher uses PMIx, and its library cannot be used.
    #[error("the launcher speaks PMIx, but {why}; set SELVEDGE_PMIX_LIB to the file of its libpmix")]
    PmixLibrary {
        /// The reason, in words.
        why: String,
    },
    /// A PMIx call failed.
    #[error("{call} failed with status {status}")]
    Pmix {
        /// The call's name.
        call: &'static str,
        /// The status, as in `pmix_common.h`.
        status: i32,
    },
    /// A rank has ended without taking part.
    #[error("rank {rank} has ended without giving its part to the exchange")]
    PeerLost {
        /// The rank.
        rank: u32,
    },
    /// The launcher could not write what the ranks gave, or this rank cannot read it.
    #[error("the values that the ranks gave to the exchange are missing on this host: {0}")]
    NoTable(DirectoryError),
    /// Ranks gave different numbers of bytes to a call that needs equal ones.
    #[error("rank {rank} gave {theirs_bytes} bytes to the exchange, this rank {own_bytes}")]
    UnequalLengths {
        /// The rank.
        rank: u32,
        /// The number of bytes that it gave.
        theirs_bytes: usize,
        /// The number of bytes that this rank gave.
        own_bytes: usize,
    },
    /// The job was left by [`Job::finalize`](crate::Job::finalize).
    #[error("this process has already left its job")]
    Finalized,
    /// This process is a forked child of the one that joined.
    #[error("this process was forked by a rank of the job, and has no rank of its own")]
    Forked,
}
