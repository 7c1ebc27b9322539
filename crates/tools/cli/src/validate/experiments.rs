// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments: scenarios of `selvedge study` that run real programs, with the published figures that they predict.
//!
//! They are files of `experiments/`, found by name, or any scenario by its path. Their results stay in a folder, so a
//! stopped experiment goes on where it was.

use std::path::{Path, PathBuf};

use selvedge_settings::nearest;

use crate::sim::Usage;
use crate::tree_files;

const FOLDER: &str = "experiments";

/// The scenario of an experiment. `documents`: other words that the command takes.
pub fn find(given: &str, documents: &[String]) -> Result<PathBuf, Usage> {
    if Path::new(given).is_file() {
        return Ok(PathBuf::from(given));
    }
    let known = tree_files::known(FOLDER);
    if let Some(file) = known.get(given) {
        return Ok(file.clone());
    }
    let all = || documents.iter().cloned().chain(known.keys().cloned());
    let meant = nearest(given, all()).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    let kind = if tree_files::is_path(given) { "file" } else { "document or experiment" };
    Err(Usage(format!(
        "there is no {kind} '{given}'{meant}; documents are {}; experiments are {}, or give the path of a scenario",
        documents.join(", "),
        tree_files::names(&known)
    )))
}

/// The folder of an experiment's results: NAME.study in `folder`, by default the current one.
pub fn results(file: &Path, folder: Option<&Path>) -> PathBuf {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    folder.unwrap_or(Path::new(".")).join(format!("{name}.study"))
}

/// All experiments that come with Selvedge, by name.
pub fn known() -> std::collections::BTreeMap<String, PathBuf> {
    tree_files::known(FOLDER)
}
