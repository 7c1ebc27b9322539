// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two processes that send each other a mebibyte with `libsma.so`, and compare every byte: over shared memory, and over
//! libfabric on the loopback interface, as processes of two hosts.

use std::path::PathBuf;

use selvedge_launcher::environment::{library_folder, prefix};
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::trial::{LIMIT, Trials};
use crate::bench::process::ON_OWN_HOST;

/// The message of each way.
pub const BYTES: usize = 1 << 20;
/// The file name of the library of OpenSHMEM.
pub const LIBRARY: &str = "libsma.so.1";
const LOOPBACK: &str = "lo";
/// The launcher ends its ranks before the trial ends, and says so.
const TIMEOUT_S: u64 = LIMIT.as_secs() - 5;

/// The result of rank 0: whether both ranks had the right bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    pub is_right: bool,
}

/// The library of this tree, if it is there.
pub fn library() -> Option<PathBuf> {
    let file = library_folder(&prefix().ok()?).join(LIBRARY);
    file.is_file().then_some(file)
}

pub fn shared_memory(trials: &Trials) -> Finding {
    let subject = "1 MiB each way";
    let Some(library) = library() else {
        let remedy = "install Selvedge's libraries, or set SELVEDGE_PREFIX to the folder that has them";
        return Finding::problem(subject, format!("not tried: no {LIBRARY}"), remedy).that_stops();
    };
    match run(trials, library, false) {
        Ok(()) => Finding::ok(subject, "two processes over shared memory: every byte is right"),
        Err(error) => {
            let remedy = "mend the notes and problems above; SELVEDGE_LOG=info selvedge run -n 2 PROGRAM says more";
            Finding::problem(subject, format!("two processes over shared memory: {error}"), remedy).that_stops()
        }
    }
}

pub fn two_hosts(trials: &Trials) -> Finding {
    let subject = "between hosts";
    let Some(library) = library() else {
        return Finding::note(subject, format!("not tried: no {LIBRARY}"), "install Selvedge's libraries");
    };
    match run(trials, library, true) {
        Ok(()) => Finding::ok(subject, "1 MiB each way over libfabric on loopback: every byte is right"),
        Err(error) => {
            let remedy = "jobs on one host do not need it; SELVEDGE_NET_PROVIDER names another provider";
            Finding::problem(subject, format!("1 MiB each way over libfabric on loopback: {error}"), remedy)
        }
    }
}

fn run(trials: &Trials, library: PathBuf, own_hosts: bool) -> Result<(), String> {
    let mut command = trials.selvedge();
    command.args(["run", "-n", "2", "--bind", "none", "--timeout", &TIMEOUT_S.to_string()]);
    if own_hosts {
        command.args(["/bin/sh", "-c", ON_OWN_HOST, "sh"]).env("SELVEDGE_NET_INTERFACE", LOOPBACK);
    }
    command.arg(trials.executable()).args(["probe", "pair"]).arg(library);
    match trials.run::<Sent>(&mut command)? {
        Sent { is_right: true } => Ok(()),
        Sent { is_right: false } => Err("bytes are wrong".to_owned()),
    }
}
