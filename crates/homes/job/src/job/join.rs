// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Joining a job: finds the launcher of this process and the directory of its job.

use std::env;
use std::path::Path;
use std::sync::Arc;

use super::connection::{AbortPath, Connection};
use super::environment::warn_of_srun;
use super::errors::{JobError, JoinError};
use super::exit::leave_at_exit;
use super::pmi1::{Pmi1, Uninitialised};
use super::pmix::Pmix;
use super::{Inner, JOINED, Job, Launcher};
use crate::directory::JobDirectory;
use crate::folder::{DirectoryError, jobs_folder};
use crate::names::job_name_from;
use crate::sweep::{remove_memory_of_dead_processes, sweep_stale};
use selvedge_os::sync::IgnorePoison;

impl Job {
    /// Joins the job that this process was started in. Every later call returns the same job, even after it was left,
    /// because a launcher admits a process once. Without a launcher, a call after leaving, or in a forked child, joins
    /// again.
    pub fn join() -> Result<Job, JoinError> {
        let mut joined = JOINED.lock().ignore_poison();
        if let Some(job) = joined.as_ref() {
            let ours = job.inner.os_pid == std::process::id();
            let can_rejoin = job.launcher() == Launcher::Solo && (!ours || job.is_left());
            if !can_rejoin {
                return if ours { Ok(job.clone()) } else { Err(JobError::Forked.into()) };
            }
        }
        let inner = join_launcher()?;
        log::debug!("rank {} of {} in job {} ({:?})", inner.rank, inner.size, inner.directory.name(), inner.launcher);
        let job = Job { inner: Arc::new(inner) };
        *joined = Some(job.clone());
        if job.launcher() != Launcher::Selvedge {
            leave_at_exit();
        }
        Ok(job)
    }
}

fn join_launcher() -> Result<Inner, JoinError> {
    if let Some(pmi) = Uninitialised::from_environment()? {
        let directory = enter(&jobs_folder(), pmi.job_name())?;
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(Inner::new(rank, size, Launcher::Pmi1, directory, abort, Connection::Uninitialised(pmi)));
    }
    if let Some(pmi) = Pmi1::from_environment()? {
        let ours = env::var("SELVEDGE_JOB").is_ok_and(|name| name == pmi.kvs_name());
        let (launcher, directory) = if ours {
            (Launcher::Selvedge, JobDirectory::open(pmi.kvs_name())?)
        } else {
            (Launcher::Pmi1, enter(&jobs_folder(), &job_name_from(pmi.kvs_name()))?)
        };
        let (rank, size, abort) = (pmi.rank(), pmi.size(), AbortPath::Pmi1(pmi.fd()));
        return Ok(Inner::new(rank, size, launcher, directory, abort, Connection::Pmi1(pmi)));
    }
    if env::var_os("PMIX_NAMESPACE").is_some() {
        let pmix = Pmix::init()?;
        let directory = enter(&jobs_folder(), &job_name_from(&pmix.namespace()))?;
        let (rank, size, abort) = (pmix.rank(), pmix.size(), AbortPath::Pmix(pmix.library()));
        return Ok(Inner::new(rank, size, Launcher::Pmix, directory, abort, Connection::Pmix(Box::new(pmix))));
    }
    let name = env::var("SELVEDGE_JOB").ok().filter(|name| !name.is_empty());
    if name.is_none() {
        warn_of_srun();
    }
    let directory = enter(&jobs_folder(), name.as_deref().unwrap_or("solo"))?;
    Ok(Inner::new(0, 1, Launcher::Solo, directory, AbortPath::Solo, Connection::Solo))
}

/// Opens the job's directory under another launcher, or without one. Then processes make it themselves and clear the
/// files of dead ones. The first process removes the files of this user's killed jobs, because such launchers do not
/// know them.
pub(super) fn enter(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
    if !JobDirectory::exists_in(parent, name) {
        sweep_stale(parent);
    }
    let directory = JobDirectory::create_in(parent, name)?;
    remove_memory_of_dead_processes(&directory);
    Ok(directory)
}
