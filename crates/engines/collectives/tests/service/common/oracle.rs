// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The expected results: each node folds its children in the order of the lowest member below, in plain arithmetic.

use selvedge_fabric::NodeId;
use selvedge_manager::GrantedTree;
use selvedge_nic::arithmetic::{Datatype, Operation};

use super::Choices;

/// The reductions that the suites use.
pub const KINDS: [(Operation, Datatype, usize); 7] = [
    (Operation::Sum, Datatype::Double, 8),
    (Operation::Prod, Datatype::Float, 4),
    (Operation::Max, Datatype::Int32, 4),
    (Operation::Bxor, Datatype::Uint64, 8),
    (Operation::Sum, Datatype::Int64, 8),
    (Operation::Bor, Datatype::Uint8, 1),
    (Operation::Sum, Datatype::Float, 4),
];

/// Elements for which the order of a sum matters.
pub fn operand(choices: &mut Choices, datatype: Datatype, elements: usize) -> Vec<u8> {
    let float = |choices: &mut Choices| {
        let scale = [1.0, 1e-9, 1e8, -3.0][choices.below(4) as usize];
        scale * (choices.below(1 << 20) as f64 / 1024.0 + 0.1)
    };
    let element = |_| match datatype {
        Datatype::Double => float(choices).to_le_bytes().to_vec(),
        Datatype::Float => (float(choices) as f32).to_le_bytes().to_vec(),
        Datatype::Uint8 => vec![choices.next() as u8],
        Datatype::Int32 => (choices.next() as u32).to_le_bytes().to_vec(),
        _ => choices.next().to_le_bytes().to_vec(),
    };
    (0..elements).flat_map(element).collect()
}

fn map<const N: usize>(into: &[u8], from: &[u8], of: impl Fn([u8; N], [u8; N]) -> [u8; N]) -> Vec<u8> {
    let pairs = into.chunks_exact(N).zip(from.chunks_exact(N));
    let whole = |bytes: &[u8]| bytes.try_into().expect("as many bytes");
    pairs.flat_map(|(into, from)| of(whole(into), whole(from))).collect()
}

fn reduce(operation: Operation, datatype: Datatype, into: &[u8], from: &[u8]) -> Vec<u8> {
    match (operation, datatype) {
        (Operation::Sum, Datatype::Double) => {
            map(into, from, |a, b| (f64::from_le_bytes(a) + f64::from_le_bytes(b)).to_le_bytes())
        }
        (Operation::Sum, Datatype::Float) => {
            map(into, from, |a, b| (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes())
        }
        (Operation::Prod, Datatype::Float) => {
            map(into, from, |a, b| (f32::from_le_bytes(a) * f32::from_le_bytes(b)).to_le_bytes())
        }
        (Operation::Max, Datatype::Int32) => {
            map(into, from, |a, b| i32::from_le_bytes(a).max(i32::from_le_bytes(b)).to_le_bytes())
        }
        (Operation::Sum, Datatype::Int64) => {
            map(into, from, |a, b| i64::from_le_bytes(a).wrapping_add(i64::from_le_bytes(b)).to_le_bytes())
        }
        (Operation::Bxor, Datatype::Uint64) => map(into, from, |[a], [b]| [a ^ b]),
        (Operation::Bor, Datatype::Uint8) => map(into, from, |[a], [b]| [a | b]),
        other => unreachable!("the suites do not use {other:?}"),
    }
}

/// The result of an operation of a group whose members are on these end nodes.
pub fn result(
    tree: &GrantedTree,
    nodes: &[NodeId],
    (operation, datatype): (Operation, Datatype),
    operands: &[Vec<u8>],
) -> Vec<u8> {
    let root = tree.nodes()[0].address;
    value(tree, nodes, (operation, datatype), operands, root).expect("a group has members").1
}

/// The lowest member below a node, and the operand of all.
fn value(
    tree: &GrantedTree,
    nodes: &[NodeId],
    kind: (Operation, Datatype),
    operands: &[Vec<u8>],
    at: u64,
) -> Option<(usize, Vec<u8>)> {
    let mut children: Vec<(usize, Vec<u8>)> = Vec::new();
    for (order, &node) in nodes.iter().enumerate() {
        if tree.leaf(node).expect("a member's node").address == at {
            children.push((order, operands[order].clone()));
        }
    }
    for child in tree.nodes() {
        if child.parent.is_some_and(|parent| tree.nodes()[parent].address == at) {
            children.extend(value(tree, nodes, kind, operands, child.address));
        }
    }
    children.sort_by_key(|child| child.0);
    let fold =
        |(first, into): (usize, Vec<u8>), (_, from): (usize, Vec<u8>)| (first, reduce(kind.0, kind.1, &into, &from));
    children.into_iter().reduce(fold)
}
