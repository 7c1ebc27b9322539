// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC and the model side by side, and the operations of their histories.

use proptest::prelude::*;
use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{EntrySpec, Placed, Placement, Verdict, fail, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Fault, Register};

use super::model::{self, Model, Spec, Weather, essential};
use super::watch::transition;
use super::{Home, MEMORY_AT, MEMORY_BYTES, NOWHERE, TINY, TestBus, sane};

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Op {
    Append {
        portal: usize,
        which: u8,
        spec: Spec,
    },
    /// The entry of an earlier append, counted back from the last.
    Unlink(usize),
    Deliver {
        request: Request,
        weather: Weather,
    },
    /// A request whose payload comes after its match.
    Place(Request),
    Search {
        portal: usize,
        spec: Spec,
        delete: bool,
    },
    Enable(usize, bool),
    Reopen(usize),
    Take(usize),
    /// Rebuilds intact tables, which changes nothing.
    Recover,
}

pub const FLOW_CONTROLLED: [bool; 2] = [true, false];

/// Real NIC and model side by side.
pub struct Pair {
    pub home: Home,
    pub bus: TestBus,
    pub model: Model,
    pub queue: u32,
    pub counters: Vec<u32>,
    /// Reference and the model's number of each entry.
    pub entries: Vec<(u32, usize)>,
    pub requests: u64,
}

impl Pair {
    pub fn new(queue_capacity: u32) -> Pair {
        let limits = Limits { short_list: 1 << (queue_capacity % 4), ..TINY };
        let mut home = Home::new(&limits);
        let mut nic = home.nic();
        let queue = nic.queues().alloc(queue_capacity).expect("a queue");
        let counters = (0..2).map(|_| nic.counters().alloc().expect("a counter")).collect();
        for (portal, flow) in FLOW_CONTROLLED.into_iter().enumerate() {
            let flags = if flow { options::PT_FLOWCTRL } else { 0 };
            assert_eq!(nic.portal_table().alloc(Some(portal as u32), flags, queue), Ok(portal as u32));
        }
        let model = Model::new(&limits, &FLOW_CONTROLLED, 2, queue_capacity as usize);
        Pair { home, bus: TestBus::default(), model, queue, counters, entries: Vec::new(), requests: 0 }
    }

    pub fn entry_spec(&mut self, spec: &Spec) -> EntrySpec {
        let vector = spec.options & options::IOVEC != 0;
        let iov = match vector {
            true => {
                transition(|| self.home.nic().heap().store_iov(spec.pieces.iter().copied())).expect("room for a vector")
            }
            false => NONE,
        };
        EntrySpec {
            options: spec.options,
            start: if vector { MEMORY_AT } else { spec.pieces[0].0 },
            length: spec.length(),
            iov,
            iov_count: if vector { spec.pieces.len() as u32 } else { 0 },
            match_bits: spec.match_bits,
            ignore_bits: spec.ignore_bits,
            source: spec.source,
            source_ignore: spec.source_ignore,
            min_free: spec.min_free,
            user_ptr: spec.user_ptr,
            counter: spec.counter.map_or(NONE, |counter| self.counters[counter]),
            uid: spec.uid,
        }
    }

