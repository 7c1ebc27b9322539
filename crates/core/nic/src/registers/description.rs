// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! The registers of a NIC: names, addresses and sentences from the description.

/// Version of the layout of a NIC's memory. The register at offset 0 holds it.
pub const VERSION: u32 = 14;
/// Bytes of the register block: the version, then the counters.
pub const BLOCK_BYTES: usize = 512;

/// A counter of the NIC. Its value as an integer is the index of its word in the register block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Register {
    /// Requests that arrived: puts, gets, atomics, swaps.
    Requests = 1,
    /// Requests that matched an entry of a priority list.
    MatchedPriority = 2,
    /// List entries and unexpected headers compared in searches.
    ListSteps = 3,
    /// Bytes written to this process's memory.
    BytesIn = 4,
    /// Bytes read from this process's memory for other processes.
    BytesOut = 5,
    /// Requests that matched an entry of an overflow list.
    MatchedOverflow = 6,
    /// Headers kept on an unexpected list.
    Unexpected = 7,
    /// Requests truncated to the space left in their entry.
    Truncated = 8,
    /// Messages dropped: no matching entry, no portal table entry, or no resources (PTL_SR_DROP_COUNT).
    Dropped = 9,
    /// Messages refused because of their user id (PTL_SR_PERMISSION_VIOLATIONS).
    PermissionViolations = 10,
    /// Messages refused because their entry does not permit the operation (PTL_SR_OPERATION_VIOLATIONS).
    OperationViolations = 11,
    /// Requests that failed because memory at the target is not mapped (PTL_NI_SEGV).
    Segv = 12,
    /// Full events written.
    Events = 13,
    /// Full events lost because their queue was full.
    EventsOverwritten = 14,
    /// Times that a portal table entry was disabled for lack of resources.
    FlowControl = 15,
    /// Messages refused because their portal table entry was disabled.
    RefusedDisabled = 16,
    /// Triggered operations that fired.
    TriggeredFired = 17,
    /// Requests of this process without a living target process.
    Undeliverable = 18,
    /// Packets that waited in a ring for the owner.
    Packets = 19,
    /// Times that the tables were rebuilt after a process died during a change.
    Recoveries = 20,
    /// VELO messages that this process sent.
    VeloSent = 32,
    /// VELO messages written to a mailbox, or taken from a ring.
    VeloReceived = 33,
    /// VELO messages discarded because the mailbox was full, disabled or not open.
    VeloDiscarded = 34,
    /// Puts that the RMA requester started, notification and immediate puts included.
    RequesterPuts = 40,
    /// Gets that the RMA requester started.
    RequesterGets = 41,
    /// Gets that the RMA responder answered.
    ResponderGets = 42,
    /// Lock requests that the RMA responder answered.
    ResponderLocks = 43,
    /// Puts that the RMA completer finished.
    CompleterPuts = 44,
    /// Get responses that the RMA completer finished.
    CompleterGets = 45,
    /// Notifications lost because their queue was full.
    NotificationsDiscarded = 46,
    /// Translations found in the TLB.
    TlbHits = 48,
    /// Translations read from a global address table.
    TlbMisses = 49,
    /// Entries that flushes removed from the TLB.
    TlbFlushes = 50,
    /// Flush requests that all functional units have answered.
    AtuFlushes = 51,
    /// Translations refused: no such page, a page of another VPID, or no access right.
    TranslationFaults = 52,
}

