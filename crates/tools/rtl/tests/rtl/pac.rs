// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in lockstep with `nic`: each path, stalled ports, random histories, bad input.

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::packet::{Packet, RESPONSE};
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{EntrySpec, fail, list, options};
use selvedge_nic::tables::kind;
use selvedge_rtl::lists::receive;
use selvedge_rtl::pac::words::{Buffer, Host, Operation, Triggered};
use selvedge_rtl::pac::{BUCKETS, EngineLockstep, Input, LIMITS, Ready};
use selvedge_rtl::unit::NAMES;

use crate::common::built;

mod flow_control;
mod histories;

/// `pac_small` of rtl/units.toml.
pub const SMALL: Limits = Limits {
    entries: 8,
    headers: 4,
    descriptors: 5,
    counters: 5,
    triggered: 6,
    portals: 4,
    queues: 3,
    pending: 3,
    list: 8,
    short_list: 2,
    heap_blocks: 256,
    heap_blocks_max: 256,
    ..Limits::NONE
};
/// An engine with an identity, and portal table entries 0 and 1 with an event queue each.
pub struct Engine {
    pub both: EngineLockstep,
    pub queue: u32,
    /// The queue of each entry; the second holds seven events.
    pub queues: [u32; 2],
}

impl Engine {
    /// Its tables fill up within a short history.
    pub fn small() -> Option<Engine> {
        Engine::new("pac_small", &SMALL, 4)
    }

    /// Its banks have one port. Built only with `large` units of rtl/units.toml.
    pub fn one_port() -> Option<Engine> {
        let unit = "pac_small_one_port";
        NAMES.contains(&unit).then(|| Engine::new(unit, &SMALL, 4))?
    }

    fn whole() -> Option<Engine> {
        Engine::new("pac", &LIMITS, BUCKETS)
    }

    fn new(unit: &str, limits: &Limits, buckets: usize) -> Option<Engine> {
        let mut both = built(EngineLockstep::new(unit, limits, buckets))?;
        both.set_ready(Ready::ALL);
        // One ring ends within a short history, and one has a number of blocks that is no power of two.
        let lengths = [64, 7];
        let queues = lengths.map(|length| both.model.home.nic().queues().alloc(length).expect("there is room"));
        let rings: Vec<u32> = both.model.home.queue_books.iter().map(|book| book.ring).collect();
        let made =
            |number: usize| Host::Queue { reference: queues[number], ring: rings[number], length: lengths[number] };
        let queue = queues[0];
        let mut engine = Engine { both, queue, queues };
        engine.host(&[
            Host::Configure { initiator: 7, uid: 1000, origin: 3 << 32 | 9 },
            made(0),
            made(1),
            Host::Portal { portal: 0, status: 1, options: 0, queue, epoch: 1 },
            Host::Portal { portal: 1, status: 1, options: 0, queue: queues[1], epoch: 1 },
            Host::Portal { portal: 2, status: 2, options: 0, queue: NONE, epoch: 5 },
        ]);
        Some(engine)
    }

    /// Runs these inputs and everything that they cause.
    pub fn all(&mut self, inputs: &[Input]) {
        let taken = self.both.run(inputs, 0).unwrap_or_else(|text| panic!("{text}"));
        assert_eq!(taken, inputs.len(), "accepted");
        self.both.drain().unwrap_or_else(|text| panic!("{text}"));
    }

    pub fn host(&mut self, commands: &[Host]) {
        self.all(&commands.iter().map(|&command| Input::from(command)).collect::<Vec<_>>());
    }

    fn last(&self, made: impl Fn(&selvedge_rtl::pac::model::Created) -> Option<&u32>) -> u32 {
        *made(&self.both.model.created).expect("it was made")
    }
}

fn view(options: u32, queue: u32, counter: u32) -> DescriptorView {
    DescriptorView { start: 0x4000, length: 64, options, queue, counter, iov: NONE, iov_count: 0 }
}

fn put(packet: Packet) -> Input {
    Input::packet(Buffer::Put, Packet { kind: kind::PUT, payload_bytes: packet.length, ..packet }.encode(false))
}

fn get(packet: Packet) -> Input {
    Input::packet(Buffer::GetHeader, Packet { kind: kind::GET, ..packet }.encode(false))
}

fn response(packet: Packet) -> Input {
    Input::packet(Buffer::Response, Packet { kind: RESPONSE, ..packet }.encode(false))
}

