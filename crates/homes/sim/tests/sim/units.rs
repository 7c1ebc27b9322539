// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes as graphs of units: a file's own units and paths, queues that hold back, translations, interrupts that delay a
//! computing program, and a fabric that frames by the flit.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use selvedge_fabric::NodeId;
use selvedge_nic::rma::{Operation, code, spec};
use selvedge_sim::machine::Machine;
use selvedge_sim::machine::graph::Class;
use selvedge_sim::machine::load::{from_text, load_with};
use selvedge_sim::network::Network;
use selvedge_sim::node::{End, Model, Options, Simulation};
use selvedge_sim::program::{Body, Needs, Process, Tasks};
use selvedge_sim::time::Time;

const NEEDS: Needs = Needs {
    memory_bytes: 1 << 20,
    receives: 8,
    unexpected: 8,
    windows: 1,
    triggered: 0,
    eager_bytes_max: 1 << 20,
    units: true,
    groups: 0,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines").join(name).with_extension("toml")
}

fn machine(name: &str, overrides: &[(&str, &str)]) -> Arc<Machine> {
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Arc::new(load_with(&file(name), &overrides).unwrap_or_else(|error| panic!("{error}")))
}

type Notes = Rc<RefCell<Vec<f64>>>;

/// Runs a program on every rank; returns its notes, and the number of blocked packet heads.
fn run(machine: &Arc<Machine>, ranks: u32, model: Model, body: impl Fn(Process, Notes) -> Body) -> (Vec<f64>, u64) {
    let notes = Notes::default();
    let tasks = Tasks::new(ranks, machine, &NEEDS, |process| body(process, Rc::clone(&notes)));
    let options = Options { network: model, ..Options::default() };
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    assert_eq!((outcome.end, outcome.codes), (End::Completed, vec![Some(0); ranks as usize]));
    let blocked = simulation.network().statistics().blocked;
    (notes.take(), blocked)
}

/// Notes the time from the send of a message of 8 bytes to its receipt.
async fn one_message(process: Process, notes: Notes) -> i32 {
    if process.rank() == 0 {
        process.velo_send(1, 0, 0, &[7; 8]).await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    } else {
        process.velo_receive().await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    }
    0
}

#[test]
fn a_message_takes_the_latencies_of_the_units_on_its_path() {
    for model in [Model::Packet, Model::Message] {
        let (times, _) =
            run(&machine("extoll-ht400", &[]), 2, model, |process, notes| Box::pin(one_message(process, notes)));
        // Software 150; posted 150, and 8 bytes at 1.4 GB/s; two switches, three links and 34 bytes on the wire; the write of a slot,
        // whose bytes follow those on the wire; the port's record; the library 80, and the line 70.
        let sum = 150.0 + (150.0 + 5.714) + (3.0 * 102.4 + 2.0 * 115.2 + 108.8) + 200.0 + 6.4 + 80.0 + 70.0;
        assert!((times[1] - sum).abs() < 0.1, "{times:?} {sum}");
        assert_eq!(times[0], 150.0, "the processor continues when the channel has taken the store");
        let slow = machine("extoll-ht400", &[("unit.velo-completer.latency_ns", "1000")]);
        let (slower, _) = run(&slow, 2, model, |process, notes| Box::pin(one_message(process, notes)));
        // The completer begins with the head, 108.8 before the rest is there; then nothing hides the time of the bytes.
        assert!((slower[1] - times[1] - (1000.0 - 108.8 + 5.714)).abs() < 0.1, "{times:?} {slower:?}");
    }
}

/// Rank 0 sends messages one after the other; both note the time from one to the next.
async fn stream(process: Process, notes: Notes) -> i32 {
    const COUNT: u64 = 100;
    if process.rank() == 0 {
        for _ in 0..COUNT {
            process.velo_send(1, 0, 0, &[7; 8]).await;
        }
        notes.borrow_mut().push(process.now().as_ns_f64() / COUNT as f64);
    } else {
        let mut start = Time::ZERO;
        for number in 0..COUNT {
            process.velo_receive().await;
            if number == 10 {
                start = process.now();
            }
        }
        notes.borrow_mut().push((process.now() - start).as_ns_f64() / (COUNT - 11) as f64);
    }
    0
}

#[test]
fn intervals_set_the_rate_and_not_latencies() {
    let rate = |overrides: &[(&str, &str)]| {
        run(&machine("extoll-ht400", overrides), 2, Model::Packet, |process, notes| Box::pin(stream(process, notes))).0
            [1]
    };
    let usual = rate(&[]);
    assert!(usual < 151.0, "software alone limits it: {usual}");
    assert_eq!(rate(&[("unit.posted.latency_ns", "1500")]), usual, "a longer channel is not a slower one");
    let slow = rate(&[("unit.posted.interval_ns", "400")]);
    assert!((slow - 405.7).abs() < 0.1, "{slow}");
}

