// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge aggregator`: an aggregation node on this host.

use std::process::ExitCode;

use anyhow::{Context, Result};
use selvedge_collectives::service::node::{AggregationNode, Settings};
use selvedge_job::own_place;
use selvedge_net::Progress;
use selvedge_process::hosts::link_settings;
use selvedge_process::process::start_logging;
use selvedge_process::settings::HostSettings;

/// Run an aggregation node: reduce data from processes of this host and from nodes of other hosts.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The manager [default: SELVEDGE_MANAGER]
    #[arg(long, value_name = "HOST:PORT")]
    manager: Option<String>,
}

const AFTER_HELP: &str = "\
Prints `ready` when the manager has taken it. One on each host is enough. SELVEDGE_NET_INTERFACE and the like say how other hosts \
reach this one (`selvedge info`).";

pub fn main(args: Args) -> Result<ExitCode> {
    start_logging("warn");
    if let Some(manager) = &args.manager {
        // SAFETY: this process has one thread, so no other thread reads the environment.
        unsafe { std::env::set_var("SELVEDGE_MANAGER", manager) };
    }
    let host_settings = HostSettings::from_environment();
    let manager = selvedge_process::settings::manager(host_settings.timeout).map_err(anyhow::Error::msg)?;
    let manager = manager.context("no manager is given: use --manager or set SELVEDGE_MANAGER")?;
    let links = link_settings(&host_settings.of_aggregation(manager.secret.clone()), None, Progress::Thread)?;
    let settings = Settings {
        manager: manager.at,
        secret: manager.secret,
        silence: manager.silence,
        place: own_place(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        member_ni: selvedge_collectives::between_hosts::MEMBER_NI,
    };
    let node = AggregationNode::open(settings, links)?;
    let ended = node.run(|| super::say_ready("ready"));
    match ended {
        Ok(never) => match never {},
        Err(error) => Err(error.into()),
    }
}