fn entry(options: u32, counter: u32) -> EntrySpec {
    EntrySpec { options: options | options::OP_PUT | options::OP_GET, counter, ..receive(5, 2) }
}

fn append(which: u8, spec: EntrySpec) -> Host {
    Host::Append { portal: 0, which, spec }
}

const MESSAGE: Packet = Packet {
    kind: 0,
    fail: 0,
    operation: 0,
    datatype: 0,
    ack: 0,
    place: selvedge_nic::packet::Place::Inline,
    portal: 0,
    uid: 1000,
    initiator: 2,
    origin: 4 << 32 | 1,
    token: 0,
    match_bits: 5,
    remote_offset: 16,
    header_data: 0xdada,
    length: 24,
    operand: [0; 4],
    payload_bytes: 0,
    sender: 0,
};

#[test]
fn messages_are_matched_counted_and_answered() {
    for engine in [Engine::small(), Engine::whole()] {
        let Some(mut engine) = engine else { return };
        engine.host(&[Host::CounterAlloc]);
        let counter = engine.last(|made| made.counters.last());
        let counted = options::EVENT_CT_COMM | options::EVENT_CT_BYTES;
        engine.host(&[
            append(list::PRIORITY, entry(options::USE_ONCE, NONE)),
            append(list::PRIORITY, entry(counted, counter)),
        ]);
        engine.all(&[
            put(MESSAGE),
            put(Packet { token: 77, length: 100, ..MESSAGE }),
            get(Packet { token: 78, ..MESSAGE }),
            get(Packet { token: 79, match_bits: 6, ..MESSAGE }),
            put(Packet { token: 80, portal: 2, ..MESSAGE }),
            put(Packet { token: 81, portal: 2, operand: [0, 9, 0, 0], ..MESSAGE }),
            put(Packet { token: 82, portal: 3, ..MESSAGE }),
            put(Packet { token: 83, portal: 70, ..MESSAGE }),
        ]);
        engine.host(&[Host::CounterGet(counter)]);
    }
}

#[test]
fn unexpected_messages_are_kept_found_and_searched() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[Host::CounterAlloc]);
    let counter = engine.last(|made| made.counters.last());
    let local = EntrySpec { min_free: 8, length: 100, ..entry(options::MANAGE_LOCAL, NONE) };
    engine.host(&[append(list::OVERFLOW, local)]);
    engine.all(&[put(MESSAGE), put(Packet { token: 5, ..MESSAGE }), put(MESSAGE), put(MESSAGE), put(MESSAGE)]);
    let spec = entry(options::EVENT_CT_OVERFLOW, counter);
    engine.host(&[
        Host::Search { portal: 0, spec, delete: false },
        Host::Search { portal: 0, spec: EntrySpec { match_bits: 6, ..spec }, delete: false },
        append(list::PRIORITY, entry(options::USE_ONCE, NONE)),
        Host::Search { portal: 0, spec: EntrySpec { options: spec.options | options::USE_ONCE, ..spec }, delete: true },
        append(list::PRIORITY, spec),
        Host::CounterGet(counter),
    ]);
    let entry = engine.last(|made| made.entries.last());
    engine.host(&[Host::Unlink(entry), Host::Unlink(entry)]);
}

#[test]
fn operations_start_and_end_with_their_events_and_counts() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[Host::CounterAlloc]);
    let (queue, counter) = (engine.queue, engine.last(|made| made.counters.last()));
    let counted = options::MD_EVENT_CT_SEND | options::MD_EVENT_CT_REPLY | options::MD_EVENT_CT_ACK;
    for options in
        [0, counted, counted | options::MD_EVENT_CT_BYTES, options::MD_EVENT_SUCCESS_DISABLE, options::MD_UNRELIABLE]
    {
        let view = view(options, queue, counter);
        engine.host(&[Host::Bind(view)]);
        let descriptor = engine.last(|made| made.descriptors.last());
        let operation = Operation {
            descriptor,
            local_offset: 8,
            length: 40,
            target: 5,
            portal: 1,
            match_bits: 3,
            ..Operation::default()
        };
        for ack in 0..4 {
            engine.host(&[Host::Put(Operation { ack, user_ptr: 1 << 40, ..operation })]);
        }
        let tokens = engine.both.model.created.tokens.clone();
        let answers = tokens.iter().flat_map(|&token| {
            let packet = Packet { token, ack: 1, length: 40, remote_offset: 12, ..MESSAGE };
            [response(packet), response(packet)]
        });
        engine.all(&answers.collect::<Vec<_>>());
        for (fail, length) in [(0, 24), (3, 0), (0, 1 << 40)] {
            engine.host(&[Host::Get(operation)]);
            let token = *engine.both.model.created.tokens.last().expect("a get waits");
            engine.all(&[response(Packet { token, fail, length, ack: 3, ..MESSAGE })]);
        }
        engine.host(&[
            Host::Get(Operation { local_offset: 60, ..operation }),
            Host::Put(Operation { length: 1 << 32, ..operation }),
            Host::Put(Operation { local_offset: u64::MAX, ..operation }),
            Host::Unbind(descriptor),
            Host::Put(operation),
            Host::Unbind(descriptor),
            Host::CounterGet(counter),
        ]);
    }
}

