// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a built-in program cannot be prepared.

/// Why a program cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("there is no program {name:?}; there are {there}")]
    NoSuchProgram { name: String, there: String },
    #[error("{program} has no parameter {name:?}; it has {there}")]
    NoSuchParameter { program: &'static str, name: String, there: String },
    #[error("parameter {name} of {program} is given twice")]
    GivenTwice { program: &'static str, name: &'static str },
    #[error("parameter {name} of {program} cannot be {value:?}: it is {expected}")]
    BadValue { program: &'static str, name: &'static str, value: String, expected: String },
    #[error("{program} needs {needed}, and there are {ranks} ranks")]
    BadSize { program: &'static str, needed: String, ranks: u32 },
    #[error("{file}:{line}: {what}")]
    Trace { file: String, line: usize, what: String },
    #[error("cannot read the trace {file}: {why}")]
    Unreadable { file: String, why: String },
}

/// Names in a row, for an error.
pub(super) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
