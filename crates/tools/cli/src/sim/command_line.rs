// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `selvedge sim`, and the machine and plan that it describes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use selvedge_fabric::Topology;
use selvedge_sim::jobs::{JobDescription, NodeSet, Work};
use selvedge_sim::machine::{Machine, load};
use selvedge_sim::node::{Death, Fault, Model, Variation};
use selvedge_sim::rerouting::{Detection, RerouteConfig};
use selvedge_sim::time::Time;

use super::arguments::{self, Compute, FailedLink, FailedNode, FailedRouter, Percent};
use super::jobs::{JobOptions, JobPlan};
use super::observing::Observing;
use super::output::Output;
use super::program_options::ProgramOptions;
use super::runner::{NetworkModel, Placement, RunPlan, place};
use super::usage::Usage;
use super::{faults, machines, routes};

/// Simulate a machine, and run programs or traffic on it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("what")
          .args(["command", "program", "traffic", "study", "describe", "routes", "list"]))]
#[command(group = clap::ArgGroup::new("any").required(true).multiple(true)
          .args(["command", "program", "traffic", "study", "describe", "routes", "list", "job", "jobs"]))]
pub struct Args {
    /// The machine: a TOML file, or the name of a machine that comes with Selvedge
    #[arg(short, long, value_name = "MACHINE", required_unless_present_any = ["list", "study"])]
    pub machine: Option<String>,

    /// Run a built-in program; --list shows them
    #[arg(long, value_name = "NAME", help_heading = "What to simulate")]
    pub program: Option<String>,

    /// Send traffic of a pattern through the network alone; --list shows the patterns
    #[arg(long, value_name = "PATTERN", help_heading = "What to simulate")]
    pub traffic: Option<String>,

    /// Run the study of blocking and deadlock on mesh and torus, by routing and locality (seed 002, figures 2-20 to
    /// 2-22)
    #[arg(long, help_heading = "What to simulate")]
    pub study: bool,

    /// Describe the machine: topology, latencies, deadlock freedom, each number with its source
    #[arg(long, help_heading = "What to simulate")]
    pub describe: bool,

    /// Print the routing strings between two nodes, given by number or name: the port at each router
    #[arg(long, value_names = ["A", "B"], num_args = 2, help_heading = "What to simulate")]
    pub routes: Option<Vec<String>>,

    /// List machines, built-in programs with their parameters, and patterns of traffic
    #[arg(long, help_heading = "What to simulate")]
    pub list: bool,

    /// Number of ranks, also -np [default: one on each node for built-in programs, else 1]
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Option<u32>,

    #[command(flatten)]
    pub program_options: ProgramOptions,

    #[command(flatten)]
    pub traffic_options: TrafficOptions,

    /// Ranks on each node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_per_node: u32,

    /// Placement of ranks on nodes
    #[arg(long, value_enum, default_value_t)]
    pub placement: Placement,

    /// Nodes on which the ranks may be: 0-63, 0-127/4, group:0-1
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<NodeSet>,

    #[command(flatten)]
    pub job_options: JobOptions,