#[test]
fn triggered_operations_leave_in_order_of_threshold() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[Host::CounterAlloc, Host::CounterAlloc]);
    let [one, other] = engine.both.model.created.counters[..] else { panic!("two counters") };
    let view = view(0, engine.queue, one);
    engine.host(&[Host::Bind(view)]);
    let descriptor = engine.last(|made| made.descriptors.last());
    let operation = Operation { descriptor, length: 16, ack: 1, ..Operation::default() };
    engine.host(&[
        Host::Arm { counter: one, threshold: 3, action: Triggered::Put(operation) },
        Host::Arm { counter: one, threshold: 2, action: Triggered::Get(operation) },
        Host::Arm {
            counter: one,
            threshold: 2,
            action: Triggered::Increment { counter: other, success: 4, failure: 0 },
        },
        Host::Arm { counter: other, threshold: 4, action: Triggered::Put(operation) },
        Host::Arm { counter: one, threshold: 9, action: Triggered::Set { counter: one, success: 1, failure: 1 } },
        Host::Arm { counter: one, threshold: 1, action: Triggered::Put(Operation { length: 65, ..operation }) },
    ]);
    // A counted message makes them due.
    engine.host(&[append(list::PRIORITY, entry(options::EVENT_CT_COMM, one))]);
    engine.all(&[put(MESSAGE), put(MESSAGE), put(MESSAGE), put(MESSAGE)]);
    let armed = engine.both.model.created.armed.clone();
    engine.host(&[
        Host::CancelOne { index: armed[4].0, generation: armed[4].1 },
        Host::CancelOne { index: armed[4].0, generation: armed[4].1 },
        Host::Cancel(other),
        Host::CounterFree(other),
        Host::CounterGet(other),
    ]);
}

/// A message count makes an unlink due: the next message finds no entry. An unlink of a missing entry gives no answer.
#[test]
fn a_triggered_unlink_takes_the_entry_off_its_list() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[Host::CounterAlloc]);
    let counter = engine.last(|made| made.counters.last());
    engine.host(&[append(list::PRIORITY, entry(options::EVENT_CT_COMM, counter))]);
    let linked = engine.last(|made| made.entries.last());
    engine.host(&[
        Host::Arm { counter, threshold: 2, action: Triggered::Unlink(linked) },
        Host::Arm { counter, threshold: 1, action: Triggered::Unlink(NONE) },
    ]);
    engine.all(&[put(MESSAGE), put(MESSAGE)]);
    engine.all(&[put(MESSAGE)]);
    let fails: Vec<u8> = engine.both.model.created.deliveries.iter().map(|delivery| delivery.fail).collect();
    assert_eq!(fails, [fail::OK, fail::OK, fail::DROPPED]);
    engine.host(&[
        Host::Unlink(linked),
        append(list::PRIORITY, entry(0, NONE)),
        Host::Arm { counter, threshold: 3, action: Triggered::Unlink(linked) },
        Host::CounterIncrement { counter, success: 1, failure: 0 },
    ]);
    engine.all(&[put(MESSAGE)]);
    assert_eq!(engine.both.model.created.deliveries.last().expect("a message").fail, fail::OK, "a stale reference");
}

