// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads of a host and of its links: measured by the caller about once a second, flooded without acknowledgement.
//!
//! A report travels apart from announcements: it changes no route, and a lost one is replaced by the next.
use crate::config::PORTS_MAX;
use crate::id::{Boot, HostId};
use crate::wire::{FRAME_BYTES_MAX, HEADER_BYTES, Reader};
use alloc::vec::Vec;
use selvedge_fabric::Port;

const REPORT_BYTES: usize = 28;
const PORT_BYTES: usize = 23;
/// The largest rate and the largest queue that a report carries; larger ones are sent as these.
const RATE_MAX: u64 = (1 << 40) - 1;
const QUEUE_MAX: u32 = (1 << 24) - 2;
const NO_QUEUE: u32 = (1 << 24) - 1;
const NO_ROUND_TRIP: u32 = u32::MAX;
const _: () = assert!(HEADER_BYTES + REPORT_BYTES + 1 + PORTS_MAX as usize * PORT_BYTES <= FRAME_BYTES_MAX);

/// The load of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLoad {
    /// Busy share of all processors.
    pub processor_permille: u16,
    /// The highest of its sensors, in tenths of a degree Celsius.
    pub temperature_dc: Option<i16>,
}

/// The load of one link, as measured at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLoad {
    pub port: Port,
    /// Bytes of each second.
    pub sent_bytes_s: u64,
    pub received_bytes_s: u64,
    /// Share of the speed, of the busier direction. None: the speed is not known.
    pub load_permille: Option<u16>,
    /// Errors since the last report.
    pub errors: u16,
    /// Round trip of the link's hellos, smoothed. None: the link is not up.
    pub round_trip_ns: Option<u32>,
    /// Bytes that wait at this end to be sent. None: the host cannot tell.
    pub queue_bytes: Option<u32>,
}

/// The loads of a host and its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    pub host: HostId,
    pub boot: Boot,
    /// Counts the reports of a boot.
    pub number: u64,
    pub load: HostLoad,
    /// By port, ascending.
    pub ports: Vec<PortLoad>,
}

impl LoadReport {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.host.0.to_le_bytes());
        bytes.extend(self.boot.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.load.processor_permille.to_le_bytes());
        bytes.extend(self.load.temperature_dc.unwrap_or(i16::MIN).to_le_bytes());
        bytes.push(self.ports.len() as u8);
        for port in &self.ports {
            bytes.extend(port.port.0.to_le_bytes());
            for rate in [port.sent_bytes_s, port.received_bytes_s] {
                bytes.extend(&rate.min(RATE_MAX).to_le_bytes()[..5]);
            }
            bytes.extend(port.load_permille.unwrap_or(u16::MAX).to_le_bytes());
            bytes.extend(port.errors.to_le_bytes());
            bytes.extend(port.round_trip_ns.map_or(NO_ROUND_TRIP, |ns| ns.min(NO_ROUND_TRIP - 1)).to_le_bytes());
            bytes.extend(&port.queue_bytes.map_or(NO_QUEUE, |queue| queue.min(QUEUE_MAX)).to_le_bytes()[..3]);
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<LoadReport> {
        let (host, boot, number) = (HostId(reader.u64()?), Boot(reader.u64()?), reader.u64()?);
        let processor_permille = reader.u16()?;
        let temperature_dc = Some(reader.u16()? as i16).filter(|&temperature| temperature != i16::MIN);
        let count = reader.u8()?;
        if u16::from(count) > PORTS_MAX {
            return None;
        }
        let mut ports: Vec<PortLoad> = Vec::with_capacity(count.into());
        for _ in 0..count {
            let port = PortLoad {
                port: Port(reader.u16()?),
                sent_bytes_s: wide(reader, 5)?,
                received_bytes_s: wide(reader, 5)?,
                load_permille: Some(reader.u16()?).filter(|&load| load != u16::MAX),
                errors: reader.u16()?,
                round_trip_ns: Some(reader.u32()?).filter(|&ns| ns != NO_ROUND_TRIP),
                queue_bytes: Some(wide(reader, 3)? as u32).filter(|&queue| queue != NO_QUEUE),
            };
            if ports.last().is_some_and(|last| last.port >= port.port) {
                return None;
            }
            ports.push(port);
        }
        Some(LoadReport { host, boot, number, load: HostLoad { processor_permille, temperature_dc }, ports })
    }
}

/// A number of this many bytes.
fn wide(reader: &mut Reader, bytes: usize) -> Option<u64> {
    Some(reader.take(bytes)?.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}
