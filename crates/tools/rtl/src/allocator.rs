// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtl/allocator/` in lockstep with [`selvedge_nic::buddy::Buddy`]: the same commands on both sides give the same
//! answers and the same nodes in the tree.
//!
//! A node of order `k` and number `i` covers the blocks from `i << k` on. In the bank it is in a word of row `k / 4`
//! (`place_of`); in `Buddy` it is a byte. The bank has rows of four orders, so its tree may be higher than that of
//! `Buddy`: the nodes above have the size of their left child.
//!
//! 1. After each command, the nodes that either side wrote are equal. After [`AllocatorLockstep::check_all`], all are,
//!    and words without nodes are 0.
//! 2. A refused command writes nothing.
//! 3. A command retires once, not before its answer and its last write.

use std::fmt::Write as _;

use selvedge_nic::buddy::Buddy;

use crate::bits::Field;
use crate::error::LockstepError;
use crate::shadow::{Shadow, Trace, WriteLayout};
use crate::unit::{Missing, Unit};

crate::layout! {
    /// `allocator_pkg::command_t`.
    pub mod command { TAG: 32, OPERATION: 2, ARGUMENT: 32 }
}
crate::layout! {
    /// `allocator_pkg::answer_t`.
    pub mod answer { TAG: 32, STATUS: 2, VALUE: 32 }
}
crate::layout! {
    /// `allocator_pkg::node_t`.
    pub mod node { ALLOCATED: 1, SIZE: 5 }
}

/// Bits of a word of the bank.
pub const WORD_BITS: usize = 32 * node::BITS;
/// Layout of the trace port.
pub const TRACE: WriteLayout = WriteLayout::new(WORD_BITS);

const LEVELS: u32 = 4;
const ROOT_LANE: usize = 30;
/// The byte of `Buddy` for an allocated node.
const ALLOCATED: u8 = 0x80;

/// Maximum cycles from a command's acceptance to the next one's, for any parameters.
const CYCLES_MAX: u64 = 40;
/// Number of recent commands in the report of a difference.
const SHOWN: usize = 64;

/// A command of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorCommand {
    Alloc(u32),
    Free(u32),
    SizeOf(u32),
    /// An undefined operation.
    Bad(u32),
}

impl AllocatorCommand {
    fn words(self, tag: u32) -> [u32; command::WORDS] {
        let (operation, argument) = match self {
            AllocatorCommand::Alloc(blocks) => (0, blocks),
            AllocatorCommand::Free(first) => (1, first),
            AllocatorCommand::SizeOf(first) => (2, first),
            AllocatorCommand::Bad(argument) => (3, argument),
        };
        let mut words = [0; command::WORDS];
        command::TAG.set(&mut words, tag.into());
        command::OPERATION.set(&mut words, operation);
        command::ARGUMENT.set(&mut words, argument.into());
        words
    }
}

/// `allocator_pkg::status_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    NoMemory,
    NotAllocated,
    BadCommand,
}

/// The answer to a command: the first block of an allocation, or a number of blocks.
pub type Answer = Result<u32, Status>;

/// A command that both sides have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub answer: Answer,
    /// Cycles from the command's acceptance to its answer.
    pub latency: u32,
    /// Cycles from its acceptance to its retirement.
    pub retired: u32,
    /// Number of cycles in which it wrote.
    pub writes: u32,
}

/// Parameters of a unit: number of blocks, number of rows of words.
#[derive(Clone, Copy, Debug)]
struct Tree {
    blocks: u32,
    rows: u32,
}

impl Tree {
    fn new(blocks: u32) -> Tree {
        let rows = if blocks <= 16 {
            1
        } else if blocks <= 256 {
            2
        } else {
            3
        };
        Tree { blocks, rows }
    }

    fn height(self) -> u32 {
        LEVELS * self.rows
    }

    fn words(self) -> usize {
        2 << (LEVELS * (self.rows - 1))
    }

    /// The first word of a row, and the number of its words.
    fn row(self, row: u32) -> (u32, u32) {
        let count = |row: u32| 1 << (LEVELS * (self.rows - 1 - row));
        ((0..row).map(count).sum(), count(row))
    }

    /// The word of the bank that holds a node, and the node's lane in it.
    fn place_of(self, order: u32, number: u32) -> (usize, usize) {
        let (base, _) = self.row((order / LEVELS).min(self.rows - 1));
        if order == self.height() {
            return (base as usize, ROOT_LANE);
        }
        let nodes = 16 >> (order % LEVELS);
        ((base + number / nodes) as usize, (32 - 2 * nodes + number % nodes) as usize)
    }

    fn nodes_of(self, address: usize) -> Vec<(u32, u32)> {
        let mut nodes = Vec::new();
        for row in 0..self.rows {
            let (base, count) = self.row(row);
            let Some(word) = (address as u32).checked_sub(base).filter(|&word| word < count) else { continue };
            for level in 0..LEVELS {
                let in_word = 16 >> level;
                nodes.extend((0..in_word).map(|node| (LEVELS * row + level, word * in_word + node)));
            }
            if row + 1 == self.rows {
                nodes.push((self.height(), 0));
            }
        }
        nodes
    }

