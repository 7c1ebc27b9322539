// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the speeds of links that differ from the others: `link.node`, `link.local`, `link.global`, `link.levels` and
//! `link.dimensions`.

use selvedge_fabric::{LinkClasses, Topology};

use super::MachineError;
use super::description::{LinkTable, SpeedTable};
use super::load::{Reader, time};
use crate::network::{LinkConfig, LinkSpeed};

impl Reader<'_> {
    /// Returns the speed of nodes' links, and those of links between routers by class; none if all are as `base`.
    pub(super) fn speeds(
        &self,
        link: &LinkTable,
        base: &LinkConfig,
        topology: &Topology,
    ) -> Result<(Option<LinkSpeed>, Vec<LinkSpeed>), MachineError> {
        let speed = |table: &SpeedTable, key: &str| self.speed(table, key, base.speed());
        let node = link.node.as_ref().map(|table| speed(table, "node")).transpose()?;
        let classes = topology.link_classes();
        let each = |tables: &Option<Vec<SpeedTable>>, key: &str| match tables {
            None => Ok(Vec::new()),
            Some(tables) if tables.len() == classes.count() as usize => {
                tables.iter().map(|table| speed(table, key)).collect::<Result<Vec<_>, _>>()
            }
            Some(tables) => {
                let (kind, count) = (topology.kind(), classes.count());
                let why = format!("has {} entries, but a {kind} has {count} such classes of links", tables.len());
                Err(self.wrong("link", key, format!("{why}: give {count}; {{}} is a link as the others")))
            }
        };
        let given = [
            ("local", link.local.is_some()),
            ("global", link.global.is_some()),
            ("levels", link.levels.is_some()),
            ("dimensions", link.dimensions.is_some()),
        ];
        let (fits, instead) = match classes {
            LinkClasses::LocalAndGlobal => (&["local", "global"][..], "local and global"),
            LinkClasses::Levels(_) => (&["levels"][..], "levels"),
            LinkClasses::Dimensions(_) => (&["dimensions"][..], "dimensions"),
            LinkClasses::One => (&[][..], "node; in a graph, bandwidth_MBps and latency_ns of single links"),
        };
        if let Some((key, _)) = given.into_iter().find(|(key, there)| *there && !fits.contains(key)) {
            let why = format!("a {} has no such links: its links are told apart by {instead}", topology.kind());
            return Err(self.wrong("link", key, why));
        }
        let links = match classes {
            LinkClasses::One => Vec::new(),
            LinkClasses::Levels(_) => each(&link.levels, "levels")?,
            LinkClasses::Dimensions(_) => each(&link.dimensions, "dimensions")?,
            LinkClasses::LocalAndGlobal if link.local.is_none() && link.global.is_none() => Vec::new(),
            LinkClasses::LocalAndGlobal => {
                let both = [(&link.local, "local"), (&link.global, "global")];
                let of = |(table, key): (&Option<SpeedTable>, &str)| {
                    table.as_ref().map_or(Ok(base.speed()), |table| speed(table, key))
                };
                both.into_iter().map(of).collect::<Result<Vec<_>, _>>()?
            }
        };
        Ok((node, links))
    }

    fn speed(&self, table: &SpeedTable, key: &str, base: LinkSpeed) -> Result<LinkSpeed, MachineError> {
        let bandwidth_bytes_per_s = match &table.bandwidth_MBps {
            Some(figure) => self.rate("link", key, figure)?,
            None => base.bandwidth_bytes_per_s,
        };
        Ok(LinkSpeed { bandwidth_bytes_per_s, latency: table.latency_ns.as_ref().map_or(base.latency, time) })
    }
}
