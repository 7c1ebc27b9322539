// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detection of ranks that repeat themselves: operations with the same arguments that return the same values.
//!
//! A rank *repeats* an operation that equals one of its last [`RECENT_MAX`] different ones in arguments, payload and
//! reply. Every other operation is *progress*: other arguments, another reply, a payload too long to compare. A rank
//! that ends, enters or leaves the launcher's barrier, or writes a message to a ring also makes progress.
//!
//! A livelock is suspected ([`Repetition`]) while no rank makes progress, and every rank that starts operations also
//! reads the same values with some of them. A rank that only writes is at work: its decisions do not depend on the
//! values that it writes. Waits, polls and sleeps count as neither.
//!
//! This is a suspicion, not a proof: a program may read the same words many times and then continue. So it does not end
//! the run. The caller decides from the counts when to report it.
//!
//! Ranks *contend* if two or more of them repeat updates of the same word ([`Watch::contenders`]).
//!
//! Cost: one hash of an operation and one of its reply, and a comparison with [`RECENT_MAX`] words.

use std::collections::BTreeMap;

use selvedge_nic::tables::{Command, kind};

use crate::time::Time;

/// Different operations of a rank that are kept. A loop with more of them counts as progress.
const RECENT_MAX: usize = 64;
/// A longer payload or reply is progress.
const BYTES_MAX: usize = 64;

/// An operation, for comparison; [`Signature::NEW`] equals none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature(u64);

impl Signature {
    pub const NEW: Signature = Signature(0);

    pub fn of(command: &Command, payload: &[u8]) -> Signature {
        if payload.len() > BYTES_MAX {
            return Signature::NEW;
        }
        let request = &command.request;
        let small = [request.kind, request.operation, request.datatype, request.ack].map(u64::from);
        let words = [
            u64::from(request.portal),
            request.match_bits,
            request.remote_offset,
            request.header_data,
            request.length,
            command.target,
        ];
        Signature(1).with(&small).with(&words).with(&request.operand).with_bytes(payload)
    }

    /// Returns the signature of the operation with its reply.
    pub fn replied(self, reply: &[u8]) -> Signature {
        if self == Signature::NEW || reply.len() > BYTES_MAX { Signature::NEW } else { self.with_bytes(reply) }
    }

    fn with(self, words: &[u64]) -> Signature {
        let mixed = words.iter().fold(self.0, |hash, word| {
            let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ (hash >> 29)
        });
        Signature(mixed.max(1))
    }

    fn with_bytes(self, bytes: &[u8]) -> Signature {
        bytes.chunks(8).fold(self.with(&[bytes.len() as u64]), |signature, chunk| {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            signature.with(&[u64::from_le_bytes(eight)])
        })
    }
}

/// An operation of a rank, in the user's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// One of `nic::tables::kind`.
    pub kind: u8,
    pub bytes: u64,
    /// The target's rank, portal table entry, and offset there.
    pub target: u32,
    pub portal: u32,
    pub offset: u64,
}

impl Operation {
    pub(super) fn of(command: &Command, target: u32) -> Operation {
        let request = &command.request;
        let (bytes, portal, offset) = (request.length, request.portal, request.remote_offset);
        Operation { kind: request.kind, bytes, target, portal, offset }
    }

    /// Whether it changes the word that it reads.
    fn is_update(&self) -> bool {
        matches!(self.kind, kind::FETCH_ATOMIC | kind::SWAP | kind::RMA_LOCK)
    }

    fn word(&self) -> (u32, u32, u64) {
        (self.target, self.portal, self.offset)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { kind, bytes, target, portal, offset } = self;
        let name = match *kind {
            kind::PUT => "a put",
            kind::GET => "a get",
            kind::ATOMIC => "an atomic",
            kind::FETCH_ATOMIC => "a fetching atomic",
            kind::VELO_SEND => "a VELO message",
            kind::RMA_PUT | kind::RMA_IMMEDIATE_PUT => "an RMA put",
            kind::RMA_NOTIFICATION_PUT => "a notification put",
            kind::RMA_GET => "an RMA get",
            kind::RMA_LOCK => "a lock request",
            _ => "a swap",
        };
        write!(out, "{name} of {bytes} bytes at offset {offset:#x} of portal table entry {portal} of rank {target}")
    }
}

/// Operations that a rank has repeated since the last progress of any rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// All its operations since then.
    pub operations: u64,
    /// Reads among them.
    pub reads: u64,
    pub last: Operation,
    /// Times that it has done exactly this operation since then.
    pub last_times: u64,
}

