// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transitions allocate nothing: a counting allocator, and random histories of transitions under it.
//!
//! `selvedge-nic` builds without an operating system, but one of its dependencies brings the crate `alloc` in. So the
//! build alone is no proof.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};

use common::pair::{Pair, op};
use common::watch::{self, transition};
use common::{Home, MEMORY_AT, TINY, TestBus, rma as rma_home};
use proptest::prelude::*;
use selvedge_nic::arithmetic::{Datatype, Located, Operation, apply, apply_located};
use selvedge_nic::atu::ats::{FlushRequest, FlushResponse, Transaction, TranslationRequest};
use selvedge_nic::atu::pipeline::{Output, Progress, Request as AtuRequest};
use selvedge_nic::atu::{
    Access, AddressEntry, FlushMode, FlushTarget, NlaPage, PageSize, Pipeline, Rights, TranslationFault, Unit,
};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::operation::apply_swap;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, Put, Verdict, ack, fail, list, options};
use selvedge_nic::rma::{self, Descriptor, LockRequest, Operation as RmaOperation};
use selvedge_nic::tables::{Command, LockWaiter, Request, Side, kind};
use selvedge_nic::velo::{self, Endpoint, Extent, Mailbox, Reassembler, Status, VeloMessage};
use selvedge_nic::{Limits, NoMemory};

/// The system's allocator; notes allocations inside a transition.
struct Counting;

// SAFETY: every call goes unchanged to the system's allocator; the note touches thread-local cells only, which need no
// allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        watch::allocated();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        watch::allocated();
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        watch::allocated();
        // SAFETY: the caller's.
        unsafe { System.realloc(block, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_allocator_notices() {
    let result = std::panic::catch_unwind(|| transition(|| std::hint::black_box(vec![1u8])));
    assert!(result.is_err() && watch::allocations() != 0);
    let before = watch::allocations();
    transition(|| {
        let _outside = watch::outside();
        std::hint::black_box(vec![1u8]);
    });
    assert_eq!(watch::allocations(), before, "the home may allocate");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// The histories of `nic/oracle.rs`. Each transition asserts that it allocates nothing.
    #[test]
    fn histories_of_messages(capacity in 1..12u32, ops in proptest::collection::vec(op(), 1..60)) {
        Pair::run(capacity, &ops);
    }
}

/// All operations on all datatypes; the dependency with `alloc` computes long doubles.
#[test]
fn arithmetic() {
    let mut bytes = [0u8; 64];
    for datatype in (0..16).filter_map(Datatype::from_number) {
        for operation in (0..18).filter_map(Operation::from_u32) {
            for seed in [0u8, 1, 0x3f, 0x7f, 0xff] {
                bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at as u8).wrapping_mul(37) ^ seed);
                let (target, operand) = bytes.split_at_mut(32);
                transition(|| {
                    apply(operation, datatype, target, operand);
                    apply_swap(operation, datatype, target, operand, &[seed; 32]);
                    if let Some(pair) = Located::new(datatype, Datatype::Int32) {
                        apply_located(operation, pair, target, operand);
                    }
                });
            }
        }
    }
}

const LIMITS: Limits = Limits { counters: 4, portals: 3, queues: 2, entries: 8, ..TINY };

/// The transitions that the histories of messages lack.
#[derive(Clone, Copy, Debug)]
enum Call {
    Bind,
    Release,
    Counter,
    FreeCounter,
    Queue,
    FreeQueue,
    Portal(bool),
    Arm(u64, u8),
    Cancel,
    Count(u64),
    Run,
    Return,
    FailOrphans,
    PostReceive,
    TakeReceive,
    Unexpected,
    PlainPut(u64),
    Complete(u8),
    Pend,
    Grant(u64),
    PutGranted,
    GiveUp,
    RevokeAll,
    Lane,
    Clear,
    Recover,
}

fn call() -> impl Strategy<Value = Call> {
    use Call::*;
    let plain = [
        Bind,
        Release,
        Counter,
        FreeCounter,
        Queue,
        FreeQueue,
        Cancel,
        Run,
        Run,
        Return,
        FailOrphans,
        PostReceive,
        PostReceive,
        TakeReceive,
        Unexpected,
        Pend,
        PutGranted,
        GiveUp,
        RevokeAll,
        Lane,
        Clear,
        Recover,
    ];
    prop_oneof![
        10 => proptest::sample::select(plain.to_vec()),
        1 => any::<bool>().prop_map(Portal),
        2 => (0..4u64, 0..7u8).prop_map(|(threshold, what)| Arm(threshold, what)),
        2 => (0..3u64).prop_map(Count),
        2 => (0..32u64).prop_map(PlainPut),
        2 => (0..6u8).prop_map(Complete),
        2 => (1..4u64).prop_map(Grant),
    ]
}

