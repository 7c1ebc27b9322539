// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of settings that count for nothing: unknown names, bad values, errors in files.
//!
//! Every library and the command call [`report`] when they start. A job gets each line once:
//! 1. A launcher of ours reports, and then sets [`REPORTED`] for its ranks.
//! 2. Under another launcher, rank 0 reports. Other ranks do so with `SELVEDGE_LOG=info`.
//! 3. Of several libraries of ours in a process, the first one reports. A preloaded library reports in ranks alone, because
//!    shells and launchers load it, too. The processes that a rank starts do not report again.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::accepted::accepts;
use crate::file::files;
use crate::names::nearest;
use crate::variables::{VARIABLES, Variable};

/// The variable with which a launcher tells its ranks that it has reported, and a rank its children. A rank's own value
/// is its pid.
pub const REPORTED: &str = "SELVEDGE_REPORTED";

/// Variables that are no settings: of the simulator and this file, of tests and builds.
const OTHERS: &[&str] = &["SELVEDGE_SIM", REPORTED, "SELVEDGE_SOURCE", "SELVEDGE_PACKAGES"];
const OTHERS_BEGIN: &[&str] = &["SELVEDGE_TEST_", "SELVEDGE_RTL_", "SELVEDGE_TWIN", "SELVEDGE_SIM_"];

/// Settings without which a process does not start or does not reach others: a bad value is an error of its reader.
const ENDS_WITHOUT: &[&str] = &[
    "SELVEDGE_RANK",
    "SELVEDGE_SIZE",
    "SELVEDGE_SECRET",
    "SELVEDGE_MANAGER",
    "SELVEDGE_MANAGER_SECRET",
    "SELVEDGE_SHMEM_COUNTERS",
    "SHMEM_SYMMETRIC_SIZE",
];

/// The longest part of a value that is shown.
const SHOWN_MAX: usize = 60;

/// A mistake in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub text: String,
    /// It is in a file. The command does not start with such a mistake.
    pub is_error: bool,
}

/// The mistakes in the settings of this process: environment and files.
pub fn mistakes() -> Vec<Mistake> {
    let named = std::env::vars_os().map(|(name, value)| (name, value.to_string_lossy().into_owned()));
    let texts = named.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let found = files();
    let warning = |text: String| Mistake { text, is_error: false };
    let error = |text: String| Mistake { text, is_error: true };
    mistakes_in(texts)
        .into_iter()
        .chain(found.warnings.iter().cloned().map(warning))
        .chain(found.errors.iter().cloned().map(error))
        .collect()
}

/// The mistakes in these variables, in the order of their names.
pub fn mistakes_in(variables: impl Iterator<Item = (String, String)>) -> Vec<Mistake> {
    let found: BTreeSet<String> = variables.filter_map(|(name, value)| mistake_in(&name, &value)).collect();
    found.into_iter().map(|text| Mistake { text, is_error: false }).collect()
}

fn mistake_in(name: &str, value: &str) -> Option<String> {
    match VARIABLES.iter().find(|variable| variable.name == name) {
        Some(variable) => (!accepts(variable, value)).then(|| bad_value(variable, value)),
        None if name.starts_with("SELVEDGE_") => {
            let is_other = OTHERS.contains(&name) || OTHERS_BEGIN.iter().any(|begin| name.starts_with(begin));
            (!is_other).then(|| unknown(name))
        }
        None => None,
    }
}

fn unknown(name: &str) -> String {
    let near = nearest(name, VARIABLES.iter().map(|variable| variable.name.to_owned()));
    let remedy = near.map_or("`selvedge info variables` lists all".to_owned(), |near| format!("did you mean {near}?"));
    format!("{}: there is no such setting; {remedy}", shortened(name))
}

/// The report of a value that a setting does not take.
pub fn bad_value(variable: &Variable, value: &str) -> String {
    let shown = if variable.is_secret() { "(not shown)".to_owned() } else { shortened(value) };
    let (name, values) = (variable.name, variable.values);
    let instead = if ENDS_WITHOUT.contains(&name) { "" } else { "; the default is used" };
    format!("{name}={shown} is not a valid value{instead}; valid: {values}")
}

/// The beginning of a text of the user, on one line.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.escape_default().to_string();
    if text.len() <= SHOWN_MAX { text } else { format!("{}...", &text[..SHOWN_MAX]) }
}

/// Reports the mistakes in the settings on standard error, once a job.
pub fn report() {
    // One that is set here is of the program that has replaced itself by this one.
    if is_first() && std::env::var_os(REPORTED).is_none() && is_reporter() {
        mistakes().iter().for_each(|mistake| say(&mistake.text));
    }
}

