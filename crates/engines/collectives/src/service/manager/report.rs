// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the manager, as its report.
//!
//! Cost: O(hosts + jobs), with the state's lock.

use selvedge_nic::aggregation::Limits;

use super::state::State;
use crate::service::wire::{HostReport, JobReport, ManagerReport, TreeReport, UseReport};

impl State {
    /// The hosts, trees, jobs, and their use of the nodes.
    pub(super) fn report(&self, limits: &Limits) -> ManagerReport {
        let hosts = self.hosts.iter().zip(0..).map(|(host, number)| HostReport {
            number,
            name: host.name.clone(),
            node_address: host.node.as_ref().map(|node| node.session.peer_address().to_string()),
        });
        let trees = self.manager.trees().map(|(number, tree)| TreeReport {
            number: number.into(),
            root: tree.root().0.into(),
            nodes: tree.nodes().count() as u64,
        });
        let jobs = self.jobs.iter().map(|(name, job)| {
            let why = self.manager.jobs().find(|&(number, _)| number == job.number).and_then(|(_, why)| why);
            JobReport {
                number: job.number.into(),
                name: format!("{:016x}", name[0]),
                processes: job.processes.len() as u64,
                failure: why.map(|failure| failure.to_string()),
            }
        });
        let uses = self.manager.uses();
        let uses = uses.into_iter().map(|(node, used)| UseReport {
            node: node.0.into(),
            jobs: used.jobs.into(),
            jobs_max: limits.jobs.into(),
            groups: used.groups,
            groups_max: limits.groups.into(),
            operand_blocks: used.blocks,
            operand_blocks_max: limits.operand_blocks.into(),
        });
        ManagerReport { hosts: hosts.collect(), trees: trees.collect(), jobs: jobs.collect(), uses: uses.collect() }
    }
}
