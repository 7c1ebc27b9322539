// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a NIC that exist once, among them the intent of a change.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::handle::NONE;

/// The intent of an operation that changes the tables. If its process dies, another process uses it to finish or fail
/// the operation.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Intent {
    /// 0: no operation. 1: the bytes are being moved. 2: they have been moved, or not (`fail`); tables, events and
    /// counts follow.
    pub stage: u16,
    pub list: u8,
    pub fail: u8,
    pub entry: u32,
    pub initiator: u64,
    pub match_bits: u64,
    pub header_data: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub offset: u64,
    pub remote_offset: u64,
    /// The state before the change: tail of the event queue, successes plus failures of the counter, sequence number of
    /// headers.
    pub queue_tail: u64,
    pub counted: u64,
    pub sequence: u64,
    pub uid: u32,
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub reserved: u8,
}

/// Heads of the free lists and queues, and all other fields that exist once.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Control {
    /// The sequence number of the newest entry or header. Each new one increments it.
    pub sequence: u64,
    pub free_entry: u32,
    pub free_header: u32,
    pub free_triggered: u32,
    pub free_pending: u32,
    pub free_counter: u32,
    pub free_queue: u32,
    pub free_descriptor: u32,
    /// Triggered operations whose counter has reached their threshold, in firing order.
    pub fire_head: u32,
    pub fire_tail: u32,
    /// Kept lock requests whose answer is due.
    pub answers: u32,
    /// The process that drains the fire queue and sends answers, or 0.
    pub drainer: u64,
    /// Bit i: the grant in slot i was given and has not ended.
    pub granted: u64,
    /// Grants that were given and whose word is 0. Their senders may be in the middle of a put.
    pub revoking: u64,
    /// The number of the last grant: grants are numbered from 1.
    pub grants_given: u64,
    pub intent: Intent,
}

impl Control {
    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Records the intent and its stage, so that another process can finish the delivery, and the state before the
    /// change: the tail of the event queue, the counter's count, and the sequence number of headers.
    #[inline(always)]
    pub(crate) fn record_intent(&mut self, stage: u16, queue_tail: u64, counted: u64, intent: Intent) {
        let sequence = self.sequence;
        self.intent = Intent { stage: 0, queue_tail, counted, sequence, ..intent };
        self.set_stage(stage);
    }

    /// Records the stage of a delivery. The compiler moves no store across this one. So a process that recovers this
    /// NIC sees the stores of the dead process in program order.
    #[inline(always)]
    pub(crate) fn set_stage(&mut self, stage: u16) {
        compiler_fence(SeqCst);
        self.intent.stage = stage;
        compiler_fence(SeqCst);
    }

    /// Whether the fire queue has operations, or answers of kept lock requests are due.
    #[inline]
    pub fn has_fired(&self) -> bool {
        self.fire_head != NONE || self.answers != 0
    }
}

const _: () = {
    assert!(size_of::<Control>() == 192);
};
