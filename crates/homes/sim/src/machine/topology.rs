// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the section `[topology]` of a machine.

use std::path::Path;

use selvedge_fabric::topology::TREE_LEVELS_MAX;
use selvedge_fabric::{Topology, TopologyError};

use super::MachineError;
use super::description::TopologyTable;
use super::figure::Figure;
use super::load::Reader;

const KINDS: [&str; 10] =
    ["mesh", "torus", "hypercube", "fat-tree", "dragonfly", "dragonfly-plus", "hyperx", "slim-fly", "crossbar", "file"];

impl Reader<'_> {
    pub(super) fn topology(&self, table: &TopologyTable) -> Result<Topology, MachineError> {
        let section = "topology";
        let needed = |key: &str, figure: &Option<Figure>, least: u64, most: u64| match figure {
            Some(figure) => self.whole(section, key, figure, least, most).map(|value| value as u32),
            None => Err(self.wrong(section, "kind", format!("a {} needs the key {key}", table.kind))),
        };
        let or_one = |key: &str, figure: &Option<Figure>| match figure {
            Some(figure) => self.whole(section, key, figure, 1, 1 << 16).map(|value| value as u32),
            None => Ok(1),
        };
        self.only_its_keys(table)?;
        let dimensions = || {
            let dimensions = table.dimensions.as_ref();
            let dimensions = dimensions.ok_or_else(|| {
                self.wrong(section, "kind", format!("a {} needs the key dimensions, as in [8, 8, 8]", table.kind))
            })?;
            self.numbers("dimensions", dimensions)
        };
        let made = match table.kind.as_str() {
            "mesh" => {
                let dimensions = dimensions()?;
                Topology::mesh(&dimensions, or_one("nodes_per_router", &table.nodes_per_router)?)
            }
            "torus" => {
                let dimensions = dimensions()?;
                let wrap = table.wrap.clone().unwrap_or_default();
                Topology::torus(&dimensions, &wrap, or_one("nodes_per_router", &table.nodes_per_router)?)
            }
            "hyperx" => {
                let dimensions = dimensions()?;
                let trunks = self.numbers("trunks", table.trunks.iter().flatten())?;
                Topology::hyperx(&dimensions, &trunks, or_one("nodes_per_router", &table.nodes_per_router)?)
            }
            "hypercube" => {
                let order = needed("order", &table.order, 0, 24)?;
                Topology::hypercube(order, or_one("nodes_per_router", &table.nodes_per_router)?)
            }
            "fat-tree" => {
                let nodes = table.nodes.as_ref().map(|nodes| self.whole(section, "nodes", nodes, 1, 1 << 24));
                let nodes = nodes.transpose()?.map(|nodes| nodes as u32);
                match &table.children {
                    Some(children) => self.tree_of_levels(table, children, nodes)?,
                    None => self.tree_of_radix(table, nodes)?,
                }
            }
            "dragonfly" => Topology::dragonfly(
                needed("groups", &table.groups, 1, 1 << 16)?,
                needed("routers_per_group", &table.routers_per_group, 1, 1 << 12)?,
                needed("nodes_per_router", &table.nodes_per_router, 1, 1 << 12)?,
                needed("global_links_per_router", &table.global_links_per_router, 0, 1 << 12)?,
            ),
            "dragonfly-plus" => {
                let leaves = needed("leaves_per_group", &table.leaves_per_group, 1, 1 << 12)?;
                let spines = needed("spines_per_group", &table.spines_per_group, 1, 1 << 12)?;
                Topology::dragonfly_plus(
                    needed("groups", &table.groups, 1, 1 << 16)?,
                    (leaves, spines),
                    needed("nodes_per_leaf", &table.nodes_per_leaf, 1, 1 << 12)?,
                    needed("global_links_per_spine", &table.global_links_per_spine, 0, 1 << 12)?,
                )
            }
            "slim-fly" => {
                let nodes = table.nodes_per_router.as_ref();
                let nodes =
                    nodes.map(|nodes| self.whole(section, "nodes_per_router", nodes, 1, 1 << 12)).transpose()?;
                Topology::slim_fly(needed("q", &table.q, 1, 1 << 12)?, nodes.map(|nodes| nodes as u32))
            }
            "crossbar" => Topology::crossbar(needed("nodes", &table.nodes, 1, 1 << 16)?),
            "file" => {
                let Some(file) = &table.file else {
                    return Err(self.wrong(section, "kind", "file needs the key file, as in \"my.graph\"".into()));
                };
                let path = self.path.parent().unwrap_or(Path::new("")).join(file);
                let text =
                    std::fs::read_to_string(&path).map_err(|error| MachineError::Read { path: path.clone(), error })?;
                let text = match path.extension().is_some_and(|extension| extension == "graphml") {
                    true => {
                        let each = or_one("nodes_per_router", &table.nodes_per_router)?;
                        super::graphml::graph_text(&text, each)
                            .map_err(|error| MachineError::Graphml { path: path.clone(), error })?
                    }
                    false if table.nodes_per_router.is_some() => {
                        let why = "is for GraphML without hosts; this file names its nodes: leave the key out";
                        return Err(self.wrong(section, "nodes_per_router", why.into()));
                    }
                    false => text,
                };
                return Topology::graph(&text).map_err(|error| MachineError::Topology { path, line: None, error });
            }
            other => {
                let why = format!("unknown topology '{other}'; known: {}", KINDS.join(", "));
                return Err(self.wrong(section, "kind", why));
            }
        };
        let line = self.line(section, "kind");
        made.map_err(|error| MachineError::Topology { path: self.path.into(), line, error })
    }

    /// A fat tree of switches with one radix.
    fn tree_of_radix(
        &self,
        table: &TopologyTable,
        nodes: Option<u32>,
    ) -> Result<Result<Topology, TopologyError>, MachineError> {
        let section = "topology";
        for (key, there) in [("parents", table.parents.is_some()), ("trunks", table.trunks.is_some())] {
            if there {
                return Err(self.wrong(section, key, "goes with children: add them, one number a level".into()));
            }
        }
        let needed = |key: &str, figure: &Option<Figure>, most| match figure {
            Some(figure) => self.whole(section, key, figure, 2, most).map(|value| value as u32),
            None => {
                let why = format!("a fat-tree needs the key {key}; or children and parents, one number a level");
                Err(self.wrong(section, "kind", why))
            }
        };
        let taper = match table.taper.as_deref() {
            None => (1, 1),
            Some([down, up]) => (
                self.whole(section, "taper", down, 1, 1 << 16)? as u32,
                self.whole(section, "taper", up, 1, 1 << 16)? as u32,
            ),
            Some(_) => {
                return Err(self.wrong(section, "taper", "must be two numbers: ports down, ports up".into()));
            }
        };
        let levels = needed("levels", &table.levels, TREE_LEVELS_MAX as u64)?;
        let radix = needed("radix", &table.radix, 4096)?;
        Ok(Topology::fat_tree(levels, radix, taper, nodes))
    }

    /// A fat tree with numbers for each level.
    fn tree_of_levels(
        &self,
        table: &TopologyTable,
        children: &[Figure],
        nodes: Option<u32>,
    ) -> Result<Result<Topology, TopologyError>, MachineError> {
        let of_radix =
            [("levels", table.levels.is_some()), ("radix", table.radix.is_some()), ("taper", table.taper.is_some())];
        if let Some((key, _)) = of_radix.into_iter().find(|(_, there)| *there) {
            let why = "follows from children, parents and trunks: leave it out, or them";
            return Err(self.wrong("topology", key, why.into()));
        }
        let children = self.numbers("children", children)?;
        let parents = self.numbers("parents", table.parents.iter().flatten())?;
        let trunks = self.numbers("trunks", table.trunks.iter().flatten())?;
        Ok(Topology::xgft(&children, &parents, &trunks, nodes))
    }

    fn numbers<'f>(&self, key: &str, figures: impl IntoIterator<Item = &'f Figure>) -> Result<Vec<u32>, MachineError> {
        let whole = |figure| self.whole("topology", key, figure, 1, 1 << 24).map(|number| number as u32);
        figures.into_iter().map(whole).collect()
    }

    /// Refuses keys of another kind of topology, which would have no effect.
    fn only_its_keys(&self, table: &TopologyTable) -> Result<(), MachineError> {
        let given = [
            ("dimensions", table.dimensions.is_some(), &["mesh", "torus", "hyperx"][..]),
            ("trunks", table.trunks.is_some(), &["hyperx", "fat-tree"][..]),
            ("wrap", table.wrap.is_some(), &["torus"][..]),
            (
                "nodes_per_router",
                table.nodes_per_router.is_some(),
                &["mesh", "torus", "hypercube", "dragonfly", "hyperx", "slim-fly", "file"][..],
            ),
            ("q", table.q.is_some(), &["slim-fly"][..]),
            ("order", table.order.is_some(), &["hypercube"][..]),
            ("children", table.children.is_some(), &["fat-tree"][..]),
            ("parents", table.parents.is_some(), &["fat-tree"][..]),
            ("levels", table.levels.is_some(), &["fat-tree"][..]),
            ("radix", table.radix.is_some(), &["fat-tree"][..]),
            ("taper", table.taper.is_some(), &["fat-tree"][..]),
            ("nodes", table.nodes.is_some(), &["fat-tree", "crossbar"][..]),
            ("groups", table.groups.is_some(), &["dragonfly", "dragonfly-plus"][..]),
            ("leaves_per_group", table.leaves_per_group.is_some(), &["dragonfly-plus"][..]),
            ("spines_per_group", table.spines_per_group.is_some(), &["dragonfly-plus"][..]),
            ("nodes_per_leaf", table.nodes_per_leaf.is_some(), &["dragonfly-plus"][..]),
            ("global_links_per_spine", table.global_links_per_spine.is_some(), &["dragonfly-plus"][..]),
            ("routers_per_group", table.routers_per_group.is_some(), &["dragonfly"][..]),
            ("global_links_per_router", table.global_links_per_router.is_some(), &["dragonfly"][..]),
            ("file", table.file.is_some(), &["file"][..]),
        ];
        for (key, there, kinds) in given {
            let known = KINDS.contains(&table.kind.as_str());
            if there && known && !kinds.contains(&table.kind.as_str()) {
                let why = format!("a {} has no such key; it belongs to {}", table.kind, kinds.join(", "));
                return Err(self.wrong("topology", key, why));
            }
        }
        Ok(())
    }
}
