// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several jobs on one machine: what each loses beside the others.

use std::sync::Arc;

use selvedge_sim::jobs::placing::place_jobs;
use selvedge_sim::jobs::{JobDescription, Jobs};
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{End, JobSpan, Model, Options, Outcome, Ranks, Simulation, SimulationError, Variation};
use selvedge_sim::observers::by_job::{ByJob, FabricByJob};
use selvedge_sim::program::{Needs, Tasks};
use selvedge_sim::time::Time;

use crate::common::{crossbar, dragonfly, machine};

const SEED: u64 = 1;

struct Ran {
    outcome: Outcome,
    /// Time of each job from its start to the end of its last rank.
    times: Vec<Option<Time>>,
    fabric: FabricByJob,
}

fn spans(jobs: &[JobDescription], places: &[Vec<u32>]) -> Vec<JobSpan> {
    let span = |(job, nodes): (&JobDescription, &Vec<u32>)| JobSpan {
        ranks: nodes.len() as u32,
        start: job.start,
        background: job.background,
        variation: Variation { ppm_max: 10_000, seed: job.seed(SEED) },
    };
    jobs.iter().zip(places).map(span).collect()
}

/// Runs the jobs of these numbers on the places that they have beside all others.
fn run(network: Model, machine: &Arc<Machine>, lines: &[&str], of: &[usize]) -> Ran {
    let jobs: Vec<JobDescription> = lines.iter().map(|line| JobDescription::from_words(line).unwrap()).collect();
    let seeds: Vec<u64> = jobs.iter().map(|job| job.seed(SEED)).collect();
    let places = place_jobs(&machine.topology, &jobs, &seeds).unwrap();
    let (jobs, places): (Vec<_>, Vec<_>) = of.iter().map(|&at| (jobs[at].clone(), places[at].clone())).unzip();
    let prepare = |(job, nodes): (&JobDescription, &Vec<u32>)| {
        let prepared = job.prepare(machine, nodes, job.seed(SEED)).unwrap().unwrap();
        prepared.tasks(nodes.len() as u32, machine)
    };
    let mut tasks: Vec<Tasks> = jobs.iter().zip(&places).map(prepare).collect();
    let ranks = Jobs::new(tasks.iter_mut().map(|tasks| tasks as &mut dyn Ranks).collect());
    let spans = spans(&jobs, &places);
    let options = Options { network, placement: places.concat(), jobs: spans.clone(), ..Options::default() };
    let mut simulation = Simulation::new(machine.clone(), ranks, options).unwrap();
    let by_job = ByJob::new(&machine.topology, &places);
    let result = by_job.result();
    if network == Model::Packet {
        simulation.observe(Box::new(by_job));
    }
    let outcome = simulation.run(&mut |_| true);
    simulation.end_observation().unwrap();
    assert_eq!(outcome.end, End::Completed, "{lines:?}");
    drop(simulation);
    assert!(tasks.iter().all(|tasks| tasks.results().wrong.is_empty()));
    let mut first = 0;
    let times = spans.iter().map(|span| {
        let ends = &outcome.ended[first..first + span.ranks as usize];
        first += span.ranks as usize;
        let last = ends.iter().copied().collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(last - span.start)
    });
    let times = times.collect();
    let fabric = result.lock().unwrap().clone();
    Ran { outcome, times, fabric }
}

/// Returns the slowdown of each of two jobs beside the other.
fn slowdowns(network: Model, machine: &Arc<Machine>, lines: [&str; 2]) -> [f64; 2] {
    let both = run(network, machine, &lines, &[0, 1]);
    [0, 1].map(|job| {
        let alone = run(network, machine, &lines, &[job]);
        both.times[job].unwrap().0 as f64 / alone.times[0].unwrap().0 as f64
    })
}

