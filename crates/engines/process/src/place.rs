// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of this process: its host, and whether the job has others.

pub use selvedge_job::own_place;

/// Whether the launcher has started the job on several hosts, by its variables. None without a launcher, if it does not
/// say, or if processes of other jobs may be reached.
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
    // A job that was spawned on one host may have parents on others.
    let is_spawned =
        std::env::var_os("OMPI_PARENT_PORT").is_some() || number("PMI_SPAWNED").is_some_and(|spawned| spawned != 0);
    spans.filter(|spans| *spans || !is_spawned)
}
