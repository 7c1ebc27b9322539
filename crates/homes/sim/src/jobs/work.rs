// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The work of a job, prepared for its nodes.

use std::sync::Arc;

use super::description::{JobDescription, Work};
use super::error::JobProblem;
use crate::machine::Machine;
use crate::program::ready::{self, Prepared};

impl JobDescription {
    /// Prepares the job's ranks, one for each entry of `nodes`. `None`: they are processes.
    pub fn prepare(&self, machine: &Arc<Machine>, nodes: &[u32], seed: u64) -> Result<Option<Prepared>, JobProblem> {
        Ok(match &self.work {
            Work::Command(_) => None,
            Work::Program { name, parameters } => {
                let program = ready::find(name)?;
                let mut given = parameters.clone();
                // The job's seed is also the program's, unless the program gets its own.
                let takes_seed = program.parameters.iter().any(|parameter| parameter.name == "seed");
                if takes_seed && !given.iter().any(|(name, _)| name == "seed") {
                    given.push(("seed".to_owned(), seed.to_string()));
                }
                Some(program.prepare(nodes.len() as u32, machine, &given)?)
            }
            Work::Traffic(traffic) => Some(traffic.prepare(machine, nodes, seed)?),
        })
    }

    /// Returns the work in words, with the parameters that were given.
    pub fn work_words(&self) -> String {
        match &self.work {
            Work::Command(words) => words.join(" "),
            Work::Program { name, parameters } => {
                let given = parameters.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("{name}{}", given.collect::<String>())
            }
            Work::Traffic(traffic) => traffic.to_string(),
        }
    }

    /// Returns the name of its program or executable; of traffic, the pattern.
    pub fn work_name(&self) -> String {
        match &self.work {
            Work::Command(words) => words.first().cloned().unwrap_or_default(),
            Work::Program { name, .. } => name.clone(),
            Work::Traffic(traffic) => traffic.pattern.to_string(),
        }
    }

    /// Returns the quantity on the x axis of its results.
    pub fn results_over(&self) -> &'static str {
        match &self.work {
            Work::Program { name, .. } => ready::find(name).map_or("", |program| program.over),
            Work::Command(_) | Work::Traffic(_) => "",
        }
    }
}
