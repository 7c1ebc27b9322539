// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Joins the job under any launcher, exchanges, waits, and prints the result. The integration tests of `selvedge run`,
//! `mpiexec.hydra` and `prterun` start it.
//!
//!     hello [bytes]          exchange this many bytes
//!     hello abort            rank 1 aborts the job with code 7
//!     hello forget           no finalize
//!     hello own              use PMI-1 directly, on the same socket, while in the job

use std::io::{BufRead, BufReader, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use selvedge_job::{Job, JobError};

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    let job = match Job::join() {
        Ok(job) => job,
        Err(error) => {
            eprintln!("hello: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(&job, &what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: rank {}: {error}", job.rank());
            ExitCode::FAILURE
        }
    }
}

fn run(job: &Job, what: &str) -> Result<(), JobError> {
    let (rank, size) = (job.rank(), job.size());
    if what == "abort" && rank == 1 % size {
        job.abort(7, "as asked");
    }
    if what == "own" {
        use_pmi_directly();
        println!("rank {rank} of {size} job {} launcher {:?} spoke alone", job.name(), job.launcher());
        return job.finalize();
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
        job.under_selvedge_run()
    );
    if what != "forget" {
        job.finalize()?;
    }
    Ok(())
}

/// Acts as a program with its own PMI library. Every answer must belong to the request before it. After this finalize,
/// another one finds the connection closed.
fn use_pmi_directly() {
    let fd = std::env::var("PMI_FD").ok().and_then(|text| text.parse().ok()).expect("PMI_FD");
    // SAFETY: the launcher opened `fd` for this process, and neither `ManuallyDrop` nor the rest of the process closes it.
    let socket = ManuallyDrop::new(unsafe { UnixStream::from_raw_fd(fd) });
    let mut answers = BufReader::new(&*socket).lines();
    for (asked, answer) in [
        ("init pmi_version=1 pmi_subversion=1", "response_to_init"),
        ("barrier_in", "barrier_out"),
        ("get_maxes", "maxes"),
        ("barrier_in", "barrier_out"),
        ("finalize", "finalize_ack"),
    ] {
        (&*socket).write_all(format!("cmd={asked}\n").as_bytes()).expect("sent");
        let line = answers.next().expect("an answer").expect("text");
        assert!(line.split(' ').any(|word| word.strip_prefix("cmd=") == Some(answer)), "{asked}: {line}");
    }
}

fn pattern(rank: u32, round: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13 ^ rank ^ round << 4) as u8).collect()
}
