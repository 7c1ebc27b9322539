// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mistakes in the descriptions of jobs. Each message names the job and the remedy.

use super::nodes::NodesError;
use crate::program::ready::ProgramError;
use crate::traffic::PatternError;

/// A mistake in the description of a job, or a job that does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}job {job}: {problem}")]
pub struct JobError {
    /// File and line, with a colon at the end; or empty.
    pub at: String,
    pub job: String,
    pub problem: Box<JobProblem>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobProblem {
    #[error("write NAME: KEY=VALUE ..., as in 'solver: program=halo ranks=64'")]
    Form,
    #[error("a name has letters, digits, '-', '_' and '.'")]
    Name,
    #[error("there are two of this name; names are different")]
    SameName,
    #[error("'{given}' is not of the form KEY=VALUE, as in ranks=64")]
    Word { given: String },
    #[error("unknown key {key}{hint}; known: {known}")]
    Key { key: String, hint: String, known: String },
    #[error("{key} is given twice")]
    Twice { key: String },
    #[error("{key} cannot be '{value}': {expected}")]
    Value { key: &'static str, value: String, expected: String },
    #[error("{key} needs a number, a text, or a list of them")]
    Kind { key: String },
    #[error("give one of program=NAME, trace=FILE and traffic=PATTERN")]
    Work,
    #[error(
        "background=false is for traffic with a number of messages, because other traffic has no end; add messages=N"
    )]
    Endless,
    #[error(transparent)]
    Nodes(NodesError),
    #[error("node {node} belongs to job {other}; jobs have nodes of their own")]
    Shared { node: u32, other: String },
    #[error("give its size, ranks=N, or its nodes, nodes=A-B")]
    NoSize,
    #[error("{}", no_room(*ranks, *each, *nodes, *is_named))]
    NoRoom { ranks: u32, each: u32, nodes: u32, is_named: bool },
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("a message needs 1 byte or more, and at most {most}")]
    MessageBytes { most: u32 },
    #[error(
        "its switches cannot reduce: only the first job of a run may have them; choose another algorithm, or put it first"
    )]
    Switches,
}

fn no_room(ranks: u32, each: u32, nodes: u32, is_named: bool) -> String {
    let whose = if is_named { "that it names" } else { "that no other job has" };
    if nodes == 0 {
        return "no node is left for it; give the other jobs fewer ranks, or name its nodes".to_owned();
    }
    let (s, plural) = (if ranks == 1 { "" } else { "s" }, if nodes == 1 { "" } else { "s" });
    format!(
        "{ranks} rank{s}, {each} on a node, do not fit on the {nodes} node{plural} {whose}; give fewer ranks, more \
         ranks_per_node, or more nodes"
    )
}

impl JobProblem {
    /// Returns the key that is wrong, if it is a single one.
    pub fn key(&self) -> Option<&str> {
        match self {
            JobProblem::Key { key, .. } | JobProblem::Twice { key } | JobProblem::Kind { key } => Some(key),
            JobProblem::Value { key, .. } => Some(key),
            JobProblem::Name | JobProblem::SameName => Some("name"),
            JobProblem::Endless => Some("background"),
            JobProblem::Nodes(_) | JobProblem::Shared { .. } => Some("nodes"),
            JobProblem::Pattern(_) => Some("traffic"),
            JobProblem::Program(_) => Some("program"),
            JobProblem::Form | JobProblem::Word { .. } | JobProblem::Work => None,
            JobProblem::NoSize | JobProblem::NoRoom { .. } => Some("ranks"),
            JobProblem::MessageBytes { .. } => Some("message-bytes"),
            JobProblem::Switches => Some("algorithm"),
        }
    }
}
