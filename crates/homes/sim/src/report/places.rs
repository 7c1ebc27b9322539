// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places of routers and nodes in a drawing, from a topology's own coordinates.
//!
//! | topology | drawing |
//! |---|---|
//! | mesh, torus, HyperX | the first two dimensions are columns and rows; further ones lie slanted within a cell |
//! | hypercube | even bits are columns, odd bits rows |
//! | fat tree | a level is a row, nodes stand below their leaf |
//! | dragonfly | groups on a circle, the routers of a group on a small one |
//! | planes | side by side |
//! | crossbar | nodes around the router |
//! | graph | its positions; without them the page finds places |
use std::f64::consts::TAU;

use selvedge_fabric::{Kind, NodeId, RouterId, Topology};

/// A place, one unit being the distance of neighbours.
pub type Place = (f64, f64);

/// The places of all routers. `None`: the topology has no coordinates.
pub fn routers(topology: &Topology) -> Option<Vec<Place>> {
    let all = (0..topology.routers()).map(RouterId);
    Some(match topology.kind() {
        Kind::Mesh { dimensions, .. } => all.map(|router| grid(dimensions, topology.coordinates(router))).collect(),
        Kind::Torus { dimensions, .. } if dimensions.len() == 1 => {
            let count = dimensions[0].max(1);
            all.map(|router| on_circle(router.0, count, f64::from(count) / TAU)).collect()
        }
        Kind::HyperX(hyperx) => all.map(|router| grid(&hyperx.dimensions, topology.coordinates(router))).collect(),
        Kind::Torus { dimensions, .. } => all.map(|router| grid(dimensions, topology.coordinates(router))).collect(),
        Kind::Hypercube { order, .. } => all.map(|router| hypercube(*order, router.0)).collect(),
        Kind::FatTree(tree) => {
            let width = f64::from(tree.leaves()) * leaf_width(tree.nodes_per_leaf());
            let height = (width * 0.3).max(2.0);
            let place = |router: RouterId| {
                let row = tree.place(router).level;
                let level = &tree.levels()[row];
                let column = f64::from(router.0 - level.first) + 0.5;
                (column * width / f64::from(level.switches()), -(row as f64) * height)
            };
            all.map(place).collect()
        }
        Kind::Dragonfly(dragonfly) => {
            let small = f64::from(dragonfly.routers_per_group) / TAU * 1.2;
            let large = (f64::from(dragonfly.groups) * (2.0 * small + 2.4) / TAU).max(small * 2.0);
            let place = |router: RouterId| {
                let (group, within) = (router.0 / dragonfly.routers_per_group, router.0 % dragonfly.routers_per_group);
                let (x, y) = on_circle(group, dragonfly.groups, large);
                let (dx, dy) = on_circle(within, dragonfly.routers_per_group, small);
                (x + dx, y + dy)
            };
            all.map(place).collect()
        }
        Kind::Crossbar { .. } => vec![(0.0, 0.0)],
        Kind::Planes(planes) => {
            let one = self::routers(&planes.plane)?;
            let shift = width(&planes.plane, &one);
            let place = |router| (one[planes.local(router).0 as usize], f64::from(planes.of(router)) * shift);
            all.map(place).map(|((x, y), shift)| (x + shift, y)).collect()
        }
        Kind::Graph if topology.dimensions() == 2 => {
            all.map(|router| topology.coordinates(router)).map(|at| (f64::from(at[0]), f64::from(at[1]))).collect()
        }
        _ => return None,
    })
}

/// The place of a node, from those of the routers.
pub fn node(topology: &Topology, routers: &[Place], node: NodeId) -> Place {
    let router = topology.attachment(node).0;
    let (x, y) = routers[router.0 as usize];
    match topology.kind() {
        Kind::Planes(planes) => {
            let shift = x - routers[planes.whole(planes.local(router), 0).0 as usize].0;
            let (x, y) = node_at(&planes.plane, (x - shift, y), NodeId(topology.rails().node(node)));
            (x + shift, y)
        }
        _ => node_at(topology, (x, y), node),
    }
}

/// The width of a plane's drawing, with its nodes.
fn width(plane: &Topology, routers: &[Place]) -> f64 {
    let nodes = (0..plane.nodes()).map(|at| node(plane, routers, NodeId(at)));
    let (left, right) = routers.iter().copied().chain(nodes).fold((0f64, 0f64), |(l, r), (x, _)| (l.min(x), r.max(x)));
    right - left + 2.0
}

