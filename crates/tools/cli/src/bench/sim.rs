// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench sim`: measures the speed of simulated machines beside SimGrid's SMPI, in one run.
//!
//! | measurement | contents |
//! |---|---|
//! | `allreduce` | 128 ranks, 1,000 allreduces of 8 bytes by recursive doubling on `cluster`: our program, with the network packet by packet and message by message; and the C program of `bench/sim` under `smpirun`, with the same algorithm and without computing |
//! | `hops` | packet-hop events a second of the network alone: a 16 x 16 torus under uniform traffic |
//!
//! Whole commands are measured, from start to end, one after another in turns; the median turn counts. SMPI is Debian's
//! package libsimgrid-dev; without it a message reports that there is no comparison.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use selvedge_terminal::{Progress, Table, paragraph, print};
use tempfile::TempDir;

use super::host::Host;
use super::process::{Tree, output};

/// Measure the simulator beside SimGrid's SMPI.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of turns of each side
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Number of ranks
    #[arg(short, long = "np", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=128))]
    n: u32,
    /// Number of allreduces
    #[arg(long, default_value_t = 1000)]
    iterations: u32,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

const PROGRAM: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/sim/allreduce.c"));
const PLATFORM: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/sim/platform.xml"));
const LIMIT: Duration = Duration::from_secs(300);

struct Smpi {
    directory: TempDir,
    version: String,
}

impl Smpi {
    fn find(ranks: u32) -> Result<Smpi> {
        let printed = output(Command::new("smpirun").arg("--version"), Duration::from_secs(30)).unwrap_or_default();
        let version = printed.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        let version = version.map_or("of unknown version".to_owned(), |word| word.trim_end_matches(',').to_owned());
        let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
        let at = |name: &str| directory.path().join(name);
        fs::write(at("allreduce.c"), PROGRAM)?;
        fs::write(at("platform.xml"), PLATFORM)?;
        let hosts: Vec<String> = (0..ranks).map(|rank| format!("node-{rank}\n")).collect();
        fs::write(at("hosts"), hosts.concat())?;
        let mut compile = Command::new("smpicc");
        compile.current_dir(directory.path()).args(["-O2", "allreduce.c", "-o", "allreduce"]);
        output(&mut compile, Duration::from_secs(120)).context("smpicc fails; it needs libsimgrid-dev (Debian)")?;
        Ok(Smpi { directory, version })
    }

    fn run(&self, args: &Args) -> Result<(Duration, String)> {
        let mut command = Command::new("smpirun");
        command.current_dir(self.directory.path());
        command.args(["-np", &args.n.to_string(), "-platform", "platform.xml", "-hostfile", "hosts"]);
        command.args(["--cfg=smpi/simulate-computation:no", "--cfg=smpi/allreduce:rdb", "--log=root.thres:error"]);
        command.arg("./allreduce").arg(args.iterations.to_string());
        timed(&mut command)
    }
}

fn timed(command: &mut Command) -> Result<(Duration, String)> {
    let began = Instant::now();
    let printed = output(command, LIMIT)?;
    Ok((began.elapsed(), printed))
}

const MODELS: [&str; 2] = ["packet", "message"];

