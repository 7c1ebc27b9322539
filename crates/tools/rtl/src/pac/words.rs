// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs and outputs of the engine, as words (`rtl/pac/engine_pkg.sv`, `pac_unit_pkg.sv`).

use selvedge_nic::packet::HEADER_BYTES;
use selvedge_nic::portals::EntrySpec;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::registers::Register;

use crate::bits::Field;
use crate::records::reference;

crate::layout! {
    /// `pac_unit_pkg::command_t`.
    pub mod command { BUFFER: 2, MESSAGE: 1024 }
}
crate::layout! {
    /// `host_t`.
    pub mod host {
        SPARE: 135, ARMED_GENERATION: 24, ARMED: 16, THRESHOLD: 64, HEADER_DATA: 64, LOCAL_OFFSET: 64, REMOTE_OFFSET: 32,
        TARGET: 32, EVENTS: 27, OBJECT: 27, COUNTER: 27, UID: 32, USER_PTR: 64, MIN_FREE: 32, LENGTH: 64, START: 64,
        SOURCE_IGNORE: 32, SOURCE: 32, IGNORE_BITS: 64, MATCH_BITS: 64, OPTIONS: 32, RESERVED: 4, PORTAL: 6, VARIANT: 2,
        KIND: 8, ACK: 2, DELETE_FOUND: 1, OVERFLOW: 1, OPCODE: 8,
    }
}
crate::layout! {
    /// `answer_t`.
    pub mod answer {
        TAG: 32, STATUS: 3, REFERENCE: 27, ARMED: 16, ARMED_GENERATION: 24, SUCCESS: 64, FAILURE: 64,
    }
}
crate::layout! {
    /// `outside_in_t`.
    pub mod outside_in {
        SEND_PUT_READY: 1, SEND_GET_READY: 1, SEND_REPLY_READY: 1, RECEIVE_PUT_READY: 1, RECEIVE_REPLY_READY: 1, EVENT_READY: 1,
    }
}
crate::layout! {
    /// `outside_out_t`.
    pub mod outside_out {
        EVENTS: 1, EVENTS_OVERWRITTEN: 1, REQUESTS: 1, MATCHED_PRIORITY: 1, MATCHED_OVERFLOW: 1, UNEXPECTED: 1, TRUNCATED: 1,
        DROPPED: 1, PERMISSION_VIOLATIONS: 1, OPERATION_VIOLATIONS: 1, FLOW_CONTROL: 1, REFUSED_DISABLED: 1, BYTES_IN: 32,
        BYTES_OUT: 32, DISCARDED: 1, FULL_IRQ: 4, SEND_PUT_VALID: 1, SEND_PUT: 1120, SEND_GET_VALID: 1, SEND_GET: 1120, SEND_REPLY_VALID: 1,
        SEND_REPLY: 1120, RECEIVE_PUT_VALID: 1, RECEIVE_PUT: 128, RECEIVE_REPLY_VALID: 1, RECEIVE_REPLY: 128, EVENT_VALID: 1,
        EVENT_LINE: 545,
    }
}
crate::layout! {
    /// `send_t`.
    pub mod send { LENGTH: 32, START: 64, HEADER: 1024 }
}
crate::layout! {
    /// `receive_t`.
    pub mod receive { LENGTH: 32, START: 64, NUMBER: 32 }
}
crate::layout! {
    /// `event_line_t`.
    pub mod event_line { LINE: 33, DATA: 512 }
}
crate::layout! {
    /// The part of `trace_t` above the writes.
    pub mod trace {
        ASKED_VALID: 1, ASKED_TAG: 32, COUNTED_VALID: 1, COUNTED_TAG: 32, RETIRE_VALID: 1, RETIRE_TAG: 32,
    }
}

const _: () = assert!(host::BITS == 8 * HEADER_BYTES);

/// The buffers of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    Command,
    Put,
    GetHeader,
    Response,
}

/// A packet or a command for a buffer: 128 bytes.
pub type Message = [u8; HEADER_BYTES];

