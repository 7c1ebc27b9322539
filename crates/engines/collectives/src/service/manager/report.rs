// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the manager as readable text.
//!
//! Cost: O(hosts + jobs), with the state's lock.

use std::fmt::Write;

use selvedge_nic::aggregation::Limits;

use super::state::State;

impl State {
    /// The hosts, trees, jobs, and their use of the nodes, as text.
    pub(super) fn report(&self, limits: &Limits) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "hosts");
        for (number, host) in self.hosts.iter().enumerate() {
            let is = match &host.node {
                Some(node) => format!("aggregation node, from {}", node.session.peer_address()),
                None => "no aggregation node".to_owned(),
            };
            let _ = writeln!(text, "  {number:>4}  {:24} {is}", host.name);
        }
        let uses = self.manager.uses();
        let _ = writeln!(text, "trees");
        for (number, tree) in self.manager.trees() {
            let _ = writeln!(text, "  {number:>4}  root {}, {} nodes", tree.root().0, tree.nodes().count());
        }
        let _ = writeln!(text, "jobs");
        for (name, job) in &self.jobs {
            let why = self.manager.jobs().find(|&(number, _)| number == job.number).and_then(|(_, why)| why);
            let is = why.map_or("open".to_owned(), |failure| format!("without resources: {failure}"));
            let processes = job.processes.len();
            let _ = writeln!(text, "  {:>4}  {:016x}  {processes} processes at the manager, {is}", job.number, name[0]);
        }
        let _ = writeln!(text, "use");
        for (an, used) in uses {
            let Limits { jobs, groups, operand_blocks, .. } = *limits;
            let _ = writeln!(
                text,
                "  {:>4}  {} of {jobs} jobs, {} of {groups} groups, {} of {operand_blocks} blocks of operands",
                an.0, used.jobs, used.groups, used.blocks
            );
        }
        text
    }
}
