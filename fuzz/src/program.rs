// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A random program: any operation on a NIC, with any arguments.

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Delivery, EntrySpec, options};
use selvedge_nic::tables::{Command, Request, Side};
use selvedge_nic::{Bus, Nic};

use crate::campaign::Source;
use crate::home::{MEMORY_AT, TestBus};

/// Results of operations, for reuse by this and other programs.
#[derive(Default)]
pub struct Program {
    pub references: Vec<u64>,
    /// Whether the program forges I/O vectors that the heap has not allocated.
    pub lies_about_vectors: bool,
}

/// More bus calls than any one operation on small tables may make.
pub const CALLS_MAX: u64 = 200_000;

impl Program {
    fn keep(&mut self, reference: Option<u64>) {
        self.references.extend(reference);
        if self.references.len() > 64 {
            self.references.remove(0);
        }
    }

    fn reference(&self, source: &mut Source) -> u32 {
        match source.below(8) {
            0 => source.nasty32(),
            1 => NONE,
            _ if self.references.is_empty() => 0,
            _ => source.pick(&self.references) as u32,
        }
    }

    fn spec(&self, nic: &mut Nic<'_>, source: &mut Source) -> EntrySpec {
        let mut spec = EntrySpec {
            options: source.word() as u32 & !options::IOVEC | source.pick(&[0, options::OP_PUT | options::OP_GET]),
            start: if source.one_in(8) { source.nasty() } else { MEMORY_AT + source.below(300) },
            length: if source.one_in(8) { source.nasty() } else { source.below(64) },
            iov: NONE,
            iov_count: 0,
            match_bits: source.below(4),
            ignore_bits: source.pick(&[0, 1, 2, 3, u64::MAX, 1 << 63]),
            source: source.below(3),
            source_ignore: source.pick(&[0, 1, u64::MAX]),
            min_free: if source.one_in(8) { source.nasty() } else { source.below(16) },
            user_ptr: source.word(),
            counter: self.reference(source),
            uid: if source.one_in(8) { 7 } else { u32::MAX },
        };
        if source.one_in(6) {
            let pieces: Vec<(u64, u64)> =
                (0..source.below(20)).map(|_| (MEMORY_AT + source.below(300), source.below(20))).collect();
            spec.options |= options::IOVEC;
            spec.iov_count = pieces.len() as u32;
            spec.length = pieces.iter().map(|piece| piece.1).sum();
            spec.iov = nic.heap().store_iov(pieces.into_iter()).unwrap_or(NONE);
        }
        if self.lies_about_vectors && source.one_in(4) {
            (spec.iov, spec.iov_count) = (source.nasty32(), source.nasty32() % 100_000);
        }
        spec
    }

    pub fn request(&self, source: &mut Source) -> Request {
        let sane = !source.one_in(4);
        Request {
            kind: if sane { 1 + source.below(5) as u8 } else { source.word() as u8 },
            operation: source.below(if sane { 18 } else { 256 }) as u8,
            datatype: source.below(if sane { 14 } else { 256 }) as u8,
            ack: source.below(4) as u8,
            portal: if sane { source.below(2) as u32 } else { source.nasty32() },
            uid: source.below(8) as u32,
            lookups: 0,
            initiator: source.below(3),
            match_bits: source.below(4),
            remote_offset: if source.one_in(6) { source.nasty() } else { source.below(40) },
            header_data: source.word(),
            length: if source.one_in(8) { source.nasty() } else { source.below(700) },
            operand: [source.nasty(), source.nasty(), source.nasty(), source.nasty()],
        }
    }

    fn side(&self, source: &mut Source) -> Side {
        Side {
            start: source.nasty(),
            iov: if source.one_in(4) { source.nasty32() } else { NONE },
            iov_count: source.nasty32(),
            options: source.word() as u32,
            queue: self.reference(source),
            counter: self.reference(source),
            reserved: 0,
        }
    }

    fn command(&self, source: &mut Source) -> Command {
        Command {
            request: self.request(source),
            target: source.nasty(),
            user_ptr: source.word(),
            source: self.side(source),
            sink: self.side(source),
        }
    }

    /// Runs one operation.
    pub fn step(&mut self, nic: &mut Nic<'_>, bus: &mut TestBus, source: &mut Source) {
        bus.calls = 0;
        bus.mapped = source.one_in(2);
        bus.reachable = !source.one_in(16);
        match source.below(8) {
            0..=3 => self.target(nic, bus, source),
            4..=5 => self.resources(nic, source),
            6 => self.triggered(nic, bus, source),
            _ => self.initiator(nic, bus, source),
        }
        assert!(bus.calls < CALLS_MAX, "an operation does not end: {} steps", bus.calls);
    }

    fn target(&mut self, nic: &mut Nic<'_>, bus: &mut TestBus, source: &mut Source) {
        let portal = if source.one_in(16) { source.nasty32() } else { source.below(2) as u32 };
        match source.below(8) {
            0..=2 => {
                let spec = self.spec(nic, source);
                match nic.lists().append(bus, portal, source.below(2) as u8, &spec) {
                    Ok(reference) => self.keep(Some(reference.into())),
                    Err(_) => nic.heap().free_iov(spec.iov),
                }
            }
            3..=5 => {
                let request = self.request(source);
                bus.payload.resize(request.length.min(800) as usize, 0x5a);
                bus.reply.clear();
                let _ = nic.deliver(bus, &request);
            }
            6 => {
                let spec = EntrySpec { iov: NONE, iov_count: 0, ..self.spec_without_vector(source) };
                let _ = nic.lists().search(bus, portal, &spec, source.one_in(2));
            }
            _ => {
                let _ = nic.lists().unlink(self.reference(source));
            }
        }
    }