/// A search finds more headers than the lists have room for answers, while event lines are not taken.
#[test]
fn the_lists_wait_for_answers_that_wait() {
    let Some(mut engine) = Engine::whole() else { return };
    engine.host(&[append(list::OVERFLOW, EntrySpec { length: 1 << 20, ..entry(options::MANAGE_LOCAL, NONE) })]);
    engine.all(&(0..24).map(|_| put(MESSAGE)).collect::<Vec<_>>());
    engine.both.set_ready(Ready([true, true, true, true, true, false]));
    let search = Host::Search { portal: 0, spec: entry(0, NONE), delete: false };
    let before = engine.both.timings().len();
    assert_eq!(engine.both.run(&[search.into()], 1000).unwrap(), 1);
    assert_eq!(engine.both.timings().len(), before, "it waits");
    engine.host(&[append(list::PRIORITY, entry(0, NONE))]);
}

/// One stalled port: commands that do not need it continue.
#[test]
fn a_port_that_does_not_move_holds_up_only_what_needs_it() {
    for stuck in 0..6 {
        let Some(mut engine) = Engine::small() else { return };
        engine
            .host(&[append(list::PRIORITY, EntrySpec { length: 1 << 20, ..entry(options::EVENT_COMM_DISABLE, NONE) })]);
        let view = view(0, NONE, NONE);
        engine.host(&[Host::Bind(view)]);
        let descriptor = engine.last(|made| made.descriptors.last());
        let operation = Operation { descriptor, length: 16, ..Operation::default() };
        // More than the queue and the buffer hold.
        let filling: Vec<Input> = match stuck {
            0 => (0..12).map(|_| Host::Put(operation).into()).collect(),
            1 => (0..3).map(|_| Host::Get(operation).into()).collect(),
            2 => (0..12).map(|token| get(Packet { token: token + 1, ..MESSAGE })).collect(),
            3 => (0..12).map(|_| put(MESSAGE)).collect(),
            _ => Vec::new(),
        };
        let mut ready = [true; 6];
        ready[stuck] = false;
        engine.both.set_ready(Ready(ready));
        let mut left = &filling[..];
        let taken = engine.both.run(left, 0).unwrap();
        left = &left[taken..];
        // Commands that do not need the stuck port and are not behind one that does.
        let before = engine.both.timings().len();
        let free: Vec<Input> = match stuck {
            0 | 1 => vec![get(Packet { token: 9, ..MESSAGE }), put(MESSAGE)],
            2 => vec![Host::Put(operation).into(), Host::CounterAlloc.into()],
            3 => vec![get(Packet { token: 9, ..MESSAGE }), Host::Put(operation).into()],
            _ => vec![get(Packet { token: 9, ..MESSAGE }), put(MESSAGE), Host::Put(operation).into()],
        };
        assert_eq!(engine.both.run(&free, 100).unwrap(), free.len(), "port {stuck}");
        assert_eq!(engine.both.timings().len() - before, free.len(), "port {stuck}");
        engine.both.set_ready(Ready::ALL);
        engine.all(left);
    }
}

#[test]
fn packets_that_are_none_are_counted_and_dropped() {
    let Some(mut engine) = Engine::small() else { return };
    engine.host(&[append(list::PRIORITY, entry(0, NONE))]);
    let good = Packet { kind: kind::PUT, token: 4, ..MESSAGE };
    let mut bad = Vec::new();
    for at in [0, 1, 2, 3, 6, 7, 20, 52, 68] {
        let mut message = good.encode(false);
        message[at] ^= 0xf8;
        bad.push(Input::packet(Buffer::Put, message));
    }
    bad.push(Input::packet(Buffer::Put, Packet { kind: kind::GET, ..good }.encode(false)));
    bad.push(Input::packet(Buffer::GetHeader, good.encode(false)));
    bad.push(Input::packet(Buffer::Response, good.encode(false)));
    bad.push(Input { buffer: Buffer::Command, message: [0xff; 128], host: None });
    engine.all(&bad);
    engine.host(&[
        Host::Append { portal: 3, which: 0, spec: entry(0, NONE) },
        append(list::PRIORITY, EntrySpec { length: 1 << 32, ..entry(0, NONE) }),
        append(list::PRIORITY, entry(options::IOVEC, NONE)),
        Host::Unlink(NONE),
        Host::Unbind(12345),
    ]);
}

