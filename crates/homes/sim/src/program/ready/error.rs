// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in the choice of a built-in program.

/// Reason why a program cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("unknown program {name:?}; known: {there}")]
    NoSuchProgram { name: String, there: String },
    #[error("{program} has no parameter {name:?}; known: {there}")]
    NoSuchParameter { program: &'static str, name: String, there: String },
    #[error("parameter {name} of {program} is given twice")]
    GivenTwice { program: &'static str, name: &'static str },
    #[error("parameter {name} of {program} cannot be {value:?}: give {expected}")]
    BadValue { program: &'static str, name: &'static str, value: String, expected: String },
    #[error("{program} needs {needed}, but the job has {ranks} ranks")]
    BadSize { program: &'static str, needed: String, ranks: u32 },
    #[error("{file}:{line}: {what}")]
    Trace { file: String, line: usize, what: String },
    #[error("cannot read the trace {file}: {why}")]
    Unreadable { file: String, why: String },
}

pub(super) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
