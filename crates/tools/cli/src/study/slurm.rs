// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs cells as a job array of Slurm.
//!
//! ```text
//! selvedge study FILE --slurm          slurm/plan.json   open cells, in tasks
//!   sbatch slurm/array.sh              slurm/job         number of the array
//!   squeue, until it has ended         slurm/N_T.out     output of a task
//!      selvedge study slurm/plan.json --task T           on a node; keeps its cells in the same folder
//!   collects
//! ```
//!
//! Rules
//! 1. Task T of N runs the cells T, T + N, T + 2 N of the plan. So no two tasks have a cell in common.
//! 2. While an array is in the queue, no second one is submitted, and no cell runs here: the command waits for the array.
//! 3. A task takes its cells from the plan, so a scenario that is edited meanwhile does not concern it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use selvedge_terminal::Progress;
use serde::{Deserialize, Serialize};

use super::cells::{Cell, Cells};
use super::store::{State, Store};
use super::{EXIT_FAILED, EXIT_INTERRUPTED, Study, progress};
use crate::sim::{Interrupt, Usage};

const FOLDER: &str = "slurm";
/// Most tasks of an array where Slurm does not say. It counts from 0 to `MaxArraySize` - 1, which is 1001 by default.
const TASKS_MAX: usize = 1000;
/// Time between two questions to Slurm, and between two looks at Ctrl-C.
const ASK: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// The cells of a job array.
#[derive(Serialize, Deserialize)]
struct Plan {
    version: String,
    /// Folder in which cells run.
    folder: PathBuf,
    tasks: usize,
    cells: Vec<Cell>,
}

/// Runs the open cells as a job array and waits for it, or for the one that is in the queue already.
pub fn run(study: &Study<'_>, cells: &Cells, options: &[String]) -> Result<()> {
    need_sbatch()?;
    let open = study.open(&cells.cells);
    let job = match running(study.store)? {
        Some(job) => {
            let plan: Plan = read_plan(&study.store.folder().join(FOLDER).join("plan.json"))?;
            let planned = |cell: &&&Cell| !plan.cells.iter().any(|planned| planned.id == cell.id);
            if let Some(cell) = open.iter().find(planned) {
                return Err(Usage(format!(
                    "job {job} of this study is in the queue, and has no cell {}: wait for it, or cancel it (scancel \
                     {job}), and start again",
                    cells.words(cell)
                ))
                .into());
            }
            eprintln!("selvedge study: waits for job {job}, which is in the queue");
            job
        }
        None if open.is_empty() => {
            let _lock = study.prepare(cells)?;
            return Ok(());
        }
        None => submit(study, cells, &open, options)?,
    };
    wait(study, &open, &job)?;
    if study.interrupt.is_set() {
        return Ok(());
    }
    let _ = fs::remove_file(job_file(study.store));
    let missing = open.iter().filter(|cell| study.store.state(&cell.id) == State::Open).count();
    if missing > 0 {
        let folder = study.store.folder().join(FOLDER);
        eprintln!(
            "selvedge study: job {job} ended without {missing} of its cells: their tasks were cancelled, or lost their \
             node; {}/{job}_*.out has their output, and the same command submits the cells again",
            folder.display()
        );
    }
    Ok(())
}

/// Refuses to run cells here while an array runs them.
pub fn refuse_beside_array(store: &Store) -> Result<()> {
    match running(store)? {
        None => Ok(()),
        Some(job) => Err(Usage(format!(
            "job {job} runs cells of this study: add --slurm to wait for it, or cancel it (scancel {job})"
        ))
        .into()),
    }
}

/// The script of the array, as it would be submitted.
pub fn script_of(cells: &Cells, store: &Store, options: &[String]) -> Result<String> {
    let open = cells.cells.iter().filter(|cell| store.state(&cell.id) != State::Finished).count();
    script(&store.folder().join(FOLDER), tasks_of(open), options)
}

fn submit(study: &Study<'_>, cells: &Cells, open: &[&Cell], options: &[String]) -> Result<String> {
    let lock = study.prepare(cells)?;
    let folder = study.store.folder().join(FOLDER);
    let plan = Plan {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        folder: study.folder.clone(),
        tasks: tasks_of(open.len()),
        cells: open.iter().map(|cell| (*cell).clone()).collect(),
    };
    open.iter().for_each(|cell| study.store.forget_failure(&cell.id));
    study.store.write(&folder.join("plan.json"), &serde_json::to_vec(&plan)?)?;
    let path = folder.join("array.sh");
    study.store.write(&path, script(&folder, plan.tasks, options)?.as_bytes())?;
    // A task may start at once.
    drop(lock);
    let said = Command::new("sbatch").arg("--parsable").arg(&path).current_dir(&folder).output();
    let said = said.context("cannot start sbatch")?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(Usage(format!("sbatch refuses the array: {}; --sbatch=OPTION gives it options", why.trim())).into());
    }
    // The number, and behind a semicolon the cluster.
    let number = String::from_utf8_lossy(&said.stdout).trim().split(';').next().unwrap_or_default().to_owned();
    study.store.write(&job_file(study.store), number.as_bytes())?;
    eprintln!("selvedge study: job {number}: {} cells in {} tasks", plan.cells.len(), plan.tasks);
    Ok(number)
}

