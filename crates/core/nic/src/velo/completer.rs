// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The completer: the transition that writes a message to the mailbox of its destination (seed 002, section 7.4).
//!
//! Input: the destination's VPID, the status of the message, and a bus whose payload is the message's bytes. Output:
//! the outcome ([`Received`]).
//!
//! Order of effects: the interrupt, the slots ([`super::slots`]), the tail, the registers. A reader may see the message
//! before the tail has moved.
//!
//! Rules
//! 1. Nothing waits for the reader (section 6.5: a full queue that stalls the network can deadlock). A message that
//!    finds no room is discarded and counted; or, at a port with [`options::REFUSE`], it stays with its sender and
//!    nothing changes.
//! 2. A port that is not open discards, because it has no mode.
//! 3. The head comes from the program's memory. A head that is impossible means no room.
//!
//! Budget: no system call, no allocation. It touches the lock, the port, one line for each 56 bytes, one line of
//! registers. It loads the head only if the last known head leaves no room.

use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::compiler_fence;

use super::header::{MESSAGE_BYTES_MAX, Status, UNIT_BYTES};
use super::mailbox::mailbox_of;
use super::options;
use super::slots::Slots;
use crate::bus::{Bus, Fault, Step};
use crate::registers::Register;
use crate::signals::{PortPointers, Signals};
use crate::tables::{BlockedRing, Port};

/// A message that has arrived at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VeloMessage {
    /// The destination's VPID.
    pub vpid: u16,
    pub status: Status,
    /// Bytes of the payload. They may be up to 7 less than those of the message; the rest is zero.
    pub bytes: u32,
}

/// The outcome of a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The message is in the mailbox. `interrupt`: its program wants an interrupt.
    Written { interrupt: bool },
    /// The mailbox has no room, or is disabled, and the port refuses such messages. Nothing has changed; the sender
    /// retries.
    Full,
    /// The mailbox has no room, or is disabled, and the message is lost. It was counted.
    Discarded,
    /// The destination is not open, and the message is lost. It was counted.
    NotOpen,
    /// The message is longer than the longest of this NIC, or its payload does not have its length. Nothing has
    /// changed.
    Malformed,
    /// The payload could not be read. Nothing has changed.
    Initiator(Fault),
}

/// The unit: the ports with their mailboxes.
pub struct Velo<'n, 'a> {
    pub(crate) ports: &'n mut [Port],
    pub(crate) blocked: Option<&'n mut BlockedRing>,
    pub(crate) message_bytes_max: u32,
    pub(crate) signals: &'n Signals<'a>,
}

impl Velo<'_, '_> {
    /// Writes a message to a mailbox.
    #[inline]
    pub fn receive<B: Bus>(&mut self, bus: &mut B, message: &VeloMessage) -> Received {
        let VeloMessage { vpid, status, bytes } = *message;
        let part_bytes = status.extent.bytes();
        let is_padded = bytes != 0 && bytes <= part_bytes && part_bytes - bytes < UNIT_BYTES;
        if status.extent.message_bytes() > self.message_bytes_max || !is_padded {
            return Received::Malformed;
        }
        let signals = self.signals;
        bus.charge(Step::TableAccess);
        let record = self.ports.get_mut(usize::from(vpid)).filter(|record| record.is_open());
        let (Some(record), Some((slots, pointers))) = (record, mailbox_of(signals, vpid)) else {
            signals.registers.add(Register::VeloDiscarded, 1);
            return Received::NotOpen;
        };
        let needed = u64::from(status.extent.slots());
        let is_disabled = record.options & options::MAILBOX_DISABLED != 0;
        if is_disabled || !has_room(record, pointers, &slots, needed) {
            if record.options & options::REFUSE != 0 {
                return Received::Full;
            }
            record.messages_discarded = record.messages_discarded.wrapping_add(1);
            signals.registers.add(Register::VeloDiscarded, 1);
            return Received::Discarded;
        }
        let mut buffer = [0; MESSAGE_BYTES_MAX as usize];
        let payload = buffer.get_mut(..bytes as usize).unwrap_or_default();
        if let Err(fault) = bus.payload(0, payload) {
            return Received::Initiator(fault);
        }
        let from = buffer.get(..part_bytes as usize).unwrap_or_default();
        // Before the message: a death in between causes a needless interrupt, not a missing one.
        record.interrupt = 1;
        slots.write(record.mailbox_tail, &status, from, || bus.charge(Step::SlotWritten));
        // The order matters if the process dies here: the tail counts whole messages only.
        compiler_fence(SeqCst);
        record.mailbox_tail = record.mailbox_tail.wrapping_add(needed);
        signals.registers.add(Register::VeloReceived, 1);
        Received::Written { interrupt: record.options & options::INTERRUPT != 0 }
    }
}

/// Whether `needed` slots are free. Loads the head if the last known one leaves too few.
#[inline]
fn has_room(record: &mut Port, pointers: &PortPointers, slots: &Slots<'_>, needed: u64) -> bool {
    if slots.free(record.mailbox_tail, record.mailbox_head_seen) >= needed {
        return true;
    }
    // Pairs with the reader's store with release: its copies of these slots are complete, and their status words zero.
    let head = pointers.mailbox_head.load(Acquire);
    let has_room = slots.free(record.mailbox_tail, head) >= needed;
    if has_room {
        record.mailbox_head_seen = head;
    }
    has_room
}
