// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge manager`: the aggregation manager of some hosts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use selvedge_collectives::service::manager::{Service, Settings};
use selvedge_collectives::service::session::manager_report;
use selvedge_nic::aggregation::Limits;
use selvedge_process::hosts::own_address;
use selvedge_process::process::start_logging;
use selvedge_process::settings::ManagerAt;
use selvedge_process::settings::{self, HostSettings};

/// Manage the aggregation nodes of some hosts: trees, and each job's share of them.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Address to listen on, `address:port`; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7390")]
    listen: String,

    /// Save the state in this file, and start from it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Maximum number of hosts
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    hosts: u32,

    /// Maximum number of children of an aggregation node
    #[arg(long, value_name = "N", default_value_t = Limits::DEFAULT.children, value_parser = clap::value_parser!(u32).range(2..=64))]
    radix: u32,

    /// Share of each aggregation node that one job gets, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    share: u32,

    /// Maximum bytes of an operation; longer ones are carried out in pieces
    #[arg(long, value_name = "BYTES", default_value_t = 2048, value_parser = crate::values::size_in(64..=1 << 20))]
    bytes: u32,

    /// Print hosts, trees and jobs of the manager that SELVEDGE_MANAGER names
    #[arg(long)]
    show: bool,
}

const AFTER_HELP: &str = "\
Prints where it listens. Start `selvedge aggregator` on the hosts, and programs, with SELVEDGE_MANAGER set to this. \
SELVEDGE_MANAGER_SECRET, hexadecimal digits that all of them have, keeps strangers out. SELVEDGE_LOG=warn prints less. The daemon of a fabric without switches is `selvedge daemon`.";

pub fn main(args: Args) -> Result<ExitCode> {
    if args.show {
        start_logging("warn");
        let silence = selvedge_collectives::service::SILENCE;
        let at = settings::manager(silence).map_err(anyhow::Error::msg)?;
        let at: ManagerAt = at.context("SELVEDGE_MANAGER is not set; set it to the manager's address:port")?;
        print!("{}", manager_report(&at).map_err(anyhow::Error::msg)?);
        return Ok(ExitCode::SUCCESS);
    }
    start_logging("info");
    let found = args.listen.to_socket_addrs().with_context(|| format!("--listen {}", args.listen))?;
    let Some(at) = found.into_iter().next() else { bail!("--listen {}: the name has no address", args.listen) };
    let settings = Settings {
        secret: settings::manager_secret().map_err(anyhow::Error::msg)?,
        hosts: args.hosts,
        radix: args.radix,
        share: args.share,
        bytes: args.bytes,
        state: args.state,
        ..Settings::default()
    };
    let service = Service::open(at, settings)?;
    super::say_ready(&reached_at(service.at()?).to_string());
    Err(service.run()).context("the manager's listener failed")
}

/// Returns the address at which other hosts reach this listener.
fn reached_at(at: SocketAddr) -> SocketAddr {
    let own = at.ip().is_unspecified().then(|| own_address(&HostSettings::from_environment()).ok()).flatten();
    SocketAddr::new(own.unwrap_or(at.ip()), at.port())
}
