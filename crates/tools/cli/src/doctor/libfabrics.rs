// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The libfabrics of this machine: the one that the loader finds, which links between hosts use, and those that the
//! MPIs have loaded. Each is loaded in a child and asked for our provider.

use std::path::{Path, PathBuf};

use selvedge_launcher::environment::{Target, prefix, provider_directory, variables};
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::trial::Trials;

/// The name by which the loader finds the system's.
const SYSTEM: &str = "libfabric.so.1";
const PROVIDER_FILE: &str = "libselvedge-fi.so";

/// A libfabric, as its child has found it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offers {
    pub file: PathBuf,
    pub version: String,
    pub has_provider: bool,
    /// The reason why it has none, if it says one.
    pub error: Option<String>,
}

/// Examines the system's libfabric, then the others once. Also returns whether the system's is there.
pub fn examine(trials: &Trials, others: &[PathBuf]) -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    let mut known: Vec<PathBuf> = Vec::new();
    let real = |file: &Path| file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let system = ask(trials, Path::new(SYSTEM));
    let is_there = system.is_ok();
    match system {
        Ok(offers) => {
            known.push(real(&offers.file));
            findings.push(finding(Ok(offers), Path::new(SYSTEM)));
        }
        Err(error) => findings.push(Finding::note(
            "libfabric",
            format!("none that the loader finds: {error}"),
            "only several hosts, and an MPI without its own, need it (Debian: libfabric1)",
        )),
    }
    for file in others {
        let own = real(file);
        if !known.contains(&own) {
            findings.push(finding(ask(trials, file), file));
            known.push(own);
        }
    }
    (findings, is_there)
}

fn ask(trials: &Trials, library: &Path) -> Result<Offers, String> {
    let mut command = trials.selvedge();
    command.args(["probe", "libfabric"]).arg(library);
    if let Some(folder) = prefix().ok().and_then(|prefix| provider_directory(&prefix).ok()) {
        let variables = variables(Target::Ofi, &folder).map_err(|error| error.to_string())?;
        command.envs(variables.into_iter().map(|variable| (variable.name, variable.value)));
        command.arg(folder.join(PROVIDER_FILE));
    }
    trials.run(&mut command)
}

fn finding(offers: Result<Offers, String>, file: &Path) -> Finding {
    let subject = "libfabric";
    match offers {
        Ok(Offers { file, version, has_provider: true, .. }) => {
            Finding::ok(subject, format!("{version}, {}: loads the provider", file.display()))
        }
        Ok(Offers { file, version, error, .. }) => {
            let why = error.map_or(String::new(), |error| format!(": {error}"));
            let remedy = match provider_directory(&prefix().unwrap_or_default()) {
                Ok(_) => "FI_LOG_LEVEL=warn fi_info -p selvedge says more, in the environment of `selvedge env ofi`"
                    .to_owned(),
                Err(error) => error.to_string(),
            };
            Finding::problem(subject, format!("{version}, {}: does not load the provider{why}", file.display()), remedy)
        }
        Err(error) => Finding::problem(
            subject,
            format!("{}: {error}", file.display()),
            "install a libfabric of version 1.17 or newer (Debian: libfabric1)",
        ),
    }
}
