// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recovery of the mailboxes after a holder of the NIC's lock has died.
//!
//! The dead process may have been in the middle of one message, from a mailbox's tail on. The words of the mailbox show
//! its progress ([`Slots::recover`](super::slots::Slots::recover)):
//!
//! 1. The reader has taken slots behind the tail: the message was there. The tail moves to the reader's position.
//! 2. The status word at the tail is not zero: the message is whole, because this word is stored last. The tail moves
//!    behind it.
//! 3. Else the reader has not seen and will not see the message. The status words of its later slots, if written, are
//!    zeroed.
//!
//! Invariants
//! 1. The reader may run meanwhile.
//! 2. Recovery changes a mailbox by one store to its tail, or by stores of zero. So it may be repeated, also after it
//!    died in the middle.
//! 3. It touches free slots only, so it cannot lose a message, whatever the pointers hold.
//!
//! Cost: O(VPIDs).

use super::completer::Velo;
use super::mailbox::mailbox_of;
use crate::registers::Register;

impl Velo<'_, '_> {
    /// Recovers the mailboxes. The caller holds the lock that the dead process held. Returns the number of messages
    /// that were whole but not counted: their receivers may have to be woken.
    pub fn recover(&mut self) -> u32 {
        let signals = self.signals;
        let mut found = 0;
        for (vpid, record) in (0..=u16::MAX).zip(self.ports.iter_mut()) {
            if !record.is_open() {
                continue;
            }
            let Some((slots, pointers)) = mailbox_of(signals, vpid) else { continue };
            let counted = slots.recover(record.mailbox_tail, &pointers.mailbox_head, &pointers.mailbox_taken);
            if counted != 0 {
                record.mailbox_tail = record.mailbox_tail.wrapping_add(counted);
                signals.registers.add(Register::VeloReceived, 1);
                found += 1;
            }
        }
        found
    }
}