/// Waits until the array has left the queue, or for Ctrl-C.
fn wait(study: &Study<'_>, open: &[&Cell], job: &str) -> Result<()> {
    let (mut line, mut asked, mut has_failed) = (Progress::polled(study.quiet), Instant::now(), false);
    loop {
        if study.interrupt.is_set() {
            eprintln!("selvedge study: job {job} goes on; the same command waits for it again, scancel {job} ends it");
            return Ok(());
        }
        if asked.elapsed() >= ASK {
            match is_in_queue(job) {
                Ok(false) => return Ok(()),
                Ok(true) => has_failed = false,
                Err(error) if !has_failed => {
                    line.note(&format!("selvedge study: {error:#}; asks again"));
                    has_failed = true;
                }
                Err(_) => {}
            }
            asked = Instant::now();
        }
        line.update(|seconds| {
            let states = || open.iter().map(|cell| study.store.state(&cell.id));
            let done = states().filter(|state| *state != State::Open).count();
            let failed = states().filter(|state| matches!(state, State::Failed(_))).count();
            format!("job {job}: {}", progress(done, failed, open.len(), seconds))
        });
        thread::sleep(LOOK);
    }
}

/// Runs the cells of a task. The exit code says whether all have finished.
pub fn run_task(path: &Path, task: usize, jobs: usize) -> Result<u8> {
    let plan = read_plan(path)?;
    if plan.version != env!("CARGO_PKG_VERSION") {
        let (theirs, ours) = (&plan.version, env!("CARGO_PKG_VERSION"));
        bail!("the study was started by selvedge {theirs}, and this node has {ours}: install one version on all nodes");
    }
    let Some(study) = path.parent().and_then(Path::parent) else {
        bail!("{}: not the plan of a study", path.display());
    };
    let (store, interrupt) = (Store::new(study), Interrupt::listen()?);
    let _lock = store.lock(true)?;
    let study = Study { folder: plan.folder, store: &store, interrupt: &interrupt, jobs, quiet: true };
    let own: Vec<Cell> = plan.cells.into_iter().skip(task).step_by(plan.tasks.max(1)).collect();
    let failed = study.run(&study.open(&own), &|cell| cell.id.clone())?;
    Ok(match (interrupt.is_set(), failed) {
        (true, _) => EXIT_INTERRUPTED,
        (false, 0) => 0,
        _ => EXIT_FAILED,
    })
}

fn read_plan(path: &Path) -> Result<Plan> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{}: not the plan of a study", path.display()))
}

/// The array of this study that is in the queue.
fn running(store: &Store) -> Result<Option<String>> {
    let Ok(job) = fs::read_to_string(job_file(store)) else { return Ok(None) };
    let is_there = is_in_queue(&job).with_context(|| {
        let file = job_file(store);
        format!("whether job {job} of this study still runs; remove {} if it does not", file.display())
    })?;
    Ok(is_there.then_some(job))
}

fn job_file(store: &Store) -> PathBuf {
    store.folder().join(FOLDER).join("job")
}

fn is_in_queue(job: &str) -> Result<bool> {
    let said = Command::new("squeue").args(["--noheader", "--format=%i", "--jobs", job]).output();
    let said = said.context("cannot start squeue")?;
    let why = String::from_utf8_lossy(&said.stderr);
    match said.status.success() {
        true => Ok(!said.stdout.trim_ascii().is_empty()),
        // Slurm forgets a job some minutes after its end.
        false if why.contains("Invalid job id") => Ok(false),
        false => bail!("squeue: {}", why.trim()),
    }
}

fn need_sbatch() -> Result<(), Usage> {
    match Command::new("sbatch").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Usage(
            "--slurm: sbatch is not in PATH: start the study on a host of the cluster (Debian: slurm-client), or leave \
             --slurm out to use the cores of this one; --dry-run --slurm prints the script"
                .to_owned(),
        )),
        Err(error) => Err(Usage(format!("--slurm: cannot start sbatch: {error}"))),
    }
}

/// Number of tasks: one for each cell, up to Slurm's limit.
fn tasks_of(cells: usize) -> usize {
    let said = Command::new("scontrol").args(["show", "config"]).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let limit = said.lines().find_map(|line| line.strip_prefix("MaxArraySize")?.split('=').nth(1)?.trim().parse().ok());
    cells.min(limit.map_or(TASKS_MAX, |limit: usize| limit.saturating_sub(1))).max(1)
}

fn script(folder: &Path, tasks: usize, options: &[String]) -> Result<String> {
    let executable = std::env::current_exe().context("cannot find this command's own file")?;
    let quoted = |path: &Path| {
        let text = path.to_str().with_context(|| format!("{}: not UTF-8; use another folder", path.display()))?;
        Ok::<_, anyhow::Error>(shlex::try_quote(text)?.into_owned())
    };
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        "#SBATCH --job-name=selvedge-study".to_owned(),
        "#SBATCH --ntasks=1".to_owned(),
        format!("#SBATCH --array=0-{}", tasks - 1),
        "#SBATCH --output=%A_%a.out".to_owned(),
    ];
    for option in options {
        if option.contains('\n') {
            return Err(Usage("--sbatch: an option of sbatch is one line".to_owned()).into());
        }
        lines.push(format!("#SBATCH {option}"));
    }
    let (executable, plan) = (quoted(&executable)?, quoted(&folder.join("plan.json"))?);
    let jobs = r#""${SLURM_CPUS_PER_TASK:-1}""#;
    lines.push(format!(r#"exec {executable} study {plan} --task "$SLURM_ARRAY_TASK_ID" --jobs {jobs}"#));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_a_task_for_each_part_of_the_plan() {
        let text = script(Path::new("/a b/slurm"), 100, &["--partition=long".to_owned()]).unwrap();
        assert!(text.contains("#SBATCH --array=0-99\n") && text.contains("#SBATCH --partition=long\n"), "{text}");
        assert!(text.contains("study '/a b/slurm/plan.json' --task \"$SLURM_ARRAY_TASK_ID\""), "{text}");
        assert!(script(Path::new("/a"), 1, &["--x\nrm".to_owned()]).is_err());
    }
}
