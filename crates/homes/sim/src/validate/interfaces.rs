// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims of seed 002, chapter 6 and section 8.5: how commands reach a NIC, the path through the kernel, figure 6-7.
//!
//! Chapter 6 measures a test design behind the HyperTransport core, and gives its latencies (table 3-1: 90 ns to the
//! device, a DMA read of 280 ns). They are sums of component figures, so they are shown as inputs. The effects of
//! contention and full queues are predicted.

use std::sync::Arc;

use super::Results;
use super::claim::{Claim, Figure};
use super::lab::{self, ValidateError};
use super::programs::extoll::{Kind, latency, stream};
use super::programs::interfaces::{Contention, contention, crossfire};
use crate::machine::Machine;
use crate::machine::interface::InterfaceKind;

const MACHINE: &str = "extoll-ht400";

/// Figures of the test design, instead of those of the EXTOLL prototype.
const TEST_DESIGN: [(&str, &str); 4] = [
    ("unit.posted.latency_ns", "90"),
    ("unit.non-posted-down.latency_ns", "90"),
    ("unit.response-up.latency_ns", "90"),
    ("interface.fetch", "[\"fetch-280\"]"),
];

fn by(way: InterfaceKind, more: &[(&str, &str)]) -> Result<Arc<Machine>, ValidateError> {
    lab::machine(MACHINE, &[&[("interface.way", way.name())], more].concat())
}

pub(super) fn run(results: &mut Results) -> Result<(), ValidateError> {
    starts(results)?;
    kernel(results)?;
    queues(results)?;
    figure_6_7(results)
}

/// Shows the time until the device can begin with a command, on the test design.
fn starts(results: &mut Results) -> Result<(), ValidateError> {
    let fetch = ("unit.fetch-280.latency_ns", "280");
    let start = |way| -> Result<f64, ValidateError> {
        let machine = by(way, &[&TEST_DESIGN[..], &[fetch]].concat())?;
        let interface = machine.interface.as_ref();
        Ok(interface.map_or(0.0, |interface| (interface.start(0).saturating_sub(interface.before)).as_ns_f64()))
    };
    let rows = [
        (
            "extoll-6a",
            "seed 002, section 6.4.1",
            "time until the device begins with a command, by trigger page",
            380.0,
            InterfaceKind::TriggerPage,
        ),
        (
            "extoll-6b",
            "seed 002, section 6.4.2",
            "the same by I/O transaction (printed: around 200 ns; 90 by its own formula)",
            200.0,
            InterfaceKind::IoTransaction,
        ),
        (
            "extoll-6c",
            "seed 002, section 6.4.3",
            "the same by the central flow-controlled queue (printed: < 100 ns)",
            100.0,
            InterfaceKind::Cfcq,
        ),
    ];
    for (id, source, what, published, way) in rows {
        results.claims.push(Claim::number(id, source, what, (published, start(way)?, "ns")).input());
    }
    Ok(())
}

/// Compares section 8.5: the cost of the kernel.
fn kernel(results: &mut Results) -> Result<(), ValidateError> {
    let source = "seed 002, section 8.5";
    let start_up = |way| -> Result<f64, ValidateError> { Ok(latency(&by(way, &[])?, Kind::Velo, &[8], false)?[0]) };
    let (user, kernel, interrupt) = (
        start_up(InterfaceKind::CfcqData)?,
        start_up(InterfaceKind::Kernel)?,
        start_up(InterfaceKind::KernelInterrupt)?,
    );
    let what = "start-up latency that the kernel adds on both sides together";
    results.claims.push(Claim::number("extoll-8-5a", source, what, (600.0, kernel - user, "ns")).input());
    let what = "start-up latency that interrupts add (approximately another microsecond)";
    results.claims.push(Claim::number("extoll-8-5b", source, what, (1000.0, interrupt - kernel, "ns")).input());
    let bandwidth = |way| stream(&by(way, &[])?, Kind::Put, 4096, 64);
    let ratio = bandwidth(InterfaceKind::Kernel)? / bandwidth(InterfaceKind::CfcqData)?;
    let what = "bandwidth through the kernel over that of user space (\"not further affected\")";
    results.claims.push(Claim::number("extoll-8-5c", source, what, (1.0, ratio, "x")));
    Ok(())
}