struct Program {
    home: Home,
    bus: TestBus,
    counters: Vec<u32>,
    queue: u32,
    descriptor: u32,
}

impl Program {
    fn counter(&self) -> u32 {
        self.counters.last().copied().unwrap_or(NONE)
    }

    fn command(&self, kind: u8) -> Command {
        let counts = options::MD_EVENT_CT_SEND | options::MD_EVENT_CT_ACK | options::MD_EVENT_CT_REPLY;
        let side = Side { options: counts, queue: self.queue, counter: self.counter(), ..Side::NOWHERE };
        let request = Request { kind, ack: ack::FULL, length: 8, ..Request::default() };
        Command { request, target: 1, user_ptr: 3, source: side, sink: side }
    }

    fn spec(&self, flags: u32) -> EntrySpec {
        EntrySpec {
            options: flags,
            start: MEMORY_AT,
            length: 64,
            iov: NONE,
            iov_count: 0,
            match_bits: 0,
            ignore_bits: 0,
            source: 0,
            source_ignore: u64::MAX,
            min_free: 0,
            user_ptr: 0,
            counter: self.counter(),
            uid: u32::MAX,
        }
    }

    fn run(&mut self, call: Call) {
        let (counter, queue, put) = (self.counter(), self.queue, Put { length: 8, ..PUT });
        let persistent = self.spec(options::OP_PUT | options::EVENT_CT_COMM);
        let receive = self.spec(options::OP_PUT | options::USE_ONCE);
        let commands =
            [kind::PUT, kind::GET, kind::ATOMIC, kind::FETCH_ATOMIC, kind::SWAP].map(|kind| self.command(kind));
        let (nic, bus) = (&mut self.home.nic(), &mut self.bus);
        match call {
            Call::Bind => {
                let view = DescriptorView { queue, counter, iov: NONE, ..DescriptorView::default() };
                self.descriptor = transition(|| nic.descriptors().bind(&view)).unwrap_or(self.descriptor);
                transition(|| nic.signals.descriptor(self.descriptor));
            }
            Call::Release => _ = transition(|| nic.descriptors().release(self.descriptor)),
            Call::Counter => self.counters.extend(transition(|| nic.counters().alloc()).ok()),
            Call::FreeCounter => {
                if transition(|| nic.counters().free(counter)).is_ok() {
                    self.counters.pop();
                }
            }
            Call::Queue => self.queue = transition(|| nic.queues().alloc(3)).unwrap_or(queue),
            Call::FreeQueue => _ = transition(|| nic.queues().free(queue)),
            Call::Portal(enabled) => {
                _ = transition(|| nic.portal_table().alloc(Some(0), 0, NONE));
                _ = transition(|| nic.portal_table().alloc(Some(1), 0, queue));
                _ = transition(|| nic.portal_table().set(0, enabled));
                _ = transition(|| nic.portal_table().free(1));
            }
            Call::Arm(threshold, what) => {
                let entry = transition(|| nic.lists().reserve(0, &persistent)).unwrap_or(NONE);
                let action = match what {
                    0 => Action::Command(&commands[0]),
                    1 => Action::Append { entry, list: list::PRIORITY },
                    2 => Action::Append { entry, list: list::OVERFLOW },
                    3 => Action::Receive { entry, queue },
                    4 => Action::Unlink { entry: 0 },
                    5 => Action::CounterSuccess { counter, success: 1 },
                    _ => Action::CounterIncrement { counter, success: 1, failure: 0 },
                };
                if let Ok(armed) = transition(|| nic.triggered().arm(counter, threshold, action)) {
                    transition(|| nic.triggered().is_armed(armed));
                }
            }
            Call::Cancel => _ = transition(|| nic.triggered().cancel_all(counter)),
            Call::Count(by) => {
                transition(|| nic.counters().increment(counter, by, 1));
                transition(|| nic.counters().set(counter, by, 0));
            }
            Call::Run => {
                if let Ok(Some(fired)) = transition(|| nic.triggered().next_fired(bus, 1)) {
                    transition(|| nic.triggered().begin_report(fired.index, &fired.command, false));
                    transition(|| nic.complete_send(&fired.command, fail::OK));
                    transition(|| nic.triggered().finish_run(fired.index, 1));
                }
            }
            Call::Return => {
                if let Ok(Some(fired)) = transition(|| nic.triggered().next_fired(bus, 1)) {
                    transition(|| nic.triggered().return_fired(fired.index));
                }
            }
            Call::FailOrphans => transition(|| nic.fail_orphans(&mut NoMemory, |_| false)),
            Call::PostReceive => {
                if let Ok(Posted::Matched(found)) = transition(|| nic.receives().post(bus, 0, &receive)) {
                    transition(|| nic.receives().drop_unexpected(found));
                }
            }
            Call::TakeReceive => {
                bus.mapped = true;
                _ = transition(|| nic.receives().take(bus, &Put { portal: 0, ..put }));
                _ = transition(|| nic.receives().head(0).and_then(|mut head| head.take_receive(bus, &put, |_| true)));
            }
            Call::Unexpected => {
                let flags = options::OP_PUT | options::MANAGE_LOCAL;
                _ = transition(|| nic.lists().append(bus, 0, list::OVERFLOW, &EntrySpec { options: flags, ..receive }));
                let request = Request { kind: kind::PUT, length: 8, ..Request::default() };
                transition(|| nic.deliver(bus, &request));
                transition(|| nic.deliver_own(bus, &request));
                if let Some(found) = transition(|| nic.receives().find_unexpected(bus, 0, &receive)) {
                    transition(|| nic.receives().claim_unexpected(found));
                    transition(|| nic.receives().drop_unexpected(found));
                }
            }
            Call::PlainPut(offset) => {
                bus.mapped = true;
                transition(|| nic.target().plain_put(bus, &Put { remote_offset: offset, ..put }));
            }
            Call::Complete(at) => {
                let command = &commands[usize::from(at) % commands.len()];
                transition(|| nic.complete_send(command, fail::OK));
                transition(|| nic.complete_response(command, &Delivery::failed(fail::SEGV)));
                transition(|| nic.signals.take_event(queue));
            }
            Call::Pend => {
                if let Ok(token) = transition(|| nic.pending_mut().add(&commands[1], 7)) {
                    transition(|| nic.pending().find(|_, responder| responder == 7));
                    transition(|| nic.pending_mut().take(token));
                }
            }
            Call::Grant(holder) => {
                _ = transition(|| nic.lists().append(bus, 0, list::PRIORITY, &persistent));
                _ = transition(|| nic.grants().give_put(&put, holder, None, |_| true));
                _ = transition(|| nic.grants().give_lane(counter, holder, None, |_| true));
            }
            Call::PutGranted => {
                if let Ok(terms) = transition(|| nic.grants().give_put(&put, 9, None, |_| true)) {
                    transition(|| nic.grants().post(terms.queue, &terms.template, &put, terms.start).is_some());
                    transition(|| nic.grants().end(terms.handle.slot));
                }
            }
            Call::GiveUp => (0..4).for_each(|slot| transition(|| nic.grants().free_slot(slot))),
            Call::RevokeAll => {
                if let Err(revoking) = transition(|| nic.grants().revoke_all()) {
                    transition(|| nic.grants().finish_revoking(&revoking));
                }
            }
            Call::Lane => _ = transition(|| nic.counters().lane(counter, 5)),
            Call::Clear => {
                transition(|| nic.receives().clear_unexpected(0));
                _ = transition(|| nic.receives().clear_priority(0));
            }
            Call::Recover => transition(|| nic.recover(bus, |holder| holder == 1)),
        }
    }
}