    /// The seed of all random numbers
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Threads that simulate traffic or a built-in program; the results are the same for every number [default: the
    /// cores, fewer for few nodes or ranks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// Programs: model of the network
    #[arg(long, value_enum, default_value_t, value_name = "MODEL")]
    pub network: NetworkModel,

    /// Programs: random variation of the steps of hosts, in percent, drawn from the seed [default: 1 for real
    /// processes, none for built-in programs]
    #[arg(long, value_name = "none|PERCENT", value_parser = arguments::variation)]
    pub variation: Option<Percent>,

    /// End the run at this virtual time, as in 10ms, with exit code 124; a number alone is in seconds
    #[arg(long, value_name = "TIME", value_parser = arguments::time_limit)]
    pub time_limit: Option<Time>,

    /// Real processes: report on this region alone, which the program marks (selvedge_region_begin, shmemx_region_begin;
    /// main: MPI_Pcontrol, shmem_pcontrol)
    #[arg(long, value_name = "NAME", value_parser = arguments::region)]
    pub region: Option<String>,

    /// Real processes: virtual seconds for each second of CPU time that a rank uses here
    #[arg(long, value_name = "none|FACTOR", default_value = "none", value_parser = arguments::compute)]
    pub compute: Compute,

    /// MPI and OpenSHMEM programs: let the machine's switches reduce, for at most GROUPS communicators or teams at once
    /// [without a number: as many as the switches have room for, up to 16]
    #[arg(long, value_name = "GROUPS", num_args = 0..=1, require_equals = true,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub aggregation: Option<Option<u32>>,

    /// Real processes: set an environment variable in the ranks; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = arguments::parameter)]
    pub env: Vec<(String, String)>,

    /// Real processes: write the ranks' output in whole lines, each marked with its rank
    #[arg(long)]
    pub tag_output: bool,

    /// Fail the link between two routers at a time, and restore it: 0-1@10us-20us; may be given several times
    #[arg(long, value_name = "A-B@TIME[-TIME]", value_parser = arguments::failed_link, help_heading = "Machine")]
    pub fail_link: Vec<FailedLink>,

    /// Fail a router with all its links, from the beginning or at a time, and let it return: 4@10us-20us; may be given
    /// several times
    #[arg(long, value_name = "ROUTER[@TIME[-TIME]]", value_parser = arguments::failed_router, help_heading = "Machine")]
    pub fail_router: Vec<FailedRouter>,

    /// Keep the routes as they are when links or routers fail. Otherwise each router has a manager, which floods the
    /// change and reroutes
    #[arg(long, help_heading = "Machine")]
    pub no_reroute: bool,

    /// How a router notices a failed link: it loses its carrier at once, or hellos do not arrive
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        conflicts_with = "no_reroute",
        help_heading = "Machine"
    )]
    pub fault_detection: FaultDetection,

    /// Cut a node off from its router at a time, and rejoin it: 3@10us-20us; may be given several times
    #[arg(long, value_name = "NODE@TIME[-TIME]", value_parser = arguments::failed_node, help_heading = "Machine")]
    pub fail_node: Vec<FailedNode>,

    /// Kill a rank at a time: 3@10us; may be given several times, for different ranks
    #[arg(long, value_name = "RANK@TIME", value_parser = arguments::death, help_heading = "Machine")]
    pub kill: Vec<Death>,

    /// Let the other ranks continue when one dies
    #[arg(long)]
    pub keep_going: bool,

    /// Probability that a link loses a packet; overrides link.loss
    #[arg(long, value_name = "SHARE", value_parser = arguments::share, help_heading = "Machine")]
    pub loss: Option<f64>,

    /// Probability that a link corrupts a packet; overrides link.corruption
    #[arg(long, value_name = "SHARE", value_parser = arguments::share, help_heading = "Machine")]
    pub corruption: Option<f64>,

    /// Change a key of the machine, as in link.latency_ns=20; may be given several times
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = arguments::assignment, help_heading = "Machine")]
    pub set: Vec<(String, String)>,

    /// Take the routes of pairs of nodes from a file, with lines `FROM TO ports PORT...` or `FROM TO via ROUTER...`;
    /// all other pairs keep the machine's algorithm
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub routes_from: Option<PathBuf>,

    #[command(flatten)]
    pub output: Output,

    #[command(flatten)]
    pub observing: Observing,

    /// Real processes: record the transitions of each NIC, one file a NIC, in this folder; `selvedge rtl replay` runs
    /// them through the RTL
    #[arg(long, value_name = "FOLDER")]
    pub record: Option<PathBuf>,

    /// Record this rank only
    #[arg(long, value_name = "RANK", requires = "record")]
    pub record_rank: Option<u32>,

    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM [ARGS]", num_args = 1.., trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

const USAGE: &str = "\
selvedge sim -n N --machine MACHINE [OPTIONS] [--] PROGRAM [ARGS]...
       selvedge sim -n N --machine MACHINE --program NAME [OPTIONS]
       selvedge sim --machine MACHINE --job 'NAME: KEY=VALUE ...' [OPTIONS]
       selvedge sim --machine MACHINE --traffic PATTERN [OPTIONS]
       selvedge sim --machine MACHINE --describe
       selvedge sim --machine MACHINE --routes A B
       selvedge sim --study | --list";

const AFTER_HELP: &str = "\
Times on standard output are virtual, except in lines that begin with `wall`; everything else is the same in each run. With --json \
and no file, JSON replaces the tables. Ctrl-C ends a simulation and writes its results so far; a second one ends it at once.

Exit code: the first exit code of a rank that is not 0, 137 for a killed rank; 1 when ranks are stuck; 2 for an invalid command line or machine; \
124 at the limit of virtual time; 130 after Ctrl-C; 126 or 127 for a program that cannot be started or found.";

