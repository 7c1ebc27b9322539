// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The catalogue: cases and rules of all groups, [`portals`], [`shmem`] and [`extoll`], and their selection.
//!
//! Invariants: 1. every name is unique. 2. Every baseline of a rule is measured by some case (see [`Case::yields`]).

use anyhow::{Result, bail};

use super::cases::{Case, Group};
use super::record::{self, Measurement, Record, Rule};
use super::{extoll, portals, shmem};

/// The cases of all groups.
pub fn all() -> impl Iterator<Item = &'static Case> {
    portals::CASES.iter().chain(shmem::CASES).chain(extoll::CASES)
}

/// The rules of all groups.
pub fn rules() -> impl Iterator<Item = &'static Rule> + Clone {
    portals::RULES.iter().chain(shmem::RULES).chain(extoll::RULES)
}

/// One record for every possible comparison, in the order of the measurements.
pub fn records(all: &[Measurement]) -> Vec<Record> {
    record::records(all, rules())
}

/// Returns the cases that `names` select, with their baselines, in catalogue order. A name is a case, a baseline that a
/// case measures, a family (before a colon), or `shmem` or `extoll` for that group. Without names: the Portals group.
pub fn choose(names: &[String]) -> Result<Vec<&'static Case>> {
    let mut chosen: Vec<bool> = all().map(|case| names.is_empty() && case.group() == Group::Portals).collect();
    for name in names {
        let mut known = false;
        for (case, chosen) in all().zip(&mut chosen) {
            let found = case.is_selected_by(name);
            *chosen |= found;
            known |= found;
        }
        if !known {
            bail!("there is no case '{name}'; `selvedge bench --list` shows all");
        }
    }
    while add_baselines(&mut chosen) {}
    Ok(all().zip(chosen).filter_map(|(case, chosen)| chosen.then_some(case)).collect())
}

/// Adds the baselines of chosen cases. Returns whether it added any.
fn add_baselines(chosen: &mut [bool]) -> bool {
    let mut added = false;
    for rule in rules() {
        let asked = all().position(|c| c.name == rule.case).is_some_and(|at| chosen[at]);
        let baseline = all().position(|c| c.name == rule.against);
        if let (true, Some(at)) = (asked, baseline) {
            added |= !chosen[at];
            chosen[at] = true;
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::cases::{Batch, Scale, batches, estimate};

    #[test]
    fn names_are_unique() {
        for (at, case) in all().enumerate() {
            assert!(all().take(at).all(|other| other.name != case.name), "{} twice", case.name);
        }
    }

    #[test]
    fn every_rule_is_about_something_that_is_measured() {
        for rule in rules() {
            assert!(all().any(|c| c.name == rule.case), "{}", rule.case);
            let measured = |name| all().any(|c| c.name == name || c.yields.contains(&name));
            assert!(measured(rule.against), "{} against {}", rule.case, rule.against);
            assert_eq!(Group::of(rule.case), Group::of(rule.against));
        }
    }

    fn names(asked: &str) -> Vec<&'static str> {
        choose(&[asked.into()]).unwrap().iter().map(|c| c.name).collect()
    }

    #[test]
    fn a_case_brings_its_baselines() {
        assert_eq!(names("put_flag"), ["raw_flag", "counting_put", "put_flag"]);
        assert_eq!(names("raw_flag"), ["raw_flag"]);
        assert!(names("mpich").contains(&"mpich:bandwidth") && names("mpich").contains(&"bandwidth_cma"));
        assert_eq!(names("memcpy_shared"), ["bandwidth_shared"]);
        assert!(choose(&["no_such".into()]).is_err());
        assert_eq!(choose(&[]).unwrap().len(), portals::CASES.len());
    }

    #[test]
    fn the_other_groups_are_selected_by_name() {
        assert_eq!(names("extoll").len(), extoll::CASES.len());
        assert_eq!(names("extoll_velo"), ["extoll_raw", "extoll_velo", "extoll_ucx:am_lat"]);
        assert_eq!(names("shmem").len(), shmem::CASES.len());
        let with_its_peers = ["shmem_raw", "shmem_counting_put", "shmem_put_signal", "oshmem:put_flag"];
        assert_eq!(names("shmem_put_signal")[..], with_its_peers);
        assert!(names("oshmem").contains(&"oshmem:put"));
    }

    #[test]
    fn the_quick_plan_fits() {
        for group in Group::ALL {
            let chosen: Vec<_> = all().filter(|c| c.group() == group).collect();
            let turns = |batch: &Batch| if batch[0].turns { Scale::QUICK.turns } else { 1 };
            let planned: Duration =
                batches(&chosen).iter().map(|batch| estimate(batch, &Scale::QUICK) * turns(batch)).sum();
            assert!(planned <= Scale::QUICK.total.unwrap(), "{group:?}: planned {planned:?}");
        }
    }

    #[test]
    fn cases_of_one_program_make_one_batch() {
        let chosen = choose(&["shmem".into()]).unwrap();
        let batches = batches(&chosen);
        assert!(batches.iter().any(|batch| batch.len() > 3));
        assert!(
            batches.iter().all(|batch| batch.iter().all(|c| c.runner == batch[0].runner && c.turns == batch[0].turns))
        );
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), chosen.len());
    }
}
