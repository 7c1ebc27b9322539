// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of `counters_pkg.sv`: commands, answers, banks, ports.

use crate::bits::Field;
use crate::records::{REFERENCE_BITS, reference};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::tables::{self, Request, Side, Triggered, kind};

crate::layout! {
    /// `c0_t`.
    pub mod c0 { FAILURE: 64, SUCCESS: 64 }
}
crate::layout! {
    /// `c1_t`.
    pub mod c1 { GENERATION: 24, STATUS: 8, TAIL: 16, HEAD: 16, THRESHOLD_NEXT: 64 }
}
crate::layout! {
    /// `t0_t`.
    pub mod t0 {
        SPARE: 64, KIND: 8, VARIANT: 2, OBJECT: 27, COUNTER: 27, GENERATION: 24, STATUS: 8, PREV: 16, NEXT: 16, THRESHOLD: 64,
    }
}
crate::layout! {
    /// `body_t`: T2 above T1.
    pub mod body {
        SPARE: 8, TARGET: 32, INITIATOR: 32, UID: 32, REMOTE_OFFSET: 32, LENGTH: 32, EVENTS: 27, COUNTER: 27, OPTIONS: 17,
        PORTAL: 6, ACK: 2, OPERATION: 5, DATATYPE: 4, START: 64, USER_PTR: 64, HEADER_DATA: 64, MATCH_BITS: 64,
    }
}
crate::layout! {
    /// `command_t`.
    pub mod command {
        TAG: 32, OPERATION: 3, COUNTER: 27, THRESHOLD: 64, KIND: 8, VARIANT: 2, OBJECT: 27, ARMED: 16, ARMED_GENERATION: 24,
        BODY: 512,
    }
}
crate::layout! {
    /// `answer_t`.
    pub mod answer {
        TAG: 32, STATUS: 2, COUNTER: 27, ARMED: 16, ARMED_GENERATION: 24, SUCCESS: 64, FAILURE: 64,
    }
}
crate::layout! {
    /// `outside_in_t`.
    pub mod outside_in { GET_READY: 1, PUT_READY: 1, OTHER_READY: 1 }
}
crate::layout! {
    /// `outside_out_t`.
    pub mod outside_out {
        GET_VALID: 1, GET: 512, PUT_VALID: 1, PUT: 512, OTHER_VALID: 1, OTHER_KIND: 8, OTHER_VARIANT: 2, OTHER_OBJECT: 27,
        OTHER: 512,
    }
}

/// Words of 32 bits of a body.
pub const BODY_WORDS: usize = body::WORDS;

/// The words of T2 and T1: the contents of an operation.
pub type Body = [u32; BODY_WORDS];

/// The body of an operation that changes a counter.
pub fn amounts(success: u64, failure: u64) -> Body {
    let mut words = [0; BODY_WORDS];
    body::MATCH_BITS.set(&mut words, success);
    body::HEADER_DATA.set(&mut words, failure);
    words
}

/// The body of an operation that moves data. Panics if a value is wider than the RTL's field.
pub fn body_of(command: &tables::Command) -> Body {
    let mut words = [0; BODY_WORDS];
    for (field, value) in fields_of(command) {
        field.set(&mut words, value);
    }
    words
}

/// Whether the body has room for all values of the command, and its side has no I/O vector.
pub fn fits(command: &tables::Command) -> bool {
    let side = side_of(command);
    side.iov == NONE && fields_of(command).iter().all(|(field, value)| field.width == 64 || value >> field.width == 0)
}

fn side_of(command: &tables::Command) -> &Side {
    if command.kind == kind::GET { &command.sink } else { &command.source }
}

fn fields_of(command: &tables::Command) -> [(Field, u64); 16] {
    let (request, side) = (&command.request, side_of(command));
    [
        (body::TARGET, command.target),
        (body::INITIATOR, request.initiator),
        (body::UID, request.uid.into()),
        (body::REMOTE_OFFSET, request.remote_offset),
        (body::LENGTH, request.length),
        (body::EVENTS, reference(side.queue)),
        (body::COUNTER, reference(side.counter)),
        (body::OPTIONS, side.options.into()),
        (body::PORTAL, request.portal.into()),
        (body::ACK, request.ack.into()),
        (body::OPERATION, request.operation.into()),
        (body::DATATYPE, request.datatype.into()),
        (body::START, side.start),
        (body::USER_PTR, command.user_ptr),
        (body::HEADER_DATA, request.header_data),
        (body::MATCH_BITS, request.match_bits),
    ]
}

