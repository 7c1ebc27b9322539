// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain puts, the fast path: both memories are mapped, and the matched entry either stays unchanged or is used up.
//!
//! Most puts are of this kind: puts that only count, and puts to receives. They need no plan and no record of the
//! request. They move the bytes, post an event or count, and update the registers. Any other put takes the general path
//! in `deliver.rs`; this path has then changed nothing.
//!
//! If the entry stays, a process that dies midway leaves no partial state: a message without an event or a count has
//! not arrived. If the entry is used up, the NIC records its intent once the bytes are moved. Then either the entry is
//! freed and its event or count is posted, or neither happens.

use super::constants::{fail, list, options};
use super::deliver::Target;
use super::delivery::Delivery;
use super::put::{Moved, Put, PutHandling, move_payload};
use super::search::FoundEntry;
use crate::bus::{Bus, Step};
use crate::registers::Register;
use crate::signals::EVENT_WORDS;

/// Number of messages ahead for which a stream of messages prefetches cache lines. A line may take as long to arrive as
/// two messages take.
const PREFETCH_AHEAD: u32 = 3;

impl Target<'_, '_> {
    /// Carries out a put that needs no response, if it is plain. False: nothing has changed, and the caller uses
    /// [`Nic::deliver`](crate::Nic::deliver).
    #[inline(always)]
    pub fn plain_put<B: Bus>(self, bus: &mut B, put: &Put) -> bool {
        if self.nic.tap.is_set() {
            return false;
        }
        let Some(queue) = self.nic.match_queue().plain_portal(put.portal).map(|record| record.queue) else {
            return false;
        };
        let Some(found) = self.nic.match_queue().find_entry(bus, put.portal, 0, &put.into()) else { return false };
        self.nic.target().plain_put_to(bus, found, queue, put).is_some()
    }

    /// Carries out a put to an entry of the priority list. Both memories are mapped. Either an event or a count reports
    /// the put.
    #[inline(always)]
    pub(super) fn plain_put_to<B: Bus>(
        self,
        bus: &mut B,
        found: FoundEntry,
        queue: u32,
        put: &Put,
    ) -> Option<Delivery> {
        let index = found.entry;
        let record = self.nic.tables.entries.get(index as usize)?;
        let flags = record.options;
        let PutHandling { plain, uses_up, posts, counts } = PutHandling::of(record, queue, put.uid);
        let (counter, user_ptr) = (record.counter, record.user_ptr);
        if !plain {
            return None;
        }
        let Moved { start, mlength } = move_payload(bus, (record.start, record.length), put.remote_offset, put)?;
        let queue = self.nic.queues().index(queue);
        if uses_up {
            bus.charge(Step::TableAccess);
            let counted = if counts { self.nic.counters().total(counter) } else { 0 };
            let tail = queue.map_or(0, |queue| self.nic.tables.queues[queue].tail);
            self.nic.tables.control.record_intent(2, tail, counted, put.intent(index, mlength));
            // Receives that were posted in a row have neighbouring records and often match in a row.
            for ahead in [index.wrapping_sub(PREFETCH_AHEAD), index.wrapping_add(PREFETCH_AHEAD)] {
                if let Some(record) = self.nic.tables.entries.get(ahead as usize) {
                    bus.prefetch_write(record);
                }
            }
        }
        if posts {
            bus.charge(Step::EventPosted);
            if let Some(block) = self.nic.queues().post_at(queue, &put.event(start, user_ptr, mlength)) {
                if let Some(word) = self.nic.signals.heap.get(block + PREFETCH_AHEAD as usize * EVENT_WORDS) {
                    bus.prefetch_write(word);
                }
            }
        }
        if counts {
            bus.charge(Step::CounterUpdated);
            self.nic.counters().increment(counter, if flags & options::EVENT_CT_BYTES != 0 { mlength } else { 1 }, 0);
        }
        if uses_up {
            self.nic.lists().use_up(found);
            self.nic.tables.control.set_stage(0);
        }
        let registers = self.nic.signals.registers;
        registers.add(Register::Requests, 1);
        registers.add(Register::MatchedPriority, 1);
        registers.add(Register::BytesIn, mlength);
        if mlength < put.length {
            registers.add(Register::Truncated, 1);
        }
        let ack_disabled = flags & options::ACK_DISABLE != 0;
        Some(Delivery { fail: fail::OK, mlength, remote_offset: put.remote_offset, ack_disabled, list: list::PRIORITY })
    }
}
