// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic between ranks, as JSON for the page of running jobs.
//!
//! A cell of the matrix is what goes from one rank to another: bytes in either direction of operation (the puts of the
//! source and the gets of the target), and the operations that the source has started at the target.
//!
//! Invariants: 1. each byte is in one cell. Within a host a get counts at the process that asks; between hosts the
//! process that sends counts, and where that is not seen, the one that receives. 2. Only cells with traffic are listed.
//! 3. At most [`ROWS_MAX`] rows: of more ranks, neighbours share a row.
//!
//! Cost: O(links) for a job.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_host::links::Way;
use selvedge_host::links::read::{LinkCounter, LinkCounters};
use selvedge_host::snapshot::{JobSnapshot, Rates, Snapshot, printable};
use selvedge_nic::Register;
use serde_json::{Value, json};

/// Most rows of a matrix.
const ROWS_MAX: u32 = 128;

/// Traffic in all, and its growth per second; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    operations: u64,
    bytes: u64,
    operations_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
        self.operations = self.operations.wrapping_add(other.operations);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.operations_per_second = sum(self.operations_per_second, other.operations_per_second);
        self.bytes_per_second = sum(self.bytes_per_second, other.bytes_per_second);
    }

    fn numbers(&self) -> [Value; 4] {
        [self.operations.into(), self.bytes.into(), self.operations_per_second.into(), self.bytes_per_second.into()]
    }
}

/// The jobs at one time: their ranks and matrices. `jobs.js` of the page draws it.
pub fn json(now: &Snapshot, rates: &Rates) -> Value {
    now.jobs.iter().map(|job| of_job(job, rates)).collect()
}

fn of_job(job: &JobSnapshot, rates: &Rates) -> Value {
    let (mut pairs, mut unnamed) = (BTreeMap::<(u32, u32), Traffic>::new(), 0u64);
    let here: BTreeSet<u32> = job.processes.iter().map(|process| process.seen.rank).collect();
    for (process, index, link) in job.links() {
        let rank = process.seen.rank;
        let Some(peer) = job.peer_rank(link) else {
            unnamed = unnamed.wrapping_add(link.operations());
            continue;
        };
        let grown = |value: &dyn Fn(&LinkCounters) -> u64| rates.of_link(job, process, index, value);
        let bytes = |counter: LinkCounter| Traffic {
            bytes: link.get(counter),
            bytes_per_second: grown(&|link| link.get(counter)),
            ..Traffic::default()
        };
        let sent = Traffic {
            operations: link.operations(),
            operations_per_second: grown(&LinkCounters::operations),
            ..bytes(LinkCounter::BytesOut)
        };
        pairs.entry((rank, peer)).or_default().add(sent);
        if link.way == Some(Way::Memory) || !here.contains(&peer) {
            pairs.entry((peer, rank)).or_default().add(bytes(LinkCounter::BytesIn));
        }
    }
    let named = pairs.keys().map(|(from, to)| from.max(to) + 1).max().unwrap_or(0);
    let seen = here.last().map_or(0, |last| last + 1);
    let size = job.record.as_ref().map_or(0, |record| record.size).max(named).max(seen);
    let block = size.div_ceil(ROWS_MAX).max(1);
    let mut cells = BTreeMap::<(u32, u32), Traffic>::new();
    for ((from, to), traffic) in &pairs {
        cells.entry((from / block, to / block)).or_default().add(*traffic);
    }
    let cells = cells.iter().filter(|(_, traffic)| traffic.operations > 0 || traffic.bytes > 0);
    let cells = cells.map(|((row, column), traffic)| {
        let [operations, bytes, operations_per_second, bytes_per_second] = traffic.numbers();
        json!([row, column, operations, bytes, operations_per_second, bytes_per_second])
    });
    json!({
        "name": printable(&job.name),
        "program": job.record.as_ref().map(|record| printable(&record.program)),
        "size": size,
        "block": block,
        "cells": cells.collect::<Vec<Value>>(),
        "ranks": ranks(job, rates, &pairs),
        "unnamed_operations": unnamed,
        "refused": job.refused.iter().map(|refused| printable(&format!("{}: {}", refused.file, refused.why))).collect::<Vec<_>>(),
    })
}

/// A record for each rank on this host: its traffic to others and from them, and sums over its NICs.
fn ranks(job: &JobSnapshot, rates: &Rates, pairs: &BTreeMap<(u32, u32), Traffic>) -> Value {
    let (mut sent, mut come) = (BTreeMap::<u32, Traffic>::new(), BTreeMap::<u32, Traffic>::new());
    for ((from, to), traffic) in pairs {
        sent.entry(*from).or_default().add(*traffic);
        come.entry(*to).or_default().add(*traffic);
    }
    let of = |all: &BTreeMap<u32, Traffic>, rank| all.get(&rank).copied().unwrap_or_default();
    let numbers: BTreeSet<u32> = job.nics.iter().map(|nic| nic.seen.rank).collect();
    let record = |rank: u32| {
        let nics = || job.nics.iter().filter(move |nic| nic.seen.rank == rank);
        let sum = |register| nics().fold(0u64, |sum, nic| sum.wrapping_add(nic.seen.register(register)));
        let (out, into) = (of(&sent, rank), of(&come, rank));
        let requests = nics().filter_map(|nic| rates.per_second(job, nic, Register::Requests));
        json!({
            "rank": rank,
            "os_pid": nics().next().map(|nic| nic.seen.owner.pid),
            "state": nics().next().map(|nic| nic.state()),
            "operations": out.operations,
            "operations_per_second": out.operations_per_second,
            "bytes_out": out.bytes,
            "bytes_out_per_second": out.bytes_per_second,
            "bytes_in": into.bytes,
            "bytes_in_per_second": into.bytes_per_second,
            "requests_per_second": requests.reduce(|a, b| a + b),
            "unexpected": nics().map(|nic| nic.seen.unexpected).sum::<u64>(),
            "dropped": sum(Register::Dropped),
            "sleepers": nics().map(|nic| u64::from(nic.seen.sleepers)).sum::<u64>(),
        })
    };
    numbers.into_iter().map(record).collect()
}