fn node_at(topology: &Topology, (x, y): Place, node: NodeId) -> Place {
    let router = topology.attachment(node).0;
    // Nodes of a router have neighbouring numbers.
    let first = (0..node.0).rev().take_while(|&other| topology.attachment(NodeId(other)).0 == router).count() as u32;
    let later = (node.0..topology.nodes()).take_while(|&other| topology.attachment(NodeId(other)).0 == router).count();
    let count = first + later as u32;
    match topology.kind() {
        Kind::FatTree(tree) => {
            let columns = leaf_columns(tree.nodes_per_leaf());
            let (row, column) = (first / columns, first % columns);
            let left = f64::from(column) - f64::from(columns - 1) / 2.0;
            (x + left * 0.8, y + 1.6 + f64::from(row) * 0.8)
        }
        Kind::Crossbar { nodes } => on_circle(node.0, *nodes, (f64::from(*nodes) / TAU).max(1.0)),
        Kind::Dragonfly(_) => {
            let length = x.hypot(y).max(1e-9);
            let side = (f64::from(first) - f64::from(count - 1) / 2.0) * 0.34;
            (x + x / length * 0.6 - y / length * side, y + y / length * 0.6 + x / length * side)
        }
        _ => {
            let (dx, dy) = on_circle(first, count.max(3), 0.32);
            (x + dx, y + dy)
        }
    }
}

/// How much a link between two routers is bent: those that wrap around a torus, and long ones of a hypercube.
pub fn bend(topology: &Topology, a: RouterId, b: RouterId) -> f64 {
    match topology.kind() {
        // Links along a line would lie upon each other.
        Kind::HyperX(_) => 0.14,
        Kind::Torus { dimensions, .. } if dimensions.len() > 1 => {
            let (a, b) = (topology.coordinates(a), topology.coordinates(b));
            let wraps = a.iter().zip(b).any(|(a, b)| a.abs_diff(*b) > 1);
            if wraps { 0.1 } else { 0.0 }
        }
        Kind::Hypercube { .. } if (a.0 ^ b.0) >= 4 => 0.12,
        Kind::Planes(planes) => bend(&planes.plane, planes.local(a), planes.local(b)),
        _ => 0.0,
    }
}

fn on_circle(at: u32, count: u32, radius: f64) -> Place {
    let angle = TAU * f64::from(at) / f64::from(count.max(1)) - TAU / 4.0;
    (radius * angle.cos(), radius * angle.sin())
}

fn grid(dimensions: &[u32], at: &[u16]) -> Place {
    // Steps of the inner dimensions, which lie slanted within a cell.
    let (mut x, mut y, mut wide) = (0.0, 0.0, 1.0);
    for (count, at) in dimensions.iter().zip(at).skip(2) {
        x += f64::from(*at) * wide;
        y += f64::from(*at) * wide * 0.62;
        wide *= f64::from(*count) + 0.6;
    }
    let inner = if dimensions.len() > 2 { wide } else { 1.0 };
    let [column, row] = [0, 1].map(|of| at.get(of).map_or(0.0, |at| f64::from(*at)));
    (column * inner + x, row * inner * if dimensions.len() > 2 { 0.75 } else { 1.0 } + y)
}

fn hypercube(order: u32, router: u32) -> Place {
    let along = |first: u32| {
        let bits = (first..order).step_by(2).filter(|bit| router >> bit & 1 == 1);
        bits.map(|bit| f64::from(1u32 << (bit / 2)) * 1.12f64.powi((bit / 2) as i32)).sum()
    };
    (along(0), along(1))
}

fn leaf_columns(nodes_per_leaf: u32) -> u32 {
    nodes_per_leaf.div_ceil(12).max(nodes_per_leaf.min(2))
}

fn leaf_width(nodes_per_leaf: u32) -> f64 {
    f64::from(leaf_columns(nodes_per_leaf)) * 0.8 + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_fabric::RailLayout;

    #[test]
    fn no_two_vertices_have_one_place() {
        let all = [
            Topology::mesh(&[4, 3], 1),
            Topology::torus(&[3, 4, 5], &[true, true, true], 1),
            Topology::torus(&[3, 3, 3, 2], &[true, true, true, false], 2),
            Topology::torus(&[7], &[true], 1),
            Topology::hypercube(6, 1),
            Topology::fat_tree(2, 8, (1, 1), None),
            Topology::fat_tree(3, 8, (1, 1), None),
            Topology::xgft(&[2, 3, 2, 2], &[2, 2, 1], &[1, 2, 1], None),
            Topology::dragonfly(5, 4, 2, 1),
            Topology::hyperx(&[4, 3, 3], &[], 2),
            Topology::crossbar(9),
            Topology::dragonfly(5, 4, 2, 1).and_then(|one| one.with_rails(2, RailLayout::Planes)),
            Topology::fat_tree(2, 8, (1, 1), None).and_then(|one| one.with_rails(4, RailLayout::Planes)),
        ];
        for topology in all.into_iter().map(Result::unwrap) {
            let routers = routers(&topology).unwrap();
            let alone = topology.nodes() == topology.routers();
            let nodes = (0..if alone { 0 } else { topology.nodes() }).map(|at| node(&topology, &routers, NodeId(at)));
            let places: Vec<Place> = routers.iter().copied().chain(nodes).collect();
            for (at, a) in places.iter().enumerate() {
                let near = places[..at].iter().find(|b| (a.0 - b.0).hypot(a.1 - b.1) < 0.1);
                assert!(near.is_none(), "{:?}: {a:?} twice", topology.kind());
            }
        }
    }
}
