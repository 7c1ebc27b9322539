// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge palms`: the test tools of PALMS, ATOLL's library (seed 002, sections 2.3.2 and 2.6.1): live on one host,
//! between hosts, or in virtual time.
//!
//! The tools are one program of the tree, `examples/extoll/palms`; this command starts it by `selvedge run` or
//! `selvedge sim`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::bench::process::Tree;

const PROGRAM: &str = "examples/extoll/palms";

/// Measure PALMS, ATOLL's library: latency, bandwidth, multicast, and a sink.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,

    /// Number of processes
    #[arg(short, long, value_name = "N", default_value_t = 2, global = true)]
    np: u32,

    /// Run between these hosts, as `selvedge run --hosts`
    #[arg(long, value_name = "LIST", global = true, conflicts_with = "machine")]
    hosts: Option<String>,

    /// Run in virtual time on this machine, as `selvedge sim --machine`
    #[arg(long, value_name = "NAME", global = true)]
    machine: Option<String>,

    /// Print JSON: one object for pingpong; for the other tools an object a line for each process
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Tool {
    /// Half a round trip between two processes, and bandwidth, by size
    Pingpong {
        /// Round trips of each size
        #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..))]
        rounds: u32,
    },
    /// Bandwidth from the first of two processes to the second
    Stream(Messages),
    /// Messages from the first process to all others at once
    Multicast(Messages),
    /// The first process receives all messages of the others and discards them
    Sink(Messages),
}

#[derive(clap::Args)]
struct Messages {
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Messages of each sender
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..u32::MAX as i64))]
    count: u32,
    /// Microseconds between two messages of a sender
    #[arg(long, value_name = "US", default_value_t = 0)]
    pause: u32,
}

const AFTER_HELP: &str = "\
All tools check what arrives. When the daemon of the fabric withdraws a route, the senders of stream, multicast and sink connect again, \
and say how often.

Examples:
  selvedge palms pingpong
  SELVEDGE_NET_INTERFACE=lo:selvedge selvedge palms stream --hosts a,b --size 1000000
  selvedge palms sink -n 8 --machine atoll";

pub fn main(args: Args) -> Result<ExitCode> {
    let program = Tree::find()?.prefix().join(PROGRAM);
    if !program.is_file() {
        bail!("{}: no such program; build it by `make build`", program.display());
    }
    let own = std::env::current_exe().context("the path of this command")?;
    let error = Command::new(own).args(starter(&args)).arg("--").arg(program).args(tool(&args)).exec();
    Err(error).context("`selvedge` cannot be started")
}

/// The command of `selvedge` that starts the program, with its options.
fn starter(args: &Args) -> Vec<OsString> {
    let count = args.np.to_string();
    let mut words: Vec<OsString> = match (&args.machine, &args.hosts) {
        (Some(machine), _) if args.json => ["sim", "--quiet", "--machine", machine].map(OsString::from).to_vec(),
        (Some(machine), _) => ["sim", "--machine", machine].map(OsString::from).to_vec(),
        (None, Some(hosts)) => vec!["run".into(), "--hosts".into(), hosts.into()],
        (None, None) => vec!["run".into()],
    };
    words.extend(["-n".into(), count.into()]);
    words
}

fn tool(args: &Args) -> Vec<String> {
    let mut words: Vec<String> = args.json.then(|| "--json".into()).into_iter().collect();
    let (name, messages) = match &args.tool {
        Tool::Pingpong { rounds } => {
            words.extend(["pingpong".into(), rounds.to_string()]);
            return words;
        }
        Tool::Stream(messages) => ("stream", messages),
        Tool::Multicast(messages) => ("multicast", messages),
        Tool::Sink(messages) => ("sink", messages),
    };
    words.extend([name.into(), messages.size.to_string(), messages.count.to_string(), messages.pause.to_string()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn words(line: &str) -> String {
        let args = Line::try_parse_from(["palms"].into_iter().chain(line.split_whitespace())).unwrap().args;
        let starter: Vec<String> = starter(&args).into_iter().map(|word| word.into_string().unwrap()).collect();
        format!("{} -- {}", starter.join(" "), tool(&args).join(" "))
    }

    #[test]
    fn tools_are_started_live_between_hosts_and_simulated() {
        assert_eq!(words("pingpong"), "run -n 2 -- pingpong 2000");
        assert_eq!(words("stream --hosts a,b --size 8 --pause 5"), "run --hosts a,b -n 2 -- stream 8 1000 5");
        assert_eq!(words("sink -n 8 --machine atoll"), "sim --machine atoll -n 8 -- sink 65536 1000 0");
        assert_eq!(
            words("sink --json --machine atoll"),
            "sim --quiet --machine atoll -n 2 -- --json sink 65536 1000 0"
        );
        assert_eq!(words("pingpong --json"), "run -n 2 -- --json pingpong 2000");
        assert!(Line::try_parse_from(["palms", "sink", "--machine", "a", "--hosts", "b"]).is_err());
        assert!(Line::try_parse_from(["palms", "pingpong", "--rounds", "9"]).is_err());
    }
}
