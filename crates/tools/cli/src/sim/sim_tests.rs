// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invalid command lines, and the placement of ranks.

use std::sync::Arc;

use clap::Parser;
use selvedge_sim::machine::load::from_text;
use selvedge_sim::node::{Model, Variation};

use super::*;
use crate::sim::observing::Observing;
use crate::sim::runner::{Placement, RunPlan};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Args, String> {
    let words = std::iter::once("sim").chain(line.split_whitespace());
    Command::try_parse_from(words).map(|command| command.args).map_err(|error| error.to_string())
}

/// The error of a command line, from the parser or later.
fn refused(line: &str) -> String {
    let args = match parse(line) {
        Err(words) => return words,
        Ok(args) => args,
    };
    match args.output.check().map_err(anyhow::Error::from).and_then(|()| dispatch(&args)) {
        Err(error) if error.is::<Usage>() => error.to_string(),
        Err(error) => panic!("{line}: no error of usage: {error:#}"),
        Ok(code) => panic!("{line}: went on, with {code}"),
    }
}

fn machine_file(name: &str) -> String {
    format!("{}/../../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_parser_is_consistent() {
    use clap::CommandFactory;
    Command::command().debug_assert();
}

#[test]
fn exactly_one_thing_is_simulated() {
    let machine = machine_file("pac");
    assert!(refused("--machine m").contains("required"), "{}", refused("--machine m"));
    for two in ["--describe --study", "--program a --traffic b", "--traffic a -- ./program", "--list --describe"] {
        assert!(refused(&format!("--machine {machine} {two}")).contains("cannot be used with"), "{two}");
    }
    assert!(refused("--describe").contains("--machine"));
    assert!(refused(&format!("--machine {machine} --study")).contains("leave --machine out"));
}

#[test]
fn what_needs_one_thread_refuses_several() {
    let on = |machine: &str, rest: &str| refused(&format!("--machine {} --threads 2 {rest}", machine_file(machine)));
    assert!(on("torus16", "-- ./program").contains("one of the processes runs at a time"));
    assert!(on("torus16", "--program allreduce -n 2 --network message").contains("whole messages"));
    assert!(on("torus16", "--program allreduce -n 2 --fail-link (0,0)-(0,1)@1us").contains("--no-reroute"));
    assert!(on("torus16", "--program allreduce -n 2 --sample 1us:/nowhere").contains("observer"));
    assert!(on("torus16", "--traffic uniform --set switch.switching=wormhole").contains("give --threads 1"));
    assert!(on("torus16", "--traffic uniform --set link.latency_ns=0").contains("latency of 0"));
    assert!(on("torus16", "--traffic uniform --fail-link (0,0)-(0,1)@1us").contains("--no-reroute"));
    assert!(on("torus16", "--traffic uniform --sample 1us:/nowhere").contains("observer"));
    assert!(refused("--machine m --traffic uniform --threads 0").contains("1..=1024"));
}

#[test]
fn an_unknown_machine_is_reported_with_the_known_ones() {
    let words = refused("--machine no-such-machine --describe");
    assert!(words.contains("'no-such-machine'") && words.contains("there are"), "{words}");
    assert!(refused("--machine ./no/such.toml --describe").contains("no file ./no/such.toml"));
}

#[test]
fn overrides_are_checked_as_the_file_is() {
    let machine = machine_file("pac");
    let refused = |more: &str| refused(&format!("--machine {machine} --describe {more}"));
    assert!(refused("--set link.no_such_key=1").contains("no_such_key"));
    assert!(refused("--set latency=1").contains("section.key=value"));
    assert!(refused("--set link.bandwidth_MBps=0").contains("0 MB/s"));
    assert!(refused("--set topology.kind=moebius").contains("moebius"));
    assert!(refused("--loss 2").contains("0 to 1"));
}

#[test]
fn unknown_programs_and_patterns_are_reported() {
    let machine = machine_file("pac");
    let refused = |more: &str| refused(&format!("--machine {machine} {more}"));
    assert!(refused("--program no-such").contains("ping-pong"), "{}", refused("--program no-such"));
    assert!(refused("--program ping-pong --param no-such=1").contains("no-such"));
    assert!(refused("-n 2 --program ping-pong --sizes many").contains("many"));
    assert!(refused("--traffic uniform --sizes 8").contains("for --program"));
    assert!(refused("--traffic no-such").contains("uniform"), "{}", refused("--traffic no-such"));
    assert!(refused("--traffic uniform --load 0").contains("load"));
    assert!(refused("--traffic uniform --load 1.5").contains("0 to 1"));
    assert!(refused("--traffic uniform --measured 10").contains("no unit"));
    assert!(refused("--traffic uniform --trace t.json").contains("--trace"));
    assert!(refused("--traffic uniform --fail-link 0-1@1us").contains("are not two routers"));
    assert!(refused("--describe --fail-link 0-1@1us").contains("for programs and --traffic"));
}

#[test]
fn more_ranks_than_room_is_refused_before_anything_starts() {
    let machine = machine_file("pac");
    let words = refused(&format!("-n 4096 --machine {machine} -- /no/such/program"));
    assert!(words.contains("4096 ranks") && words.contains("--ranks-per-node"), "{words}");
    let words = refused(&format!("-n 2 --machine {machine} --fail-link 0-1@1us -- /no/such/program"));
    assert!(words.contains("--fail-link"), "{words}");
    assert!(refused("-n 0 --machine m --program a").contains("0 is not in 1.."));
}

#[test]
fn only_ranks_of_the_job_are_killed_and_each_once() {
    let machine = machine_file("pac");
    let refused = |more: &str| refused(&format!("--machine {machine} {more}"));
    for what in ["--program ping-pong", "-- /no/such/program"] {
        let words = refused(&format!("-n 2 --kill 2@1us {what}"));
        assert!(words.contains("no rank 2") && words.contains("0 to 1"), "{words}");
        assert!(refused(&format!("-n 2 --kill 1@1us --kill 1@2us {what}")).contains("rank 1 cannot die at"));
        assert!(refused(&format!("-n 2 --kill 1 {what}")).contains("RANK@TIME, as in 3@10us"));
        assert!(refused(&format!("-n 2 --kill 1@1 {what}")).contains("no unit"));
    }
    for what in ["--traffic uniform", "--describe"] {
        for option in ["--kill 0@1us", "--keep-going"] {
            assert!(refused(&format!("{what} {option}")).contains("are for programs"), "{what} {option}");
        }
    }
}

#[test]
fn hosts_vary_only_where_there_are_hosts() {
    let machine = machine_file("pac");
    for what in ["--traffic uniform", "--describe"] {
        assert!(refused(&format!("--machine {machine} {what} --variation 1")).contains("--variation is for programs"));
    }
    assert!(
        refused(&format!("--machine {machine} --program ping-pong --variation 60")).contains("none, or a percentage")
    );
}

#[test]
fn files_are_checked_before_the_simulation() {
    let machine = machine_file("pac");
    let refused = |more: &str| refused(&format!("--machine {machine} --describe {more}"));
    assert!(refused("--html /no/such/folder/page.html").contains("there is no folder /no/such/folder"));
    assert!(refused("--json /tmp").contains("is a folder"));
    assert!(refused("--svg /dev/null").contains("not a folder"));
    assert!(refused("--trace-limit 0").contains("trace-limit"));
    assert!(refused("--quiet --verbose").contains("cannot be used with"));
}

#[test]
fn json_takes_a_file_or_none() {
    let args = parse("--machine m --describe --json out.json").unwrap();
    assert!(args.describe);
    // An option after a bare --json is not its file.
    let args = parse("--machine m --json --program ping-pong").unwrap();
    assert_eq!(args.program.as_deref(), Some("ping-pong"));
    let args = parse("--machine m --json -- ./program --json").unwrap();
    assert_eq!(args.command, ["./program", "--json"]);
}

#[test]
fn parameters_of_programs_are_options() {
    let given = |line: &str| parse(&format!("--machine m --program p {line}")).unwrap().program_options;
    assert!(given("").is_empty());
    assert_eq!(
        format!("{:?}", given("--sizes 8,64 --param seed=5")),
        format!("{:?}", given("--param seed=5 --param sizes=8,64"))
    );
    assert!(
        parse("--machine m --program p --no-such-parameter 1")
            .is_err_and(|words| words.contains("--no-such-parameter"))
    );
}

#[test]
fn the_message_model_is_refused_where_it_does_not_apply() {
    let machine = machine_file("pac");
    let refused = |rest: &str| refused(&format!("--machine {machine} --network message {rest}"));
    for what in ["--traffic uniform", "--describe"] {
        assert!(refused(what).contains("is for programs"), "{}", refused(what));
    }
    let program = "--program barrier -n 2";
    assert!(refused(&format!("{program} --loss 0.1")).contains("--loss 0"));
    assert!(refused(&format!("{program} --set switch.switching=wormhole")).contains("switch.switching=cut-through"));
    assert!(parse("--machine m --program p --network flits").is_err());
    let options = parse("--machine m --program p --network message").map(|args| args.network);
    assert_eq!(options, Ok(NetworkModel::Message));
}

fn plan(ranks: u32, ranks_per_node: u32, placement: Placement, seed: u64) -> RunPlan {
    let text = std::fs::read_to_string(machine_file("pac")).unwrap();
    let machine = from_text(std::path::Path::new("pac.toml"), &text, &[]).unwrap();
    RunPlan {
        machine: Arc::new(machine),
        program: String::new(),
        parameters: Vec::new(),
        ranks,
        ranks_per_node,
        placement,
        nodes: None,
        jobs: Vec::new(),
        network: Model::Packet,
        seed,
        variation: Variation::default(),
        time_limit: None,
        faults: Vec::new(),
        rerouting: None,
        deaths: Vec::new(),
        keep_going: false,
        aggregation: None,
        observing: Observing::default(),
        region: None,
        options: Vec::new(),
    }
}

#[test]
fn ranks_are_placed_as_asked() {
    let place = |ranks, each, placement, seed| runner::place(&plan(ranks, each, placement, seed)).unwrap();
    assert_eq!(place(5, 2, Placement::Block, 1), [0, 0, 1, 1, 2]);
    assert_eq!(place(5, 2, Placement::RoundRobin, 1), [0, 1, 2, 0, 1]);
    let random = place(64, 2, Placement::Random, 1);
    assert_eq!(random, place(64, 2, Placement::Random, 1));
    assert_ne!(random, place(64, 2, Placement::Random, 2));
    let mut used = random.clone();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 32);
    assert!(random.chunks(2).all(|pair| pair[0] == pair[1]));
    assert!(runner::place(&plan(257, 2, Placement::Random, 1)).is_err());
}