const PUT: Put = Put { portal: 0, uid: 0, initiator: 0, match_bits: 0, remote_offset: 0, header_data: 0, length: 0 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn histories_of_the_other_transitions(calls in proptest::collection::vec(call(), 1..100)) {
        let mut program = Program {
            home: Home::new(&LIMITS),
            bus: TestBus { payload: vec![1; 64], ..TestBus::default() },
            counters: Vec::new(),
            queue: NONE,
            descriptor: NONE,
        };
        for call in [Call::Counter, Call::Queue, Call::Portal(true)].into_iter().chain(calls) {
            program.run(call);
        }
    }
}

/// The address translation unit: the driver's calls, translations, flushes, and the pipeline.
#[test]
fn translations() {
    let limits = Limits { vpids: 1, address_tables: 1, tlb_entries: 4, tlb_ways: 2, ..TINY }.clamped();
    let mut home = Home::new(&limits);
    let nic = &mut home.nic();
    let page = |number| NlaPage::new(number).unwrap();
    for round in 0..4u64 {
        for number in 0..8 {
            let entry = AddressEntry::new(Rights::ReadWrite, 1, number * (1 + round), PageSize::Kib4).unwrap();
            transition(|| nic.atu().write_entry(page(number), entry)).unwrap();
        }
        let large = AddressEntry::new(Rights::ReadOnly, 1, 32, PageSize::Kib64).unwrap();
        transition(|| nic.atu().write_large_page(page(16), large)).unwrap();
        for (number, bytes) in [(0, 1), (1, 20_000), (5, 4096), (16, 1 << 16), (20, 1 << 20)] {
            _ = transition(|| nic.atu().translate(&mut NoMemory, 1, number << 12, bytes, Access::Read));
            let visit = |_: &mut NoMemory, _, _, _| Ok::<(), TranslationFault>(());
            _ = transition(|| nic.atu().translate_all(&mut NoMemory, 1, number << 12, bytes, Access::Write, visit));
        }
        transition(|| nic.atu().clear_entries(page(2), 3)).unwrap();
        let mut flush = transition(|| nic.atu().flush_entries(page(2), 3, FlushMode::Both)).unwrap();
        for unit in Unit::ALL {
            transition(|| nic.atu().answer_flush(&mut flush, unit)).unwrap();
        }
        _ = transition(|| nic.atu().flush_vpid(1, FlushMode::Tlb));
    }
    let mut pipeline = transition(Pipeline::<8, 4, 2>::new);
    for tag in 0..200u16 {
        let request = TranslationRequest {
            unit: Unit::Completer,
            tag,
            vpid: 1,
            page: page(u64::from(tag % 11)),
            access: Access::Read,
        };
        let flush = FlushRequest { tag, target: FlushTarget::Pages { first: request.page, count: 2 } };
        _ = transition(|| pipeline.submit(AtuRequest::Translation(request)));
        if tag % 5 == 0 {
            _ = transition(|| pipeline.submit(AtuRequest::Flush { request: flush, mode: FlushMode::Both }));
            _ = transition(|| pipeline.submit(AtuRequest::Fence { tag }));
        }
        loop {
            match transition(|| pipeline.step(&mut nic.atu(), &mut NoMemory)) {
                Progress::Idle => break,
                Progress::Sent(Output::TableRead { tag, page }) => {
                    let word = nic.atu().table_entry(page).bits();
                    transition(|| pipeline.table_read_done(tag, word)).unwrap();
                }
                Progress::Sent(Output::Response(response)) => {
                    let sent = Transaction::TranslationResponse(response);
                    assert_eq!(transition(|| sent.encode().map(Transaction::decode)), Ok(Ok(sent)));
                }
                Progress::Sent(Output::Flush { unit, request }) => {
                    let answer = FlushResponse { unit, tag: request.tag };
                    transition(|| pipeline.flush_answered(&mut nic.atu(), answer)).unwrap();
                }
                _ => {}
            }
        }
    }
    assert!(pipeline.is_empty());
}

