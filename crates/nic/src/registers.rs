// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The named counters of a NIC, listed in one place.
//!
//! The holder of the NIC's lock changes them, and any process may read them (`selvedge top`, `PtlNIStatus`). So they
//! are atomics, but the holder needs no read-modify-write. They only grow, and wrap at 2^64.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! registers {
    ($($variant:ident, $name:literal, $unit:literal, $text:literal;)*) => {
        /// A named counter of the NIC.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Register { $(#[doc = $text] $variant,)* }

        impl Register {
            /// All registers, in the order in which they lie in memory.
            pub const ALL: &'static [Register] = &[$(Register::$variant,)*];
            /// The name that tools show.
            pub const fn name(self) -> &'static str { match self { $(Register::$variant => $name,)* } }
            /// The unit that it counts.
            pub const fn unit(self) -> &'static str { match self { $(Register::$variant => $unit,)* } }
            /// Its description, in a sentence.
            pub const fn text(self) -> &'static str { match self { $(Register::$variant => $text,)* } }
        }
    };
}

registers! {
    Dropped, "dropped", "messages", "Messages dropped: no entry, no portal table entry, or no resources (PTL_SR_DROP_COUNT).";
    PermissionViolations, "permission_violations", "messages", "Messages refused for their user id (PTL_SR_PERMISSION_VIOLATIONS).";
    OperationViolations, "operation_violations", "messages", "Messages refused for their operation (PTL_SR_OPERATION_VIOLATIONS).";
    Requests, "requests", "messages", "Requests that arrived: puts, gets, atomics, swaps.";
    MatchedPriority, "matched_priority", "messages", "Requests that matched an entry of a priority list.";
    MatchedOverflow, "matched_overflow", "messages", "Requests that matched an entry of an overflow list.";
    Unexpected, "unexpected", "messages", "Headers kept on an unexpected list.";
    ListSteps, "list_steps", "entries", "List entries and unexpected headers that were compared.";
    Truncated, "truncated", "messages", "Requests cut to the memory that their entry had left.";
    BytesIn, "bytes_in", "bytes", "Bytes written to this process's memory.";
    BytesOut, "bytes_out", "bytes", "Bytes read from this process's memory for others.";
    Segv, "segv", "messages", "Requests that met memory which is not mapped (PTL_NI_SEGV).";
    Events, "events", "events", "Full events written.";
    EventsOverwritten, "events_overwritten", "events", "Full events lost because a queue was full.";
    FlowControl, "flow_control", "times", "Times that a portal table entry was disabled for lack of resources.";
    RefusedDisabled, "refused_disabled", "messages", "Messages refused because their portal table entry was disabled.";
    TriggeredFired, "triggered_fired", "operations", "Triggered operations that fired.";
    Undeliverable, "undeliverable", "messages", "Requests of this process that found no living target.";
    Packets, "packets", "packets", "Packets that waited in rings for the owner.";
    Recoveries, "recoveries", "times", "Times that the tables were rebuilt after a process died in the middle of a change.";
    VeloSent, "velo_sent", "messages", "VELO messages that this process sent.";
    VeloReceived, "velo_received", "messages", "VELO messages written to a mailbox.";
    VeloDiscarded, "velo_discarded", "messages", "VELO messages discarded: the mailbox is full, disabled or not there.";
    RequesterPuts, "requester_puts", "commands", "Puts that the RMA requester started, notification and immediate puts too.";
    RequesterGets, "requester_gets", "commands", "Gets that the RMA requester started.";
    ResponderGets, "responder_gets", "commands", "Gets that the RMA responder answered.";
    ResponderLocks, "responder_locks", "commands", "Lock requests that the RMA responder answered.";
    CompleterPuts, "completer_puts", "commands", "Puts that the RMA completer finished.";
    CompleterGets, "completer_gets", "commands", "Responses to gets that the RMA completer finished.";
    NotificationsDiscarded, "notifications_discarded", "notifications", "Notifications lost because a queue was full.";
    TlbHits, "tlb_hits", "translations", "Translations that the TLB had.";
    TlbMisses, "tlb_misses", "translations", "Translations that were read from a global address table.";
    TlbFlushes, "tlb_flushes", "entries", "Entries that were removed from the TLB.";
    AtuFlushes, "atu_flushes", "requests", "Flush requests that the functional units have answered.";
    TranslationFaults, "translation_faults", "translations", "Translations refused: no such page, another VPID, or no right.";
}

/// How many registers a NIC has.
pub const COUNT: usize = Register::ALL.len();

/// The registers in memory.
#[repr(C, align(64))]
pub struct Registers {
    values: [AtomicU64; COUNT],
}

impl Default for Registers {
    fn default() -> Registers {
        Registers { values: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Registers {
    /// Adds to a register. Only the holder of the NIC's lock calls it.
    #[inline(always)]
    pub fn add(&self, register: Register, count: u64) {
        let value = &self.values[register as usize];
        value.store(value.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Counts messages that the owner has taken ([`crate::Nic::take_receive`]), and their bytes. Only the holder of the
    /// NIC's lock calls it.
    #[inline(always)]
    pub fn count_taken(&self, messages: u64, bytes: u64) {
        self.add(Register::Requests, messages);
        self.add(Register::MatchedPriority, messages);
        self.add(Register::BytesIn, bytes);
    }

    /// The current value of a register.
    pub fn get(&self, register: Register) -> u64 {
        self.values[register as usize].load(Relaxed)
    }
}
