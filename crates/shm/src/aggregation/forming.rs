// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How processes agree on a live group, by whatever way of talking to each other their front door has.
//!
//! All take part or none: if one process cannot, all learn it, with a reason for the log.

use super::member::Member;
use super::segment::{Card, Shape, SharedGroup};

/// Version of what processes say to each other here.
const VERSION: u64 = 1;

/// How the processes of a group-to-be talk to each other.
pub trait Exchange {
    /// Collective: the words of all processes, in their order, as many of each as `own` has.
    fn gather(&mut self, own: &[u64]) -> Result<Vec<u64>, String>;
    /// Makes progress with what else the process has under way.
    fn progress(&mut self);
}

/// A process of a group-to-be.
#[derive(Clone, Debug)]
pub struct Process {
    pub rank: usize,
    pub size: usize,
    /// A number of its host: only processes of one share memory.
    pub place: u64,
    /// Why it takes no part.
    pub refuses: Option<&'static str>,
}

/// What a process says.
#[derive(Clone, Copy)]
struct Hello {
    version: u64,
    place: u64,
    refuses: u64,
    /// The group's memory, if it is the first process.
    card: Card,
}

impl Hello {
    const WORDS: usize = 6;

    fn words(&self) -> [u64; Hello::WORDS] {
        let Card { pid, descriptor, inode, bytes } = self.card;
        [self.version, self.place, self.refuses, u64::from(pid) << 32 | u64::from(descriptor), inode, bytes]
    }

    fn from_words(words: &[u64]) -> Option<Hello> {
        let [version, place, refuses, at, inode, bytes] = *words.first_chunk()?;
        let card = Card { pid: (at >> 32) as u32, descriptor: at as u32, inode, bytes };
        Some(Hello { version, place, refuses, card })
    }
}

impl Member {
    /// Collective: agrees with the other processes on a group. The error says why there is none.
    pub fn form(process: &Process, shape: Shape, exchange: &mut dyn Exchange) -> Result<Member, String> {
        let Process { rank, size, place, refuses } = process.clone();
        let found = (rank == 0 && refuses.is_none()).then(|| SharedGroup::found(shape));
        let (found, card, reason) = match found {
            None => (None, Card::default(), None),
            Some(Ok((shared, card))) => (Some(shared), card, None),
            Some(Err(error)) => (None, Card::default(), Some(error.to_string())),
        };
        let own = Hello { version: VERSION, place, refuses: refuses.is_some().into(), card };
        let all: Vec<_> = exchange.gather(&own.words())?.chunks(Hello::WORDS).filter_map(Hello::from_words).collect();
        let first = *all.first().filter(|_| all.len() == size).ok_or("its processes do not agree on their number")?;
        if let Some(reason) = reason.or(refuses.map(str::to_owned)) {
            return Err(reason);
        }
        if all.iter().any(|hello| hello.version != VERSION) {
            return Err("its processes have several versions of this library".into());
        }
        if all.iter().any(|hello| hello.place != first.place) {
            return Err("its processes are on several hosts".into());
        }
        if let Some(other) = all.iter().position(|hello| hello.refuses != 0) {
            return Err(format!("process {other} takes no part"));
        }
        if first.card.bytes == 0 {
            return Err("process 0 could not make the group's memory".into());
        }
        let shared = match found {
            Some(shared) => Ok(shared),
            None => SharedGroup::open(&first.card),
        };
        let joined = shared.and_then(|shared| Member::join(shared, rank as u32)).map_err(|error| error.to_string());
        if all_have(exchange, joined.is_ok().into())? == 0 {
            return Err(joined.err().unwrap_or_else(|| "a process could not join".into()));
        }
        let mut member = joined?;
        let formed = member.finish_joining(&mut || exchange.progress());
        let (attaches, maps) = if formed.is_ok() { member.probe_memory() } else { (false, false) };
        let all = all_have(exchange, u64::from(formed.is_ok()) | u64::from(attaches) << 1 | u64::from(maps) << 2)?;
        if all & 1 == 0 {
            return Err(formed.err().map_or_else(|| "the group did not form".into(), |failure| failure.to_string()));
        }
        member.set_memory(all & 2 != 0, all & 4 != 0);
        Ok(member)
    }
}

/// The bits that the words of all processes have.
fn all_have(exchange: &mut dyn Exchange, word: u64) -> Result<u64, String> {
    Ok(exchange.gather(&[word])?.into_iter().fold(u64::MAX, |all, word| all & word))
}
