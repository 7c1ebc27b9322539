// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces through the units: of random histories of `nic`, and of a recorded program. A modified trace is detected.

use std::path::Path;
use std::process::Command as Program;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, Put, Verdict, fail, list, options};
use selvedge_nic::tables::{self, Request, Side, kind};
use selvedge_nic::tap::{Tap, Tapped, Transition};
use selvedge_nic::{Limits, Nic, NoMemory as Nothing};
use selvedge_rtl::LockstepError;
use selvedge_rtl::home::{Home, NoMemory};
use selvedge_rtl::replay::{Options, ReplayError, Report, replay};
use selvedge_trace::{Open, Reader, Record, write_all};

use crate::common::unit;

/// Larger than the RTL's tables where references show it.
const LIMITS: Limits = Limits {
    entries: 1024,
    headers: 600,
    descriptors: 300,
    counters: 700,
    queues: 1,
    portals: 8,
    triggered: 200,
    list: 1024,
    short_list: 4,
    heap_blocks: 64,
    heap_blocks_max: 64,
    ..Limits::NONE
};

#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Tap for Kept {
    fn show(&self, transition: &Transition) {
        self.0.lock().expect("no panic").push(Record::Transition(*transition));
    }
}

/// A step of a program; each number selects one of the present items.
#[derive(Clone, Copy, Debug)]
enum Step {
    Post { bits: u64, source: Option<u64> },
    Arrive { bits: u64, source: u64, length: u64, is_own: bool },
    Cancel(usize),
    Probe { bits: u64 },
    DropClaimed,
    Bind(u64),
    Release(usize),
    Alloc,
    Free(usize),
    Count(usize, u64),
    Arm { counter: usize, threshold: u64, target: usize },
    Disarm(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bits = || 0..6u64;
    prop_oneof![
        6 => (bits(), prop_oneof![Just(None), (1..4u64).prop_map(Some)]).prop_map(|(bits, source)| Step::Post { bits, source }),
        8 => (bits(), 1..4u64, 0..100u64, any::<bool>())
            .prop_map(|(bits, source, length, is_own)| Step::Arrive { bits, source, length, is_own }),
        1 => (0..8usize).prop_map(Step::Cancel),
        1 => bits().prop_map(|bits| Step::Probe { bits }),
        1 => Just(Step::DropClaimed),
        2 => (0..1u64 << 40).prop_map(Step::Bind),
        1 => (0..8usize).prop_map(Step::Release),
        2 => Just(Step::Alloc),
        1 => (0..8usize).prop_map(Step::Free),
        4 => (0..8usize, 0..3u64).prop_map(|(counter, by)| Step::Count(counter, by)),
        2 => (0..8usize, 0..9u64, 0..8usize).prop_map(|(counter, threshold, target)| Step::Arm { counter, threshold, target }),
        1 => (0..8usize).prop_map(Step::Disarm),
    ]
}

/// nid << 32 | pid of a process of a host with a large number.
fn id(source: u64) -> u64 {
    0xc0a8_0000_0000_0000 | source
}

fn spec(bits: u64, source: Option<u64>) -> EntrySpec {
    EntrySpec {
        options: options::USE_ONCE | options::OP_PUT | options::EVENT_LINK_DISABLE,
        start: 0x1000,
        length: 64,
        iov: NONE,
        iov_count: 0,
        match_bits: bits,
        ignore_bits: 0,
        source: source.map_or(u64::MAX, id),
        source_ignore: if source.is_some() { 0 } else { u64::MAX },
        min_free: 0,
        user_ptr: bits,
        counter: NONE,
        uid: u32::MAX,
    }
}

/// Runs the steps as a program with MPI and Portals would. Returns the trace.
fn record(steps: &[Step]) -> Vec<Record> {
    let kept = Kept::default();
    let mut home = Home::new(&LIMITS);
    let mut nic = home.nic();
    nic.tap = Tapped::new(&kept);
    let open = Open { program: "steps".into(), rank: 0, ni: 0, id: id(9), limits: LIMITS };
    kept.0.lock().expect("no panic").push(Record::Open(open));
    nic.portal_table().alloc(Some(2), 0, NONE).expect("it is free");
    let pool = EntrySpec {
        options: options::MANAGE_LOCAL | options::OP_PUT,
        length: 1 << 20,
        ignore_bits: u64::MAX,
        ..spec(0, None)
    };
    nic.lists().append(&mut NoMemory, 2, list::OVERFLOW, &pool).expect("room");

    let (mut posted, mut claimed, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    let (mut counters, mut armed) = (Vec::new(), Vec::new());
    for &step in steps {
        match step {
            Step::Post { bits, source } => match nic.receives().post(&mut NoMemory, 2, &spec(bits, source)) {
                Ok(Posted::Linked(entry)) => posted.push(entry),
                Ok(Posted::Matched(found)) => nic.receives().drop_unexpected(found),
                Err(_) => {}
            },
            Step::Arrive { bits, source, length, is_own } => arrive(&mut nic, bits, source, length, is_own),
            Step::Cancel(at) if at < posted.len() => drop(nic.lists().unlink(posted.remove(at))),
            Step::Probe { bits } => {
                if let Some(found) = nic.receives().find_unexpected(&mut NoMemory, 2, &spec(bits, None)) {
                    nic.receives().claim_unexpected(found);
                    claimed.push(found);
                }
            }
            Step::DropClaimed => claimed.pop().into_iter().for_each(|found| nic.receives().drop_unexpected(found)),
            Step::Bind(start) => {
                let view = DescriptorView {
                    start,
                    length: start >> 8,
                    queue: NONE,
                    counter: NONE,
                    iov: NONE,
                    ..DescriptorView::default()
                };
                bound.extend(nic.descriptors().bind(&view));
            }
            Step::Release(at) if at < bound.len() => drop(nic.descriptors().release(bound.remove(at))),
            Step::Alloc => counters.extend(nic.counters().alloc()),
            Step::Free(at) if at < counters.len() => drop(nic.counters().free(counters.remove(at))),
            Step::Count(at, by) if at < counters.len() => nic.counters().increment(counters[at], by, 0),
            Step::Arm { counter, threshold, target } if counter < counters.len() && target < counters.len() => {
                let side = Side { counter: counters[target], ..Side::NOWHERE };
                let request = Request { kind: kind::PUT, initiator: id(9), length: 8, ..Request::default() };
                let command = tables::Command { request, target: id(1), source: side, ..tables::Command::default() };
                let action = match threshold % 2 {
                    0 => Action::Command(&command),
                    _ => Action::CounterIncrement { counter: counters[target], success: 1, failure: 0 },
                };
                armed.extend(nic.triggered().arm(counters[counter], threshold, action));
            }
            Step::Disarm(at) if at < armed.len() => drop(nic.triggered().cancel(armed.remove(at))),
            _ => {}
        }
        while let Ok(Some(fired)) = nic.triggered().next_fired(&mut Nothing, 1) {
            nic.triggered().finish_fired(fired.index);
        }
    }
    kept.0.into_inner().expect("no panic")
}

/// Delivers a message, as the owner takes it from a ring, or as its sender delivers it.
fn arrive(nic: &mut Nic<'_>, match_bits: u64, source: u64, length: u64, is_own: bool) {
    let request = Request {
        kind: kind::PUT,
        portal: 2,
        match_bits,
        initiator: id(source),
        length,
        header_data: length,
        ..Request::default()
    };
    if !is_own {
        nic.deliver(&mut NoMemory, &request);
    } else if nic.receives().take(&mut Mapped, &Put::from(&request)).is_none() {
        nic.deliver_own(&mut NoMemory, &request);
    }
}

struct Mapped;

impl selvedge_nic::Bus for Mapped {
    fn put_mapped(&mut self, _: u64, _: u64, _: u64) -> bool {
        true
    }
}

fn bytes_of(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_all(&mut bytes, records).expect("memory");
    bytes
}

fn run(records: &[Record], options: &Options) -> Result<Report, ReplayError> {
    replay(Reader::new(&bytes_of(records)[..])?, options)
}

#[test]
fn random_programs_give_the_results_of_the_trace() {
    if unit("lists").is_none() {
        return;
    }
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
    let steps = proptest::collection::vec(step(), 1..160);
    let done = runner.run(&(steps, prop_oneof![Just(0u64), Just(5)]), |(steps, gap)| {
        let report = run(&record(&steps), &Options { gap, ..Options::default() })
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        for unit in &report.units {
            prop_assert_eq!(unit.differs_from, None, "{}", unit);
        }
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
}

fn example() -> Vec<Record> {
    let steps = [
        Step::Arrive { bits: 1, source: 1, length: 8, is_own: true },
        Step::Arrive { bits: 2, source: 1, length: 9, is_own: false },
        Step::Post { bits: 1, source: Some(1) },
        Step::Post { bits: 3, source: None },
        Step::Post { bits: 4, source: None },
        Step::Arrive { bits: 3, source: 2, length: 99, is_own: true },
        Step::Probe { bits: 2 },
        Step::DropClaimed,
        Step::Cancel(1),
        Step::Bind(77),
        Step::Release(0),
        Step::Alloc,
        Step::Alloc,
        Step::Arm { counter: 0, threshold: 2, target: 1 },
        Step::Count(0, 2),
        Step::Free(1),
        Step::Free(0),
    ];
    record(&steps)
}

#[test]
fn a_changed_record_is_a_difference() {
    if unit("lists").is_none() {
        return;
    }
    let good = example();
    let report = run(&good, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let [lists, counters, descriptors, engine, allocator] = &report.units[..] else { panic!("five units") };
    assert!(
        engine.count() >= lists.count() + descriptors.count() + counters.count() && engine.differs_from.is_none(),
        "{report}"
    );
    assert_eq!((lists.count(), descriptors.count()), (9, 2), "{report}");
    assert_eq!(
        counters.commands.keys().copied().collect::<Vec<_>>(),
        ["alloc", "arm", "free", "increment"],
        "{report}"
    );
    assert_eq!(allocator.commands.keys().copied().collect::<Vec<_>>(), ["alloc", "free"], "{report}");

    let mut found = 0;
    for at in 0..good.len() {
        let mut changed = good.clone();
        let Record::Transition(transition) = &mut changed[at] else { continue };
        match transition {
            Transition::Deliver { delivery, .. } => delivery.mlength ^= 1,
            Transition::TakeReceive { receive, .. } => receive.length = 3,
            Transition::PostReceive { posted, .. } => {
                *posted = match *posted {
                    Some(Posted::Linked(_)) => Some(Posted::Matched(0)),
                    _ => Some(Posted::Linked(5)),
                }
            }
            Transition::Unlink { is_done, .. } => *is_done = !*is_done,
            _ => continue,
        }
        found += 1;
        // The engine compares only messages.
        let is_message = matches!(transition, Transition::Deliver { .. } | Transition::TakeReceive { .. });
        for name in ["lists", "engine"].into_iter().take(if is_message { 2 } else { 1 }) {
            match run(&changed, &Options { units: vec![name.to_owned()], ..Options::default() }) {
                Err(ReplayError::Lockstep { unit, error: LockstepError::NotAsRecorded { record, .. } })
                    if unit == name =>
                {
                    assert_eq!(record, at as u64);
                }
                other => panic!("record {at}, {name}: {other:?}"),
            }
        }
    }
    assert_eq!(found, 7);
}

/// Messages to a portal table entry with flow control, while the program takes some of their events.
#[test]
fn flow_control_decides_as_in_the_trace() {
    if unit("pac").is_none() {
        return;
    }
    let kept = Kept::default();
    let mut home = Home::new(&LIMITS);
    let mut nic = home.nic();
    nic.tap = Tapped::new(&kept);
    let open = Open { program: "flow control".into(), rank: 0, ni: 0, id: id(9), limits: LIMITS };
    kept.0.lock().expect("no panic").push(Record::Open(open));
    let queue = nic.queues().alloc(7).expect("room");
    let portal = nic.portal_table().alloc(Some(2), options::PT_FLOWCTRL, queue).expect("it is free");
    let mut refused = 0;
    for step in 0..300u64 {
        match step * 7919 % 11 {
            0 | 1 => drop(nic.lists().append(&mut NoMemory, portal, list::PRIORITY, &spec(step % 2, None))),
            2 | 3 => {
                nic.signals.take_event(queue);
                nic.queues().post_waiting_disabled(queue);
            }
            4 if step % 2 == 0 => nic.portal_table().set(portal, false).expect("it is there"),
            4 | 5 => nic.portal_table().set(portal, true).expect("it is there"),
            _ => {
                let epoch = [0, nic.portal(portal).expect("it is there").epoch(), 1][step as usize % 3];
                let request = Request {
                    kind: kind::PUT,
                    portal,
                    match_bits: step % 2,
                    initiator: id(3),
                    length: 8,
                    operand: [0, epoch, 0, 0],
                    ..Request::default()
                };
                let verdict = nic.deliver(&mut NoMemory, &request);
                let is_refused = |one: &Delivery| one.fail == fail::PT_DISABLED;
                refused += usize::from(matches!(verdict, Verdict::Done(ref delivery) if is_refused(delivery)));
            }
        }
    }
    let records = kept.0.into_inner().expect("no panic");
    let report = run(&records, &Options { units: vec!["engine".to_owned()], ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}"));
    let [engine] = &report.units[..] else { panic!("one unit") };
    assert_eq!(engine.differs_from, None, "{report}");
    assert!(refused > 30 && engine.same_as_trace > 100, "{refused} refused, {report}");
}

#[test]
fn a_trace_that_ends_early_or_says_nothing_is_an_error() {
    let bytes = bytes_of(&example());
    let cut = &bytes[..bytes.len() - 3];
    let ended = Reader::new(cut).map_err(ReplayError::from).and_then(|trace| replay(trace, &Options::default()));
    if unit("lists").is_some() {
        let Err(ReplayError::Trace(error)) = ended else { panic!("{ended:?}") };
        assert!(error.to_string().contains("ends within a record"), "{error}");
    }
    assert!(Reader::new(&b"no trace"[..]).is_err());
}

#[test]
fn what_does_not_fit_is_counted() {
    if unit("lists").is_none() {
        return;
    }
    let mut steps = vec![Step::Post { bits: 9, source: None }; 300];
    steps.extend((0..280).map(Step::Bind));
    let report = run(&record(&steps), &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let left_out = |unit: usize| report.units[unit].left_out.values().sum::<u64>();
    // The overflow entry is one of the 256.
    assert_eq!((left_out(0), left_out(2)), (45, 24), "{report}");
    assert_eq!(report.units[0].largest["on a priority list"], 255);
}

/// Programs of the built tree, recorded by its simulator: Portals, OpenSHMEM with counting puts, NAS IS over MPI if
/// built.
#[test]
fn recorded_programs_go_through() {
    if unit("lists").is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let selvedge = root.join("build/bin/selvedge");
    let help = Program::new(&selvedge).args(["sim", "--help"]).output();
    if !help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--record")) {
        eprintln!("skipped: {} records nothing (make build)", selvedge.display());
        return;
    }
    // Each program with its ranks, and the unit that it uses most.
    let programs = [
        ("examples/hello_put", &[][..], 2, "counters"),
        ("examples/shmem/stencil", &["64", "32", "2"][..], 2, "counters"),
        ("mpi/debian/is", &["S"][..], 4, "lists"),
    ];
    for (program, arguments, ranks, used) in programs {
        let path = root.join("build").join(program);
        if !path.exists() {
            eprintln!("skipped: {} is not built", path.display());
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder for traces");
        let mut command = Program::new(&selvedge);
        command.args(["sim", "-n", &ranks.to_string(), "--machine"]).arg(root.join("machines/cluster.toml"));
        command.arg("--record").arg(folder.path()).arg("--").arg(path).args(arguments);
        let said = command.output().expect("the simulator starts");
        assert!(said.status.success(), "{program}: {}", String::from_utf8_lossy(&said.stderr));
        let (mut traces, mut commands) = (0, 0);
        for file in std::fs::read_dir(folder.path()).expect("it is there").flatten() {
            let trace = Reader::open(&file.path()).expect("a trace");
            let report = replay(trace, &Options::default()).unwrap_or_else(|error| panic!("{program}: {error}"));
            assert!(report.units.iter().all(|unit| unit.differs_from.is_none()), "{program}: {report}");
            commands += report.units.iter().find(|unit| unit.unit == used).map_or(0, |unit| unit.count());
            traces += 1;
        }
        assert!(traces >= ranks && commands > 0, "{program}: {traces} traces, {commands} commands of {used}");
    }
}