/// [`report`], in ranks alone: for libraries that are loaded into shells and launchers, too. Tells the children of this
/// process that it has reported.
///
/// # Safety
/// No other thread uses the environment meanwhile.
pub unsafe fn report_in_rank() {
    if rank().is_some() {
        report();
        if std::env::var_os(REPORTED).is_none() {
            // SAFETY: the caller promises it.
            unsafe { std::env::set_var(REPORTED, std::process::id().to_string()) };
        }
    }
}

/// Whether [`report`] shows its lines in this process.
pub fn has_reported() -> bool {
    is_reporter() && level() >= 2
}

/// Reports a value that its reader does not take.
pub(crate) fn report_bad_value(variable: &Variable, value: &str) {
    static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // The reader may come before the start of its library.
    report();
    // Values that the table refuses are reported by now. Here the reader takes less than the table says.
    let known = VARIABLES.iter().find(|known| known.name == variable.name && accepts(variable, value));
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if known.is_some_and(|known| said.insert(known.name)) && is_reporter() {
        say(&bad_value(variable, value));
    }
}

/// Whether this process reports for its job.
fn is_reporter() -> bool {
    // Another process has reported, not this one.
    if std::env::var(REPORTED).is_ok_and(|by| by != std::process::id().to_string()) {
        return false;
    }
    rank().is_none_or(|rank| rank.trim() == "0") || level() >= 3
}

/// The rank that a launcher has given to this process.
fn rank() -> Option<String> {
    const RANKS: [&str; 5] = ["SELVEDGE_RANK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];
    RANKS.iter().find_map(|name| std::env::var(name).ok())
}

/// 0 to 3: off, error, warn, info and more, by `SELVEDGE_LOG`.
fn level() -> u8 {
    match crate::text("SELVEDGE_LOG").as_deref().map(str::trim) {
        Some("info" | "debug" | "trace") => 3,
        Some("error") => 1,
        Some("off") => 0,
        _ => 2,
    }
}

/// Whether this process has reported. Each library of ours has its own copy of this crate and exports this flag. All
/// of a process use the first.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static selvedge_settings_reported: AtomicBool = AtomicBool::new(false);

fn is_first() -> bool {
    // SAFETY: the name is a C string, which `dlsym` only reads.
    let shared = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"selvedge_settings_reported".as_ptr()) };
    // SAFETY: libraries of ours alone export this name, for a flag of this type. A program that unloads one while another
    // starts breaks the rule of dlclose(3).
    let shared = unsafe { shared.cast::<AtomicBool>().as_ref() };
    !shared.unwrap_or(&selvedge_settings_reported).swap(true, Relaxed)
}

/// Writes a line unless `SELVEDGE_LOG` is `off` or `error`. It is written at once, so that lines of several processes do not mix. Ignores failures: the stream may be closed.
pub fn say(text: &str) {
    if level() >= 2 {
        let _ = std::io::stderr().write_all(format!("selvedge: {text}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        mistakes_in(variables).into_iter().map(|mistake| mistake.text).collect()
    }

    #[test]
    fn unknown_names_and_bad_values_are_named_with_a_remedy() {
        assert_eq!(of(&[("SELVEDGE_MODE", "host"), ("PATH", "x"), ("SELVEDGE_SIM", "y"), (REPORTED, "1")]), [""; 0]);
        assert_eq!(
            of(&[("SELVEDGE_MOED", "nic")]),
            ["SELVEDGE_MOED: there is no such setting; did you mean SELVEDGE_MODE?"]
        );
        assert_eq!(
            of(&[("SELVEDGE_QWERTZUIOP", "")]),
            ["SELVEDGE_QWERTZUIOP: there is no such setting; `selvedge info variables` lists all"]
        );
        assert_eq!(
            of(&[("SELVEDGE_MODE", "fast"), ("SELVEDGE_SECRET", "hush")]),
            [
                "SELVEDGE_MODE=fast is not a valid value; the default is used; valid: nic | host",
                "SELVEDGE_SECRET=(not shown) is not a valid value; valid: 64 hexadecimal digits"
            ]
        );
    }

    #[test]
    fn hostile_names_and_values_are_short_lines() {
        let long = "x\n".repeat(10_000);
        for text in of(&[(&format!("SELVEDGE_{long}"), ""), ("SELVEDGE_MODE", &long)]) {
            assert!(text.len() < 250 && !text.contains('\n'), "{text}");
        }
    }
}