    /// Converts a node of `Buddy` to the bits of the bank.
    fn node_of_nic(self, words: &[u64], order: u32, number: u32) -> u32 {
        let leaf_base = self.blocks.next_power_of_two();
        let height = leaf_base.trailing_zeros();
        if order > height {
            let root = self.node_of_nic(words, height, 0);
            return if number == 0 && root >> 5 == 0 { root } else { 0 };
        }
        if number << order >= leaf_base {
            return 0;
        }
        let byte = nic_byte(words, (leaf_base >> order) + number);
        if byte & ALLOCATED != 0 { 1 << 5 | u32::from(byte & !ALLOCATED) } else { byte.into() }
    }

    /// The word and lane of a node's byte in `Buddy`.
    fn place_of_nic(self, node: u32) -> Option<(u32, u32)> {
        let height = self.blocks.next_power_of_two().trailing_zeros();
        let order = height.checked_sub(node.checked_ilog2()?)?;
        Some((order, node - (self.blocks.next_power_of_two() >> order)))
    }
}

/// Number of words before the bytes of `Buddy`.
fn nic_header() -> usize {
    Buddy::words_needed(0) - 1
}

fn nic_byte(words: &[u64], node: u32) -> u8 {
    let word = words.get(nic_header() + (node / 8) as usize).copied().unwrap_or(0);
    (word >> (8 * (node % 8))) as u8
}

/// The allocators of the RTL and of `nic`.
pub struct AllocatorLockstep {
    unit: Unit,
    tree: Tree,
    nic: Vec<u64>,
    nic_before: Vec<u64>,
    shadow: Shadow,
    next_tag: u32,
    last: Vec<(u32, AllocatorCommand, Answer)>,
}

impl AllocatorLockstep {
    /// Creates a lockstep with a unit of this name and number of blocks, after reset. Fails if there is no such unit.
    pub fn new(name: &str, blocks: u32) -> Result<AllocatorLockstep, Missing> {
        let unit = Unit::new(name)?;
        let nic = vec![0; Buddy::words_needed(blocks)];
        let tree = Tree::new(blocks);
        let shadow = Shadow::new(&[]);
        let mut both =
            AllocatorLockstep { unit, tree, nic_before: nic.clone(), nic, shadow, next_tag: 0, last: Vec::new() };
        both.reset();
        Ok(both)
    }

    /// Resets both sides: all blocks are free.
    pub fn reset(&mut self) {
        self.nic.fill(0);
        Buddy::init(&mut self.nic, self.tree.blocks, self.tree.blocks);
        self.shadow = Shadow::new(&[(self.tree.words(), WORD_BITS)]);
        self.last.clear();
        self.unit.reset();
        self.unit.run(&[], self.tree.words() as u64 + u64::from(self.tree.rows) + 1);
        for trace in self.traces() {
            for write in trace.1.writes {
                self.shadow.apply(&write).expect("the unit has read nothing");
            }
        }
    }

    /// Runs the commands back to back on both sides, then `idle` cycles without a command. Fails with the first
    /// difference, with the command, both sides' nodes and the last commands.
    pub fn run(&mut self, commands: &[AllocatorCommand], idle: u64) -> Result<Vec<Completion>, LockstepError> {
        let first_tag = self.next_tag;
        let tagged = commands.iter().zip(first_tag..);
        let words: Vec<u32> = tagged.flat_map(|(command, tag)| command.words(tag)).collect();
        let taken = self.unit.run(&words, CYCLES_MAX * commands.len() as u64 + idle);
        self.next_tag += commands.len() as u32;
        if taken < commands.len() {
            return Err(LockstepError::Stall(self.report(&format!("{:?} is not accepted", commands[taken]))));
        }
        let accepted = self.unit.accepted().to_vec();
        let answers: Vec<_> = self.unit.answers().map(|seen| (seen.cycle, seen.words.to_vec())).collect();
        if answers.len() != commands.len() {
            return Err(self.report(&format!("{} answers for {} commands", answers.len(), commands.len())).into());
        }
        let mut traces = self.traces().into_iter().peekable();
        let mut ran = Vec::new();
        for (number, &command) in commands.iter().enumerate() {
            let tag = first_tag + number as u32;
            let until = accepted.get(number + 1).copied().unwrap_or(u32::MAX);
            let own: Vec<_> = std::iter::from_fn(|| traces.next_if(|&(cycle, _)| cycle < until)).collect();
            let (answered, words) = &answers[number];
            let answer = answer_of(words);
            self.last.push((tag, command, answer));
            let expected = self.run_nic(command);
            if answer::TAG.get(words) != u64::from(tag) || answer != expected {
                return Err(self
                    .report(&format!("tag {}: {answer:?}, but nic: {expected:?}", answer::TAG.get(words)))
                    .into());
            }
            let (retired, writes) = self.follow(tag, answer.is_err(), *answered, &own)?;
            let from = accepted[number];
            ran.push(Completion { answer, latency: answered - from, retired: retired - from, writes });
        }
        Ok(ran)
    }

