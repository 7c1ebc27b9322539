// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives: barriers, sums and broadcasts, each by several algorithms.
//!
//! | algorithm | messages on the longest path | bytes that a rank sends |
//! |---|---|---|
//! | barrier: dissemination | ceil(log2 n) | |
//! | barrier: tree | 2 ceil(log2 n) | |
//! | sum: recursive doubling | log2 n (+ 2 where n is no power of two) | m log2 n |
//! | sum: ring | 2 (n - 1) | 2 m (n - 1) / n |
//! | sum: binomial reduce, then broadcast | 2 ceil(log2 n) | m |
//! | sum: Rabenseifner (halving, then doubling) | 2 log2 n (+ 2) | 2 m (n - 1) / n |
//!
//! Sums are of 8-byte words with wrapping addition, so every order of additions gives the same result. The algorithms
//! are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA
//! 19(1), 2005.
//!
//! Rules
//! 1. All ranks call the same collectives in the same order, with the same tags. Messages between two ranks arrive in
//!    order, so a message never matches a receive of another collective.
//! 2. The processor adds as fast as it copies.

use crate::node::Bytes;

use super::process::Process;

/// The algorithm of a sum over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    RecursiveDoubling,
    Ring,
    Binomial,
    Rabenseifner,
}

impl Process {
    // ---- Barriers ------------------------------------------------------------------------------------------------

