// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocator in a replay, as seed 000 uses it (3.2.5): the payload of an unexpected message occupies blocks of the
//! 1 MB buffer from its arrival until the message is dropped. `nic` itself keeps it in the program's overflow entries,
//! so a trace has no results for the allocator: RTL and `Buddy` are compared.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::portals::{fail, list};
use selvedge_nic::tap::Transition;

use super::driver::Driver;
use super::ids::Ids;
use super::statistics::Statistics;
use crate::allocator::{AllocatorCommand, AllocatorLockstep, Status};
use crate::error::LockstepError;
use crate::unit::Missing;

/// `allocator` of rtl/units.toml: 1 MB.
const BLOCKS: u32 = 4096;
const BLOCK_BYTES: u64 = 256;
/// Number of commands that run back to back.
const BATCH: usize = 64;

/// The key of a message: its portal table entry, source and bits.
type Key = (u32, u64, u64);

enum Step {
    Arrives(Key, u32),
    Leaves(Key),
}

pub struct Allocator {
    both: AllocatorLockstep,
    gap: u64,
    statistics: Statistics,
    ids: Ids,
    queue: Vec<Step>,
    /// The first blocks of present messages, oldest first.
    blocks: BTreeMap<Key, VecDeque<u32>>,
    live: u64,
}

impl Allocator {
    pub fn new(gap: u64) -> Result<Allocator, Missing> {
        Ok(Allocator {
            both: AllocatorLockstep::new("allocator", BLOCKS)?,
            gap,
            statistics: Statistics::of("allocator"),
            ids: Ids::default(),
            queue: Vec::new(),
            blocks: BTreeMap::new(),
            live: 0,
        })
    }

    /// Runs the queued commands. Messages that leave within the batch must have arrived before it.
    fn run(&mut self) -> Result<(), LockstepError> {
        let queue = std::mem::take(&mut self.queue);
        let mut commands = Vec::new();
        let mut arriving = Vec::new();
        for step in queue {
            match step {
                Step::Arrives(key, blocks) => {
                    commands.push(AllocatorCommand::Alloc(blocks));
                    arriving.push(Some(key));
                }
                Step::Leaves(key) => {
                    let Some(first) = self.blocks.get_mut(&key).and_then(VecDeque::pop_front) else {
                        self.statistics.leave_out("messages without blocks");
                        continue;
                    };
                    commands.push(AllocatorCommand::Free(first));
                    arriving.push(None);
                }
            }
        }
        if commands.is_empty() {
            return Ok(());
        }
        for (ran, arrived) in self.both.run(&commands, self.gap)?.into_iter().zip(arriving) {
            let kind = if arrived.is_some() { "alloc" } else { "free" };
            self.statistics.commands.entry(kind).or_default().add(ran.latency);
            self.statistics.cycles += u64::from(ran.retired);
            match (arrived, ran.answer) {
                (Some(key), Ok(first)) => {
                    self.blocks.entry(key).or_default().push_back(first);
                    self.live += 1;
                    self.statistics.note_largest("messages", self.live);
                }
                (Some(_), Err(Status::NoMemory)) => self.statistics.leave_out("messages beyond 1 MB"),
                (None, Ok(_)) => self.live -= 1,
                (_, Err(status)) => return Err(format!("{kind}: {status:?}").into()),
            }
        }
        Ok(())
    }

    fn offer(&mut self, step: Step) -> Result<(), LockstepError> {
        let is_waiting = match &step {
            Step::Leaves(key) => !self.blocks.contains_key(key) || self.blocks[key].is_empty(),
            Step::Arrives(..) => false,
        };
        if is_waiting || self.gap > 0 || self.queue.len() >= BATCH {
            self.run()?;
        }
        self.queue.push(step);
        Ok(())
    }
}

impl Driver for Allocator {
    fn take(&mut self, _: u64, transition: &Transition) -> Result<(), LockstepError> {
        let (portal, source, match_bits, arrives) = match *transition {
            Transition::Deliver { request, delivery }
                if delivery.fail == fail::OK && delivery.list == list::OVERFLOW && delivery.mlength > 0 =>
            {
                (request.portal, request.initiator, request.match_bits, Some(delivery.mlength))
            }
            Transition::DropUnexpected { portal, source, match_bits, .. } => (portal, source, match_bits, None),
            _ => return Ok(()),
        };
        let Some(source) = self.ids.id(source) else {
            self.statistics.leave_out("process ids too wide");
            return Ok(());
        };
        let key = (portal, source, match_bits);
        self.offer(match arrives {
            Some(bytes) => Step::Arrives(key, bytes.div_ceil(BLOCK_BYTES) as u32),
            None => Step::Leaves(key),
        })
    }

    fn finish(&mut self) -> Result<(), LockstepError> {
        self.run()?;
        self.both.check_all()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
