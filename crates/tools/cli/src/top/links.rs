// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of processes, as rows and as JSON.
//!
//! Invariant: as in [`super::show`]. A link between hosts belongs to all NICs of its process; in JSON it stands with the
//! first of them.

use selvedge_host::links::Way;
use selvedge_host::links::read::{LinkCounter, LinkCounters};
use selvedge_host::snapshot::{JobSnapshot, NicSnapshot, ProcessSnapshot, Rates, Snapshot, printable};
use serde_json::{Map, Value, json};

use super::view::{Field, View};

const COLUMNS: [&str; 18] = [
    ">from",
    "to",
    "way",
    ">ni",
    "state",
    ">ops/s",
    ">B out/s",
    ">B in/s",
    ">ops",
    ">B out",
    ">B in",
    ">frames out",
    ">frames in",
    ">repeats",
    ">damaged",
    ">rtt",
    ">queue",
    "job",
];

/// A row for each link on which something has happened, and a note with the reason for each that is lost.
pub fn view(snapshot: &Snapshot, rates: &Rates) -> View {
    let mut view = View { heads: &COLUMNS, rows: Vec::new(), notes: Vec::new() };
    for job in &snapshot.jobs {
        for (process, index, link) in job.links().filter(|(_, _, link)| link.way != Some(Way::Others) || link.is_used())
        {
            let peer = peer_of(job, link);
            let rate = |value: &dyn Fn(&LinkCounters) -> u64| Field::rate(rates.of_link(job, process, index, value));
            let count = |counter| Field::short(link.get(counter) as f64);
            let between_hosts = |counter| if link.way == Some(Way::Memory) { Field::none() } else { count(counter) };
            view.rows.push(vec![
                Field::whole(process.seen.rank.into()),
                Field { number: peer.parse().ok(), ..Field::text(&peer) },
                Field::text(way_of(link)),
                link.ni.map_or_else(Field::none, |ni| Field::whole(ni.into())),
                Field::state(state_of(job, process, link)),
                rate(&LinkCounters::operations),
                rate(&|link| link.get(LinkCounter::BytesOut)),
                rate(&|link| link.get(LinkCounter::BytesIn)),
                Field::short(link.operations() as f64),
                count(LinkCounter::BytesOut),
                count(LinkCounter::BytesIn),
                between_hosts(LinkCounter::FramesOut),
                between_hosts(LinkCounter::FramesIn),
                between_hosts(LinkCounter::Repeats),
                between_hosts(LinkCounter::Damaged),
                match link.get(LinkCounter::RoundTrip) {
                    0 => Field::none(),
                    ns => Field::with_unit(ns as f64 / 1000.0, "us"),
                },
                between_hosts(LinkCounter::QueueBytes),
                Field::text(&job.name),
            ]);
            if !link.why.is_empty() {
                let state = state_of(job, process, link);
                let why = format!("link {} to {peer} is {state}: {}", process.seen.rank, link.why);
                view.notes.push(printable(&why));
            }
        }
    }
    view
}

fn way_of(link: &LinkCounters) -> &'static str {
    link.way.map_or("corrupt", Way::name)
}

/// The state of a link. A process that has ended has none, and within a host the state is that of the peer.
fn state_of(job: &JobSnapshot, process: &ProcessSnapshot, link: &LinkCounters) -> &'static str {
    let peer = || job.nics.iter().find(|nic| nic_id(nic) == link.peer && Some(nic.seen.ni) == link.ni);
    match link.way {
        _ if !process.is_alive => "gone",
        Some(Way::Memory) => match peer().map(NicSnapshot::state) {
            Some("ready") => "open",
            Some(state) => state,
            None => "closed",
        },
        _ => link.state.map_or("corrupt", |state| state.name()),
    }
}

fn nic_id(nic: &NicSnapshot) -> u64 {
    u64::from(nic.seen.nid) << 32 | u64::from(nic.seen.pid)
}

/// The rank at the other end; else its address; else its host and process id.
fn peer_of(job: &JobSnapshot, link: &LinkCounters) -> String {
    match job.peer_rank(link) {
        Some(rank) => rank.to_string(),
        None if !link.address.is_empty() => printable(&link.address),
        None if link.way == Some(Way::Others) => "others".to_owned(),
        None => format!("host {} pid {}", link.peer >> 32, link.peer as u32),
    }
}

/// The links of a NIC; with the first NIC of a process also those between hosts.
pub fn json(job: &JobSnapshot, nic: &NicSnapshot, rates: &Rates) -> Value {
    let links = job.links_of(nic).map(|(process, index, link)| {
        let mut record = json!({
            "peer_rank": job.peer_rank(link),
            "peer_nid": link.peer >> 32,
            "peer_pid": link.peer as u32,
            "address": link.address,
            "way": way_of(link),
            "state": state_of(job, process, link),
            "why": link.why,
            "operations": link.operations(),
        });
        for counter in LinkCounter::ALL {
            record[counter.name()] = link.get(*counter).into();
        }
        let rate = |counter: &&LinkCounter| {
            let rate = rates.of_link(job, process, index, |link| link.get(**counter));
            (counter.name().to_owned(), rate.into())
        };
        let totals = LinkCounter::ALL.iter().filter(|counter| counter.is_total());
        record["per_second"] = totals.map(|counter| rate(&counter)).collect::<Map<String, Value>>().into();
        record
    });
    links.collect()
}