#[test]
fn the_velo_unit_allocates_nothing() {
    let limits = Limits { vpids: 2, mailbox_slots: 8, velo_bytes: 120, notifications: 2, ..Limits::NONE };
    let mut home = Home::new(&limits);
    let mut bus = TestBus { payload: vec![1; 120], ..TestBus::default() };
    let (mut nic, mut reassembler) = (home.nic(), Reassembler::<2>::default());
    let source = Endpoint { node: 1, vpid: 2 };
    let statuses: Vec<Status> = [(8, 0, 8), (120, 0, 120), (64, 0, 24), (64, 24, 40), (64, 8, 8), (112, 0, 56)]
        .into_iter()
        .filter_map(|(message_bytes, offset, bytes)| Extent::part(message_bytes, offset, bytes))
        .map(|extent| Status { source, extent, mtt: 0, tag: 0, error: false })
        .collect();
    for round in 0..20 {
        transition(|| {
            let flags = if round % 2 == 0 { velo::options::REFUSE } else { 0 };
            let id = nic.ports().open(None, flags).expect("room");
            let mut reader = Mailbox::new(&nic.signals, id.vpid, round).expect("it exists");
            for status in &statuses {
                let message = VeloMessage { vpid: id.vpid, status: *status, bytes: status.extent.bytes() };
                let _ = nic.velo().receive(&mut bus, &message);
                let mut bytes = [0; 120];
                while let Ok(Some((status, length))) = reader.take(&nic.signals, &mut bytes) {
                    let _ = reassembler.add(&status, &bytes[..length]);
                }
            }
            nic.velo().recover();
            nic.ports().close(id).expect("it is open");
        });
    }
}

