// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host interfaces of a run's nodes have done: commands, refusals, waiting, fairness; and what full mailboxes did.

use serde_json::{Value, json};

use super::document::{Section, Table};
use super::run::latency_json;
use super::words;
use crate::machine::interface::Interface;
use crate::node::{Outcome, RankCommands};
use crate::time::Time;

/// The index of fairness of Jain, Chiu and Hawe (1984) over the rates at which ranks got their commands accepted: 1 if all are equal, 1/n
/// if one of n has all. None: no rank has a rate.
pub(crate) fn fairness(commands: &[RankCommands]) -> Option<f64> {
    let rates: Vec<f64> = commands.iter().map(RankCommands::rate).filter(|rate| *rate > 0.0).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

fn longest(commands: &[RankCommands]) -> Time {
    commands.iter().map(|rank| rank.waited_longest).max().unwrap_or_default()
}

fn mean(commands: &[RankCommands]) -> Time {
    let count: u64 = commands.iter().map(|rank| rank.accepted).sum();
    commands.iter().map(|rank| rank.waited).sum::<Time>() / count.max(1)
}

/// The section of a run's document.
pub(super) fn section(interface: &Interface, outcome: &Outcome) -> Section {
    let (s, ranks) = (&outcome.statistics, &outcome.commands);
    let mut table = Table::of_values();
    table.value("way", interface.way.name());
    table.value("places of a node's queue", interface.places);
    table.value("commands", words::count(s.commands));
    table.value("attempts refused", words::count(s.commands_refused));
    table.value("commands that waited for a place", words::count(s.commands_waited));
    table.value("stores split", words::count(s.commands_split));
    if !s.command_start.is_empty() {
        let at = |quantile| words::time_ns(Time(s.command_start.value_at_quantile(quantile)).as_ns_f64());
        table.value("until the NIC begins, min / median / p99 / max", [0.0, 0.5, 0.99, 1.0].map(at).join(" / "));
    }
    let waits = [mean(ranks), longest(ranks)].map(|time| words::time_ns(time.as_ns_f64()));
    table.value("until the queue has it, mean / longest", waits.join(" / "));
    if let Some(index) = fairness(ranks) {
        table.value("fairness between ranks (Jain's index)", format!("{index:.3}"));
    }
    table.value("messages without credits", words::count(s.credits_lacked));
    table.value("times that a full mailbox blocked its NIC", words::count(s.blocked));
    table.value("VELO messages lost at a full mailbox", words::count(s.velo_lost));
    Section::new("Commands").in_summary().table(table)
}

pub(super) fn json(interface: &Interface, outcome: &Outcome) -> Value {
    let (s, ranks) = (&outcome.statistics, &outcome.commands);
    json!({
        "way": interface.way.name(),
        "places": interface.places,
        "accepted": s.commands,
        "refused": s.commands_refused,
        "waited": s.commands_waited,
        "split": s.commands_split,
        "start": latency_json(&s.command_start),
        "until_queued_mean_ps": mean(ranks).0,
        "until_queued_longest_ps": longest(ranks).0,
        "fairness": fairness(ranks),
        "without_credits": s.credits_lacked,
        "blocked": s.blocked,
        "velo_lost": s.velo_lost,
        "ranks": ranks.iter().map(|rank| json!({
            "accepted": rank.accepted,
            "refused": rank.refused,
            "waited_ps": rank.waited.0,
            "waited_longest_ps": rank.waited_longest.0,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_rates_and_falls_with_their_spread() {
        let rank = |accepted: u64, us: u64| RankCommands {
            accepted,
            first: Some(Time::ZERO),
            last: Time::from_ns(1000 * us),
            ..RankCommands::default()
        };
        assert_eq!(fairness(&[]), None);
        assert_eq!(fairness(&[rank(10, 1), rank(20, 2), RankCommands::default()]), Some(1.0));
        // Rates 1 and 3: 16 / (2 * 10).
        assert!((fairness(&[rank(10, 10), rank(30, 10)]).unwrap_or_default() - 0.8).abs() < 1e-12);
    }
}