fn ours(tree: &Tree, args: &Args, model: &str) -> Command {
    let mut command = tree.command();
    command.args([
        "sim",
        "-n",
        &args.n.to_string(),
        "--machine",
        "cluster",
        "--program",
        "allreduce",
        "--network",
        model,
        "--json",
        "--quiet",
    ]);
    command.args(["--iterations", &args.iterations.to_string(), "--sizes", "8"]);
    command
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

pub fn main(args: Args) -> Result<ExitCode> {
    let tree = Tree::find()?;
    let smpi = Smpi::find(args.n);
    if let Err(error) = &smpi {
        eprintln!("selvedge: SMPI is not measured: {error:#}");
    }
    let (mut own, mut peer) = ([const { Vec::new() }; MODELS.len()], Vec::new());
    let (mut own_output, mut peer_output) = (String::new(), String::new());
    let sides = MODELS.len() + usize::from(smpi.is_ok());
    let progress = Progress::steps(args.turns as usize * sides + 1);
    for turn in 1..=args.turns {
        for (model, times) in MODELS.iter().zip(&mut own) {
            progress.say(format!("selvedge sim --network {model}, turn {turn} of {}", args.turns));
            let (time, printed) = timed(&mut ours(&tree, &args, model)).context("selvedge sim")?;
            times.push(time);
            own_output = printed;
            progress.step();
        }
        if let Ok(smpi) = &smpi {
            progress.say(format!("SMPI, turn {turn} of {}", args.turns));
            let (time, printed) = smpi.run(&args).context("smpirun")?;
            peer.push(time);
            peer_output = printed;
            progress.step();
        }
    }
    progress.say("selvedge sim --traffic");
    let report: serde_json::Value = serde_json::from_str(&own_output).context("selvedge sim printed invalid JSON")?;
    let (network_time, network_output) = timed(tree.command().args([
        "sim",
        "--machine",
        "torus16",
        "--traffic",
        "uniform",
        "--load",
        "0.3",
        "--json",
        "--quiet",
    ]))
    .context("selvedge sim --traffic")?;
    drop(progress);
    let network: serde_json::Value = serde_json::from_str(&network_output)?;
    let hops = find_number(&network, "packet_hops_per_s");
    let (own, peer) = (own.map(middle), (!peer.is_empty()).then(|| middle(peer)));
    let ratio = |own: Duration| peer.map(|time| time.as_secs_f64() / own.as_secs_f64());
    let messages = find_number(&report, "messages");
    if args.json {
        let record = serde_json::json!({
            "ranks": args.n, "allreduces": args.iterations,
            "selvedge_s": own[0].as_secs_f64(), "selvedge_message_s": own[1].as_secs_f64(),
            "smpi_s": peer.map(|time| time.as_secs_f64()), "ratio": ratio(own[0]), "ratio_message": ratio(own[1]),
            "messages": messages, "network_hop_events_per_s": hops, "network_s": network_time.as_secs_f64(),
        });
        crate::json::print(&record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let about = format!(
        "{} ranks, {} allreduces of 8 bytes, recursive doubling; whole commands, the middle of {} turns",
        args.n, args.iterations, args.turns
    );
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let mut table = Table::new(&["command", ">time", ">SMPI takes"]).indented(2);
    for (model, own) in MODELS.iter().zip(own) {
        let beside = ratio(own).map_or(String::new(), |ratio| format!("{ratio:.1} x"));
        table.row([format!("selvedge sim --network {model}"), seconds(own), beside]);
    }
    if let (Ok(smpi), Some(peer)) = (&smpi, peer) {
        table.row([format!("SMPI {}", smpi.version), seconds(peer), String::new()]);
    }
    let mut text = paragraph(&Host::here().describe(), 0) + &paragraph(&about, 0) + &table.text();
    match peer {
        Some(_) => text += &paragraph(&format!("SMPI printed: {}", peer_output.trim()), 2),
        None => text += &paragraph("SMPI: not measured: apt install libsimgrid-dev", 2),
    }
    let Some(hops) = hops else { bail!("selvedge sim --traffic printed no rate of packet-hop events") };
    let network = format!(
        "network alone: {:.2} million packet-hop events a second (16 x 16 torus, uniform, load 0.3)",
        hops / 1e6
    );
    print(&(text + &paragraph(&network, 0)))?;
    Ok(ExitCode::SUCCESS)
}

fn find_number(value: &serde_json::Value, key: &str) -> Option<f64> {
    match value {
        serde_json::Value::Object(map) => map
            .get(key)
            .and_then(serde_json::Value::as_f64)
            .or_else(|| map.values().find_map(|value| find_number(value, key))),
        serde_json::Value::Array(values) => values.iter().find_map(|value| find_number(value, key)),
        _ => None,
    }
}
