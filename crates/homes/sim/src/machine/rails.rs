// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the rails of a machine's nodes: `topology.rails`, `topology.rail_layout`, `topology.rail_group` and
//! `routing.rail_choice`; and refuses what does not go with several rails.

use selvedge_fabric::{RAILS_MAX, RailLayout, Topology};

use super::description::{Description, TopologyTable};
use super::load::{Reader, choice};
use super::{Machine, MachineError};
use crate::network::RailChoice;

impl Machine {
    /// Returns the rails of a node as text for a report. `None`: it has one.
    pub fn rails_words(&self) -> Option<String> {
        let rails = self.topology.rails();
        let table = &self.description.topology;
        let layout = match table.rail_layout.as_deref() {
            Some("rail-optimised") => format!("rail-optimised in groups of {} nodes", rails.group()),
            other => other.unwrap_or("packed").to_owned(),
        };
        let choice = match self.network.rail_choice {
            RailChoice::Hash => "one for each pair of nodes, by a hash",
            RailChoice::RoundRobin => "messages take turns",
            RailChoice::Striped => "packets take turns",
        };
        (rails.count() > 1).then(|| format!("{}, {layout}; {choice}", rails.count()))
    }
}

const LAYOUTS: [&str; 3] = ["packed", "rail-optimised", "planes"];

impl Reader<'_> {
    /// Gives the nodes of a fabric their rails.
    pub(super) fn rails(&self, fabric: Topology, table: &TopologyTable) -> Result<Topology, MachineError> {
        let section = "topology";
        let count = match &table.rails {
            Some(figure) => self.whole(section, "rails", figure, 1, RAILS_MAX.into())? as u32,
            None => 1,
        };
        let group = match &table.rail_group {
            Some(figure) => Some(self.whole(section, "rail_group", figure, 1, 1 << 24)? as u32),
            None => None,
        };
        let layout = match table.rail_layout.as_deref() {
            None | Some("packed") => RailLayout::Packed,
            Some("rail-optimised") => RailLayout::Optimised { group },
            Some("planes") => RailLayout::Planes,
            Some(other) => return Err(self.wrong(section, "rail_layout", choice(other, &LAYOUTS))),
        };
        if group.is_some() && !matches!(layout, RailLayout::Optimised { .. }) {
            let why = "belongs to rail_layout = \"rail-optimised\": set it, or leave the group out";
            return Err(self.wrong(section, "rail_group", why.into()));
        }
        let line = self.line(section, "rails").or_else(|| self.line(section, "kind"));
        fabric.with_rails(count, layout).map_err(|error| MachineError::Topology { path: self.path.into(), line, error })
    }

    /// Reads the choice among the rails of a node.
    pub(super) fn rail_choice(
        &self,
        description: &Description,
        topology: &Topology,
    ) -> Result<RailChoice, MachineError> {
        let section = "routing";
        let found = match description.routing.rail_choice.as_deref() {
            None => RailChoice::default(),
            Some(name) => match RailChoice::ALL.into_iter().find(|(known, _)| *known == name) {
                Some((_, found)) => found,
                None => {
                    return Err(self.wrong(section, "rail_choice", choice(name, &RailChoice::ALL.map(|all| all.0))));
                }
            },
        };
        if topology.rails().count() == 1 {
            return Ok(found);
        }
        if description.aggregation.is_some() {
            let why =
                "a node with several rails has no aggregation trees: leave the section [aggregation] out, or set 1";
            return Err(self.wrong("topology", "rails", why.into()));
        }
        let is_controlled = description.congestion.as_ref().is_some_and(|table| table.control != "none");
        if found == RailChoice::Striped && is_controlled {
            let why = "a flow under congestion control has one rail for each message: set hash or round-robin, or set \
                       congestion.control to none";
            return Err(self.wrong(section, "rail_choice", why.into()));
        }
        Ok(found)
    }
}
