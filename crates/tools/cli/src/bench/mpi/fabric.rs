// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fi_pingpong` (Debian: `libfabric-bin`) over our provider and over libfabric's `shm`: tagged messages between two pinned
//! processes, without an MPI. It reports a mean, not a median; the quickest of several turns counts.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_setaffinity};
use selvedge_launcher::environment::Target;

use super::scale::MpiScale;
use super::side::Provider;
use crate::bench::process::{Running, output};
use crate::bench::record::Measurement;

const SIZES: [u64; 4] = [64, 1024, 16384, 262_144];
/// Estimated time of a transfer, to choose the number of iterations.
const STEP_NS: f64 = 2000.0;
const LIMIT: Duration = Duration::from_secs(40);
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
const CONNECT_TRIES: u32 = 30;

/// One of the two providers that are compared.
#[derive(Clone, Copy)]
pub enum ComparedProvider<'a> {
    Measured(&'a Provider),
    Shm,
}

pub fn providers(provider: &Provider) -> [ComparedProvider<'_>; 2] {
    [ComparedProvider::Shm, ComparedProvider::Measured(provider)]
}

impl ComparedProvider<'_> {
    pub fn name(&self) -> &str {
        match self {
            ComparedProvider::Measured(provider) => provider.name(),
            ComparedProvider::Shm => "shm",
        }
    }

    pub fn is_shm(&self) -> bool {
        matches!(self, ComparedProvider::Shm)
    }

    fn command(&self, cpu: Option<usize>, arguments: &[String]) -> Result<Command> {
        let mut command = Command::new("fi_pingpong");
        command.args(["-p", self.name(), "-e", "rdm", "-m", "tagged"]).args(arguments);
        match self {
            ComparedProvider::Measured(provider) => {
                command.envs(provider.variables(Target::Ofi)?.into_iter().map(|v| (v.name, v.value)));
            }
            ComparedProvider::Shm => {
                command.env_remove("FI_PROVIDER").env_remove("FI_PROVIDER_PATH");
            }
        }
        if let Some(cpu) = cpu {
            let mut set = CpuSet::new();
            set.set(cpu);
            // SAFETY: the closure makes one system call between fork and exec, with a set that it owns.
            unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
        }
        Ok(command)
    }
}

pub fn measure(compared: ComparedProvider, scale: &MpiScale, cores: &[usize]) -> Result<Vec<Measurement>> {
    let sizes = if scale.tiny { &SIZES[..1] } else { &SIZES[..] };
    sizes.iter().map(|&size| one(compared, size, scale, cores)).collect()
}

fn one(compared: ComparedProvider, size: u64, scale: &MpiScale, cores: &[usize]) -> Result<Measurement> {
    let iterations = (super::batch::turn_ms(scale) * 1e6 / STEP_NS).clamp(100.0, 1e6) as u64;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port().to_string();
    let cpu = |n: usize| cores.get(n).copied().filter(|_| cores.len() >= 2);
    let common = ["-I".to_owned(), iterations.to_string(), "-S".to_owned(), size.to_string()];
    let with = |more: &[&str]| [&common[..], &more.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()].concat();
    let mut server = Running::start(&mut compared.command(cpu(1), &with(&["-B", &port]))?)
        .context("fi_pingpong is missing (Debian: libfabric-bin)")?;
    let printed = connect(compared, cpu(0), &with(&["-P", &port, "127.0.0.1"]));
    server.end();
    let printed = printed.map_err(|error| anyhow!("{error:#}{}", server.error_lines()))?;
    let ns = printed
        .lines()
        .rev()
        .find_map(ns_of)
        .ok_or_else(|| anyhow!("the output of fi_pingpong has no line of results:\n{printed}"))?;
    Ok(Measurement {
        case: format!("fi_pingpong:{}", compared.name()),
        size_bytes: Some(size),
        median_ns: Some(ns),
        ..Measurement::default()
    })
}

/// Runs the client, and repeats while the server does not listen yet.
fn connect(compared: ComparedProvider, cpu: Option<usize>, arguments: &[String]) -> Result<String> {
    let until = Instant::now() + LIMIT;
    for tried in 1.. {
        thread::sleep(CONNECT_PAUSE);
        let left = until.saturating_duration_since(Instant::now());
        match output(&mut compared.command(cpu, arguments)?, left) {
            Ok(printed) => return Ok(printed),
            Err(error) if tried == CONNECT_TRIES || left.is_zero() => return Err(error),
            Err(error) if !error.to_string().contains("Connection refused") => return Err(error),
            Err(_) => {}
        }
    }
    Err(anyhow!("the fi_pingpong server accepts no connection"))
}

/// Parses the time of a transfer from a line `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`.
fn ns_of(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [bytes, _, _, _, _, _, us, _] = words[..] else { return None };
    bytes.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    us.parse::<f64>().ok().map(|us| us * 1e3).filter(|ns| *ns > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_figures_is_parsed() {
        assert_eq!(ns_of("64      10k     =10k     1.2m        0.10s     12.58       5.09       0.20"), Some(5090.0));
        assert_eq!(ns_of("bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec"), None);
        assert_eq!(ns_of(""), None);
    }
}