    fn spec_without_vector(&self, source: &mut Source) -> EntrySpec {
        EntrySpec {
            options: source.word() as u32 & !options::IOVEC,
            start: 0,
            length: source.nasty(),
            iov: NONE,
            iov_count: 0,
            match_bits: source.below(4),
            ignore_bits: source.pick(&[0, 1, 2, 3, u64::MAX, 1 << 63]),
            source: source.below(3),
            source_ignore: source.pick(&[0, 1, u64::MAX]),
            min_free: source.nasty(),
            user_ptr: 0,
            counter: self.reference(source),
            uid: source.nasty32(),
        }
    }

    fn resources(&mut self, nic: &mut Nic<'_>, source: &mut Source) {
        let reference = self.reference(source);
        match source.below(14) {
            0 => self.keep(nic.counters().alloc().ok().map(u64::from)),
            1 if source.one_in(3) => drop(nic.counters().free(reference)),
            2 => self.keep(nic.queues().alloc(source.below(9) as u32).ok().map(u64::from)),
            3 if source.one_in(3) => drop(nic.queues().free(reference)),
            4 => drop(nic.queues().alloc(source.nasty32())),
            5 => {
                let wanted = if source.one_in(2) { None } else { Some(source.nasty32()) };
                let _ = nic.portal_table().alloc(wanted, source.word() as u32, reference);
            }
            6 if source.one_in(3) => drop(nic.portal_table().free(source.below(3) as u32)),
            7 => drop(nic.portal_table().set(source.below(3) as u32, !source.one_in(4))),
            8 => {
                let view = DescriptorView {
                    start: source.nasty(),
                    length: source.nasty(),
                    options: source.word() as u32,
                    queue: reference,
                    counter: reference,
                    iov: NONE,
                    iov_count: 0,
                };
                self.keep(nic.descriptors().bind(&view).ok().map(u64::from));
            }
            9 => drop(nic.descriptors().release(reference)),
            10 => nic.counters().increment(reference, source.nasty(), source.nasty()),
            11 => nic.counters().set(reference, source.nasty(), source.nasty()),
            12 => nic.queues().post_waiting_disabled(reference),
            _ => {
                for _ in 0..source.below(8) {
                    let _ = nic.signals.take_event(reference);
                }
            }
        }
    }

    fn triggered(&mut self, nic: &mut Nic<'_>, bus: &mut TestBus, source: &mut Source) {
        let (counter, object) = (self.reference(source), self.reference(source));
        let threshold = source.nasty();
        match source.below(9) {
            0 => {
                let command = self.command(source);
                let _ = nic.triggered().arm(counter, threshold, Action::Command(&command));
            }
            1 => {
                let (success, failure) = (source.nasty(), source.nasty());
                let _ =
                    nic.triggered().arm(counter, threshold, Action::CounterSet { counter: object, success, failure });
            }
            2 => {
                let (success, failure) = (source.nasty(), source.nasty());
                let _ = nic.triggered().arm(
                    counter,
                    threshold,
                    Action::CounterIncrement { counter: object, success, failure },
                );
            }
            3 => {
                let spec = self.spec_without_vector(source);
                if let Ok(entry) = nic.lists().reserve(source.below(3) as u32, &spec) {
                    self.keep(Some(entry.into()));
                    let _ =
                        nic.triggered().arm(counter, threshold, Action::Append { entry, list: source.below(2) as u8 });
                }
            }
            4 => drop(nic.triggered().arm(counter, threshold, Action::Unlink { entry: object })),
            5 => drop(nic.triggered().cancel_all(counter)),
            _ => {
                for _ in 0..source.below(6) {
                    let Ok(Some(fired)) = nic.triggered().next_fired(bus, 1) else { break };
                    match source.below(4) {
                        0 => nic.triggered().return_fired(fired.index),
                        1 => {}
                        _ => nic.triggered().finish_fired(fired.index),
                    }
                }
            }
        }
    }

    fn initiator(&mut self, nic: &mut Nic<'_>, bus: &mut impl Bus, source: &mut Source) {
        let command = self.command(source);
        let delivery = Delivery {
            fail: source.word() as u8,
            mlength: source.nasty(),
            remote_offset: source.nasty(),
            ack_disabled: source.one_in(4),
            list: source.word() as u8,
        };
        match source.below(7) {
            0 => nic.complete_send(&command, source.word() as u8),
            1 => nic.complete_response(&command, &delivery),
            2 => self.keep(nic.pending_mut().add(&command, source.below(3)).ok()),
            3 => drop(nic.pending_mut().take(source.nasty())),
            4 => {
                let token = u64::from(self.reference(source));
                let _ = nic.pending_mut().take(token);
            }
            5 => drop(nic.pending().find(|target, responder| target == 1 && responder != 1)),
            _ => {
                let dead = source.one_in(2);
                if source.one_in(8) {
                    nic.recover(bus, |_| !dead);
                } else {
                    nic.fail_orphans(bus, |_| !dead);
                }
            }
        }
    }
}