/// A message for a buffer, in the words of the unit.
pub fn pack(buffer: Buffer, message: &Message) -> [u32; command::WORDS] {
    let mut words = [0; command::WORDS];
    for (word, bytes) in words.iter_mut().zip(message.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    command::BUFFER.set(&mut words, buffer as u64);
    words
}

/// The counts of the engine, with the registers of `nic` that they stand for.
pub const COUNTS: [(Field, Register); 14] = {
    use outside_out as out;
    [
        (out::EVENTS, Register::Events),
        (out::EVENTS_OVERWRITTEN, Register::EventsOverwritten),
        (out::REQUESTS, Register::Requests),
        (out::MATCHED_PRIORITY, Register::MatchedPriority),
        (out::MATCHED_OVERFLOW, Register::MatchedOverflow),
        (out::UNEXPECTED, Register::Unexpected),
        (out::TRUNCATED, Register::Truncated),
        (out::DROPPED, Register::Dropped),
        (out::PERMISSION_VIOLATIONS, Register::PermissionViolations),
        (out::OPERATION_VIOLATIONS, Register::OperationViolations),
        (out::FLOW_CONTROL, Register::FlowControl),
        (out::REFUSED_DISABLED, Register::RefusedDisabled),
        (out::BYTES_IN, Register::BytesIn),
        (out::BYTES_OUT, Register::BytesOut),
    ]
};

/// Status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Done,
    /// A stale reference, a range outside its descriptor, an acknowledgement without a target.
    Invalid,
    Full,
    InUse,
    /// A value that is too wide for the RTL's words, or an unsupported command.
    TooWide,
    /// An append whose entry an unexpected message used up.
    Taken,
}

impl Status {
    pub fn of(code: u64) -> Option<Status> {
        use Status::{Done, Full, InUse, Invalid, Taken, TooWide};
        [Done, Invalid, Full, InUse, TooWide, Taken].get(code as usize).copied()
    }
}

/// Addresses and contents of an operation of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    pub descriptor: u32,
    pub local_offset: u64,
    pub length: u64,
    pub ack: u8,
    pub target: u32,
    pub portal: u32,
    pub match_bits: u64,
    pub remote_offset: u32,
    pub user_ptr: u64,
    pub header_data: u64,
}

/// The action of a triggered operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggered {
    Put(Operation),
    Get(Operation),
    Set { counter: u32, success: u64, failure: u64 },
    SetSuccess { counter: u32, success: u64 },
    Increment { counter: u32, success: u64, failure: u64 },
    Unlink(u32),
}

/// A command of the host.
#[derive(Clone, Copy, Debug)]
pub enum Host {
    /// The identity of this NIC: source and user of its requests, and its address in packets.
    Configure {
        initiator: u32,
        uid: u32,
        origin: u64,
    },
    /// An event queue: the start of its ring and its number of blocks; 0 blocks free it.
    Queue {
        reference: u32,
        ring: u32,
        length: u32,
    },
    /// Sets the number of events that the program has taken from a queue.
    QueueHead {
        reference: u32,
        taken: u64,
    },
    /// A portal table entry. Status: 0 free, 1 enabled, 2 disabled.
    Portal {
        portal: u32,
        status: u8,
        options: u32,
        queue: u32,
        epoch: u32,
    },
    Append {
        portal: u32,
        which: u8,
        spec: EntrySpec,
    },
    Unlink(u32),
    Search {
        portal: u32,
        spec: EntrySpec,
        delete: bool,
    },
    Bind(DescriptorView),
    Unbind(u32),
    CounterAlloc,
    CounterFree(u32),
    CounterSet {
        counter: u32,
        success: u64,
        failure: u64,
    },
    CounterIncrement {
        counter: u32,
        success: u64,
        failure: u64,
    },
    CounterGet(u32),
    Arm {
        counter: u32,
        threshold: u64,
        action: Triggered,
    },
    Cancel(u32),
    CancelOne {
        index: u32,
        generation: u32,
    },
    Put(Operation),
    Get(Operation),
}

