// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON in place of tables: `--json` with an optional file, as several commands have it.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// The file of `--json` without FILE: standard output, in place of the tables.
pub const STANDARD: &str = "-";

/// Whether `--json` replaces the tables.
pub fn replaces_tables(file: Option<&Path>) -> bool {
    file == Some(Path::new(STANDARD))
}

/// Prints a value on standard output.
pub fn print(value: &impl Serialize) -> Result<()> {
    selvedge_terminal::print(&text(value)?).context("cannot write to standard output")
}

/// Writes a value to the file of `--json`.
pub fn write(file: &Path, value: &impl Serialize) -> Result<()> {
    if replaces_tables(Some(file)) {
        return print(value);
    }
    std::fs::write(file, text(value)?).with_context(|| format!("cannot write {}", file.display()))
}

fn text(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
