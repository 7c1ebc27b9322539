// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of a simulation: documents (`selvedge_document`: tables, plots, an HTML page), JSON, a timeline.
//!
//! | file | subject |
//! |---|---|
//! | [`run`] | a run of ranks: document and JSON |
//! | [`traffic`], [`study`] | traffic on the network alone: document and JSON |
//! | [`describe`] | a machine: document and JSON |
//! | [`regions`] | regions that a program has marked |
//! | [`jobs`] | the jobs of a run: times, slowdowns, shares of the fabric |
//! | `commands`, [`channels`], [`samples`], [`sheet`] | parts: host interfaces, the fabric, a run over virtual time, a machine's numbers |
//! | [`heat`], `places` | links over virtual time, and where a drawing puts them |
//! | [`timeline`], [`otf2`] | spans as a trace for the Perfetto viewer, and as an archive in OTF2 |
//! | `latency` | distributions of times, as text and JSON |
//!
//! Rule: no code here reads a clock. The caller passes its measurements in ([`Wall`]), and reports keep them apart.

pub mod channels;
mod commands;
pub mod describe;
pub mod heat;
pub mod jobs;
mod latency;
pub mod otf2;
mod places;
pub mod regions;
mod rerouting;
pub mod run;
pub mod samples;
pub mod sheet;
pub mod study;
pub mod timeline;
pub mod traffic;

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;

use selvedge_document::{Section, Table, words};
use serde_json::{Map, Value, json};

pub use channels::Fabric;
pub use heat::Heat;
pub use run::Run;
pub use samples::Samples;
pub use study::Study;
pub use traffic::Traffic;

/// Measurements of the computer that ran the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wall {
    pub seconds: f64,
    /// Peak memory of the simulator.
    pub memory_peak_bytes: Option<u64>,
    /// Further measurements: name with its unit, and value.
    pub more: Vec<(String, f64)>,
}

impl Wall {
    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the measurements as a section. Every line begins with "wall", so that comparisons can skip it.
    pub fn section(&self, events: u64, hops: u64) -> Section {
        let mut table = Table::of_values();
        table.value("wall time", words::time_ns(self.seconds * 1e9));
        if events > 0 {
            table.value("wall events", words::rate(self.per_second(events)));
            table.value("wall packet hops", words::rate(self.per_second(hops)));
        }
        if let Some(bytes) = self.memory_peak_bytes {
            table.value("wall memory peak", words::bytes(bytes as f64));
        }
        for (name, value) in &self.more {
            table.value(&format!("wall {}", name.replace('_', " ")), words::plain(*value));
        }
        Section::new("Wall clock").in_summary().of_wall().table(table)
    }

    pub fn json(&self, events: u64, hops: u64) -> Value {
        let more: Map<String, Value> = self.more.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "seconds": self.seconds,
            "events_per_s": self.per_second(events),
            "packet_hops_per_s": self.per_second(hops),
            "memory_peak_bytes": self.memory_peak_bytes,
            "more": more,
        })
    }
}