    pub fn step(&mut self, op: &Op) {
        match op {
            Op::Append { portal, which, spec } => {
                let fields = self.entry_spec(spec);
                let real =
                    transition(|| self.home.nic().lists().append(&mut self.bus, *portal as u32, *which, &fields));
                let modelled = self.model.append(*portal, *which, spec);
                assert_eq!(real.err(), modelled.err(), "append");
                match (real, modelled) {
                    (Ok(reference), Ok(entry)) => self.entries.push((reference, entry)),
                    _ => transition(|| self.home.nic().heap().free_iov(fields.iov)),
                }
            }
            Op::Unlink(back) => {
                let Some(&(reference, entry)) = self.entries.iter().rev().nth(*back) else { return };
                let real = transition(|| self.home.nic().lists().unlink(reference));
                assert_eq!(real, self.model.unlink(entry), "unlink");
            }
            Op::Deliver { request, weather } => self.deliver(request, *weather),
            Op::Place(request) => self.place(request),
            Op::Search { portal, spec, delete } => {
                let fields = self.entry_spec(spec);
                let real =
                    transition(|| self.home.nic().lists().search(&mut self.bus, *portal as u32, &fields, *delete));
                assert_eq!(real, Ok(()));
                self.home.nic().heap().free_iov(fields.iov);
                self.model.search(*portal, spec, *delete);
            }
            Op::Enable(portal, enabled) => {
                assert_eq!(transition(|| self.home.nic().portal_table().set(*portal as u32, *enabled)), Ok(()));
                self.model.set_enabled(*portal, *enabled);
            }
            Op::Reopen(portal) => {
                let freed = transition(|| self.home.nic().portal_table().free(*portal as u32)).is_ok();
                assert_eq!(freed, self.model.reopen(*portal), "freeing a portal table entry");
                if freed {
                    let flags = if FLOW_CONTROLLED[*portal] { options::PT_FLOWCTRL } else { 0 };
                    assert!(self.home.nic().portal_table().alloc(Some(*portal as u32), flags, self.queue).is_ok());
                }
            }
            Op::Take(count) => self.take(*count),
            Op::Recover => transition(|| self.home.nic().recover(&mut self.bus, |_| true)),
        }
        self.compare();
    }

    pub fn deliver(&mut self, request: &Request, weather: Weather) {
        self.requests += 1;
        let number = self.requests;
        let request = Request { header_data: number, ..*request };
        let payload: Vec<u8> = (0..request.length).map(|at| (number * 16 + at) as u8).collect();
        self.bus.payload.clone_from(&payload);
        self.bus.reply.clear();
        self.model.reply.clear();
        self.bus.mapped = weather == Weather::Mapped;
        self.bus.reachable = weather != Weather::Unreachable;
        self.bus.initiator_fault = (weather == Weather::InitiatorGone).then_some(Fault::Gone);
        let real = transition(|| self.home.nic().deliver(&mut self.bus, &request));
        let modelled = self.model.deliver(&request, &payload, weather);
        assert_eq!(real, modelled, "outcomes differ");
        assert_eq!(self.bus.reply, self.model.reply, "the reply");
    }

    /// As `deliver`, in two steps: the NIC first gives the payload's destination. The model delivers at once.
    pub fn place(&mut self, request: &Request) {
        self.requests += 1;
        let number = self.requests;
        let request = Request { header_data: number, ..*request };
        let payload: Vec<u8> = (0..request.length).map(|at| (number * 16 + at) as u8).collect();
        self.model.reply.clear();
        self.bus.reply.clear();
        (self.bus.mapped, self.bus.reachable, self.bus.initiator_fault) = (false, true, None);
        let offset = |start: u64| start.wrapping_sub(MEMORY_AT);
        let is_usable = |start: u64, bytes: u64| {
            offset(start) <= MEMORY_BYTES as u64 && bytes <= MEMORY_BYTES as u64 - offset(start)
        };
        let placement = transition(|| self.home.nic().target().place(&mut self.bus, &request, false, is_usable));
        self.bus.payload.clear();
        let real = match placement {
            Placement::At(Placed { header, start, bytes, .. }) => {
                let (at, bytes) = (offset(start) as usize, bytes as usize);
                self.bus.memory[at..at + bytes].copy_from_slice(&payload[..bytes]);
                let nic = &mut self.home.nic();
                let delivery =
                    transition(|| nic.target().finish_placed(&mut self.bus, header, fail::OK)).expect("it was placed");
                assert_eq!(nic.target().finish_placed(&mut self.bus, header, fail::OK), None, "finished twice");
                Verdict::Done(delivery)
            }
            whole => {
                if whole == Placement::Whole {
                    self.bus.payload.clone_from(&payload);
                }
                transition(|| self.home.nic().deliver(&mut self.bus, &request))
            }
        };
        let modelled = self.model.deliver(&request, &payload, Weather::Fine);
        assert_eq!(real, modelled, "outcomes differ");
        assert_eq!(self.bus.reply, self.model.reply, "the reply");
    }

