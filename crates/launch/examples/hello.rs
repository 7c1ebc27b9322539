// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Joins the job, whoever started it, exchanges, waits, and says what it saw. The integration tests of `selvedge run`,
//! `mpiexec.hydra` and `prterun` start it.
//!
//!     hello [bytes]          exchange so many bytes
//!     hello abort            rank 1 aborts the job with code 7
//!     hello forget           no finalize

use std::process::ExitCode;

use selvedge_launch::{Job, JobError};

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    let job = match Job::join() {
        Ok(job) => job,
        Err(error) => {
            eprintln!("hello: {error}");
            return ExitCode::FAILURE;
        }
    };
    match talk(&job, &what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: rank {}: {error}", job.rank());
            ExitCode::FAILURE
        }
    }
}

fn talk(job: &Job, what: &str) -> Result<(), JobError> {
    let (rank, size) = (job.rank(), job.size());
    if what == "abort" && rank == 1 % size {
        job.abort(7, "as asked");
    }
    let length = what.parse().unwrap_or(3000);
    for round in 0..3 {
        let all = job.exchange(&pattern(rank, round, length))?;
        let expected: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, round, length)).collect();
        assert_eq!(all, expected, "round {round}");
        job.barrier()?;
    }
    let lengths: Vec<usize> = job.exchange_each(&vec![7; rank as usize])?.iter().map(Vec::len).collect();
    assert_eq!(lengths, (0..size as usize).collect::<Vec<_>>());
    println!(
        "rank {rank} of {size} job {} launcher {:?} ours {} exchanged {length}",
        job.name(),
        job.launcher(),
        job.under_our_launcher()
    );
    if what != "forget" {
        job.finalize()?;
    }
    Ok(())
}

fn pattern(rank: u32, round: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13 ^ rank ^ round << 4) as u8).collect()
}
