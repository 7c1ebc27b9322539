// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge manager`: the aggregation manager of some hosts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use selvedge_collectives::service::manager::{Service, Settings};
use selvedge_collectives::service::session::manager_report;
use selvedge_collectives::service::wire::ManagerReport;
use selvedge_nic::aggregation::Limits;
use selvedge_process::hosts::own_address;
use selvedge_process::process::start_logging;
use selvedge_process::settings::ManagerAt;
use selvedge_process::settings::{self, HostSettings};
use selvedge_terminal::{Table, print};

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

    /// With --show: print JSON
    #[arg(long, requires = "show")]
    json: bool,
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
        let report = manager_report(&at).map_err(anyhow::Error::msg)?;
        if args.json {
            crate::json::print(&report)?;
        } else {
            print(&text(&report))?;
        }
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

/// The report as tables. Text of other hosts comes without control characters.
fn text(report: &ManagerReport) -> String {
    let mut hosts = Table::new(&[">host", "name", ""]).indented(2);
    for host in &report.hosts {
        let node = host.node_address.as_ref();
        let node = node.map_or("no aggregation node".to_owned(), |at| format!("aggregation node, from {at}"));
        hosts.row([host.number.to_string(), host.name.clone(), node]);
    }
    let mut trees = Table::new(&[">tree", ">root", ">nodes"]).indented(2);
    report.trees.iter().for_each(|tree| trees.row([tree.number, tree.root, tree.nodes].map(|n| n.to_string())));
    let mut jobs = Table::new(&[">job", "name", "", ""]).indented(2);
    for job in &report.jobs {
        let is = job.failure.as_ref().map_or("open".to_owned(), |why| format!("without resources: {why}"));
        let processes = format!("{} processes at the manager", job.processes);
        jobs.row([job.number.to_string(), job.name.clone(), processes, is]);
    }
    let mut uses = Table::new(&[">node", "jobs", "groups", "blocks of operands"]).indented(2);
    for used in &report.uses {
        let of = |used: u64, most: u64| format!("{used} of {most}");
        uses.row([
            used.node.to_string(),
            of(used.jobs, used.jobs_max),
            of(used.groups, used.groups_max),
            of(used.operand_blocks, used.operand_blocks_max),
        ]);
    }
    let sections = [("hosts", hosts), ("trees", trees), ("jobs", jobs), ("use", uses)];
    let shown = |(title, table): (&str, Table)| match table.is_empty() {
        true => format!("{title}: none\n"),
        false => format!("{title}\n{}", table.text()),
    };
    sections.map(shown).concat()
}

/// Returns the address at which other hosts reach this listener.
fn reached_at(at: SocketAddr) -> SocketAddr {
    let own = at.ip().is_unspecified().then(|| own_address(&HostSettings::from_environment()).ok()).flatten();
    SocketAddr::new(own.unwrap_or(at.ip()), at.port())
}
