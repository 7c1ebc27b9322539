// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The graph of a machine whose file names no units, derived from the keys of `[host]` and `[nic]`.
//!
//! ```text
//! NIC matches:   software ─ engine ─ bus read ─> fabric ─> engine ─ bus write ─> delivery
//! host matches:  software ─ engine ─ bus read ─> fabric ─> engine ─ processor ─ bus write ─ processor ─> delivery
//! ```
//!
//! With one processor the NIC's two engines are one unit.

use super::graph::{Class, Graph, Pass, Path, Stage, Unit, UnitId};
use super::{Host, Mode, NicModel};
use crate::time::Time;

const SOFTWARE: UnitId = 0;
const PROCESSOR: UnitId = 1;
const SEND: UnitId = 2;
const RECEIVE: UnitId = 3;
const READ: UnitId = 4;
const WRITE: UnitId = 5;
/// Names of the units, in this order. A machine's own paths may use them.
pub(super) const NAMES: [&str; 6] = ["software", "processor", "send-engine", "receive-engine", "bus-read", "bus-write"];

/// Makes the graph of a host and a NIC. All classes have the paths of Portals messages, without the steps on a host at
/// an aggregation node in a switch.
pub(super) fn graph(host: &Host, nic: &NicModel) -> Graph {
    let unit = |name: &&str| Unit { name: (*name).to_owned(), queue: 0, is_processor: *name == "software" };
    let (request, response) = (request(host, nic), response(host, nic));
    let path = |class: Class| match class {
        Class::AggregationRequest => to_switch(nic, &request),
        Class::Aggregation => to_switch(nic, &from_switch(nic, &request)),
        Class::AggregationResult | Class::AggregationMulticast => from_switch(nic, &request),
        _ if class.is_response() => response.clone(),
        _ => request.clone(),
    };
    Graph { units: NAMES.iter().map(unit).collect(), paths: Class::ALL.map(path), translation: None, is_bounded: false }
}

fn stage(passes: &[Pass]) -> Stage {
    passes.into()
}

/// Returns the unit that receives: with one processor, the engine that also sends.
fn receiving(nic: &NicModel) -> UnitId {
    if nic.processors == 1 { SEND } else { RECEIVE }
}

fn request(host: &Host, nic: &NicModel) -> Path {
    let begins = match nic.mode {
        Mode::Nic => host.software_send,
        Mode::Host => host.software_send + host.system_call + nic.command,
    };
    let inline =
        Pass { bytes_per_s: host.pio_bytes_per_s, ..Pass::delay(SOFTWARE, begins + host.doorbell.max(host.pio_write)) };
    let fire = match nic.mode {
        Mode::Nic => stage(&[]),
        Mode::Host => stage(&[Pass::work(PROCESSOR, nic.command), Pass::delay(SOFTWARE, host.doorbell)]),
    };
    Path {
        issue: [stage(&[inline]), stage(&[Pass::delay(SOFTWARE, begins + host.doorbell)])],
        software: begins,
        fire,
        receive: host.software_receive,
        ..both_ways(host, nic)
    }
}

/// Returns a path to an aggregation node in a switch: an engine takes the message, and there is no memory to write to.
fn to_switch(nic: &NicModel, path: &Path) -> Path {
    let receiver = receiving(nic);
    let header = stage(&[Pass::work(receiver, nic.header)]);
    Path { header, kept_bytes: None, write: stage(&[]), holder: receiver, receive: Time::ZERO, ..path.clone() }
}

/// Returns a path from an aggregation node in a switch: an engine sends what it has.
fn from_switch(nic: &NicModel, path: &Path) -> Path {
    let command = stage(&[Pass::work(SEND, nic.command)]);
    Path { command: [command.clone(), command], read: stage(&[]), ..path.clone() }
}

/// Returns the issue of a path without the steps that bring the command to the NIC.
pub(super) fn software(path: &Path) -> [Stage; 2] {
    let only =
        |stage: &Stage| stage.iter().map(|pass| Pass { bytes_per_s: 0, latency: path.software, ..*pass }).collect();
    [only(&path.issue[0]), only(&path.issue[1])]
}

fn response(host: &Host, nic: &NicModel) -> Path {
    let fire = match nic.mode {
        Mode::Nic => stage(&[]),
        Mode::Host => stage(&[Pass::delay(SOFTWARE, host.doorbell)]),
    };
    Path { fire, record: nic.event.max(nic.counter), ..both_ways(host, nic) }
}

/// Returns the stages that requests and responses share.
fn both_ways(host: &Host, nic: &NicModel) -> Path {
    let engine = |unit, time| Pass { before: nic.polling_loop / 2, ..Pass::work(unit, time) };
    let bus = |unit| Pass { bytes_per_s: host.dma_bytes_per_s, ..Pass::delay(unit, Time::ZERO) };
    let interrupt = |time| Pass { interrupts: true, ..Pass::work(PROCESSOR, time) };
    let receiver = receiving(nic);
    let command = if nic.mode == Mode::Nic { nic.command } else { Time::ZERO };
    let write = Pass { latency: host.dma_write, ..bus(WRITE) };
    let common = Path {
        inline_bytes: host.pio_bytes_max,
        command: [stage(&[engine(SEND, command)]), stage(&[engine(SEND, command + nic.transfer)])],
        read: stage(&[Pass { before: host.dma_read, ..bus(READ) }]),
        ..Path::default()
    };
    match nic.mode {
        Mode::Nic => {
            Path { header: stage(&[engine(receiver, nic.header)]), write: stage(&[write]), holder: receiver, ..common }
        }
        Mode::Host => Path {
            header: stage(&[engine(receiver, nic.transfer), interrupt(host.interrupt + nic.header)]),
            kept_bytes: Some(host.pio_bytes_max),
            write: stage(&[Pass { before: host.doorbell, ..write }, interrupt(host.interrupt)]),
            holder: PROCESSOR,
            ..common
        },
    }
}