impl Host {
    /// The command's 128 bytes. Panics if a value has more bits than its field.
    pub fn message(&self) -> Message {
        let mut words = [0; host::WORDS];
        let mut set = |field: Field, value: u64| field.set(&mut words, value);
        let opcode = match *self {
            Host::Configure { initiator, uid, origin } => {
                set(host::SOURCE, initiator.into());
                set(host::UID, uid.into());
                set(host::START, origin);
                0
            }
            Host::Queue { reference: queue, ring, length } => {
                set(host::OBJECT, reference(queue));
                set(host::START, ring.into());
                set(host::LENGTH, length.into());
                1
            }
            Host::Portal { portal, status, options, queue, epoch } => {
                set(host::PORTAL, portal.into());
                set(host::OPTIONS, u64::from(status) << 8 | u64::from(options));
                set(host::EVENTS, reference(queue));
                set(host::HEADER_DATA, epoch.into());
                2
            }
            Host::Append { portal, which, ref spec } => {
                set(host::OVERFLOW, which.into());
                set_spec(&mut set, portal, spec);
                3
            }
            Host::Unlink(entry) => {
                set(host::OBJECT, reference(entry));
                4
            }
            Host::Search { portal, ref spec, delete } => {
                set(host::DELETE_FOUND, delete.into());
                set_spec(&mut set, portal, spec);
                5
            }
            Host::Bind(view) => {
                set(host::START, view.start);
                set(host::LENGTH, view.length);
                set(host::OPTIONS, view.options.into());
                set(host::EVENTS, reference(view.queue));
                set(host::COUNTER, reference(view.counter));
                6
            }
            Host::Unbind(descriptor) => {
                set(host::OBJECT, reference(descriptor));
                7
            }
            Host::CounterAlloc => 8,
            Host::CounterFree(counter) => {
                set(host::COUNTER, reference(counter));
                9
            }
            Host::CounterSet { counter, success, failure } => {
                set_amounts(&mut set, counter, success, failure);
                10
            }
            Host::CounterIncrement { counter, success, failure } => {
                set_amounts(&mut set, counter, success, failure);
                11
            }
            Host::CounterGet(counter) => {
                set(host::COUNTER, reference(counter));
                12
            }
            Host::Arm { counter, threshold, ref action } => {
                set(host::THRESHOLD, threshold);
                let (kind, variant) = action.set(&mut set);
                set(host::KIND, kind.into());
                set(host::VARIANT, variant);
                set(host::COUNTER, reference(counter));
                13
            }
            Host::Cancel(counter) => {
                set(host::COUNTER, reference(counter));
                14
            }
            Host::CancelOne { index, generation } => {
                set(host::ARMED, index.into());
                set(host::ARMED_GENERATION, generation.into());
                15
            }
            Host::Put(ref operation) => {
                operation.set(&mut set);
                16
            }
            Host::Get(ref operation) => {
                operation.set(&mut set);
                17
            }
            Host::QueueHead { reference: queue, taken } => {
                set(host::OBJECT, reference(queue));
                set(host::HEADER_DATA, taken);
                18
            }
        };
        set(host::OPCODE, opcode);
        let mut message = [0; HEADER_BYTES];
        for (bytes, word) in message.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        message
    }
}

impl Triggered {
    fn set(&self, set: &mut impl FnMut(Field, u64)) -> (u8, u64) {
        use selvedge_nic::tables::kind;
        match *self {
            Triggered::Put(ref operation) => {
                operation.set(set);
                (kind::PUT, 0)
            }
            Triggered::Get(ref operation) => {
                operation.set(set);
                (kind::GET, 0)
            }
            Triggered::Set { counter, success, failure } => {
                set_object(set, counter, success, failure);
                (kind::COUNTER_SET, 0)
            }
            Triggered::SetSuccess { counter, success } => {
                set_object(set, counter, success, 0);
                (kind::COUNTER_SET, 1)
            }
            Triggered::Increment { counter, success, failure } => {
                set_object(set, counter, success, failure);
                (kind::COUNTER_INCREMENT, 0)
            }
            Triggered::Unlink(entry) => {
                set(host::OBJECT, reference(entry));
                (kind::UNLINK, 0)
            }
        }
    }
}

impl Operation {
    fn set(&self, set: &mut impl FnMut(Field, u64)) {
        set(host::OBJECT, reference(self.descriptor));
        set(host::LOCAL_OFFSET, self.local_offset);
        set(host::LENGTH, self.length);
        set(host::ACK, self.ack.into());
        set(host::TARGET, self.target.into());
        set(host::PORTAL, self.portal.into());
        set(host::MATCH_BITS, self.match_bits);
        set(host::REMOTE_OFFSET, self.remote_offset.into());
        set(host::USER_PTR, self.user_ptr);
        set(host::HEADER_DATA, self.header_data);
    }
}

fn set_amounts(set: &mut impl FnMut(Field, u64), counter: u32, success: u64, failure: u64) {
    set(host::COUNTER, reference(counter));
    set(host::MATCH_BITS, success);
    set(host::HEADER_DATA, failure);
}

fn set_object(set: &mut impl FnMut(Field, u64), counter: u32, success: u64, failure: u64) {
    set(host::OBJECT, reference(counter));
    set(host::MATCH_BITS, success);
    set(host::HEADER_DATA, failure);
}

fn set_spec(set: &mut impl FnMut(Field, u64), portal: u32, spec: &EntrySpec) {
    set(host::PORTAL, portal.into());
    set(host::OPTIONS, spec.options.into());
    set(host::MATCH_BITS, spec.match_bits);
    set(host::IGNORE_BITS, spec.ignore_bits);
    set(host::SOURCE, spec.source);
    set(host::SOURCE_IGNORE, spec.source_ignore & u64::from(u32::MAX));
    set(host::START, spec.start);
    set(host::LENGTH, spec.length);
    set(host::MIN_FREE, spec.min_free);
    set(host::USER_PTR, spec.user_ptr);
    set(host::UID, spec.uid.into());
    set(host::COUNTER, reference(spec.counter));
}