impl Register {
    /// All counters, by address.
    pub const ALL: &'static [Register] = &[
        Self::Requests,
        Self::MatchedPriority,
        Self::ListSteps,
        Self::BytesIn,
        Self::BytesOut,
        Self::MatchedOverflow,
        Self::Unexpected,
        Self::Truncated,
        Self::Dropped,
        Self::PermissionViolations,
        Self::OperationViolations,
        Self::Segv,
        Self::Events,
        Self::EventsOverwritten,
        Self::FlowControl,
        Self::RefusedDisabled,
        Self::TriggeredFired,
        Self::Undeliverable,
        Self::Packets,
        Self::Recoveries,
        Self::VeloSent,
        Self::VeloReceived,
        Self::VeloDiscarded,
        Self::RequesterPuts,
        Self::RequesterGets,
        Self::ResponderGets,
        Self::ResponderLocks,
        Self::CompleterPuts,
        Self::CompleterGets,
        Self::NotificationsDiscarded,
        Self::TlbHits,
        Self::TlbMisses,
        Self::TlbFlushes,
        Self::AtuFlushes,
        Self::TranslationFaults,
    ];

    /// The functional unit that the counter belongs to.
    pub const fn block(self) -> &'static str {
        match self {
            Self::Requests => "portals",
            Self::MatchedPriority => "portals",
            Self::ListSteps => "portals",
            Self::BytesIn => "portals",
            Self::BytesOut => "portals",
            Self::MatchedOverflow => "portals",
            Self::Unexpected => "portals",
            Self::Truncated => "portals",
            Self::Dropped => "portals",
            Self::PermissionViolations => "portals",
            Self::OperationViolations => "portals",
            Self::Segv => "portals",
            Self::Events => "portals",
            Self::EventsOverwritten => "portals",
            Self::FlowControl => "portals",
            Self::RefusedDisabled => "portals",
            Self::TriggeredFired => "portals",
            Self::Undeliverable => "portals",
            Self::Packets => "portals",
            Self::Recoveries => "portals",
            Self::VeloSent => "velo",
            Self::VeloReceived => "velo",
            Self::VeloDiscarded => "velo",
            Self::RequesterPuts => "rma",
            Self::RequesterGets => "rma",
            Self::ResponderGets => "rma",
            Self::ResponderLocks => "rma",
            Self::CompleterPuts => "rma",
            Self::CompleterGets => "rma",
            Self::NotificationsDiscarded => "rma",
            Self::TlbHits => "atu",
            Self::TlbMisses => "atu",
            Self::TlbFlushes => "atu",
            Self::AtuFlushes => "atu",
            Self::TranslationFaults => "atu",
        }
    }

    /// The name that tools show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::MatchedPriority => "matched_priority",
            Self::ListSteps => "list_steps",
            Self::BytesIn => "bytes_in",
            Self::BytesOut => "bytes_out",
            Self::MatchedOverflow => "matched_overflow",
            Self::Unexpected => "unexpected",
            Self::Truncated => "truncated",
            Self::Dropped => "dropped",
            Self::PermissionViolations => "permission_violations",
            Self::OperationViolations => "operation_violations",
            Self::Segv => "segv",
            Self::Events => "events",
            Self::EventsOverwritten => "events_overwritten",
            Self::FlowControl => "flow_control",
            Self::RefusedDisabled => "refused_disabled",
            Self::TriggeredFired => "triggered_fired",
            Self::Undeliverable => "undeliverable",
            Self::Packets => "packets",
            Self::Recoveries => "recoveries",
            Self::VeloSent => "velo_sent",
            Self::VeloReceived => "velo_received",
            Self::VeloDiscarded => "velo_discarded",
            Self::RequesterPuts => "requester_puts",
            Self::RequesterGets => "requester_gets",
            Self::ResponderGets => "responder_gets",
            Self::ResponderLocks => "responder_locks",
            Self::CompleterPuts => "completer_puts",
            Self::CompleterGets => "completer_gets",
            Self::NotificationsDiscarded => "notifications_discarded",
            Self::TlbHits => "tlb_hits",
            Self::TlbMisses => "tlb_misses",
            Self::TlbFlushes => "tlb_flushes",
            Self::AtuFlushes => "atu_flushes",
            Self::TranslationFaults => "translation_faults",
        }
    }

    /// The unit of the counter's value.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Requests => "messages",
            Self::MatchedPriority => "messages",
            Self::ListSteps => "entries",
            Self::BytesIn => "bytes",
            Self::BytesOut => "bytes",
            Self::MatchedOverflow => "messages",
            Self::Unexpected => "messages",
            Self::Truncated => "messages",
            Self::Dropped => "messages",
            Self::PermissionViolations => "messages",
            Self::OperationViolations => "messages",
            Self::Segv => "messages",
            Self::Events => "events",
            Self::EventsOverwritten => "events",
            Self::FlowControl => "times",
            Self::RefusedDisabled => "messages",
            Self::TriggeredFired => "operations",
            Self::Undeliverable => "messages",
            Self::Packets => "packets",
            Self::Recoveries => "times",
            Self::VeloSent => "messages",
            Self::VeloReceived => "messages",
            Self::VeloDiscarded => "messages",
            Self::RequesterPuts => "commands",
            Self::RequesterGets => "commands",
            Self::ResponderGets => "commands",
            Self::ResponderLocks => "commands",
            Self::CompleterPuts => "commands",
            Self::CompleterGets => "commands",
            Self::NotificationsDiscarded => "notifications",
            Self::TlbHits => "translations",
            Self::TlbMisses => "translations",
            Self::TlbFlushes => "entries",
            Self::AtuFlushes => "requests",
            Self::TranslationFaults => "translations",
        }
    }

    /// Its description, in a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Requests => "Requests that arrived: puts, gets, atomics, swaps.",
            Self::MatchedPriority => "Requests that matched an entry of a priority list.",
            Self::ListSteps => "List entries and unexpected headers compared in searches.",
            Self::BytesIn => "Bytes written to this process's memory.",
            Self::BytesOut => "Bytes read from this process's memory for other processes.",
            Self::MatchedOverflow => "Requests that matched an entry of an overflow list.",
            Self::Unexpected => "Headers kept on an unexpected list.",
            Self::Truncated => "Requests truncated to the space left in their entry.",
            Self::Dropped => "Messages dropped: no matching entry, no portal table entry, or no resources (PTL_SR_DROP_COUNT).",
            Self::PermissionViolations => "Messages refused because of their user id (PTL_SR_PERMISSION_VIOLATIONS).",
            Self::OperationViolations => "Messages refused because their entry does not permit the operation (PTL_SR_OPERATION_VIOLATIONS).",
            Self::Segv => "Requests that failed because memory at the target is not mapped (PTL_NI_SEGV).",
            Self::Events => "Full events written.",
            Self::EventsOverwritten => "Full events lost because their queue was full.",
            Self::FlowControl => "Times that a portal table entry was disabled for lack of resources.",
            Self::RefusedDisabled => "Messages refused because their portal table entry was disabled.",
            Self::TriggeredFired => "Triggered operations that fired.",
            Self::Undeliverable => "Requests of this process without a living target process.",
            Self::Packets => "Packets that waited in a ring for the owner.",
            Self::Recoveries => "Times that the tables were rebuilt after a process died during a change.",
            Self::VeloSent => "VELO messages that this process sent.",
            Self::VeloReceived => "VELO messages written to a mailbox, or taken from a ring.",
            Self::VeloDiscarded => "VELO messages discarded because the mailbox was full, disabled or not open.",
            Self::RequesterPuts => "Puts that the RMA requester started, notification and immediate puts included.",
            Self::RequesterGets => "Gets that the RMA requester started.",
            Self::ResponderGets => "Gets that the RMA responder answered.",
            Self::ResponderLocks => "Lock requests that the RMA responder answered.",
            Self::CompleterPuts => "Puts that the RMA completer finished.",
            Self::CompleterGets => "Get responses that the RMA completer finished.",
            Self::NotificationsDiscarded => "Notifications lost because their queue was full.",
            Self::TlbHits => "Translations found in the TLB.",
            Self::TlbMisses => "Translations read from a global address table.",
            Self::TlbFlushes => "Entries that flushes removed from the TLB.",
            Self::AtuFlushes => "Flush requests that all functional units have answered.",
            Self::TranslationFaults => "Translations refused: no such page, a page of another VPID, or no access right.",
        }
    }
}

