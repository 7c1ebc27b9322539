// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tap on a NIC: its transitions as values, in the order in which they take effect.
//!
//! A home sets [`Nic::tap`](crate::Nic::tap) to record a NIC (`selvedge-trace` writes it to a file). Each transition of
//! the Portals unit then ends with one call of [`Tap::show`], under the NIC's lock, with its arguments and its result.
//!
//! Invariants
//! 1. A transition inside another one is not shown. The exceptions are counts of deliveries and responses, shown before
//!    them with `is_caused`. Counts by triggered operations and
//!    [`Counters::set`](crate::portals::counters::Counters::set) are not shown, because a NIC that replays the trace
//!    makes them itself.
//! 2. A refused transition is shown, with an empty result. A request that another process must handle is not: nothing
//!    has happened.
//! 3. A tapped NIC gives no grants and no lanes, because puts and counts by these are no transitions.
//! 4. Not shown: the heap, the VELO, RMA and aggregation units, recovery.
//!
//! Cost without a tap: a transition tests one word of the view, which is in the process's cache, and takes the usual
//! branch. On the hot paths the transition proper is a function of its own (`deliver_now`), so that it is inlined as if
//! there were no tap.

pub use crate::portals::action::ArmedAction;
use crate::portals::delivery::Delivery;
use crate::portals::descriptor::DescriptorView;
use crate::portals::entry::EntrySpec;
use crate::portals::posted::{Posted, Receive};
use crate::portals::put::Put;
use crate::tables::{Command, Request};

/// A receiver of the transitions of a NIC.
pub trait Tap: Send + Sync {
    /// Called after the transition. The caller holds the lock.
    fn show(&self, transition: &Transition);
}

/// A NIC's tap.
#[derive(Clone, Copy, Default)]
pub struct Tapped<'a> {
    pub(crate) sink: Option<&'a dyn Tap>,
    pub(crate) within: Within,
}

/// The enclosing transition, which determines the inner transitions that are shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Within {
    /// No enclosing transition.
    #[default]
    Nothing,
    /// A transition: its counts are shown.
    Transition,
    /// A transition on a counter: nothing is shown.
    Counter,
}

impl<'a> Tapped<'a> {
    pub fn new(sink: &'a dyn Tap) -> Tapped<'a> {
        Tapped { sink: Some(sink), within: Within::Nothing }
    }

    /// Whether there is a tap.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.sink.is_some()
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.sink.is_some() && self.within == Within::Nothing
    }
}

/// A transition of the Portals unit, with its result. `None` and `false`: it was refused, and nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on the stack")]
pub enum Transition {
    PortalAlloc {
        wanted: Option<u32>,
        options: u32,
        queue: u32,
        portal: Option<u32>,
    },
    PortalFree {
        portal: u32,
        is_done: bool,
    },
    PortalSet {
        portal: u32,
        is_enabled: bool,
        is_done: bool,
    },
    Append {
        portal: u32,
        list: u8,
        spec: EntrySpec,
        entry: Option<u32>,
    },
    /// An entry of a triggered append.
    Reserve {
        portal: u32,
        spec: EntrySpec,
        entry: Option<u32>,
    },
    Unlink {
        entry: u32,
        is_done: bool,
    },
    Search {
        portal: u32,
        spec: EntrySpec,
        deletes: bool,
        is_done: bool,
    },
    Deliver {
        request: Request,
        delivery: Delivery,
    },
    PostReceive {
        portal: u32,
        spec: EntrySpec,
        posted: Option<Posted>,
    },
    TakeReceive {
        put: Put,
        receive: Receive,
    },
    /// An unexpected message is claimed (off its list, but kept), or dropped. The fields name it.
    ClaimUnexpected {
        header: u32,
        portal: u32,
        source: u64,
        match_bits: u64,
    },
    DropUnexpected {
        header: u32,
        portal: u32,
        source: u64,
        match_bits: u64,
    },
    Bind {
        view: DescriptorView,
        descriptor: Option<u32>,
    },
    Release {
        descriptor: u32,
        is_done: bool,
    },
    CounterAlloc {
        counter: Option<u32>,
    },
    CounterFree {
        counter: u32,
        is_done: bool,
    },
    CountSet {
        counter: u32,
        success: u64,
        failure: u64,
    },
    /// `is_caused`: by the transition that is shown next.
    Count {
        counter: u32,
        success: u64,
        failure: u64,
        is_caused: bool,
    },
    /// The operation: its index and generation.
    Arm {
        counter: u32,
        threshold: u64,
        action: ArmedAction,
        armed: Option<(u32, u32)>,
    },
    CancelTriggered {
        counter: u32,
        is_done: bool,
    },
    CancelArmed {
        armed: (u32, u32),
        is_done: bool,
    },
    /// Triggered operations ran up to this one, which moves data.
    Fire {
        fired: Option<(u32, Command)>,
    },
    /// A fired operation has run.
    Finish {
        index: u32,
    },
    QueueAlloc {
        capacity: u32,
        queue: Option<u32>,
    },
    QueueFree {
        queue: u32,
        is_done: bool,
    },
    /// Flow control reads a queue: the program has taken `taken` of `posted` events. Part of the transition shown next,
    /// if one is under way.
    QueueTaken {
        queue: u32,
        taken: u64,
        posted: u64,
    },
    /// The program starts a command.
    Issue {
        command: Command,
    },
    /// The command's payload has been read.
    Send {
        command: Command,
        fail: u8,
    },
    /// The target's answer, or an acknowledgement.
    Response {
        command: Command,
        delivery: Delivery,
    },
}
