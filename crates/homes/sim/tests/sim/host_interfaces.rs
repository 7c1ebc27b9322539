// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host interfaces (seed 002, chapter 6): the cost of each way, contention, refusals and fairness, split stores; and
//! full mailboxes, with the deadlock of figure 6-7.

use crate::common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use selvedge_sim::machine::Machine;
use selvedge_sim::machine::interface::{FullQueue, InterfaceKind};
use selvedge_sim::machine::load::load_with;
use selvedge_sim::node::{Death, End, Model, Options, Outcome, Simulation, Variation, Waiting};
use selvedge_sim::program::{Needs, Results, Tasks, ready};
use selvedge_sim::time::Time;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../machines/{name}.toml"))
}

fn machine(overrides: &[(&str, &str)]) -> Arc<Machine> {
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Arc::new(load_with(&file("extoll-ht400"), &overrides).unwrap_or_else(|error| panic!("{error}")))
}

fn by(way: InterfaceKind, overrides: &[(&str, &str)]) -> Arc<Machine> {
    machine(&[&[("interface.way", way.name())], overrides].concat())
}

/// Runs a program: two nodes with half of the ranks each, so that all senders of `commands` share a NIC.
fn run(machine: &Arc<Machine>, ranks: u32, line: &str, options: Options) -> (Outcome, Results) {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    let arguments: Vec<_> = rest.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let prepared = ready::find(&name).and_then(|ready| ready.prepare(ranks, machine, &arguments));
    let tasks = prepared.unwrap_or_else(|error| panic!("{line}: {error}")).tasks(ranks, machine);
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let results = simulation.ranks().results();
    (outcome, results)
}

fn side_by_side(ranks: u32) -> Options {
    Options { placement: (0..ranks).map(|rank| u32::from(rank >= ranks / 2)).collect(), ..Options::default() }
}

fn mean(results: &Results, series: &str) -> f64 {
    let all: Vec<f64> = results.of(series).map(|(_, y)| y).collect();
    assert!(!all.is_empty(), "no {series}: {results:?}");
    all.iter().sum::<f64>() / all.len() as f64
}

fn completed(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.end, End::Completed, "{what}");
    assert!(outcome.codes.iter().all(|code| *code == Some(0)), "{what}: {:?}", outcome.codes);
}

fn stuck(outcome: &Outcome) -> &[Waiting] {
    match &outcome.end {
        End::Stuck(waiting) => waiting,
        other => panic!("the run is not stuck: {other:?}"),
    }
}

const WAYS: [InterfaceKind; 9] = InterfaceKind::ALL;

/// One program alone: a call's time follows the formulas of sections 6.4.1 to 6.4.5.
#[test]
fn a_command_alone_costs_what_its_way_says() {
    // Library 150, posted 150, a read and its answer 150 each, a DMA read 350, dequeue 10, memory 70, kernel 300, system call 170;
    // a word takes 5.7 ns of the channel.
    let word = 8.0 / 1.4;
    let copied = 8.0 / 2.0;
    // The device reads 16 bytes of the descriptor.
    let fetch = 10.0 + 350.0 + 16.0 / 1.4;
    let figures = [
        (InterfaceKind::Classical, 300.0 + copied, 300.0 + copied + 150.0 + fetch),
        (InterfaceKind::TriggerPage, 70.0 + 300.0, 70.0 + 150.0 + fetch),
        (InterfaceKind::IoTransaction, 300.0 + word, 150.0 + word),
        (InterfaceKind::Cfcq, 0.0, 150.0),
        (InterfaceKind::CfcqData, 0.0, 150.0 + word),
        (InterfaceKind::OsSynchronised, 170.0, 170.0 + 150.0 + word),
        (InterfaceKind::Enqcmd, 300.0, 150.0),
        (InterfaceKind::Kernel, 300.0, 300.0 + 150.0 + word),
        (InterfaceKind::KernelInterrupt, 300.0, 300.0 + 150.0 + word),
    ];
    assert_eq!(figures.map(|row| row.0), WAYS);
    for (way, call, start) in figures {
        let machine = by(way, &[]);
        let (outcome, results) = run(&machine, 2, "commands count 20 pause-ns 2000", side_by_side(2));
        completed(&outcome, way.name());
        let found = mean(&results, "mean time of a call, ns");
        assert!((found - 150.0 - call).abs() < 0.1, "{}: a call took {found} ns, not {}", way.name(), 150.0 + call);
        let interface = machine.interface.as_ref().unwrap();
        assert!((interface.start(8).as_ns_f64() - start).abs() < 0.1, "{}: {:?}", way.name(), interface.start(8));
        // The statistics begin after the processor's part. The shortest are the barrier's empty messages.
        let driver = interface.driver.map_or(Time::ZERO, |pass| pass.latency);
        let part = interface.start(0).saturating_sub(interface.before + driver).as_ns_f64();
        let found = outcome.statistics.command_start.min() as f64 / 1e3;
        assert!((found - part).abs() <= part / 500.0, "{}: the NIC begins after {found} ns, not {part}", way.name());
    }
}