/// Cycles from a command's last frame to its retirement, one alone.
#[test]
fn cycles_of_commands_alone() {
    let Some(mut engine) = Engine::whole() else { return };
    engine.host(&[Host::CounterAlloc, Host::CounterAlloc]);
    let [one, other] = engine.both.model.created.counters[..] else { panic!("two counters") };
    let view = view(0, engine.queue, one);
    engine.host(&[
        Host::Bind(view),
        append(list::PRIORITY, EntrySpec { length: 1 << 20, ..entry(options::EVENT_CT_COMM, one) }),
    ]);
    let descriptor = engine.last(|made| made.descriptors.last());
    let operation = Operation { descriptor, length: 16, ..Operation::default() };
    let once = append(list::PRIORITY, EntrySpec { match_bits: 6, ..entry(options::USE_ONCE, NONE) });
    let mut cycles = |input: Input| {
        engine.all(&[input]);
        let timing = *engine.both.timings().last().expect("it has retired");
        timing.retired - timing.accepted
    };
    let measured = [
        ("put", cycles(put(MESSAGE)), 11),
        ("get", cycles(get(Packet { token: 9, ..MESSAGE })), 11),
        ("append", cycles(once.into()), 9),
        ("put that uses it up", cycles(put(Packet { match_bits: 6, ..MESSAGE })), 12),
        ("put of the host", cycles(Host::Put(operation).into()), 8),
        ("counter", cycles(Host::CounterIncrement { counter: other, success: 1, failure: 0 }.into()), 8),
    ];
    for (name, cycles, expected) in measured {
        assert_eq!(cycles, expected, "{name}");
    }
}

/// Back-to-back messages, each with two events (PUT, AUTO_UNLINK): one every four cycles, as a header's frames.
#[test]
fn a_stream_of_messages() {
    let Some(mut engine) = Engine::whole() else { return };
    let entry = |tag: u64| {
        append(
            list::PRIORITY,
            EntrySpec { match_bits: tag, ..entry(options::USE_ONCE | options::EVENT_LINK_DISABLE, NONE) },
        )
    };
    engine.host(&(0..100).map(entry).collect::<Vec<_>>());
    let before = engine.both.timings().len();
    engine.all(&(0..100).map(|tag| put(Packet { match_bits: tag, ..MESSAGE })).collect::<Vec<_>>());
    let timings = &engine.both.timings()[before..];
    let cycles: Vec<u32> = timings.windows(2).map(|pair| pair[1].retired - pair[0].retired).collect();
    assert!(cycles[8..].iter().all(|&cycles| cycles == 4), "{cycles:?}");
}

/// Mean cycles a message, in hundredths, of a stream in which the host sends a command of another type after every
/// `puts` messages.
fn stream_with(command: &str, puts: u64) -> Option<u32> {
    const MESSAGES: u64 = 120;
    let mut engine = Engine::whole()?;
    let view = view(options::MD_EVENT_SEND_DISABLE, NONE, NONE);
    engine.host(&[
        Host::CounterAlloc,
        Host::Bind(view),
        append(list::PRIORITY, EntrySpec { length: 1 << 20, ..entry(0, NONE) }),
    ]);
    let counter = engine.last(|made| made.counters.last());
    let descriptor = engine.last(|made| made.descriptors.last());
    let inputs = (0..MESSAGES).flat_map(|number| {
        let between = (number % puts == 0).then(|| match command {
            "counter" => Input::from(Host::CounterIncrement { counter, success: 1, failure: 0 }),
            "put" => Input::from(Host::Put(Operation { descriptor, length: 16, ..Operation::default() })),
            "bind" => Input::from(Host::Bind(view)),
            _ => response(Packet { token: 0x9999, ..MESSAGE }),
        });
        between.into_iter().chain([put(MESSAGE)])
    });
    let before = engine.both.timings().len();
    engine.all(&inputs.collect::<Vec<_>>());
    let retired: Vec<u32> = engine.both.timings()[before..]
        .iter()
        .filter(|timing| timing.buffer == Some(Buffer::Put))
        .map(|timing| timing.retired)
        .collect();
    let (first, last) = (retired[8], retired[retired.len() - 1]);
    Some((last - first) * 100 / (retired.len() as u32 - 9))
}

/// Commands of other types beside a stream of messages: one after every second message costs the stream nothing, one
/// after every message a cycle or two.
#[test]
fn a_stream_of_messages_with_commands_between() {
    for (command, behind_each) in [("counter", 600), ("put", 600), ("bind", 500), ("response", 500)] {
        for puts in 1..=4 {
            let Some(cycles) = stream_with(command, puts) else { return };
            let expected = if puts == 1 { behind_each } else { 400 };
            assert!(cycles.abs_diff(expected) <= 3, "{command} behind {puts} messages: {cycles}, not {expected}");
        }
    }
}