/// Compares rates of one program and of eight, and their fairness.
fn queues(results: &mut Results) -> Result<(), ValidateError> {
    let source = "seed 002, sections 6.4.1 to 6.4.5";
    let mut all = Vec::new();
    for way in InterfaceKind::ALL {
        let machine = by(way, &[])?;
        all.push((way, contention(&machine, 1)?, contention(&machine, 8)?));
    }
    let rate = |way: InterfaceKind| all.iter().find(|row| row.0 == way).map_or(0.0, |row| row.1.rate);
    let same = (rate(InterfaceKind::TriggerPage) / rate(InterfaceKind::IoTransaction) - 1.0).abs();
    results.claims.push(Claim::fact(
        "extoll-6d",
        "seed 002, section 6.4.2",
        "I/O transactions have the rate of the trigger page: both wait for a round trip",
        (
            "the same",
            format!(
                "{:.2} and {:.2} M/s",
                rate(InterfaceKind::IoTransaction) / 1e6,
                rate(InterfaceKind::TriggerPage) / 1e6
            ),
            same < 0.15,
        ),
    ));
    let higher = rate(InterfaceKind::Cfcq) > rate(InterfaceKind::IoTransaction);
    results.claims.push(Claim::fact(
        "extoll-6e",
        "seed 002, section 6.4.3",
        "the rate of posted commands is higher: they wait for nothing",
        (
            "higher",
            format!(
                "{:.2} against {:.2} M/s",
                rate(InterfaceKind::Cfcq) / 1e6,
                rate(InterfaceKind::IoTransaction) / 1e6
            ),
            higher,
        ),
    ));
    for (way, _, eight) in &all {
        let Contention { rate, fairness, refused, waited, longest_ns } = *eight;
        let words = format!("{:.1} M/s, {fairness:.2}, {}, {longest_ns:.0} ns", rate / 1e6, refused + waited);
        let id = ID_OF[InterfaceKind::ALL.iter().position(|other| other == way).unwrap_or_default()];
        let what = format!(
            "8 programs at one NIC, 200 messages each, {}: rate, fairness, refusals or waits, longest wait",
            way.name()
        );
        let figures = (Figure::Words("not measured".to_owned()), Figure::Words(words), "");
        results.claims.push(Claim::shown(id, source, what, figures));
    }
    Ok(())
}

const ID_OF: [&str; 9] = [
    "extoll-6f-1",
    "extoll-6f-2",
    "extoll-6f-3",
    "extoll-6f-4",
    "extoll-6f-5",
    "extoll-6f-6",
    "extoll-6f-7",
    "extoll-6f-8",
    "extoll-6f-9",
];

/// Checks figure 6-7: two nodes send to each other, and their mailboxes become full.
fn figure_6_7(results: &mut Results) -> Result<(), ValidateError> {
    let source = "seed 002, section 6.5, figure 6-7";
    let rows = [
        (
            "extoll-6-7a",
            InterfaceKind::CfcqData,
            "block",
            "full mailboxes block, and the full command queue stalls its writer",
            true,
        ),
        ("extoll-6-7b", InterfaceKind::CfcqData, "drop", "full mailboxes drop", false),
        ("extoll-6-7c", InterfaceKind::CfcqData, "credits", "senders have credits", false),
        (
            "extoll-6-7d",
            InterfaceKind::IoTransaction,
            "block",
            "full mailboxes block; a program receives when its I/O transaction is refused",
            false,
        ),
    ];
    for (id, way, mailbox, what, deadlocks) in rows {
        let found = crossfire(&by(way, &[("nic.full_mailbox", mailbox)])?)?;
        let words = |deadlock| if deadlock { "deadlock" } else { "no deadlock" };
        let predicted = words(found).to_owned();
        results.claims.push(Claim::fact(id, source, what, (words(deadlocks), predicted, found == deadlocks)));
    }
    Ok(())
}