#[test]
fn the_rma_unit_allocates_nothing() {
    let mut home = Home::new(&rma_home::limits(2, 4, 2, 2));
    let memory = vec![0; 4 * rma_home::PAGE as usize];
    let mut bus = TestBus { memory, payload: vec![1; 5000], mapped: true, ..TestBus::default() };
    let mut nic = home.nic();
    for (page, target) in [(0, 1), (1, 0), (2, 2), (3, 3)] {
        rma_home::register(&mut nic, page, Rights::ReadWrite, 1, rma_home::FIRST_PAGE + target);
    }
    // Contiguous and not, refused, and commands without memory.
    let operations = [
        (rma::code::BT_PUT, RmaOperation::Put { read: 8192, write: 4, bytes: 5000 }),
        (rma::code::BT_PUT, RmaOperation::Put { read: 4, write: 8192, bytes: 5000 }),
        (rma::code::QW_GET, RmaOperation::Get { read: 8, write: 8192, bytes: 4096 }),
        (rma::code::BT_GET, RmaOperation::Get { read: 1 << 20, write: 8192, bytes: 1 }),
        (rma::code::IMMEDIATE_PUT, RmaOperation::ImmediatePut { write: 4092, value: 1, bytes: 8 }),
        (rma::code::NOTIFICATION_PUT, RmaOperation::NotificationPut { value: 1, class: 1 }),
        (rma::code::LOCK, RmaOperation::Lock { number: 1, compare: 3, add: 1 }),
        (rma::code::LOCK, RmaOperation::Lock { number: 1024, compare: 0, add: 1 }),
    ];
    let mut head = 0;
    let port = transition(|| nic.ports().open(Some(1), 0)).expect("it is free");
    for round in 0..4u8 {
        for (code, operation) in operations {
            let spec = if round == 0 { 0 } else { rma::spec::ALL };
            let descriptor = Descriptor { code, node: 3, vpid: 1, spec, modifiers: round / 3 * 15, operation };
            let from = rma::Requester { prototype: round == 2, ..rma_home::requester(1) };
            transition(|| {
                let words = descriptor.encode();
                let descriptor = Descriptor::decode(&words).expect("it was encoded");
                let Ok(command) = nic.rma().request(&mut bus, &from, &descriptor) else { return };
                let Verdict::Done(delivery) = nic.deliver(&mut bus, &command.request) else { return };
                let _ = nic.admits_reply(&mut bus, &command);
                nic.complete_send(&command, fail::OK);
                nic.complete_response(&command, &delivery);
            });
            // Some are discarded.
            transition(|| nic.signals.take_notification(1, &mut head));
        }
        transition(|| {
            for token in 0..4 {
                let request = LockRequest { vpid: 1, number: 2, compare: -1 - token as i32, add: -1 };
                let kept = LockWaiter { token, ..LockWaiter::default() };
                let _ = nic.locks().request_or_keep(&mut bus, &request, kept);
            }
            let _ = nic.locks().request(&mut bus, &LockRequest { vpid: 1, number: 2, compare: i32::MAX, add: -2 });
            while let Some(answer) = nic.locks().next_answer(1, |_| true) {
                nic.locks().finish_answer(answer.index, answer.sequence);
            }
            nic.locks().forget_waiters(|waiter| waiter.token % 2 == 0);
            nic.notifications().recover();
        });
    }
    assert!(head > 8);
    transition(|| nic.ports().close(port)).expect("it is open");
}