/// A command of `nic` with all fields of the RTL's body derived from one number, so that a misplaced field is found.
pub fn data_command(kind: u8, number: u64) -> tables::Command {
    let mut state = number;
    // A step of splitmix64.
    let mut draw = |bits: u32| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> (64 - bits)
    };
    let side = Side {
        start: draw(64),
        iov: NONE,
        iov_count: 0,
        options: draw(16) as u32 & !1,
        queue: draw(26) as u32,
        counter: NONE,
        reserved: 0,
    };
    let (source, sink) = if kind == kind::GET { (Side::NOWHERE, side) } else { (side, Side::NOWHERE) };
    let request = Request {
        kind,
        operation: draw(4) as u8,
        datatype: draw(4) as u8,
        ack: draw(2) as u8,
        portal: draw(6) as u32,
        uid: draw(32) as u32,
        lookups: 0,
        initiator: draw(32),
        match_bits: draw(64),
        remote_offset: draw(32),
        header_data: draw(64),
        length: draw(32),
        operand: [0; 4],
    };
    tables::Command { request, target: draw(32), user_ptr: number, source, sink }
}

/// The action of a triggered operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggeredAction {
    Move(tables::Command),
    Set { counter: u32, success: u64, failure: u64 },
    SetSuccess { counter: u32, success: u64 },
    Increment { counter: u32, success: u64, failure: u64 },
}

impl TriggeredAction {
    /// The action in the form of `nic`.
    pub fn nic_action(&self) -> Action<'_> {
        match self {
            TriggeredAction::Move(command) => Action::Command(command),
            &TriggeredAction::Set { counter, success, failure } => Action::CounterSet { counter, success, failure },
            &TriggeredAction::SetSuccess { counter, success } => Action::CounterSuccess { counter, success },
            &TriggeredAction::Increment { counter, success, failure } => {
                Action::CounterIncrement { counter, success, failure }
            }
        }
    }

    /// Kind, variant, object and body in the form of the RTL.
    fn fields(&self) -> (u8, u64, u32, Body) {
        match self {
            TriggeredAction::Move(command) => (command.kind, 0, 0, body_of(command)),
            &TriggeredAction::Set { counter, success, failure } => {
                (kind::COUNTER_SET, 0, counter, amounts(success, failure))
            }
            &TriggeredAction::SetSuccess { counter, success } => (kind::COUNTER_SET, 1, counter, amounts(success, 0)),
            &TriggeredAction::Increment { counter, success, failure } => {
                (kind::COUNTER_INCREMENT, 0, counter, amounts(success, failure))
            }
        }
    }
}

/// The body in the RTL of a record of `nic`.
pub fn body_of_record(record: &Triggered) -> Body {
    match record.command.kind {
        kind::COUNTER_SET | kind::COUNTER_INCREMENT => amounts(record.success, record.failure),
        _ => body_of(&record.command),
    }
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterCommand {
    Alloc,
    Free(u32),
    Set { counter: u32, success: u64, failure: u64 },
    Increment { counter: u32, success: u64, failure: u64 },
    Get(u32),
    Arm { counter: u32, threshold: u64, action: TriggeredAction },
    Cancel(u32),
    CancelOne { index: u32, generation: u32 },
}

impl CounterCommand {
    /// The command's words.
    pub fn pack(&self, tag: u32) -> Vec<u32> {
        let mut words = vec![0; command::WORDS];
        let mut set = |field: Field, value: u64| field.set(&mut words, value);
        set(command::TAG, tag.into());
        let (operation, counter, body) = match *self {
            CounterCommand::Alloc => (0, 0, None),
            CounterCommand::Free(counter) => (1, counter, None),
            CounterCommand::Set { counter, success, failure } => (2, counter, Some(amounts(success, failure))),
            CounterCommand::Increment { counter, success, failure } => (3, counter, Some(amounts(success, failure))),
            CounterCommand::Get(counter) => (4, counter, None),
            CounterCommand::Arm { counter, threshold, action } => {
                let (kind, variant, object, body) = action.fields();
                set(command::THRESHOLD, threshold);
                set(command::KIND, kind.into());
                set(command::VARIANT, variant);
                set(command::OBJECT, reference(object));
                (5, counter, Some(body))
            }
            CounterCommand::Cancel(counter) => (6, counter, None),
            CounterCommand::CancelOne { index, generation } => {
                set(command::ARMED, index.into());
                set(command::ARMED_GENERATION, generation.into());
                (7, 0, None)
            }
        };
        set(command::OPERATION, operation);
        set(command::COUNTER, reference(counter));
        for (at, word) in body.iter().flatten().enumerate() {
            set(Field { at: command::BODY.at + 32 * at, width: 32 }, u64::from(*word));
        }
        words
    }
}

const _: () =
    assert!(c0::BITS == 128 && c1::BITS == 128 && t0::BITS == 256 && body::BITS == 512 && REFERENCE_BITS == 27);