#[test]
fn a_full_command_queue_stalls_the_program_that_writes_to_it() {
    let slow = [("unit.posted.interval_ns", "400"), ("interface.places", "4")];
    let send = |overrides: &[(&str, &str)]| {
        run(&machine("extoll-ht400", overrides), 2, Model::Packet, |process, notes| Box::pin(stream(process, notes))).0
            [0]
    };
    let stalled = send(&slow);
    assert!((380.0..406.0).contains(&stalled), "{stalled}");
    assert_eq!(send(&[slow[0], ("interface.places", "65536")]), 150.0, "without a bound the program never waits");
}

/// Ranks 0 to 2 put to rank 3 until it has all notifications.
async fn crowd(process: Process, notes: Notes) -> i32 {
    const PUTS: u64 = 24;
    let rank = process.rank();
    if rank < 3 {
        for _ in 0..PUTS {
            let operation = Operation::Put { read: 0, write: 4096, bytes: 2048 };
            process.rma_post(3, operation, code::BT_PUT, spec::COMPLETER, false).await;
        }
        return 0;
    }
    for _ in 0..3 * PUTS {
        process.rma_notification().await;
    }
    notes.borrow_mut().push(process.now().as_ns_f64());
    0
}

#[test]
fn a_slow_host_stops_its_senders_and_loses_nothing() {
    // Each packet takes its node 5 us, and one may wait.
    let text = std::fs::read_to_string(file("extoll-ht400")).unwrap();
    let slow = "\n[unit.slow-host]\nlatency_ns = 5000\nqueue = 1\n";
    let text = text
        .replace("header = [\"rma-completer-put\"]", "header = [\"rma-completer-put\"]\npacket = [\"slow-host\"]")
        + slow;
    let load = |overrides: &[(&str, &str)]| {
        let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Arc::new(from_text(Path::new("slow.toml"), &text, &overrides).unwrap())
    };
    let crowded =
        |machine: &Arc<Machine>, model| run(machine, 4, model, |process, notes| Box::pin(crowd(process, notes)));
    let (held, held_blocked) = crowded(&load(&[]), Model::Packet);
    let (room, room_blocked) = crowded(&load(&[("nic.receive_flits", "1000000")]), Model::Packet);
    assert!(held_blocked > room_blocked + 100, "{held_blocked} heads blocked, {room_blocked} where the node has room");
    // The host is the bottleneck either way: 72 puts of 18 packets.
    for time in [held[0], room[0]] {
        assert!((4990.0..5200.0).contains(&(time / (72.0 * 18.0))), "{time}");
    }
    // The other model has no room to keep, and the same host.
    let whole = crowded(&load(&[]), Model::Message).0[0] / (72.0 * 18.0);
    assert!((4990.0..5200.0).contains(&whole), "{whole}");
    assert_eq!(crowded(&load(&[]), Model::Packet), (held, held_blocked), "two runs are equal");
}

/// Rank 0 puts 2 kB `count` times at once; rank 1 notes each arrival.
async fn puts(process: Process, notes: Notes, count: u64) -> i32 {
    for _ in 0..count {
        if process.rank() == 0 {
            let operation = Operation::Put { read: 0, write: 4096, bytes: 2048 };
            process.rma_post(1, operation, code::BT_PUT, spec::COMPLETER, false).await;
        } else {
            process.rma_notification().await;
            notes.borrow_mut().push(process.now().as_ns_f64());
        }
    }
    0
}

#[test]
fn a_unit_that_keeps_messages_until_they_are_sent_does_not_read_ahead() {
    for model in [Model::Packet, Model::Message] {
        let arrivals = |overrides: &[(&str, &str)], count| {
            let machine = machine("extoll-ht400", overrides);
            run(&machine, 2, model, |process, notes| Box::pin(puts(process, notes, count))).0
        };
        let kept = arrivals(&[], 6);
        let wire = machine("extoll-ht400", &[]).network.message_time(2048 + 24).as_ns_f64();
        // The pass, a translation and the read of the payload, 470 ns, then the time on the link, without overlap.
        assert!((kept[5] - kept[4] - (470.0 + wire)).abs() < 1.0, "{model:?}: {kept:?} {wire}");
        assert_eq!(arrivals(&[], 1)[0], kept[0], "a put does not wait for those behind it");
        let ahead = arrivals(&[("unit.rma-requester-put.until_sent", "false")], 6);
        assert!((ahead[5] - ahead[4] - wire).abs() < 1.0, "{model:?}: the link is full: {ahead:?} {wire}");
    }
}