/// Options of `--traffic`.
#[derive(clap::Args, Clone, Debug)]
pub struct TrafficOptions {
    /// Fraction of time that messages occupy the injection channels; several, for a curve: 0.1,0.2,0.3
    #[arg(long, value_name = "SHARE[,SHARE]", value_delimiter = ',', default_value = "0.3", value_parser = arguments::share,
          help_heading = "Traffic")]
    pub load: Vec<f64>,

    /// Payload of each message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = crate::values::size_in(0..=u32::MAX), help_heading = "Traffic")]
    pub message_bytes: u32,

    /// Virtual time before measurement starts
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = arguments::time, help_heading = "Traffic")]
    pub skip: Time,

    /// Virtual time that is measured
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = arguments::time, help_heading = "Traffic")]
    pub measured: Time,

    /// Virtual time after measurement in which messages in flight may still arrive
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = arguments::time, help_heading = "Traffic")]
    pub drain: Time,

    /// Packets that may wait at a node; while there are more, it makes no message
    #[arg(long, value_name = "PACKETS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Traffic")]
    pub source_packets: u32,

    /// End at the first deadlock and show its cycle, instead of removing a packet from it
    #[arg(long, help_heading = "Traffic")]
    pub stop_at_deadlock: bool,

    /// Virtual time after which a packet is removed from a deadlock
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = arguments::time,
          conflicts_with = "stop_at_deadlock", help_heading = "Traffic")]
    pub deadlock_delay: Time,
}

/// How a router notices a failed link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FaultDetection {
    #[default]
    Carrier,
    Hellos,
}

/// The refusal of `--region` for programs and traffic of this command.
pub const NO_REGIONS: &str = "--region is for programs of your own: built-in programs and traffic mark no regions";

impl Args {
    /// The failures and repairs of channels, in order of time.
    pub fn faults(&self, topology: &Topology) -> Result<Vec<Fault>, Usage> {
        faults::changes(topology, &self.fail_link, &self.fail_node, &self.fail_router)
    }

    /// Managers for the routers, if links or routers fail and their routes may change.
    pub fn rerouting(&self, topology: &Topology) -> Result<Option<RerouteConfig>, Usage> {
        if self.no_reroute || self.fail_link.is_empty() && self.fail_router.is_empty() {
            return Ok(None);
        }
        let detection = match self.fault_detection {
            FaultDetection::Carrier => Detection::Carrier,
            FaultDetection::Hellos => Detection::Hellos,
        };
        Ok(Some(RerouteConfig { detection, routers: faults::routers(topology, &self.fail_router)? }))
    }

    /// Loads the machine and applies the changes of this command line.
    pub fn load_machine(&self) -> Result<Arc<Machine>, Usage> {
        let Some(name) = &self.machine else {
            return Err(Usage("give a machine with --machine; --list shows the known ones".to_owned()));
        };
        let path = machines::find(name)?;
        let mut overrides = self.set.clone();
        overrides.extend(self.loss.map(|share| ("link.loss".to_owned(), format!("{share:?}"))));
        overrides.extend(self.corruption.map(|share| ("link.corruption".to_owned(), format!("{share:?}"))));
        let mut machine = load::load_with(&path, &overrides).map_err(|error| Usage(error.to_string()))?;
        machine.network.seed = self.seed;
        self.observing.change(&mut machine)?;
        if let Some(file) = &self.routes_from {
            routes::take_from(&mut machine, file)?;
        }
        Ok(Arc::new(machine))
    }

    /// The plan that built-in and real programs share.
    pub fn plan(
        &self,
        machine: &Arc<Machine>,
        program: String,
        parameters: Vec<(String, String)>,
        ranks: u32,
        variation_default: Percent,
        jobs: Vec<JobPlan>,
    ) -> Result<RunPlan> {
        let faults = self.faults(&machine.topology)?;
        let deaths = faults::deaths(ranks, &self.kill)?;
        Model::from(self.network).check(machine).map_err(|error| Usage(error.to_string()))?;
        if self.region.is_some() && self.program.is_some() {
            return Err(Usage(NO_REGIONS.to_owned()).into());
        }
        let variation = self.variation.unwrap_or(variation_default);
        let mut options = self.options();
        if variation.0 > 0.0 {
            options.push(("variation of hosts".to_owned(), format!("{} percent", variation.0)));
        }
        let plan = RunPlan {
            machine: machine.clone(),
            program,
            parameters,
            ranks,
            ranks_per_node: self.ranks_per_node,
            placement: self.placement,
            nodes: self.nodes.clone(),
            jobs,
            network: self.network.into(),
            seed: self.seed,
            variation: Variation { ppm_max: variation.parts_per_million(), seed: self.seed },
            time_limit: self.time_limit,
            faults,
            rerouting: self.rerouting(&machine.topology)?,
            deaths,
            keep_going: self.keep_going,
            aggregation: None,
            observing: self.observing.clone(),
            region: self.region.clone(),
            options,
        };
        // Checks the placement before any process is started.
        place(&plan)?;
        Ok(plan)
    }