/// A register of a unit's tables: one value, or one for each index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableRegister {
    /// Enable bits of the mailboxes. 1: the mailbox takes messages, because its VPID is open and the mailbox is not disabled.
    MailboxEnables,
    /// Base address of each mailbox. In shared memory: its offset in the NIC's segment.
    MailboxBases,
    /// Size of each mailbox, a power of two.
    MailboxSizes,
    /// Number of slots written to each mailbox since its VPID was opened. The completer advances it.
    MailboxWritePointers,
    /// 1: a message has arrived since the interrupt was cleared. The bit is set whether or not the interrupt is masked.
    MailboxInterruptsInterrupt,
    /// 1: the interrupt reaches the processor. A program that polls leaves it 0.
    MailboxInterruptsMask,
    /// Writing 1 clears the interrupt. It reads as 0.
    MailboxInterruptsClear,
    /// Number of slots of each mailbox that its program has freed since its VPID was opened.
    MailboxPagesReadPointer,
    /// Enable bits of the VPIDs. 1: the units accept commands for the VPID, because a program has it open.
    CompleterEnables,
    /// Size of every notification queue, a power of two.
    NotificationQueueSize,
    /// Base of the lock space. Lock n of VPID v is the 32-bit word at base + 4096 v + 4 n. In shared memory: an offset in the NIC's segment.
    LockBase,
    /// Size of the lock space: 4096 bytes for each VPID.
    LockSize,
    /// Number of notifications written to each queue since its VPID was opened.
    NotificationWritePointers,
    /// Number of notifications that the program of each VPID has read since the VPID was opened.
    NotificationPagesReadPointer,
    /// Writing it starts a flush. The entries leave the TLB at once. Each functional unit answers when none of its transfers uses the pages; after the last answer atu_flushes grows by one. A flush of the TLB alone asks no unit and is not counted.
    FlushRequest,
    /// Base of each table of 2^18 entries of 8 bytes. Bit 0: the table exists. In shared memory: its offset in the NIC's segment.
    TableBases,
}