    /// Compares all nodes. Fails if some differ.
    pub fn check_all(&self) -> Result<(), LockstepError> {
        self.check(0..self.tree.words())
    }

    fn traces(&self) -> Vec<(u32, Trace)> {
        self.unit.traces().map(|seen| (seen.cycle, TRACE.trace(seen.words, 1))).collect()
    }

    fn run_nic(&mut self, command: AllocatorCommand) -> Answer {
        self.nic_before.copy_from_slice(&self.nic);
        let mut buddy = Buddy::attach(&mut self.nic).map_err(|_| Status::BadCommand)?;
        match command {
            AllocatorCommand::Alloc(blocks) => buddy.alloc(blocks).ok_or(Status::NoMemory),
            AllocatorCommand::Free(first) => buddy.free(first).map_err(|_| Status::NotAllocated),
            AllocatorCommand::SizeOf(first) => buddy.size_of(first).ok_or(Status::NotAllocated),
            AllocatorCommand::Bad(_) => Err(Status::BadCommand),
        }
    }

    /// Applies the trace of a command, and compares the words that either side wrote.
    fn follow(
        &mut self,
        tag: u32,
        refused: bool,
        answered: u32,
        traces: &[(u32, Trace)],
    ) -> Result<(u32, u32), LockstepError> {
        let mut touched = Vec::new();
        let mut retired = None;
        for (cycle, trace) in traces {
            for write in &trace.writes {
                if refused || write.tag != tag || retired.is_some() {
                    return Err(self.report(&format!("an unexpected write: {write:x?}")).into());
                }
                touched.push(write.address);
                self.shadow.apply(write).map_err(|error| error.with_report(|text| self.report(text)))?;
            }
            if trace.retired.is_some() && retired.replace(*cycle).is_some() || trace.retired.is_some_and(|of| of != tag)
            {
                return Err(self.report(&format!("{:?} retires", trace.retired)).into());
            }
        }
        let Some(retired) = retired.filter(|&cycle| cycle >= answered) else {
            return Err(self.report(&format!("retires in {retired:?}, answers in {answered}")).into());
        };
        let writes = touched.len() as u32;
        let changed = (nic_header()..self.nic.len()).filter(|&at| self.nic[at] != self.nic_before[at]);
        for at in changed {
            for node in (8 * (at - nic_header()) as u32..).take(8) {
                if nic_byte(&self.nic, node) != nic_byte(&self.nic_before, node) {
                    let (order, number) = self.tree.place_of_nic(node).ok_or("no such node")?;
                    touched.push(self.tree.place_of(order, number).0);
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        self.check(touched.into_iter())?;
        Ok((retired, writes))
    }

    fn check(&self, addresses: impl Iterator<Item = usize>) -> Result<(), LockstepError> {
        let mut text = String::new();
        for address in addresses {
            let word = self.shadow.word(0, address);
            let mut expected = [0; WORD_BITS / 32];
            for (order, number) in self.tree.nodes_of(address) {
                let (_, lane) = self.tree.place_of(order, number);
                let there = Field { at: lane * node::BITS, width: node::BITS };
                let nic = self.tree.node_of_nic(&self.nic, order, number);
                there.set(&mut expected, nic.into());
                let rtl = there.get(word);
                if rtl != u64::from(nic) {
                    let first = number << order;
                    let _ = write!(text, "\n  word {address} lane {lane}, order {order} from block {first}: ");
                    let _ = write!(text, "{rtl:#x}, but nic: {nic:#x}");
                }
            }
            if text.is_empty() && *word != expected {
                let _ = write!(text, "\n  word {address}: {word:x?} has bits beside its nodes, {expected:x?}");
            }
        }
        if text.is_empty() { Ok(()) } else { Err(self.report(&format!("the nodes differ:{text}")).into()) }
    }

    fn report(&self, text: &str) -> String {
        let mut text = format!("{text}\n  the last commands (tag, command, answer of the RTL):");
        for (tag, command, answer) in self.last.iter().rev().take(SHOWN).rev() {
            let _ = write!(text, "\n  {tag}: {command:?} {answer:?}");
        }
        text
    }
}

fn answer_of(words: &[u32]) -> Answer {
    let value = answer::VALUE.get(words) as u32;
    match answer::STATUS.get(words) {
        0 => Ok(value),
        1 => Err(Status::NoMemory),
        2 => Err(Status::NotAllocated),
        _ => Err(Status::BadCommand),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_one_to_one() {
        for blocks in [1, 7, 16, 100, 256, 1000, 4096] {
            let tree = Tree::new(blocks);
            let mut seen = vec![[false; 32]; tree.words()];
            for order in 0..=tree.height() {
                for number in 0..1 << (tree.height() - order) {
                    let (address, lane) = tree.place_of(order, number);
                    assert!(!std::mem::replace(&mut seen[address][lane], true), "{order} {number}");
                    assert!(tree.nodes_of(address).contains(&(order, number)));
                }
            }
            let found: usize = (0..tree.words()).map(|address| tree.nodes_of(address).len()).sum();
            assert_eq!(found, (2 << tree.height()) - 1);
        }
    }
}