    /// The program of this command line as the first of several jobs. Its name is that of the program's file.
    pub fn first_job(&self, program: &str, work: Work) -> Result<JobDescription, Usage> {
        let file = Path::new(program).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name: String =
            file.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
        let mut job = JobDescription::new(&name, work);
        (job.ranks, job.ranks_per_node, job.nodes) = (self.ranks, self.ranks_per_node, self.nodes.clone());
        (job.placement, job.seed) = (self.placement.into(), Some(self.seed));
        Ok(job)
    }

    /// Refuses options whose channels and nodes are those of the machine's file, where switches reduce.
    pub fn refuse_beside_switches(&self) -> Result<(), Usage> {
        let option = match (&self.routes_from, &self.observing.link_fault[..], &self.observing.link_correction[..]) {
            (None, [], []) => return Ok(()),
            (Some(_), ..) => "--routes-from",
            (None, [_, ..], _) => "--link-fault",
            (None, [], _) => "--link-correction",
        };
        Err(Usage(format!(
            "{option} is for machines whose switches do not reduce, because the file of such a machine has not all of its nodes; \
             leave it out, or --aggregation and --algorithm switches"
        )))
    }

    /// Options that the report shows.
    pub fn options(&self) -> Vec<(String, String)> {
        let mut options = vec![("seed".to_owned(), self.seed.to_string())];
        let mut add = |name: &str, value: String| options.push((name.to_owned(), value));
        if self.ranks_per_node > 1 {
            add("ranks per node", self.ranks_per_node.to_string());
        }
        if self.ranks_per_node > 1 || self.placement != Placement::Block {
            add("placement", format!("{:?}", self.placement).to_lowercase());
        }
        if let Some(nodes) = &self.nodes {
            add("nodes", nodes.to_string());
        }
        let until = |until: Option<Time>| until.map_or(String::new(), |until| format!(" to {until}"));
        let links = self.fail_link.iter().map(|link| {
            let (a, b) = &link.ends[0];
            format!("{a}-{b} from {}{}", link.at, until(link.until))
        });
        let nodes =
            self.fail_node.iter().map(|failed| format!("{} from {}{}", failed.node, failed.at, until(failed.until)));
        let routers = self.fail_router.iter();
        let routers = routers.map(|failed| format!("{} from {}{}", failed.router, failed.at, until(failed.until)));
        let deaths = self.kill.iter().map(|death| format!("rank {} at {}", death.rank, death.at));
        // One line for each option, because a JSON name has one value.
        let all = [
            ("failed link", links.collect::<Vec<_>>()),
            ("failed node", nodes.collect()),
            ("failed router", routers.collect()),
            ("killed", deaths.collect()),
        ];
        for (name, words) in all {
            if !words.is_empty() {
                add(name, words.join(", "));
            }
        }
        if self.no_reroute {
            add("rerouting", "none".to_owned());
        }
        if self.keep_going {
            add("keep going", "when a rank dies".to_owned());
        }
        let overrides = self.set.iter().map(|(key, value)| format!("{key}={value}"));
        let rates = [("link.loss", self.loss), ("link.corruption", self.corruption)];
        let rates = rates.iter().filter_map(|(key, share)| share.map(|share| format!("{key}={share}")));
        let changed: Vec<String> = overrides.chain(rates).collect();
        if !changed.is_empty() {
            add("machine changed", changed.join(", "));
        }
        if let Some(file) = &self.routes_from {
            add("routes from", file.display().to_string());
        }
        self.observing.options().into_iter().for_each(|(name, value)| add(&name, value));
        if let Some(limit) = self.time_limit {
            add("time limit", limit.to_string());
        }
        options
    }
}