/// Rank 0 gets 2 kB several times at once, and notes each arrival.
async fn gets(process: Process, notes: Notes) -> i32 {
    if process.rank() == 1 {
        process.velo_receive().await;
        return 0;
    }
    for _ in 0..6 {
        let operation = Operation::Get { read: 0, write: 4096, bytes: 2048 };
        process.rma_post(1, operation, code::BT_GET, spec::COMPLETER, false).await;
    }
    for _ in 0..6 {
        process.rma_notification().await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    }
    process.velo_send(1, 0, 0, &[1]).await;
    0
}

#[test]
fn a_responder_that_keeps_its_answer_until_it_is_sent_takes_the_next_request_then() {
    let step = |overrides: &[(&str, &str)]| {
        let machine = machine("extoll-ht400", overrides);
        let there = run(&machine, 2, Model::Packet, |process, notes| Box::pin(gets(process, notes))).0;
        there[5] - there[4]
    };
    let wire = machine("extoll-ht400", &[]).network.message_time(2048 + 24).as_ns_f64();
    // The pass and the read, 400 ns, and then the time on the link. All requests arrive before the first translation,
    // so they do not wait for it.
    let kept = step(&[]);
    assert!((kept - (400.0 + wire)).abs() < 1.0, "{kept} {wire}");
    let ahead = step(&[("unit.rma-responder-get.until_sent", "false")]);
    assert!((ahead - wire).abs() < 1.0, "{ahead} {wire}");
}

async fn notified(process: Process, notes: Notes) -> i32 {
    if process.rank() == 0 {
        let operation = Operation::NotificationPut { value: 1, class: 1 };
        process.rma_post(1, operation, code::NOTIFICATION_PUT, spec::COMPLETER, false).await;
    } else {
        process.rma_notification().await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    }
    0
}

#[test]
fn the_last_byte_is_as_late_behind_a_unit_that_carries_data_as_the_first() {
    for model in [Model::Packet, Model::Message] {
        let time = |overrides: &[(&str, &str)]| {
            run(&machine("extoll-ht400", overrides), 2, model, |process, notes| Box::pin(notified(process, notes))).0[0]
        };
        let (carries, beside) = (time(&[]), time(&[("unit.rma-completer.carries_data", "false")]));
        // Beside the bytes, 50 ns for the header are over before the last of 34 bytes has come, 109 ns after the first.
        assert!((carries - beside - 50.0).abs() < 0.1, "{model:?}: {carries} {beside}");
        let slower = time(&[("unit.rma-completer.latency_ns", "80")]);
        assert!((slower - carries - 30.0).abs() < 0.1, "{model:?}: {slower} {carries}");
    }
}

async fn velo_of(process: Process, notes: Notes, bytes: usize) -> i32 {
    if process.rank() == 0 {
        process.velo_send(1, 0, 0, &vec![7; bytes]).await;
    } else {
        process.velo_receive().await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    }
    0
}

#[test]
fn a_message_of_two_slots_is_two_lines_to_read() {
    let time = |access: &str, bytes| {
        let machine = machine("extoll-ht400", &[("host.memory_access_ns", access)]);
        run(&machine, 2, Model::Packet, |process, notes| Box::pin(velo_of(process, notes, bytes))).0[0]
    };
    // Seed 002, section 7.4: a message of 64 bytes does not fit in one slot.
    assert_eq!((time("170", 56) - time("70", 56)).round(), 100.0);
    assert_eq!((time("170", 64) - time("70", 64)).round(), 200.0);
}

/// Two puts to the same page, and one to another.
async fn pages(process: Process, notes: Notes) -> i32 {
    for at in [0, 0, 8192] {
        if process.rank() == 0 {
            let start = process.now();
            let operation = Operation::Put { read: at, write: at, bytes: 8 };
            process.rma_post(1, operation, code::BT_PUT, spec::COMPLETER, false).await;
            process.velo_receive().await;
            notes.borrow_mut().push((process.now() - start).as_ns_f64());
        } else {
            process.rma_notification().await;
            process.velo_send(0, 0, 0, &[1; 8]).await;
        }
    }
    0
}

#[test]
fn a_translation_costs_more_when_its_entry_is_not_in_the_tlb() {
    let times = |overrides: &[(&str, &str)]| {
        run(&machine("extoll-ht400", overrides), 2, Model::Packet, |process, notes| Box::pin(pages(process, notes))).0
    };
    let all = times(&[]);
    // A miss at the requester and one at the completer: 408 instead of 70.
    assert!((all[0] - all[1] - 2.0 * 338.0).abs() < 1.0 && (all[2] - all[0]).abs() < 1.0, "{all:?}");
    let none = times(&[("limits.tlb_entries", "0")]);
    assert!((none[1] - all[0]).abs() < 1.0, "without a TLB every look-up reads its table: {none:?} {all:?}");
}