#[test]
fn jobs_that_share_no_link_lose_nothing() {
    let torus = machine(&[]);
    let rows = ["a: program=allreduce sizes=8,4096 nodes=0-3", "b: program=all-to-all sizes=2048 nodes=4-7 start=3us"];
    let groups =
        ["a: program=all-to-all sizes=2048 nodes=group:0", "b: traffic=uniform load=0.9 messages=50 nodes=group:2"];
    for (machine, lines) in [(torus, rows), (dragonfly(), groups)] {
        for network in [Model::Packet, Model::Message] {
            assert_eq!(slowdowns(network, &machine, lines), [1.0, 1.0], "{lines:?}, {network:?}");
        }
        assert!(run(Model::Packet, &machine, &lines, &[0, 1]).fabric.shared().is_empty());
    }
}

#[test]
fn two_jobs_on_one_link_take_twice_as_long() {
    // On a line of four routers, 0 to 2 and 1 to 3 share the link between 1 and 2.
    let line = machine(&[("topology.dimensions", "[4]"), ("topology.wrap", "[false]")]);
    let lines = [
        "a: traffic=neighbour load=1 messages=200 message-bytes=1K nodes=0,2",
        "b: traffic=neighbour load=1 messages=200 message-bytes=1K nodes=1,3",
    ];
    // Whole messages take the link in the order in which they departed, so one job may end before the other.
    for (network, least) in [(Model::Packet, 1.7), (Model::Message, 1.2)] {
        let [a, b] = slowdowns(network, &line, lines);
        assert!(a.min(b) >= least && (1.6..=2.1).contains(&a.max(b)), "{a} and {b}, {network:?}");
    }
    let ran = run(Model::Packet, &line, &lines, &[0, 1]);
    assert_eq!(ran.fabric.shared().len(), 2, "both directions of one link");
    for channel in ran.fabric.shared() {
        let [a, b] = ran.fabric.of_channel(channel) else { panic!("two jobs") };
        assert!(a.0.abs_diff(b.0) * 20 < a.0, "{a} and {b}");
    }
    let statistics = &ran.outcome.statistics;
    assert_eq!(statistics.jobs.iter().map(|job| job.messages).sum::<u64>(), statistics.messages);
    assert_eq!(statistics.jobs.iter().map(|job| job.latency.len()).sum::<u64>(), statistics.latency.len());
    assert!(ran.fabric.jobs.iter().all(|job| job.injected == job.delivered && job.lost == 0 && job.blocked > 0));
}

#[test]
fn a_job_alone_runs_as_without_jobs() {
    let torus = machine(&[]);
    let job = JobDescription::from_words("a: program=uniform messages=20 nodes=0-15 seed=3").unwrap();
    let nodes: Vec<u32> = (0..16).collect();
    let mut tasks = job.prepare(&torus, &nodes, 3).unwrap().unwrap().tasks(16, &torus);
    let variation = Variation { ppm_max: 10_000, seed: 3 };
    let mut plain = Simulation::new(torus.clone(), tasks, Options { variation, ..Options::default() }).unwrap();
    let plain = plain.run(&mut |_| true);
    tasks = job.prepare(&torus, &nodes, 3).unwrap().unwrap().tasks(16, &torus);
    let span = JobSpan { ranks: 16, start: Time::ZERO, background: false, variation };
    let options = Options { jobs: vec![span], ..Options::default() };
    let mut beside = Simulation::new(torus, Jobs::new(vec![&mut tasks]), options).unwrap();
    let beside = beside.run(&mut |_| true);
    assert_eq!((plain.statistics.hash, plain.ended), (beside.statistics.hash, beside.ended));
    assert_eq!(beside.statistics.jobs[0].messages, plain.statistics.messages);
}

#[test]
fn background_slows_down_and_ends_with_the_foreground() {
    let line = machine(&[("topology.dimensions", "[4]"), ("topology.wrap", "[false]")]);
    let lines =
        ["solver: program=all-to-all sizes=65536 nodes=0,2", "noise: traffic=neighbour load=1 nodes=1,3 start=1us"];
    for network in [Model::Packet, Model::Message] {
        let beside = run(network, &line, &lines, &[0, 1]);
        let alone = run(network, &line, &lines, &[0]);
        assert!(beside.times[0] > alone.times[0].map(|time| time * 101 / 100), "{network:?}");
        assert!(Some(beside.outcome.time) <= beside.times[0], "no later event");
        assert!(beside.times[1].is_none() && beside.outcome.statistics.jobs[1].messages > 50);
        let again = run(network, &line, &lines, &[0, 1]);
        assert_eq!(beside.outcome.statistics.hash, again.outcome.statistics.hash);
    }
}