/// Section 8.5: the kernel adds 300 ns on each side, and an interrupt another microsecond.
#[test]
fn the_kernel_path_adds_its_time_on_each_side() {
    // Half a ping-pong of messages of 8 bytes.
    let one_way = |way| {
        let machine = by(way, &[]);
        let needs = Needs { units: true, ..Needs::default() };
        let tasks = Tasks::new(2, &machine, &needs, |process| {
            Box::pin(async move {
                let other = 1 - process.rank();
                for _ in 0..10 {
                    if process.rank() == 0 {
                        process.velo_send(other, 0, 0, &[1; 8]).await;
                        process.velo_receive().await;
                    } else {
                        process.velo_receive().await;
                        process.velo_send(other, 0, 0, &[1; 8]).await;
                    }
                }
                0
            })
        });
        let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
        let outcome = simulation.run(&mut |_| true);
        completed(&outcome, way.name());
        outcome.ended[0].unwrap_or_default().as_ns_f64() / 20.0
    };
    let (user, kernel, interrupt) =
        (one_way(InterfaceKind::CfcqData), one_way(InterfaceKind::Kernel), one_way(InterfaceKind::KernelInterrupt));
    let near = |found: f64, wanted: f64| (found - wanted).abs() < 1.0;
    assert!(near(kernel - user, 600.0) && near(interrupt - kernel, 1000.0), "{user} {kernel} {interrupt}");
}

/// Every way under contention, for real messages: nothing is lost or reordered (the receiver checks).
#[test]
fn many_programs_share_a_nic_by_every_way() {
    for way in WAYS {
        for places in ["1", "4"] {
            let machine = by(way, &[("interface.places", places)]);
            let (outcome, _) = run(&machine, 12, "commands bytes 64 count 100", side_by_side(12));
            let what = format!("{} with {places} places", way.name());
            completed(&outcome, &what);
            let s = &outcome.statistics;
            let full_queue = machine.interface.as_ref().unwrap().full_queue;
            assert!(s.commands >= 600, "{what}");
            assert_eq!(
                s.commands_refused > 0,
                full_queue == FullQueue::Refuse,
                "{what}: refused {}",
                s.commands_refused
            );
            assert_eq!(s.commands_waited > 0, full_queue != FullQueue::Refuse, "{what}: waited {}", s.commands_waited);
            assert_eq!(s.velo_discarded, 0, "{what}");
        }
    }
}

/// A program that waits for a place gets it in order of request. A refused program has no place in that order: with
/// pauses that suit others it may get none for long, but all succeed.
#[test]
fn waiting_is_fair_and_refusal_is_not() {
    let rates = |way, overrides: &[(&str, &str)]| {
        let machine = by(way, &[&[("interface.places", "2")], overrides].concat());
        let options = Options { variation: Variation { ppm_max: 10_000, seed: 7 }, ..side_by_side(16) };
        let (outcome, _) = run(&machine, 16, "commands bytes 64 count 150", options);
        completed(&outcome, way.name());
        let longest = outcome.commands[..8].iter().map(|rank| rank.waited_longest).max().unwrap_or_default();
        (outcome.fairness.unwrap_or_default(), longest)
    };
    let (stalled, wait) = rates(InterfaceKind::CfcqData, &[]);
    let (refused, longest) = rates(InterfaceKind::IoTransaction, &[]);
    assert!(stalled > 0.99, "the queue's order is not fair: {stalled}");
    assert!(refused < stalled, "{refused} is no less fair than {stalled}");
    assert!(longest > wait, "a refused program waited {longest}, one that has its turn {wait}");
}

