// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units by the names that a machine's file gives them, and the stages of paths that name them.

use std::collections::BTreeMap;

use super::graph::{Pass, Stage};

/// A mistake in a file: section, key, why.
pub(super) type Wrong = (String, String, String);

/// The cost of a pass, by the name that paths give.
pub(super) type Names<'a> = BTreeMap<&'a str, Pass>;

/// Returns the passes of a stage that a file names. `Err`: no such unit.
pub(super) fn stage(names: &Names<'_>, steps: &[String]) -> Result<Stage, String> {
    let pass = |name: &String| names.get(name.as_str()).copied();
    steps.iter().map(|name| pass(name).ok_or_else(|| unknown(names, name))).collect()
}

pub(super) fn unknown(names: &Names<'_>, name: &str) -> String {
    let names: Vec<&str> = names.keys().copied().collect();
    format!("unknown unit '{name}'; known: {}", names.join(", "))
}
