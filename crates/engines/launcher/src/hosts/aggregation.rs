// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run --aggregation` starts a manager for the job, and an aggregation node on each host. Launcher and agents kill them when they end.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::addresses::address_towards;
use super::poll_set::time_until;

const READY: Duration = Duration::from_secs(10);

/// Reasons why a manager or an aggregation node did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("this host cannot reach {host}")]
    Unreachable { host: IpAddr, source: io::Error },
    #[error("cannot start `selvedge {command}`")]
    Start { command: String, source: io::Error },
    #[error("`selvedge {command}` has no standard output")]
    NoOutput { command: String },
    #[error("`selvedge {command}` was not ready within {} s", READY.as_secs())]
    NotReady { command: String },
    #[error("`selvedge {command}` ended before it was ready")]
    Exited { command: String },
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A process of the job other than a rank. It is killed when this is dropped, or when this process ends.
pub(super) struct Service {
    child: Child,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// Starts this command with other arguments, and waits for its first line.
    fn start(words: &[&str], variables: &[(&str, String)]) -> Result<(Service, String), ServiceError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // SAFETY: `prctl` is a system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let name = || words.join(" ");
        let child = command.spawn().map_err(|source| ServiceError::Start { command: name(), source })?;
        let mut service = Service { child };
        let output = service.child.stdout.take();
        let mut output = output.ok_or_else(|| ServiceError::NoOutput { command: name() })?;
        let until = Instant::now() + READY;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut polled = [PollFd::new(&output, PollFlags::IN)];
            if poll(&mut polled, Some(&time_until(until))).map_err(io::Error::from)? == 0 {
                return Err(ServiceError::NotReady { command: name() });
            }
            let mut byte = [0];
            if output.read(&mut byte)? == 0 {
                return Err(ServiceError::Exited { command: name() });
            }
            line.push(byte[0]);
        }
        Ok((service, String::from_utf8_lossy(&line).trim().to_owned()))
    }
}

/// Starts a manager that `host` can reach. Returns it with its address.
pub(super) fn start_manager(host: IpAddr, secret: &str) -> Result<(Service, String), ServiceError> {
    let own = address_towards(host).map_err(|source| ServiceError::Unreachable { host, source })?;
    let own = SocketAddr::new(own, 0).to_string();
    // The ends of nodes and hosts are reported elsewhere, so the manager logs errors only.
    let words = ["manager", "--listen", &own];
    let level = selvedge_settings::text("SELVEDGE_LOG").unwrap_or_else(|| "error".to_owned());
    Service::start(&words, &[("SELVEDGE_MANAGER_SECRET", secret.to_owned()), ("SELVEDGE_LOG", level)])
}

/// Starts the aggregation node of this host, which others reach at `address`.
pub(super) fn start_node(manager: &str, address: IpAddr, secret: &str) -> Result<Service, ServiceError> {
    let variables = [
        ("SELVEDGE_MANAGER", manager.to_owned()),
        ("SELVEDGE_MANAGER_SECRET", secret.to_owned()),
        ("SELVEDGE_NET_ADDRESS", address.to_string()),
    ];
    Service::start(&["aggregator"], &variables).map(|(service, _)| service)
}
