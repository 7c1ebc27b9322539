// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank for the tests of `selvedge run`.
//!
//!     rank hello           exchanges, waits, prints the result, leaves
//!     rank leave           joins and leaves
//!     rank die N           joins; rank N is killed by SIGKILL in the job; the others wait and exchange without it
//!     rank silent N        joins; rank N exits with 0 without leaving; the others wait
//!     rank abort N CODE    joins; rank N aborts the job

use std::process::ExitCode;

use selvedge_job::{Job, JobError};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let job = match Job::join() {
        Ok(job) => job,
        Err(error) => {
            eprintln!("rank: {error}");
            return ExitCode::FAILURE;
        }
    };
    assert!(job.under_selvedge_run());
    let me = job.rank() == number(1);
    let done = match args.first().map_or("", String::as_str) {
        "hello" => hello(&job),
        "leave" => job.finalize(),
        "die" if me => job.barrier().map(|()| die()),
        "die" => continue_without_one(&job),
        "silent" if me => job.barrier(),
        "silent" => job.barrier().and_then(|()| job.barrier()).and_then(|()| job.finalize()),
        "abort" if me => job.abort(i32::try_from(number(2)).unwrap_or(1), "as asked"),
        "abort" => job.barrier(),
        other => panic!("rank {other}?"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rank: {error}");
            ExitCode::FAILURE
        }
    }
}

fn die() {
    let killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    panic!("still there: {killed:?}");
}

fn hello(job: &Job) -> Result<(), JobError> {
    let all = job.exchange(&job.rank().to_le_bytes())?;
    let ranks: Vec<u32> =
        all.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    assert!(ranks.into_iter().eq(0..job.size()));
    job.barrier()?;
    println!("rank {} of {}", job.rank(), job.size());
    job.finalize()
}

fn continue_without_one(job: &Job) -> Result<(), JobError> {
    job.barrier()?;
    // This barrier completes when the launcher has detected the death.
    job.barrier()?;
    match job.exchange(b"x") {
        Err(JobError::PeerLost { rank }) => println!("rank {} misses rank {rank}", job.rank()),
        other => panic!("{other:?}"),
    }
    job.finalize()
}
