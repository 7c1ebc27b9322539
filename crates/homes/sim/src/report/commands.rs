// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The work of the host interfaces of a run's nodes: commands, refusals, waiting, fairness, full mailboxes.

use selvedge_document::{Section, Table, words};
use serde_json::{Value, json};

use super::latency::{latency_json, latency_words};
use crate::machine::interface::Interface;
use crate::node::{Outcome, RankCommands};
use crate::time::Time;

fn longest(commands: &[RankCommands]) -> Time {
    commands.iter().map(|rank| rank.waited_longest).max().unwrap_or_default()
}

fn mean(commands: &[RankCommands]) -> Time {
    let count: u64 = commands.iter().map(|rank| rank.accepted).sum();
    commands.iter().map(|rank| rank.waited).sum::<Time>() / count.max(1)
}

pub(super) fn section(interface: &Interface, outcome: &Outcome) -> Section {
    let (s, ranks) = (&outcome.statistics, &outcome.commands);
    let mut table = Table::of_values();
    table.value("way", interface.kind.name());
    table.value("places of a node's queue", interface.places);
    table.value("commands", words::count(s.commands));
    table.value("attempts refused", words::count(s.commands_refused));
    table.value("commands that waited for a place", words::count(s.commands_waited));
    table.value("stores split", words::count(s.commands_split));
    if !s.command_start.is_empty() {
        table.value("until the NIC begins, min / median / p99 / max", latency_words(&s.command_start));
    }
    let waits = [mean(ranks), longest(ranks)].map(|time| words::time_ns(time.as_ns_f64()));
    table.value("until the queue has it, mean / longest", waits.join(" / "));
    if let Some(index) = outcome.fairness {
        table.value("fairness on the busiest node (Jain's index)", format!("{index:.3}"));
    }
    table.value("messages without credits", words::count(s.credits_lacked));
    table.value("times that a full mailbox blocked its NIC", words::count(s.blocked));
    Section::new("Commands").in_summary().table(table)
}

pub(super) fn json(interface: &Interface, outcome: &Outcome) -> Value {
    let (s, ranks) = (&outcome.statistics, &outcome.commands);
    json!({
        "way": interface.kind.name(),
        "places": interface.places,
        "accepted": s.commands,
        "refused": s.commands_refused,
        "waited": s.commands_waited,
        "split": s.commands_split,
        "start": latency_json(&s.command_start),
        "until_queued_mean_ps": mean(ranks).0,
        "until_queued_longest_ps": longest(ranks).0,
        "fairness": outcome.fairness,
        "without_credits": s.credits_lacked,
        "blocked": s.blocked,
        "ranks": ranks.iter().map(|rank| json!({
            "accepted": rank.accepted,
            "refused": rank.refused,
            "waited_ps": rank.waited.0,
            "waited_longest_ps": rank.waited_longest.0,
        })).collect::<Vec<_>>(),
    })
}