    pub fn take(&mut self, count: usize) {
        for _ in 0..count {
            let real = match transition(|| self.home.nic().signals.take_event(self.queue)) {
                Taken::Event(event, lost) => Some((essential(event), lost)),
                Taken::Empty => None,
                Taken::Gone => panic!("the queue is gone"),
            };
            let modelled = self.model.take();
            assert_eq!(real, modelled, "the next event");
            if real.is_none() {
                break;
            }
        }
        transition(|| self.home.nic().queues().post_waiting_disabled(self.queue));
        self.model.post_waiting();
    }

    pub fn compare(&mut self) {
        use std::sync::atomic::Ordering::Acquire;
        let mut nic = self.home.nic();
        assert_eq!(self.bus.memory, self.model.memory, "the target's memory");
        for (&counter, &(success, failure)) in self.counters.iter().zip(&self.model.counters) {
            let counter = nic.signals.counter(counter).expect("the counter lives");
            assert_eq!((counter.success.load(Acquire), counter.failure.load(Acquire)), (success, failure), "a counter");
        }
        for register in Register::ALL {
            if matches!(register, Register::Requests | Register::ListSteps | Register::Recoveries) {
                continue;
            }
            let modelled = self.model.registers.get(register.name()).copied().unwrap_or(0);
            assert_eq!(nic.signals.registers.get(*register), modelled, "register {}", register.name());
        }
        assert_eq!(nic.tables.control.intent.stage, 0);
        sane::assert_sane(&mut nic);
    }

    pub fn run(queue_capacity: u32, ops: &[Op]) -> Pair {
        let mut pair = Pair::new(queue_capacity);
        for op in ops {
            pair.step(op);
        }
        pair.take(usize::MAX);
        pair.compare();
        pair
    }
}

impl Pair {
    /// A copy of the pair.
    pub fn fork(&self) -> Pair {
        Pair {
            home: self.home.clone(),
            bus: self.bus.clone(),
            model: self.model.clone(),
            queue: self.queue,
            counters: self.counters.clone(),
            entries: self.entries.clone(),
            requests: self.requests,
        }
    }
}

// ---- random histories ----

const BITS: [u64; 5] = [0, 1, 2, 3, 1 << 63];
const IGNORED_BITS: [u64; 6] = [0, 0, 1, 3, u64::MAX, 1 << 63];
const SOURCES: [u64; 3] = [1, 2, 1 << 32 | 1];
const IGNORED_SOURCES: [u64; 4] = [0, 0, u64::MAX, u32::MAX as u64];

pub fn spec() -> impl Strategy<Value = Spec> {
    use options::*;
    let seldom = [
        EVENT_LINK_DISABLE,
        EVENT_COMM_DISABLE,
        EVENT_FLOWCTRL_DISABLE,
        EVENT_SUCCESS_DISABLE,
        EVENT_OVER_DISABLE,
        EVENT_UNLINK_DISABLE,
        UNEXPECTED_HDR_DISABLE,
        ACK_DISABLE,
        NO_TRUNCATE,
    ];
    let seldom = proptest::collection::vec(proptest::sample::select(seldom.to_vec()), 0..3);
    let counting = proptest::sample::subsequence(vec![EVENT_CT_COMM, EVENT_CT_OVERFLOW, EVENT_CT_BYTES], 0..=3);
    let life = prop_oneof![
        3 => Just(USE_ONCE),
        3 => Just(0),
        2 => Just(MANAGE_LOCAL),
        2 => Just(MANAGE_LOCAL | LOCAL_INC_UH_RLENGTH),
        1 => Just(MANAGE_LOCAL | USE_ONCE),
    ];
    let allowed = prop_oneof![8 => Just(OP_PUT | OP_GET), 1 => Just(OP_PUT), 1 => Just(OP_GET)];
    let memory = prop_oneof![
        8 => (0..6u64, proptest::sample::select(vec![0u64, 8, 16, 40]))
            .prop_map(|(at, length)| (0, vec![(MEMORY_AT + at * 24, length)])),
        2 => proptest::collection::vec((0..12u64, 0..20u64), 1..4).prop_map(|pieces| {
            (IOVEC, pieces.into_iter().map(|(at, length)| (MEMORY_AT + at * 12, length)).collect())
        }),
        1 => Just((0, vec![(NOWHERE, 40u64)])),
        1 => Just((0, vec![(MEMORY_AT + MEMORY_BYTES as u64 - 4, 16u64)])),
    ];
    let select = proptest::sample::select;
    (
        (seldom, counting, life, allowed, memory),
        (select(&BITS[..]), select(&IGNORED_BITS[..]), select(&SOURCES[..]), select(&IGNORED_SOURCES[..])),
        (0..3u64, 0..100u64, proptest::option::of(0..2usize), prop_oneof![6 => Just(u32::MAX), 1 => Just(0u32)]),
    )
        .prop_map(
            |((seldom, counting, life, allowed, (vector, pieces)), bits, (min_free, user_ptr, counter, uid))| {
                let options = seldom.into_iter().chain(counting).fold(life | allowed | vector, |all, one| all | one);
                let (match_bits, ignore_bits, source, source_ignore) = bits;
                let min_free = min_free * 8;
                Spec {
                    options,
                    pieces,
                    match_bits,
                    ignore_bits,
                    source,
                    source_ignore,
                    min_free,
                    user_ptr,
                    counter,
                    uid,
                }
            },
        )
}