#[test]
fn the_report_shows_the_options() {
    let line = "--machine m --program p --ranks-per-node 2 --set link.latency_ns=5 --loss 0.01 --fail-link 0-1@1us-2us --fail-link 2-3@4us --fail-node 3@2us --kill 3@5us --kill 1@6us --keep-going --time-limit 3ms";
    let options = parse(line).unwrap().options();
    let words: Vec<String> = options.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let expected = [
        "seed: 1",
        "ranks per node: 2",
        "placement: block",
        "failed link: 0-1 from 1.000 us to 2.000 us, 2-3 from 4.000 us",
        "failed node: 3 from 2.000 us",
        "killed: rank 3 at 5.000 us, rank 1 at 6.000 us",
        "keep going: when a rank dies",
        "machine changed: link.latency_ns=5, link.loss=0.01",
        "time limit: 3.000 ms",
    ];
    assert_eq!(words, expected);
}

#[test]
fn observers_are_refused_where_no_packets_run_once() {
    let machine = machine_file("torus16");
    for (line, words) in [
        ("--describe --sample 1us", "for programs and --traffic"),
        ("--program barrier --network message --sample 1us", "take --network packet"),
        ("--traffic uniform --load 0.1,0.2 --sample 1us", "give one --load"),
        ("--traffic uniform --sample 1us:/nowhere/s.csv", "in a folder that is there"),
    ] {
        let error = refused(&format!("--machine {machine} {line}"));
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn routes_of_a_file_are_checked_before_the_run() {
    let machine = machine_file("torus16");
    let error = refused(&format!("--machine {machine} --routes 0 9999"));
    assert!(error.contains("--routes: 9999 is not a node of this machine"), "{error}");
    let error = refused(&format!("--machine {machine} --describe --routes-from /nowhere/routes"));
    assert!(error.contains("--routes-from /nowhere/routes: No such file"), "{error}");
}