impl TableRegister {
    /// All table registers, by unit.
    pub const ALL: &'static [TableRegister] = &[
        Self::MailboxEnables,
        Self::MailboxBases,
        Self::MailboxSizes,
        Self::MailboxWritePointers,
        Self::MailboxInterruptsInterrupt,
        Self::MailboxInterruptsMask,
        Self::MailboxInterruptsClear,
        Self::MailboxPagesReadPointer,
        Self::CompleterEnables,
        Self::NotificationQueueSize,
        Self::LockBase,
        Self::LockSize,
        Self::NotificationWritePointers,
        Self::NotificationPagesReadPointer,
        Self::FlushRequest,
        Self::TableBases,
    ];

    /// The tables that the register belongs to.
    pub const fn block(self) -> &'static str {
        match self {
            Self::MailboxEnables => "velo_tables",
            Self::MailboxBases => "velo_tables",
            Self::MailboxSizes => "velo_tables",
            Self::MailboxWritePointers => "velo_tables",
            Self::MailboxInterruptsInterrupt => "velo_tables",
            Self::MailboxInterruptsMask => "velo_tables",
            Self::MailboxInterruptsClear => "velo_tables",
            Self::MailboxPagesReadPointer => "velo_pages",
            Self::CompleterEnables => "rma_tables",
            Self::NotificationQueueSize => "rma_tables",
            Self::LockBase => "rma_tables",
            Self::LockSize => "rma_tables",
            Self::NotificationWritePointers => "rma_tables",
            Self::NotificationPagesReadPointer => "rma_pages",
            Self::FlushRequest => "atu_tables",
            Self::TableBases => "atu_tables",
        }
    }

    /// The name that tools show. If it has a dot, the index is written before the dot.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MailboxEnables => "mailbox_enables",
            Self::MailboxBases => "mailbox_bases",
            Self::MailboxSizes => "mailbox_sizes",
            Self::MailboxWritePointers => "mailbox_write_pointers",
            Self::MailboxInterruptsInterrupt => "mailbox_interrupts.interrupt",
            Self::MailboxInterruptsMask => "mailbox_interrupts.mask",
            Self::MailboxInterruptsClear => "mailbox_interrupts.clear",
            Self::MailboxPagesReadPointer => "mailbox_pages.read_pointer",
            Self::CompleterEnables => "completer_enables",
            Self::NotificationQueueSize => "notification_queue_size",
            Self::LockBase => "lock_base",
            Self::LockSize => "lock_size",
            Self::NotificationWritePointers => "notification_write_pointers",
            Self::NotificationPagesReadPointer => "notification_pages.read_pointer",
            Self::FlushRequest => "flush_request",
            Self::TableBases => "table_bases",
        }
    }

    /// The unit of its value.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MailboxEnables => "bits",
            Self::MailboxBases => "address",
            Self::MailboxSizes => "slots",
            Self::MailboxWritePointers => "slots",
            Self::MailboxInterruptsInterrupt => "bits",
            Self::MailboxInterruptsMask => "bits",
            Self::MailboxInterruptsClear => "bits",
            Self::MailboxPagesReadPointer => "slots",
            Self::CompleterEnables => "bits",
            Self::NotificationQueueSize => "notifications",
            Self::LockBase => "address",
            Self::LockSize => "bytes",
            Self::NotificationWritePointers => "notifications",
            Self::NotificationPagesReadPointer => "notifications",
            Self::FlushRequest => "command",
            Self::TableBases => "address",
        }
    }

    /// Its description.
    pub const fn text(self) -> &'static str {
        match self {
            Self::MailboxEnables => "Enable bits of the mailboxes. 1: the mailbox takes messages, because its VPID is open and the mailbox is not disabled.",
            Self::MailboxBases => "Base address of each mailbox. In shared memory: its offset in the NIC's segment.",
            Self::MailboxSizes => "Size of each mailbox, a power of two.",
            Self::MailboxWritePointers => "Number of slots written to each mailbox since its VPID was opened. The completer advances it.",
            Self::MailboxInterruptsInterrupt => "1: a message has arrived since the interrupt was cleared. The bit is set whether or not the interrupt is masked.",
            Self::MailboxInterruptsMask => "1: the interrupt reaches the processor. A program that polls leaves it 0.",
            Self::MailboxInterruptsClear => "Writing 1 clears the interrupt. It reads as 0.",
            Self::MailboxPagesReadPointer => "Number of slots of each mailbox that its program has freed since its VPID was opened.",
            Self::CompleterEnables => "Enable bits of the VPIDs. 1: the units accept commands for the VPID, because a program has it open.",
            Self::NotificationQueueSize => "Size of every notification queue, a power of two.",
            Self::LockBase => "Base of the lock space. Lock n of VPID v is the 32-bit word at base + 4096 v + 4 n. In shared memory: an offset in the NIC's segment.",
            Self::LockSize => "Size of the lock space: 4096 bytes for each VPID.",
            Self::NotificationWritePointers => "Number of notifications written to each queue since its VPID was opened.",
            Self::NotificationPagesReadPointer => "Number of notifications that the program of each VPID has read since the VPID was opened.",
            Self::FlushRequest => "Writing it starts a flush. The entries leave the TLB at once. Each functional unit answers when none of its transfers uses the pages; after the last answer atu_flushes grows by one. A flush of the TLB alone asks no unit and is not counted.",
            Self::TableBases => "Base of each table of 2^18 entries of 8 bytes. Bit 0: the table exists. In shared memory: its offset in the NIC's segment.",
        }
    }

    /// The address of its first value in the address map of hardware.
    pub const fn address(self) -> u64 {
        match self {
            Self::MailboxEnables => 0x200000,
            Self::MailboxBases => 0x200800,
            Self::MailboxSizes => 0x201000,
            Self::MailboxWritePointers => 0x201800,
            Self::MailboxInterruptsInterrupt => 0x202000,
            Self::MailboxInterruptsMask => 0x202008,
            Self::MailboxInterruptsClear => 0x202010,
            Self::MailboxPagesReadPointer => 0x300000,
            Self::CompleterEnables => 0x400000,
            Self::NotificationQueueSize => 0x400020,
            Self::LockBase => 0x400028,
            Self::LockSize => 0x400030,
            Self::NotificationWritePointers => 0x400800,
            Self::NotificationPagesReadPointer => 0x500000,
            Self::FlushRequest => 0x600000,
            Self::TableBases => 0x601000,
        }
    }

    /// The largest number of values. 0: the register has no index.
    pub const fn entries_max(self) -> u32 {
        match self {
            Self::MailboxEnables => 4,
            Self::MailboxBases => 256,
            Self::MailboxSizes => 256,
            Self::MailboxWritePointers => 256,
            Self::MailboxInterruptsInterrupt => 256,
            Self::MailboxInterruptsMask => 256,
            Self::MailboxInterruptsClear => 256,
            Self::MailboxPagesReadPointer => 256,
            Self::CompleterEnables => 4,
            Self::NotificationQueueSize => 0,
            Self::LockBase => 0,
            Self::LockSize => 0,
            Self::NotificationWritePointers => 256,
            Self::NotificationPagesReadPointer => 256,
            Self::FlushRequest => 0,
            Self::TableBases => 512,
        }
    }

    /// Bytes between the addresses of two values.
    pub const fn stride(self) -> u64 {
        match self {
            Self::MailboxEnables => 0x8,
            Self::MailboxBases => 0x8,
            Self::MailboxSizes => 0x8,
            Self::MailboxWritePointers => 0x8,
            Self::MailboxInterruptsInterrupt => 0x20,
            Self::MailboxInterruptsMask => 0x20,
            Self::MailboxInterruptsClear => 0x20,
            Self::MailboxPagesReadPointer => 0x1000,
            Self::CompleterEnables => 0x8,
            Self::NotificationQueueSize => 0x0,
            Self::LockBase => 0x0,
            Self::LockSize => 0x0,
            Self::NotificationWritePointers => 0x8,
            Self::NotificationPagesReadPointer => 0x1000,
            Self::FlushRequest => 0x0,
            Self::TableBases => 0x8,
        }
    }

    /// Whether software can read the register. If not, it reads as 0.
    pub const fn is_readable(self) -> bool {
        match self {
            Self::MailboxEnables => true,
            Self::MailboxBases => true,
            Self::MailboxSizes => true,
            Self::MailboxWritePointers => true,
            Self::MailboxInterruptsInterrupt => true,
            Self::MailboxInterruptsMask => true,
            Self::MailboxInterruptsClear => false,
            Self::MailboxPagesReadPointer => true,
            Self::CompleterEnables => true,
            Self::NotificationQueueSize => true,
            Self::LockBase => true,
            Self::LockSize => true,
            Self::NotificationWritePointers => true,
            Self::NotificationPagesReadPointer => true,
            Self::FlushRequest => false,
            Self::TableBases => true,
        }
    }

    /// The right to change the register while the NIC runs.
    pub const fn live_write(self) -> LiveWrite {
        match self {
            Self::MailboxEnables => LiveWrite::Locked,
            Self::MailboxBases => LiveWrite::Fixed,
            Self::MailboxSizes => LiveWrite::Fixed,
            Self::MailboxWritePointers => LiveWrite::Fixed,
            Self::MailboxInterruptsInterrupt => LiveWrite::Fixed,
            Self::MailboxInterruptsMask => LiveWrite::Locked,
            Self::MailboxInterruptsClear => LiveWrite::Locked,
            Self::MailboxPagesReadPointer => LiveWrite::Owner,
            Self::CompleterEnables => LiveWrite::Owner,
            Self::NotificationQueueSize => LiveWrite::Fixed,
            Self::LockBase => LiveWrite::Fixed,
            Self::LockSize => LiveWrite::Fixed,
            Self::NotificationWritePointers => LiveWrite::Fixed,
            Self::NotificationPagesReadPointer => LiveWrite::Owner,
            Self::FlushRequest => LiveWrite::Locked,
            Self::TableBases => LiveWrite::Fixed,
        }
    }
}

/// The right to change a register of a NIC that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveWrite {
    /// No process: the value follows from the NIC's limits, or the units advance it.
    Fixed,
    /// Only the NIC's owner.
    Owner,
    /// The holder of the NIC's lock, by [`write_register`](crate::Nic::write_register).
    Locked,
}