/// Section 6.4.4: a store split by an interrupt arrives in two parts, which are joined; 16 bytes are never split.
#[test]
fn split_stores_come_whole() {
    let machine = by(InterfaceKind::CfcqData, &[("interface.splits_ppm", "300000")]);
    let (outcome, _) = run(&machine, 8, "commands bytes 64 count 200", side_by_side(8));
    completed(&outcome, "split");
    let split = outcome.statistics.commands_split;
    assert!((160..320).contains(&split), "{split} of 800 stores were split");
    let whole = run(&by(InterfaceKind::CfcqData, &[]), 8, "commands bytes 64 count 200", side_by_side(8)).0;
    assert_eq!(outcome.statistics.commands, whole.statistics.commands + split);
    assert!(outcome.time > whole.time, "the interrupts took no time");
    let (short, _) = run(&machine, 8, "commands bytes 16 count 200", side_by_side(8));
    completed(&short, "16 bytes");
    assert_eq!(short.statistics.commands_split, 0);
    // Lengths that are no multiple of a unit arrive with their own length.
    for bytes in [1, 7, 9, 17, 20, 33, 63] {
        let (outcome, _) = run(&machine, 4, &format!("commands bytes {bytes} count 100"), side_by_side(4));
        completed(&outcome, &format!("{bytes} bytes"));
        assert_eq!(outcome.statistics.commands_split > 0, bytes > 16, "{bytes} bytes");
    }
    // Both parts have their credits, so that neither waits for the other.
    let changes = [("nic.full_mailbox", "credits"), ("interface.splits_ppm", "300000"), SMALL];
    let (outcome, _) =
        run(&by(InterfaceKind::CfcqData, &changes), 2, "crossfire bytes 64 count 1000", Options::default());
    completed(&outcome, "credits and splits");
    assert_eq!(outcome.statistics.velo_discarded, 0);
    // With other ways a command is one store.
    let machine = by(InterfaceKind::IoTransaction, &[("interface.splits_ppm", "300000")]);
    assert_eq!(run(&machine, 8, "commands bytes 64 count 50", side_by_side(8)).0.statistics.commands_split, 0);
}

// ---- Figure 6-7 --------------------------------------------------------------------------------------------------------

const SMALL: (&str, &str) = ("limits.mailbox_slots", "64");

/// Both nodes block on full mailboxes, their fabrics fill, their queues fill, and both processors stand still in a store.
#[test]
fn blocking_completions_deadlock_two_senders() {
    for way in [InterfaceKind::Cfcq, InterfaceKind::CfcqData] {
        for refused in ["wait", "receive"] {
            let machine = by(way, &[("nic.full_mailbox", "block"), SMALL]);
            let (outcome, _) = run(&machine, 4, &format!("crossfire count 1000 refused {refused}"), Options::default());
            let waiting = stuck(&outcome);
            assert_eq!(waiting.len(), 4);
            for (rank, waiting) in waiting.iter().enumerate() {
                let partner = rank ^ 1;
                assert!(waiting.what.contains("stands still in a store"), "{}", waiting.what);
                let cycle = format!("a deadlock of ranks {rank}, {partner}, {rank}");
                assert!(waiting.what.contains(&cycle), "{}", waiting.what);
            }
        }
    }
}

/// A queue that refuses leaves the program its processor. A program that receives continues; one that retries does not.
#[test]
fn a_refusal_lets_its_program_receive() {
    for way in [InterfaceKind::IoTransaction, InterfaceKind::TriggerPage, InterfaceKind::Enqcmd] {
        let machine = by(way, &[("nic.full_mailbox", "block"), SMALL]);
        let (outcome, results) = run(&machine, 4, "crossfire count 500 refused receive", Options::default());
        completed(&outcome, way.name());
        assert!(outcome.statistics.blocked > 0 && outcome.statistics.commands_refused > 0);
        assert_eq!(mean(&results, "messages lost"), 0.0);
    }
    let machine = by(InterfaceKind::IoTransaction, &[("nic.full_mailbox", "block"), SMALL]);
    let (outcome, _) = run(&machine, 2, "crossfire count 500", Options::default());
    assert!(stuck(&outcome).iter().all(|waiting| waiting.what.contains("deadlock")));
}

/// If full mailboxes drop, or senders have credits, no way deadlocks; with credits, nothing is lost.
#[test]
fn dropping_and_credits_never_deadlock() {
    for way in WAYS {
        for refused in ["wait", "receive"] {
            let line = format!("crossfire count 1000 refused {refused}");
            let (outcome, results) = run(&by(way, &[SMALL]), 4, &line, Options::default());
            completed(&outcome, way.name());
            assert!(mean(&results, "messages lost") > 0.0 && outcome.statistics.velo_discarded > 0);
            for bytes in ["8", "64"] {
                let machine = by(way, &[("nic.full_mailbox", "credits"), SMALL]);
                let (outcome, results) = run(&machine, 4, &format!("{line} bytes {bytes}"), Options::default());
                completed(&outcome, way.name());
                assert_eq!(
                    (mean(&results, "messages lost"), outcome.statistics.velo_discarded),
                    (0.0, 0),
                    "{}",
                    way.name()
                );
                assert_eq!(outcome.statistics.blocked, 0);
                assert!(outcome.statistics.credits_lacked > 0);
            }
        }
    }
}