#[test]
fn numbers_of_a_job_do_not_depend_on_others() {
    // On a crossbar of which each job uses its own half, nothing is shared.
    let crossbar = crossbar(&[]);
    let lines = [
        "a: traffic=uniform load=0.9 messages=40 nodes=0-4",
        "b: traffic=hotspot:0:0.3 load=0.7 messages=30 nodes=5-9",
        "c: program=uniform messages=20 nodes=10-15",
    ];
    let all = run(Model::Packet, &crossbar, &lines, &[0, 1, 2]);
    for (number, job) in all.outcome.statistics.jobs.iter().enumerate() {
        let alone = run(Model::Packet, &crossbar, &lines, &[number]);
        assert_eq!(alone.times[0], all.times[number], "job {number}");
        assert_eq!(alone.outcome.statistics.jobs[0].latency, job.latency, "job {number}");
    }
}

#[test]
fn a_stuck_job_is_stuck_beside_endless_traffic() {
    let torus = machine(&[]);
    let noise = JobDescription::from_words("noise: traffic=uniform load=0.5").unwrap();
    let nodes: Vec<u32> = (4..16).collect();
    let mut traffic = noise.prepare(&torus, &nodes, SEED).unwrap().unwrap().tasks(12, &torus);
    // Rank 0 computes for longer than the time between two looks, then rank 1 waits for ever.
    let mut stuck = Tasks::new(2, &torus, &Needs::default(), |process| {
        Box::pin(async move {
            if process.rank() == 0 {
                process.compute(Time::from_ns(350_000)).await;
                process.put_counting(1, 0, 0, &[1; 8]).await;
                return 0;
            }
            process.wait_count(0, 2).await;
            0
        })
    });
    let span = |ranks, background| JobSpan { ranks, start: Time::ZERO, background, variation: Variation::default() };
    let options =
        || Options { placement: (2..16).collect(), jobs: vec![span(2, false), span(12, true)], ..Options::default() };
    let ranks = Jobs::new(vec![&mut stuck, &mut traffic]);
    let outcome = Simulation::new(torus.clone(), ranks, options()).unwrap().run(&mut |_| true);
    let End::Stuck(waiting) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(waiting.iter().map(|waiting| waiting.rank).collect::<Vec<_>>(), [1]);
    assert!((Time::from_ns(350_000)..Time::from_ns(600_000)).contains(&outcome.time), "{}", outcome.time);
}

#[test]
fn jobs_that_do_not_make_a_run_are_refused() {
    let torus = machine(&[]);
    let noise = JobDescription::from_words("noise: traffic=uniform load=0.5").unwrap();
    let nodes: Vec<u32> = (0..16).collect();
    let tasks = || noise.prepare(&torus, &nodes, SEED).unwrap().unwrap().tasks(16, &torus);
    let span = |ranks| JobSpan { ranks, start: Time::ZERO, background: true, variation: Variation::default() };
    let made = |spans: Vec<JobSpan>, time_limit| {
        Simulation::new(torus.clone(), tasks(), Options { jobs: spans, time_limit, ..Options::default() })
    };
    assert!(matches!(made(vec![span(15)], Time::MAX), Err(SimulationError::RanksOfJobs { ranks: 16, of_jobs: 15 })));
    assert!(matches!(made(vec![span(16)], Time::MAX), Err(SimulationError::NoEnd)));
    let limited = made(vec![span(16)], Time::from_ns(200_000)).unwrap().run(&mut |_| true);
    assert_eq!(limited.end, End::Interrupted);
    assert!(limited.statistics.messages > 100, "{}", limited.statistics.messages);
}