    /// Runs a barrier by dissemination: each rank notifies the ranks 1, 2, 4 … further.
    pub async fn barrier(&self, tag: u32) {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            self.exchange((rank + distance) % size, (rank + size - distance) % size, tag, &[]).await;
            distance *= 2;
        }
    }

    /// Runs a barrier up a binomial tree and down again.
    pub async fn barrier_tree(&self, tag: u32) {
        self.reduce(tag, &mut []).await;
        self.broadcast(tag, &mut []).await;
    }

    // ---- Trees with root 0 ---------------------------------------------------------------------------------------

    /// Replaces the words of rank 0 by the sum over all ranks. The words of other ranks are undefined afterwards.
    pub async fn reduce(&self, tag: u32, words: &mut [u8]) {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            if rank & distance != 0 {
                return self.send(rank - distance, tag, words).await;
            }
            if rank + distance < size {
                let message = self.recv(rank + distance, tag, words.len() as u64).await;
                self.add_to(words, &message.bytes);
            }
            distance *= 2;
        }
    }

    /// Replaces the bytes of all ranks by those of rank 0.
    pub async fn broadcast(&self, tag: u32, bytes: &mut [u8]) {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size && rank & distance == 0 {
            distance *= 2;
        }
        if rank != 0 {
            let message = self.recv(rank - distance, tag, bytes.len() as u64).await;
            take(bytes, &message.bytes);
        }
        let mut sends = Vec::new();
        while distance > 1 {
            distance /= 2;
            if rank + distance < size {
                sends.push(self.isend(rank + distance, tag, bytes).await);
            }
        }
        for send in sends {
            self.wait(send).await;
        }
    }

    // ---- Sums ----------------------------------------------------------------------------------------------------

    /// Replaces the words of all ranks by their sum over all ranks.
    pub async fn allreduce(&self, algorithm: Sum, tag: u32, words: &mut [u8]) {
        match algorithm {
            Sum::RecursiveDoubling => self.recursive_doubling(tag, words).await,
            Sum::Ring => self.ring(tag, words).await,
            Sum::Binomial => {
                self.reduce(tag, words).await;
                self.broadcast(tag, words).await;
            }
            Sum::Rabenseifner => self.rabenseifner(tag, words).await,
        }
    }

    async fn recursive_doubling(&self, tag: u32, words: &mut [u8]) {
        let team = Team::of(self.rank(), self.size());
        if self.fold_extra_ranks(&team, tag, words).await {
            let mut distance = 1;
            while distance < team.size {
                let partner = team.rank_of(team.place ^ distance);
                let message = self.exchange(partner, partner, tag, words).await;
                self.add_to(words, &message.bytes);
                distance *= 2;
            }
        }
        self.unfold_extra_ranks(&team, tag, words).await;
    }

    async fn rabenseifner(&self, tag: u32, words: &mut [u8]) {
        let team = Team::of(self.rank(), self.size());
        if self.fold_extra_ranks(&team, tag, words).await {
            let length = words.len();
            let (mut first, mut last) = (0, team.size);
            let mut distance = team.size / 2;
            while distance > 0 {
                let partner = team.rank_of(team.place ^ distance);
                let middle = first + distance;
                let (kept, given) = match team.place & distance {
                    0 => ((first, middle), (middle, last)),
                    _ => ((middle, last), (first, middle)),
                };
                let (kept_range, given_range) = (blocks(length, team.size, kept), blocks(length, team.size, given));
                let most = kept_range.len() as u64;
                let message = self.send_and_receive(partner, tag, &words[given_range], most).await;
                self.add_to(&mut words[kept_range], &message);
                (first, last) = kept;
                distance /= 2;
            }
            distance = 1;
            while distance < team.size {
                let partner = team.rank_of(team.place ^ distance);
                let from = team.place & !(distance - 1);
                let other = from ^ distance;
                let own = blocks(length, team.size, (from, from + distance));
                let theirs = blocks(length, team.size, (other, other + distance));
                let message = self.send_and_receive(partner, tag, &words[own], theirs.len() as u64).await;
                take(&mut words[theirs], &message);
                distance *= 2;
            }
        }
        self.unfold_extra_ranks(&team, tag, words).await;
    }

    async fn ring(&self, tag: u32, words: &mut [u8]) {
        let (rank, size, length) = (self.rank(), self.size(), words.len());
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        let block = |number: u32| blocks(length, size, (number % size, number % size + 1));
        for adding in [true, false] {
            for step in 0..size - 1 {
                // In the second round a rank first sends the block that it has summed, which is the next one.
                let out = rank + size - step + u32::from(!adding);
                let (given, taken) = (block(out), block(out + size - 1));
                let receive = self.irecv(left, tag, taken.len() as u64);
                let send = self.isend(right, tag, &words[given]).await;
                let message = self.wait(receive).await.map_or_else(Bytes::new, |message| message.bytes);
                self.wait(send).await;
                if adding {
                    self.add_to(&mut words[taken], &message);
                } else {
                    take(&mut words[taken], &message);
                }
            }
        }
    }

    // ---- Helpers -------------------------------------------------------------------------------------------------

    /// Folds the ranks beyond a power of two: each sends its words to a neighbour, which adds them. False: this rank
    /// has sent its words and waits for the result.
    async fn fold_extra_ranks(&self, team: &Team, tag: u32, words: &mut [u8]) -> bool {
        if self.rank() >= 2 * team.rest {
            return true;
        }
        if self.rank() % 2 == 0 {
            self.send(self.rank() + 1, tag, words).await;
            return false;
        }
        let message = self.recv(self.rank() - 1, tag, words.len() as u64).await;
        self.add_to(words, &message.bytes);
        true
    }

    /// Sends the result to the ranks beyond a power of two, from their neighbours.
    async fn unfold_extra_ranks(&self, team: &Team, tag: u32, words: &mut [u8]) {
        if self.rank() >= 2 * team.rest {
            return;
        }
        if self.rank() % 2 == 1 {
            return self.send(self.rank() - 1, tag, words).await;
        }
        let message = self.recv(self.rank() + 1, tag, words.len() as u64).await;
        take(words, &message.bytes);
    }

    /// Sends to a partner and receives from it at the same time; the lengths may differ.
    async fn send_and_receive(&self, partner: u32, tag: u32, bytes: &[u8], most: u64) -> Bytes {
        let receive = self.irecv(partner, tag, most);
        let send = self.isend(partner, tag, bytes).await;
        let message = self.wait(receive).await;
        self.wait(send).await;
        message.map_or_else(Bytes::new, |message| message.bytes)
    }

    fn add_to(&self, words: &mut [u8], others: &[u8]) {
        for (word, other) in words.chunks_exact_mut(8).zip(others.chunks_exact(8)) {
            let sum = word_of(word).wrapping_add(word_of(other));
            word.copy_from_slice(&sum.to_le_bytes());
        }
        if !words.is_empty() {
            let time = self.core.borrow().machine.host.copy(words.len() as u64);
            self.spend(time);
        }
    }
}

/// The ranks directly in a collective: the largest power of two. The `rest` take part through a neighbour.
struct Team {
    size: u32,
    rest: u32,
    place: u32,
}

impl Team {
    fn of(rank: u32, size: u32) -> Team {
        let power = 1 << size.max(1).ilog2();
        let rest = size - power;
        Team { size: power, rest, place: if rank < 2 * rest { rank / 2 } else { rank - rest } }
    }

    fn rank_of(&self, place: u32) -> u32 {
        if place < self.rest { 2 * place + 1 } else { place + self.rest }
    }
}

/// Returns the byte range of blocks `from` to `to` (exclusive) of `length` bytes in `count` blocks of whole words.
fn blocks(length: usize, count: u32, (from, to): (u32, u32)) -> std::ops::Range<usize> {
    let words = length as u64 / 8;
    let edge = |block: u32| (words * u64::from(block) / u64::from(count)) as usize * 8;
    edge(from)..edge(to)
}

fn take(bytes: &mut [u8], from: &[u8]) {
    let most = bytes.len().min(from.len());
    bytes[..most].copy_from_slice(&from[..most]);
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}
