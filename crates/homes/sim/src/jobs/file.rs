// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of jobs: TOML, with a table `[[job]]` for each.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::description::JobDescription;
use super::error::{JobError, JobProblem};

/// Reason why a file of jobs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    #[error("{path}: {why}; name a file of jobs")]
    Read { path: String, why: String },
    #[error("{path}: {why}")]
    Parse { path: String, why: String },
    #[error("{path}: no job; give each a table [[job]] with name, and program, trace or traffic")]
    Empty { path: String },
    #[error(transparent)]
    Job(JobError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    job: Vec<Spanned<BTreeMap<String, Spanned<toml::Value>>>>,
}

/// Reads the jobs of a file. Paths of traces in it are relative to the file.
pub fn load(path: &Path) -> Result<Vec<JobDescription>, JobFileError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| JobFileError::Read { path: shown.clone(), why: error.to_string() })?;
    parse(&shown, &text, path.parent())
}

/// Reads jobs from the text of a file. `path` is for errors.
pub fn parse(path: &str, text: &str, folder: Option<&Path>) -> Result<Vec<JobDescription>, JobFileError> {
    let file: File = toml::from_str(text)
        .map_err(|error| JobFileError::Parse { path: path.to_owned(), why: error.to_string().trim().to_owned() })?;
    if file.job.is_empty() {
        return Err(JobFileError::Empty { path: path.to_owned() });
    }
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let mut jobs: Vec<JobDescription> = Vec::new();
    for table in &file.job {
        let values = table.get_ref();
        let mut plain: toml::Table = values.iter().map(|(key, value)| (key.clone(), value.get_ref().clone())).collect();
        if let (Some(toml::Value::String(trace)), Some(folder)) = (plain.get_mut("trace"), folder) {
            *trace = folder.join(&*trace).display().to_string();
        }
        let described =
            JobDescription::from_table(&plain).and_then(|job| match jobs.iter().any(|o| o.name == job.name) {
                true => Err(job.error(JobProblem::SameName)),
                false => Ok(job),
            });
        jobs.push(described.map_err(|error| {
            let named = error.problem.key().map(|key| key.replace('-', "_"));
            let has = |(key, _): &(&String, &Spanned<toml::Value>)| Some(key.replace('-', "_")) == named;
            let at = values.iter().find(has).map_or(table.span().start, |(_, value)| value.span().start);
            JobFileError::Job(JobError { at: format!("{path}:{}: ", line_of(at)), ..error })
        })?);
    }
    Ok(jobs)
}
