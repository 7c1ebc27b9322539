// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mistakes in the settings, reported when the command starts.

use selvedge_settings::report::{self, Mistake, mistakes_in};

use crate::Command;

/// The exit code for an error in a configuration file, as for one on the command line.
pub const EXIT: u8 = 2;

/// The command cannot start: its configuration file has errors, which are reported.
pub struct BadFile;

/// Reports unknown settings, bad values, and errors in configuration files. With errors in a file, only commands that
/// show or describe start.
pub fn check(command: &Command) -> Result<(), BadFile> {
    if matches!(command, Command::Sim(_) | Command::Study(_) | Command::Validate(_)) {
        selvedge_settings::ignore_files();
    }
    let found = report::mistakes();
    // An agent's environment is replaced by that of its launcher, which has checked it.
    let is_agent = matches!(command, Command::Agent(_));
    if !is_agent {
        report::report();
    }
    // `doctor` starts probes, and tells the mistakes itself.
    let goes_on = matches!(
        command,
        Command::Info(_) | Command::Doctor(_) | Command::Probe(_) | Command::Completions(_) | Command::ManualPages(_)
    );
    let errors: Vec<&Mistake> = found.iter().filter(|mistake| mistake.is_error).collect();
    if errors.is_empty() || goes_on {
        return Ok(());
    }
    // These have been reported unless `SELVEDGE_LOG` or a launcher says otherwise. An end has its reason.
    if is_agent || !report::has_reported() {
        errors.iter().for_each(|error| eprintln!("selvedge: {}", error.text));
    }
    Err(BadFile)
}

/// Reports unknown settings and bad values among variables that an option sets.
pub fn check_assignments(assignments: &[(String, String)]) {
    mistakes_in(assignments.iter().cloned()).iter().for_each(|mistake| report::say(&mistake.text));
}