/// Ranks that repeat themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// Last progress of any rank.
    pub since: Time,
    /// By rank; `None`: it has started no operation since then.
    pub ranks: Vec<Option<Repeated>>,
}

/// A rank that repeats an update of a word which another rank updates, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub rank: u32,
    /// Time between its last two such updates with the same values.
    pub turn: Time,
}

#[derive(Clone, Copy, Debug)]
struct RecentOperation {
    signature: Signature,
    operation: Operation,
    /// The last time, and the time between the last two.
    last: Time,
    turn: Time,
    /// Repetitions since the progress with this number.
    times: u64,
    after: u64,
}

#[derive(Clone, Debug, Default)]
struct RankHistory {
    recent: Vec<RecentOperation>,
    /// Place of the next new one.
    next: usize,
    repeated: Option<Repeated>,
    /// Number of the progress after which `repeated` counts.
    after: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    ranks: Vec<RankHistory>,
    since: Time,
    /// Last progress that was no update.
    other_since: Time,
    /// Number of progresses of all ranks. Counts from before the latest one are void.
    progress: u64,
}

impl Watch {
    pub fn new(ranks: u32) -> Watch {
        Watch { ranks: vec![RankHistory::default(); ranks as usize], ..Watch::default() }
    }

    pub fn progress(&mut self, now: Time) {
        self.other_since = now;
        self.progress_by_update(now);
    }

    fn progress_by_update(&mut self, now: Time) {
        self.since = now;
        self.progress += 1;
    }

    /// Returns the time of the last progress that was no update.
    pub fn other_since(&self) -> Time {
        self.other_since
    }

    /// Records an operation of a rank; `reads`: its reply is part of the signature. Returns whether the rank has done
    /// exactly this 2, 4, 8, ... times since the last progress of any rank, after the first time.
    pub fn note(&mut self, now: Time, rank: u32, signature: Signature, operation: Operation, reads: bool) -> bool {
        let history = &mut self.ranks[rank as usize];
        let recent = history.recent.iter_mut().find(|recent| recent.signature == signature);
        let Some(recent) = recent.filter(|_| signature != Signature::NEW) else {
            history.learn(now, signature, operation);
            match operation.is_update() {
                true => self.progress_by_update(now),
                false => self.progress(now),
            }
            return false;
        };
        if recent.after != self.progress {
            (recent.times, recent.after) = (0, self.progress);
        }
        recent.times += 1;
        (recent.turn, recent.last) = (now.saturating_sub(recent.last), now);
        let times = recent.times;
        let before = history.repeated.filter(|_| history.after == self.progress);
        let (operations, reading) = before.map_or((0, 0), |before| (before.operations, before.reads));
        history.after = self.progress;
        history.repeated = Some(Repeated {
            operations: operations + 1,
            reads: reading + u64::from(reads),
            last: operation,
            last_times: times,
        });
        times >= 2 && times.is_power_of_two()
    }

    /// Returns the ranks that contend, in their order; none unless a livelock is suspected.
    pub fn contenders(&self, now: Time) -> Vec<Contender> {
        if self.suspicion().is_none() {
            return Vec::new();
        }
        let mut updates = Vec::new();
        for (rank, history) in self.ranks.iter().enumerate() {
            let repeated = history.recent.iter().filter(|recent| recent.after == self.progress);
            let current = repeated.filter(|recent| now.saturating_sub(recent.last) <= recent.turn * 2);
            let of_rank = current.filter(|recent| recent.operation.is_update());
            updates.extend(of_rank.map(|recent| (recent.operation.word(), rank as u32, recent.turn)));
        }
        updates.sort_unstable();
        let mut turns = BTreeMap::new();
        for of_word in updates.chunk_by(|one, other| one.0 == other.0) {
            if of_word.iter().any(|update| update.1 != of_word[0].1) {
                for &(_, rank, turn) in of_word {
                    let longest: &mut Time = turns.entry(rank).or_default();
                    *longest = turn.max(*longest);
                }
            }
        }
        turns.into_iter().map(|(rank, turn)| Contender { rank, turn }).collect()
    }

    /// Whether a rank has only repeated itself since the last progress of any rank.
    pub fn repeats(&self, rank: u32) -> bool {
        let history = &self.ranks[rank as usize];
        history.after == self.progress && history.repeated.is_some()
    }

    /// Returns the operations that the ranks repeat, if this may be a livelock.
    pub fn suspicion(&self) -> Option<Repetition> {
        let ranks: Vec<_> =
            self.ranks.iter().map(|rank| rank.repeated.filter(|_| rank.after == self.progress)).collect();
        let all_read = ranks.iter().flatten().all(|repeated| repeated.reads > 0);
        (all_read && ranks.iter().any(Option::is_some)).then_some(Repetition { since: self.since, ranks })
    }
}

