// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host interface: the path of a command from a program to its NIC (seed 002, chapter 6).
//!
//! All ways lead to one queue of commands in the NIC, which all programs of the node share. They differ in the work
//! before it, in the treatment of a full queue, and in the part of the command that the device reads from memory.
//!
//! | way | section | before | to the queue | full queue | the device reads |
//! |---|---|---|---|---|---|
//! | classical | 6.2 | kernel, driver, copy of the payload | posted | the program sleeps | descriptor, payload |
//! | trigger-page | 6.4.1 | descriptor written to memory | a read, whose address is the command | refuses | descriptor, payload |
//! | io-transaction | 6.4.2 | | a write with a response | refuses | |
//! | cfcq | 6.4.3 | | a posted store of 16 bytes | the processor stands still | payload |
//! | cfcq-data | 6.4.4 | | posted, write-combined | the processor stands still | |
//! | os-synchronised | 6.4.5 | system call, driver | posted | the program sleeps | |
//! | enqcmd | today's | | a write of 64 bytes with a response | refuses | payload |
//! | kernel, kernel-interrupt | 8.5 | kernel | posted | the program sleeps | |
//!
//! classical and kernel-interrupt receive by interrupt. All three kernel ways also receive through the kernel.
//!
//! Invariants
//! 1. On a machine with an interface all commands use it: an `issue` has passes on the processor only.
//! 2. Stages of an interface name units of the graph. Missing ones are derived from the keys of `[host]`.

use super::Host;
use super::description::InterfaceTable;
use super::figure::Figure;
use super::graph::{Graph, Pass, Stage, Unit, UnitId};
use super::names::{self, Names, Wrong};
use crate::time::Time;

/// A kind of host interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    Classical,
    TriggerPage,
    IoTransaction,
    /// The central flow-controlled queue.
    Cfcq,
    /// The same, with the payload in the command.
    CfcqData,
    OsSynchronised,
    Enqcmd,
    Kernel,
    KernelInterrupt,
}

impl InterfaceKind {
    pub const ALL: [InterfaceKind; 9] = [
        InterfaceKind::Classical,
        InterfaceKind::TriggerPage,
        InterfaceKind::IoTransaction,
        InterfaceKind::Cfcq,
        InterfaceKind::CfcqData,
        InterfaceKind::OsSynchronised,
        InterfaceKind::Enqcmd,
        InterfaceKind::Kernel,
        InterfaceKind::KernelInterrupt,
    ];

    /// Returns its name in a machine's file.
    pub fn name(self) -> &'static str {
        match self {
            InterfaceKind::Classical => "classical",
            InterfaceKind::TriggerPage => "trigger-page",
            InterfaceKind::IoTransaction => "io-transaction",
            InterfaceKind::Cfcq => "cfcq",
            InterfaceKind::CfcqData => "cfcq-data",
            InterfaceKind::OsSynchronised => "os-synchronised",
            InterfaceKind::Enqcmd => "enqcmd",
            InterfaceKind::Kernel => "kernel",
            InterfaceKind::KernelInterrupt => "kernel-interrupt",
        }
    }

    fn is_in_kernel(self) -> bool {
        matches!(
            self,
            InterfaceKind::Classical
                | InterfaceKind::OsSynchronised
                | InterfaceKind::Kernel
                | InterfaceKind::KernelInterrupt
        )
    }

    fn is_answered(self) -> bool {
        matches!(self, InterfaceKind::TriggerPage | InterfaceKind::IoTransaction | InterfaceKind::Enqcmd)
    }
}

/// The treatment of a program whose command finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullQueue {
    /// Its processor stands still in the store until the NIC has returned a credit.
    Stall,
    /// It sleeps in the driver until the NIC interrupts.
    Sleep,
    /// The NIC refuses the command, and the program's library offers it again.
    Refuse,
}

/// A descriptor that the NIC reads from memory (seed 002, section 7.5.1: 128 bits).
pub const DESCRIPTOR_BYTES: u64 = 16;

/// The interface of a machine's nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    pub kind: InterfaceKind,
    /// Time of the program's processor before the command leaves it.
    pub before: Time,
    /// Bytes a second at which the processor copies payload, to send and to receive; 0: no copy.
    pub copy_bytes_per_s: u64,
    /// Pass under the driver's lock, which one program has at a time.
    pub driver: Option<Pass>,
    /// From the processor to the queue.
    pub offer: Stage,
    /// From the queue to the waiting processor. Empty: the command is posted.
    pub answer: Stage,
    /// The NIC's read of the rest of the command from memory.
    pub fetch: Stage,
    /// Longest payload that goes with the command.
    pub inline_bytes: u64,
    pub full_queue: FullQueue,
    /// Commands that the queue holds.
    pub places: u32,
    /// Pause of the library before it offers a refused command again.
    pub retry: Time,
    /// Most messages of its programs that the NIC has taken and that wait for the fabric.
    pub outgoing: usize,
    /// Additional time of a receive through the kernel.
    pub receive: Time,
    /// Time for which a message interrupts the processor, and time until its program wakes after that.
    pub interrupt: Option<(Time, Time)>,
    /// Time until a program that slept in the driver continues.
    pub wake: Time,
    /// Stores of more than one vector register that an interrupt splits, per million.
    pub splits_ppm: u32,
}

