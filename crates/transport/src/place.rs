// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where this process is: the host, as processes that share memory know it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// A number for this host: the boot of its kernel, its PID and IPC namespaces, and the directory in which its processes find each
/// other. Processes with the same number reach each other through shared memory. Names of hosts do not count.
pub fn own_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        for namespace in ["pid", "ipc"] {
            fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap_or_default().hash(&mut hasher);
        }
        selvedge_job::parent().hash(&mut hasher);
        hasher.finish()
    })
}

/// Whether the launcher has started the job on several hosts, as its variables say; None: there is no launcher, it does not say, or other
/// jobs matter, too.
pub fn job_spans_hosts() -> Option<bool> {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
    if let Some(hosts) = number("SELVEDGE_HOSTS") {
        return Some(hosts > 1);
    }
    if std::env::var_os("SELVEDGE_JOB").is_some() {
        return Some(false);
    }
    // Open MPI's launcher, MPICH's, Slurm's.
    let pairs = [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS")];
    let spans = pairs.iter().find_map(|(all, here)| Some(number(all)? != number(here)?));
    let spans = spans.or_else(|| number("SLURM_STEP_NUM_NODES").or(number("SLURM_NNODES")).map(|nodes| nodes > 1));
    // A spawned job of one host may have parents on others.
    let is_spawned =
        std::env::var_os("OMPI_PARENT_PORT").is_some() || number("PMI_SPAWNED").is_some_and(|spawned| spawned != 0);
    spans.filter(|spans| *spans || !is_spawned)
}
