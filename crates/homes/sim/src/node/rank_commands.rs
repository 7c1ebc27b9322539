// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of the commands that a rank has offered to its NIC, and the NIC's fairness.

use crate::time::Time;

/// Counts and times of one rank's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCommands {
    pub accepted: u64,
    /// Attempts that the NIC refused.
    pub refused: u64,
    /// The first offer; the time at which the queue had the last command.
    pub first: Option<Time>,
    pub last: Time,
    /// Time from a command's first offer until the queue has it: sum and maximum.
    pub waited: Time,
    pub waited_longest: Time,
}

impl RankCommands {
    pub(super) fn accept(&mut self, since: Time, now: Time) {
        let waited = now.saturating_sub(since);
        self.accepted += 1;
        self.last = now;
        self.waited += waited;
        self.waited_longest = self.waited_longest.max(waited);
    }

    /// Returns commands a second. `None`: it has offered none, or all were accepted at once.
    pub fn rate(&self) -> Option<f64> {
        let time = self.last.saturating_sub(self.first?);
        match (self.accepted, time) {
            (0, _) => Some(0.0),
            (_, Time::ZERO) => None,
            (accepted, time) => Some(accepted as f64 / time.as_seconds_f64()),
        }
    }
}

/// Returns the index of fairness of Jain, Chiu and Hawe (1984) over the rates at which ranks of one node got their
/// commands accepted: 1 if all are equal, 1/n if one of n had all. `None`: no rank has a rate.
pub(super) fn fairness(commands: impl Iterator<Item = RankCommands>) -> Option<f64> {
    let rates: Vec<f64> = commands.filter_map(|rank| rank.rate()).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_rates_and_one_of_n_if_one_has_all() {
        let rank = |accepted: u64, us: u64| RankCommands {
            accepted,
            first: Some(Time::ZERO),
            last: Time::from_ns(1000 * us),
            ..RankCommands::default()
        };
        let index = |ranks: &[RankCommands]| fairness(ranks.iter().copied()).unwrap_or(-1.0);
        assert_eq!(index(&[]), -1.0);
        // A rank that has offered nothing does not count; a rank that was refused everything does.
        assert_eq!(index(&[rank(10, 1), rank(20, 2), RankCommands::default()]), 1.0);
        assert_eq!(index(&[rank(10, 1), rank(0, 0), rank(0, 0), rank(0, 0)]), 0.25);
        // Rates 1 and 3: 16 / (2 * 10).
        assert!((index(&[rank(10, 10), rank(30, 10)]) - 0.8).abs() < 1e-12);
    }
}