impl Interface {
    /// Returns the time from the processor's part until the NIC has a command with n bytes of payload, when idle.
    pub fn start(&self, bytes: u64) -> Time {
        let stage = |stage: &Stage, bytes| {
            stage.iter().map(|pass| pass.before + pass.latency + pass.bytes(bytes)).sum::<Time>()
        };
        let driver = self.driver.map_or(Time::ZERO, |pass| pass.latency);
        self.before
            + self.copy(bytes)
            + driver
            + stage(&self.offer, bytes.min(self.inline_bytes))
            + stage(&self.fetch, DESCRIPTOR_BYTES)
    }

    /// Returns the time of the processor's copy of n bytes.
    pub fn copy(&self, bytes: u64) -> Time {
        if self.copy_bytes_per_s == 0 { Time::ZERO } else { Time::of_bytes(bytes, self.copy_bytes_per_s) }
    }
}

/// Reads the interface of a machine, and adds its units to the graph.
pub(super) fn interface(
    graph: &mut Graph,
    names: &Names<'_>,
    host: &Host,
    table: &InterfaceTable,
) -> Result<Interface, Wrong> {
    let Some(kind) = InterfaceKind::ALL.into_iter().find(|kind| kind.name() == table.way) else {
        let names: Vec<&str> = InterfaceKind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(wrong("way", format!("unknown way '{}'; known: {}", table.way, names.join(", "))));
    };
    let time = |figure: &Option<Figure>| figure.as_ref().map(|figure| Time::from_ns_f64(figure.value));
    let mut stage = |key: &str, given: &Option<Vec<String>>, pass: Pass| match given {
        None => Ok([Pass { unit: unit(graph, key), ..pass }].into()),
        Some(steps) => names::stage(names, steps).map_err(|why| wrong(key, why)),
    };
    let posted = Pass { bytes_per_s: host.pio_bytes_per_s, ..Pass::delay(0, host.doorbell.max(host.pio_write)) };
    let posted = stage("posted", &table.posted, posted)?;
    let half = host.round_trip / 2;
    let request = Pass { bytes_per_s: host.pio_bytes_per_s, ..Pass::delay(0, half) };
    let request = stage("request", &table.request, request)?;
    let answer = stage("answer", &table.answer, Pass::delay(0, host.round_trip.saturating_sub(half)))?;
    let mut fetch = stage("fetch", &table.fetch, Pass::delay(0, host.dma_read))?.into_vec();
    if let Some(dequeue) = time(&table.dequeue_ns) {
        fetch.insert(0, Pass::work(unit(graph, "dequeue"), dequeue));
    }
    let driver = time(&table.driver_ns).unwrap_or_default();
    let kernel = match kind {
        InterfaceKind::OsSynchronised => host.system_call,
        _ if kind.is_in_kernel() => time(&table.kernel_ns).unwrap_or(host.system_call),
        InterfaceKind::TriggerPage => host.memory_access,
        _ => Time::ZERO,
    };
    let has_driver = kind.is_in_kernel() && driver > Time::ZERO;
    let wake = time(&table.wake_ns).unwrap_or_default();
    let interrupts = matches!(kind, InterfaceKind::Classical | InterfaceKind::KernelInterrupt);
    let carries = !matches!(
        kind,
        InterfaceKind::Classical | InterfaceKind::TriggerPage | InterfaceKind::Cfcq | InterfaceKind::Enqcmd
    );
    Ok(Interface {
        kind,
        before: kernel.saturating_sub(if has_driver { driver } else { Time::ZERO }),
        copy_bytes_per_s: if kind == InterfaceKind::Classical { host.copy_bytes_per_s } else { 0 },
        driver: has_driver.then(|| Pass::work(unit(graph, "driver"), driver)),
        offer: if kind.is_answered() { request } else { posted },
        answer: if kind.is_answered() { answer } else { Stage::default() },
        fetch: if matches!(kind, InterfaceKind::Classical | InterfaceKind::TriggerPage) {
            fetch.into()
        } else {
            Stage::default()
        },
        inline_bytes: if carries { u64::MAX } else { 0 },
        full_queue: match kind {
            _ if kind.is_answered() => FullQueue::Refuse,
            _ if kind.is_in_kernel() => FullQueue::Sleep,
            _ => FullQueue::Stall,
        },
        places: whole("places", &table.places, 16, 1, 1 << 20)? as u32,
        retry: time(&table.retry_ns).unwrap_or_default(),
        outgoing: whole("outgoing", &table.outgoing, 8, 1, 1 << 20)? as usize,
        receive: if matches!(kind, InterfaceKind::Classical | InterfaceKind::Kernel | InterfaceKind::KernelInterrupt) {
            kernel
        } else {
            Time::ZERO
        },
        interrupt: interrupts.then_some((host.interrupt, wake)),
        wake: host.interrupt + wake,
        splits_ppm: whole("splits_ppm", &table.splits_ppm, 0, 0, 1_000_000)? as u32,
    })
}

fn whole(key: &str, figure: &Option<Figure>, default: u64, least: u64, most: u64) -> Result<u64, Wrong> {
    figure.as_ref().map_or(Ok(default), |figure| figure.whole(least, most)).map_err(|why| wrong(key, why))
}

/// Adds a unit of the interface that the file does not name.
fn unit(graph: &mut Graph, key: &str) -> UnitId {
    graph.units.push(Unit { name: format!("interface-{key}"), queue: 0, is_processor: false });
    graph.units.len() as UnitId - 1
}

fn wrong(key: &str, why: String) -> Wrong {
    ("interface".to_owned(), key.to_owned(), why)
}