impl RankHistory {
    fn learn(&mut self, now: Time, signature: Signature, operation: Operation) {
        if signature == Signature::NEW {
            return;
        }
        let recent = RecentOperation { signature, operation, last: now, turn: Time::ZERO, times: 0, after: 0 };
        if self.recent.len() < RECENT_MAX {
            self.recent.push(recent);
        } else {
            self.recent[self.next] = recent;
            self.next = (self.next + 1) % RECENT_MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_nic::tables::Request;

    use super::*;

    fn swap(offset: u64) -> Command {
        let request = Request { kind: kind::SWAP, length: 8, remote_offset: offset, ..Request::default() };
        Command { request, ..Command::default() }
    }

    fn read(watch: &mut Watch, at: u64, rank: u32, offset: u64, value: u64) {
        let command = swap(offset);
        let signature = Signature::of(&command, &[1; 8]).replied(&value.to_le_bytes());
        watch.note(Time::from_ns(at), rank, signature, Operation::of(&command, 1 - rank), true);
    }

    fn write(watch: &mut Watch, at: u64, rank: u32, value: u8) {
        let command =
            Command { request: Request { kind: kind::PUT, length: 1, ..Request::default() }, ..Command::default() };
        watch.note(
            Time::from_ns(at),
            rank,
            Signature::of(&command, &[value]),
            Operation::of(&command, 1 - rank),
            false,
        );
    }

    #[test]
    fn ranks_that_read_the_same_again_and_again_are_suspected() {
        let mut watch = Watch::new(3);
        for round in 0..100 {
            for rank in 0..2 {
                read(&mut watch, 10 * round, rank, 0, 0);
                read(&mut watch, 10 * round + 5, rank, 8, 1);
            }
        }
        let found = watch.suspicion().expect("two ranks repeat themselves");
        assert_eq!(found.since, Time::from_ns(5));
        let of_0 = found.ranks[0].expect("it repeats");
        assert_eq!((of_0.operations, of_0.reads, of_0.last_times), (198, 198, 99));
        assert_eq!((of_0.last.target, of_0.last.offset), (1, 8));
        assert_eq!(of_0.last.to_string(), "a swap of 8 bytes at offset 0x8 of portal table entry 0 of rank 1");
        assert_eq!(found.ranks[2], None, "it has done nothing");
    }

    #[test]
    fn one_rank_that_reads_another_value_is_progress_of_all() {
        let mut watch = Watch::new(2);
        for round in 0..100 {
            read(&mut watch, 10 * round, 0, 0, 0);
            read(&mut watch, 10 * round + 5, 1, 0, round);
        }
        assert_eq!(watch.suspicion(), None, "rank 1 counts");
        read(&mut watch, 2000, 0, 0, 0);
        assert_eq!(
            watch.suspicion().map(|found| (found.since, found.ranks[0].map(|of| of.operations))),
            Some((Time::from_ns(995), Some(1)))
        );
        watch.progress(Time::from_ns(3000));
        assert_eq!(watch.suspicion(), None);
    }

    #[test]
    fn a_rank_that_only_writes_is_at_work() {
        let mut watch = Watch::new(2);
        for round in 0..100 {
            read(&mut watch, round, 0, 0, 0);
            write(&mut watch, round, 1, 7);
        }
        assert_eq!(watch.suspicion(), None, "rank 1 may write a million times on purpose");
        read(&mut watch, 200, 1, 8, 0);
        assert_eq!(watch.suspicion(), None, "the first time");
        read(&mut watch, 201, 1, 8, 0);
        write(&mut watch, 202, 1, 7);
        read(&mut watch, 203, 0, 0, 0);
        assert_eq!(watch.suspicion().map(|found| found.since), Some(Time::from_ns(200)));
    }

    #[test]
    fn long_payloads_and_long_loops_are_progress() {
        let mut watch = Watch::new(1);
        for round in 0..100 {
            watch.note(Time::from_ns(round), 0, Signature::of(&swap(0), &[0; 65]), Operation::of(&swap(0), 0), true);
            assert_eq!(watch.suspicion(), None);
        }
        for round in 0..100 {
            read(&mut watch, 1000 + round, 0, round % (RECENT_MAX as u64 + 1), 0);
            assert_eq!(watch.suspicion(), None);
        }
        let long = Signature::of(&swap(0), &[]).replied(&[0; 65]);
        assert_eq!((long, long.replied(&[])), (Signature::NEW, Signature::NEW));
    }
}