/// Credits hold for any number of senders to one mailbox, with split messages, in both models of the fabric.
#[test]
fn credits_hold_for_many_senders() {
    for network in [Model::Packet, Model::Message] {
        for ranks in [2, 8, 20] {
            let machine = by(
                InterfaceKind::CfcqData,
                &[("nic.full_mailbox", "credits"), SMALL, ("interface.splits_ppm", "200000")],
            );
            let options = Options { network, ..side_by_side(ranks) };
            let (outcome, _) = run(&machine, ranks, "commands bytes 64 count 300", options);
            completed(&outcome, &format!("{ranks} ranks"));
            assert_eq!(outcome.statistics.velo_discarded, 0);
        }
    }
}

/// Many senders to one mailbox, each with its share; a job whose shares are too small is refused.
#[test]
fn shares_hold_for_many_senders_to_one_mailbox() {
    let machine = by(InterfaceKind::CfcqData, &[("nic.full_mailbox", "credits"), SMALL]);
    let needs = Needs { units: true, ..Needs::default() };
    let tasks = |ranks: u32| {
        Tasks::new(ranks, &machine, &needs, move |process| {
            Box::pin(async move {
                let (rank, each) = (process.rank(), 100u8);
                if rank > 0 {
                    for number in 0..each {
                        process.velo_send(0, 0, number, &[rank as u8; 64]).await;
                    }
                    return 0;
                }
                let mut next = vec![0; ranks as usize];
                for _ in 0..u32::from(each) * (ranks - 1) {
                    let (_, tag, bytes) = process.velo_receive().await;
                    let from = &mut next[usize::from(bytes[0])];
                    if tag != *from || bytes != [bytes[0]; 64] {
                        return 1;
                    }
                    *from += 1;
                }
                0
            })
        })
    };
    let outcome = Simulation::new(machine.clone(), tasks(20), Options::default()).unwrap().run(&mut |_| true);
    completed(&outcome, "20 ranks");
    assert_eq!((outcome.statistics.velo_discarded, outcome.statistics.blocked), (0, 0));
    let Err(error) = Simulation::new(machine.clone(), tasks(22), Options::default()) else { panic!("it was accepted") };
    assert!(error.to_string().contains("need mailboxes of 66 slots"), "{error}");
}

/// Credits of a message that is lost for good return to its sender.
#[test]
fn lost_messages_give_their_credits_back() {
    let overrides =
        [("nic.full_mailbox", "credits"), SMALL, ("link.loss", "0.05"), ("link.retransmission.window_flits", "64")];
    let machine = by(InterfaceKind::CfcqData, &overrides);
    let (outcome, _) = run(&machine, 2, "crossfire count 500", Options::default());
    completed(&outcome, "with retransmission");
    let deaths = vec![Death { at: Time::from_ns(30_000), rank: 1 }];
    let options = Options { deaths, keep_going: true, ..Options::default() };
    let machine = by(InterfaceKind::CfcqData, &[("nic.full_mailbox", "credits"), SMALL]);
    let (outcome, _) = run(&machine, 2, "crossfire count 500", options);
    // All of its messages are taken, and it waits for answers that no rank sends.
    assert_eq!(stuck(&outcome)[0].what, "waits for its NIC");
    assert!(outcome.statistics.commands >= 500);
}

/// A program that repeats a refused offer makes no progress: the run ends as stuck.
#[test]
fn offering_for_ever_is_no_progress() {
    for (way, mailbox) in [
        (InterfaceKind::CfcqData, "credits"),
        (InterfaceKind::IoTransaction, "block"),
        (InterfaceKind::IoTransaction, "credits"),
    ] {
        let machine = by(way, &[("nic.full_mailbox", mailbox), SMALL]);
        let needs = Needs { units: true, ..Needs::default() };
        let tasks = Tasks::new(2, &machine, &needs, |process| {
            Box::pin(async move {
                loop {
                    match process.rank() {
                        0 => _ = process.velo_try_send(1, 0, 0, &[1; 8]).await,
                        _ => process.poll().await,
                    }
                }
            })
        });
        let options = Options { stuck_after: Time::from_ns(2_000_000), ..Options::default() };
        let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
        let mut turns = 0;
        let outcome = simulation.run(&mut |_| {
            turns += 1;
            turns < 1_000
        });
        assert_eq!(stuck(&outcome).len(), 2, "{} {mailbox}", way.name());
    }
}

