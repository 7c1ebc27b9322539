// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings: a table of them, and their one reader. A value comes from the environment, else from the configuration
//! file, else it is the default.
//!
//! | file | subject |
//! |---|---|
//! | [`variables`] | the table: names, values, defaults |
//! | [`mod@accepted`] | whether a setting takes a value |
//! | [`mod@file`] | the configuration file |
//! | [`mod@report`] | unknown names, bad values and errors in files, reported once a job |
//! | [`names`] | the known name nearest to a misspelt one |
//! | [`units`] | sizes and times as texts, for settings and for options |
//!
//! Invariants
//! 1. A value from a file is valid. One of the environment may not be: then the default counts.
//! 2. Nothing here panics because of a file or of the environment.
//!
//! All functions may be called in constructors, before `main`. They allocate.

pub mod accepted;
pub mod file;
mod names;
pub mod report;
pub mod units;
pub mod variables;

use std::ffi::OsString;

pub use file::{files, ignore_files};
pub use names::nearest;
pub use report::report;
pub use variables::{VARIABLES, Variable};

/// The value of a setting: that of the environment, else that of the file. `None`: the default counts. An empty value
/// is returned.
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).or_else(|| Some(files().entry(name)?.value.clone().into()))
}

/// [`value`], if it is valid UTF-8.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// [`value`], if it is not empty: for names of files and programs.
pub fn nonempty(name: &str) -> Option<OsString> {
    value(name).filter(|value| !value.is_empty())
}

/// Reads a setting. A value that `parse` refuses is reported, and the default counts.
pub fn read<T>(name: &str, default: T, parse: impl FnOnce(&str) -> Option<T>) -> T {
    let Some(given) = value(name) else { return default };
    let given = given.to_string_lossy();
    parse(given.trim()).unwrap_or_else(|| {
        if let Some(variable) = variable(name) {
            report::report_bad_value(variable, &given);
        }
        default
    })
}

/// Reads a setting that takes 0 or 1.
pub fn switch(name: &str, default: bool) -> bool {
    read(name, default, |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })
}

/// The row of a setting.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    Environment,
    File(String),
}

/// The origin of the value of a setting. A bad value of the environment counts as the default.
pub fn origin(variable: &Variable) -> Origin {
    match (std::env::var_os(variable.name), files().entry(variable.name)) {
        (Some(given), _) if accepted::accepts(variable, &given.to_string_lossy()) => Origin::Environment,
        (None, Some(entry)) => Origin::File(format!("{}:{}", entry.file.display(), entry.line)),
        _ => Origin::Default,
    }
}
