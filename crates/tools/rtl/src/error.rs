// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a lockstep: the two sides differ, the RTL stalls, or a trace differs from both.

use std::fmt;

/// The reason why a lockstep ended. Its text shows both states.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockstepError {
    /// The RTL and `nic` differ.
    #[error("{0}")]
    Mismatch(String),
    /// The RTL does not accept a command, or does not complete one.
    #[error("{0}")]
    Stall(String),
    /// The RTL and `nic` agree, but the recorded NIC had another result.
    #[error("record {record}, {command}: {here} here, {trace} in the trace")]
    NotAsRecorded { record: u64, command: String, here: String, trace: String },
}

impl LockstepError {
    /// The same error, with a report around its text.
    pub fn with_report(self, report: impl FnOnce(&str) -> String) -> LockstepError {
        match self {
            LockstepError::Mismatch(text) => LockstepError::Mismatch(report(&text)),
            LockstepError::Stall(text) => LockstepError::Stall(report(&text)),
            other => other,
        }
    }

    /// The same error, prefixed with its location: `at: text`.
    pub fn at(self, at: impl fmt::Display) -> LockstepError {
        self.with_report(|text| format!("{at}: {text}"))
    }
}

impl From<String> for LockstepError {
    fn from(text: String) -> LockstepError {
        LockstepError::Mismatch(text)
    }
}

impl From<&str> for LockstepError {
    fn from(text: &str) -> LockstepError {
        text.to_owned().into()
    }
}