/// A rank that is killed while its processor stands still, or while it blocks its node, leaves the others working.
#[test]
fn a_death_frees_what_waited_for_it() {
    let machine = by(InterfaceKind::CfcqData, &[("nic.full_mailbox", "block"), SMALL]);
    let deaths = vec![Death { at: Time::from_ns(400_000), rank: 1 }];
    let options = Options { deaths, keep_going: true, ..Options::default() };
    let (outcome, _) = run(&machine, 4, "crossfire count 1000", options);
    // The dead rank's node takes rank 0's messages from then on; rank 0 then waits for messages that no rank sends.
    let waiting = stuck(&outcome);
    let of = |rank| waiting.iter().find(|waiting| waiting.rank == rank).map(|waiting| waiting.what.as_str());
    assert_eq!(of(0), Some("waits for its NIC"), "{waiting:?}");
    assert!(of(2).is_some_and(|what| what.contains("deadlock")) && of(1).is_none());

    for way in [InterfaceKind::CfcqData, InterfaceKind::OsSynchronised, InterfaceKind::IoTransaction] {
        let machine = by(way, &[("interface.places", "1")]);
        let deaths = (0..3).map(|rank| Death { at: Time::from_ns(20_000 + 100 * u64::from(rank)), rank }).collect();
        let options = Options { deaths, keep_going: true, ..side_by_side(16) };
        let (outcome, _) = run(&machine, 16, "commands bytes 64 count 200", options);
        let right = |rank: usize| outcome.codes[rank] == Some(0);
        assert!((3..8).all(right) && (11..16).all(right), "{}: {:?}", way.name(), outcome.codes);
    }
}

#[test]
fn runs_are_equal_to_the_byte() {
    for (way, mailbox) in [
        (InterfaceKind::IoTransaction, "block"),
        (InterfaceKind::CfcqData, "credits"),
        (InterfaceKind::OsSynchronised, "drop"),
    ] {
        let once = || {
            let splits = ("interface.splits_ppm", "100000");
            let machine = by(way, &[("nic.full_mailbox", mailbox), SMALL, splits]);
            let options = Options { variation: Variation { ppm_max: 10_000, seed: 3 }, ..Options::default() };
            let (outcome, _) = run(&machine, 4, "crossfire count 400 bytes 64 refused receive", options);
            (outcome.time, outcome.statistics.hash, outcome.statistics.events)
        };
        assert_eq!(once(), once(), "{} {mailbox}", way.name());
    }
}

/// Any machine may be given an interface: missing keys are derived from those of its host.
#[test]
fn a_machine_without_units_takes_every_way() {
    for way in WAYS {
        let machine = common::machine(&[
            ("interface.way", way.name()),
            ("host.round_trip_ns", "120"),
            ("host.system_call_ns", "170"),
            ("host.interrupt_ns", "1000"),
        ]);
        let (outcome, _) = run(&machine, 4, "commands count 50", side_by_side(4));
        completed(&outcome, way.name());
        let (outcome, _) = run(&machine, 4, "ping-pong sizes 8,5000 iterations 3", Options::default());
        completed(&outcome, way.name());
    }
}

#[test]
fn errors_name_section_key_and_what_there_is() {
    let error = |overrides: &[(&str, &str)]| {
        let overrides: Vec<_> = overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        match load_with(&file("extoll-ht400"), &overrides) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{overrides:?} was accepted"),
        }
    };
    let way = error(&[("interface.way", "doorbell")]);
    assert!(way.contains("[interface] way") && way.contains("io-transaction, cfcq, cfcq-data"), "{way}");
    assert!(error(&[("interface.places", "0")]).contains("[interface] places: 0 must be a whole number from 1"));
    assert!(error(&[("interface.splits_ppm", "2e6")]).contains("splits_ppm"));
    assert!(error(&[("interface.posted", "[\"post\"]")]).contains("unknown unit 'post'"));
    assert!(error(&[("nic.full_mailbox", "keep")]).contains("drop, block, credits"));
    let memory = error(&[("nic.full_mailbox", "credits"), ("host.same_node", "memory")]);
    assert!(memory.contains("set host.same_node to nic"), "{memory}");
    let issue = error(&[("path.velo.issue", "[\"software-send\", \"posted\"]")]);
    assert!(issue.contains("[path.velo] issue") && issue.contains("processor only"), "{issue}");
}