pub fn request() -> impl Strategy<Value = Request> {
    let select = proptest::sample::select;
    let what = prop_oneof![
        8 => (0..24u64).prop_map(|length| (kind::PUT, 0, 0, length)),
        3 => (0..24u64).prop_map(|length| (kind::GET, 0, 0, length)),
        2 => (0..24u64).prop_map(|length| (kind::ATOMIC, model::SUM, model::UINT8, length)),
        2 => (0..4u64).prop_map(|count| (kind::ATOMIC, model::SUM, model::UINT64, count * 8)),
        2 => (0..4u64).prop_map(|count| (kind::FETCH_ATOMIC, model::SUM, model::UINT64, count * 8)),
        1 => Just((kind::SWAP, model::SWAP, model::UINT64, 8)),
        1 => Just((kind::SWAP, model::COMPARE_SWAP, model::UINT64, 8)),
    ];
    let portal = prop_oneof![8 => Just(0u32), 8 => Just(1), 1 => Just(2)];
    let offset = prop_oneof![4 => Just(0u64), 2 => 0..48u64, 1 => Just(u64::MAX - 4)];
    (what, portal, select(&BITS[..]), select(&SOURCES[..]), offset, 0..2u32).prop_map(
        |((kind, operation, datatype, length), portal, match_bits, initiator, remote_offset, uid)| Request {
            kind,
            operation,
            datatype,
            portal,
            uid,
            initiator,
            match_bits,
            remote_offset,
            length,
            ..Request::default()
        },
    )
}

pub fn op() -> impl Strategy<Value = Op> {
    let which = prop_oneof![3 => Just(list::PRIORITY), 2 => Just(list::OVERFLOW)];
    let weather = prop_oneof![
        4 => Just(Weather::Fine),
        3 => Just(Weather::Mapped),
        1 => Just(Weather::Unreachable),
        1 => Just(Weather::InitiatorGone),
    ];
    prop_oneof![
        12 => (0..2usize, which, spec()).prop_map(|(portal, which, spec)| Op::Append { portal, which, spec }),
        16 => (request(), weather).prop_map(|(request, weather)| Op::Deliver { request, weather }),
        6 => request().prop_map(Op::Place),
        4 => (0..10usize).prop_map(Op::Unlink),
        3 => (0..2usize, spec(), any::<bool>()).prop_map(|(portal, spec, delete)| Op::Search { portal, spec, delete }),
        3 => (0..2usize, prop_oneof![5 => Just(true), 1 => Just(false)]).prop_map(|(portal, on)| Op::Enable(portal, on)),
        1 => (0..2usize).prop_map(Op::Reopen),
        6 => (0..12usize).prop_map(Op::Take),
        1 => Just(Op::Recover),
    ]
}