/// Rank 0 sends to a rank that computes for 100 us.
async fn disturbed(process: Process, notes: Notes) -> i32 {
    if process.rank() == 0 {
        process.put(1, 0, &[1; 8]).await;
        process.put(1, 8, &[1; 8]).await;
    } else {
        process.compute(Time::from_ns(100_000)).await;
        notes.borrow_mut().push(process.now().as_ns_f64());
    }
    0
}

#[test]
fn interrupts_take_the_time_of_a_program_that_computes() {
    let time = |name, overrides: &[(&str, &str)]| {
        run(&machine(name, overrides), 2, Model::Packet, |process, notes| Box::pin(disturbed(process, notes))).0[0]
    };
    assert_eq!(time("seastar-nic", &[]), 100_000.0, "the NIC matches, without an interrupt");
    let host = machine("seastar-host", &[]);
    let each = (host.host.interrupt + host.nic.header).as_ns_f64();
    assert_eq!(time("seastar-host", &[]), 100_000.0 + 2.0 * each);
}

#[test]
fn a_flit_has_its_own_overhead_and_the_last_one_may_be_short() {
    let machine = machine("extoll-ht400", &[]);
    let network = Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone()).unwrap();
    // Seed 002, section 7.3: a message with 56 bytes takes 41 cycles of 6.4 ns.
    let frame = machine.graph.path(Class::Velo).frame_bytes;
    assert_eq!(
        (frame, machine.graph.path(Class::RmaPut).frame_bytes, machine.graph.path(Class::Request).frame_bytes),
        (16, 24, 16)
    );
    assert_eq!(machine.network.message_time(56 + frame), Time::from_ps(41 * 6400));
    assert_eq!(network.injection_time(NodeId(0), 56 + 16), Time::from_ps(41 * 6400));
    assert_eq!((network.flits(72), network.flits(118), network.flits(119)), (1, 1, 2));
    // A large message has its frames once, and the overhead of each of its flits: 118 of 128 bytes.
    let phits = 64 * (4120 / 118) + 5 + (4120 % 118) / 2;
    assert_eq!(machine.network.message_time(4096 + 24), Time::from_ps(phits * 6400));
    let padded = machine_with(&[("link.last_flit", "full")]);
    assert_eq!(padded.injection_time(NodeId(0), 56), Time::from_ps(64 * 6400));
}

fn machine_with(overrides: &[(&str, &str)]) -> Network {
    let machine = machine("extoll-ht400", overrides);
    Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone()).unwrap()
}

#[test]
fn units_and_paths_that_cannot_be_are_refused_by_name() {
    let text = std::fs::read_to_string(file("extoll-ht400")).unwrap();
    let refused = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} is not there");
        match from_text(Path::new("bad.toml"), &changed, &[]) {
            Ok(_) => panic!("{to} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    for (from, to, words) in [
        (
            "command = [\"velo-requester\"]",
            "command = [\"velo-requestor\"]",
            &["path.velo", "velo-requestor", "velo-requester"][..],
        ),
        ("[path.velo]", "[path.vello]", &["vello", "rma_put"][..]),
        ("of = \"rma-requester\"", "of = \"rma\"", &["rma-requester-put", "'rma'"][..]),
        ("[unit.velo-requester]", "[unit.bus-read]", &["bus-read", "another name"][..]),
        ("unit = \"atu\"", "unit = \"tlb\"", &["atu", "tlb"][..]),
        ("receive = [\"software-receive\"]", "receive = [\"posted\"]", &["posted", "processor"][..]),
        ("on = \"processor\"", "on = \"gpu\"", &["gpu", "processor"][..]),
        ("packet_bytes = { value = 118", "packet_bytes = { value = 2048", &["16 flits"][..]),
    ] {
        let result = refused_or_built(&refused, from, to, &text);
        for word in words {
            assert!(result.contains(word), "{to}: {result}");
        }
    }
}

/// Returns the error of loading, or of making the network.
fn refused_or_built(refused: &dyn Fn(&str, &str) -> String, from: &str, to: &str, text: &str) -> String {
    let changed = text.replacen(from, to, 1);
    match from_text(Path::new("bad.toml"), &changed, &[]) {
        Ok(machine) => match Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone()) {
            Ok(_) => panic!("{to} was accepted"),
            Err(error) => error.to_string(),
        },
        Err(_) => refused(from, to),
    }
}
