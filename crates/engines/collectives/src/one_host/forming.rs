// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How processes agree on a live group, by whatever way of talking to each other their front door has.
//!
//! | way | for |
//! |---|---|
//! | [`Member::form`], over an [`Exchange`] | front doors that can wait for a gather |
//! | [`Forming`], a value that is carried on | front doors whose calls do not wait |
//!
//! Invariants
//! 1. All take part or none: if one process cannot, all learn it, with a reason for the log.
//! 2. All processes hear the same conclusions. So all end in the same round.
//!
//! Cost: three rounds of at most [`Forming::WORDS_MAX`] words of each process.

use super::member::Member;
use super::segment::{Card, Shape, SharedGroup};

/// Version of what processes say to each other here.
const VERSION: u64 = 1;

/// How the processes of a group-to-be talk to each other.
pub trait Exchange {
    /// Collective: the words of all processes, in their order, as many of each as `own` has.
    fn gather(&mut self, own: &[u64]) -> Result<Vec<u64>, String>;
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

/// What a process makes of what it hears.
pub enum Heard {
    /// There is another round.
    Again(Forming),
    Formed(Box<Member>),
}

/// A group-to-be at one of its processes. It goes through rounds: in each, every process says a few words ([`Forming::words`]), and hears the
/// conclusion from the words of all ([`Forming::conclude`], [`Forming::hear`]). It never waits, so a front door whose calls do not wait carries
/// it on as words come.
pub struct Forming {
    process: Process,
    stage: Stage,
    words: Vec<u64>,
}

/// What the round under way is about.
enum Stage {
    /// Whether all can form a group, and where its memory is. The first process has made it.
    Meeting { shared: Option<SharedGroup>, refuses: Option<String> },
    /// Whether all have joined.
    Joining(Result<Box<Member>, String>),
    /// Whether all have seen all others, and how they reach each other's memory.
    Formed { member: Box<Member>, outcome: Result<(), String> },
}

/// The first word of a conclusion of [`Stage::Meeting`]; its second is the number of a process.
mod verdict {
    pub const NONE: u64 = 0;
    pub const NUMBER: u64 = 1;
    pub const VERSION: u64 = 2;
    pub const PLACE: u64 = 3;
    pub const REFUSES: u64 = 4;
    pub const NO_MEMORY: u64 = 5;
}

/// Bits of the words of [`Stage::Formed`].
const HAS_FORMED: u64 = 1;
const ATTACHES: u64 = 2;
const MAPS: u64 = 4;

/// Why there is no group if processes of several hosts want one.
pub const SEVERAL_HOSTS: &str = "its processes are on several hosts";

impl Forming {
    /// The most words of a process, and of a conclusion.
    pub const WORDS_MAX: usize = Hello::WORDS + 2;
    /// Rounds, if there will be a group.
    pub const ROUNDS: usize = 3;

    pub fn new(process: Process, shape: Shape) -> Forming {
        let (mut shared, mut card) = (None, Card::default());
        let mut refuses = process.refuses.map(str::to_owned);
        if process.rank == 0 && refuses.is_none() {
            match SharedGroup::found(shape) {
                Ok((founded, at)) => (shared, card) = (Some(founded), at),
                Err(error) => refuses = Some(error.to_string()),
            }
        }
        let hello = Hello { version: VERSION, place: process.place, refuses: process.refuses.is_some().into(), card };
        Forming { process, words: hello.words().to_vec(), stage: Stage::Meeting { shared, refuses } }
    }

    /// What this process says in the round under way.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The conclusion from the words of all processes, in their order: the same wherever it is drawn.
    pub fn conclude(&self, all: &[u64]) -> Vec<u64> {
        match self.stage {
            Stage::Meeting { .. } => {
                let all: Vec<_> = all.chunks(Hello::WORDS).filter_map(Hello::from_words).collect();
                let (verdict, of) = judge(&all, self.process.size);
                let first = all.first().map_or([0; Hello::WORDS], Hello::words);
                [verdict, of as u64].into_iter().chain(first).collect()
            }
            _ => vec![all.iter().fold(u64::MAX, |all, word| all & word)],
        }
    }

    /// Hears a conclusion. The error says why there is no group.
    pub fn hear(self, conclusion: &[u64]) -> Result<Heard, String> {
        let Forming { process, stage, .. } = self;
        match stage {
            Stage::Meeting { refuses: Some(reason), .. } => Err(reason),
            Stage::Meeting { shared, .. } => {
                let card = card_of(conclusion)?;
                let shared = shared.map_or_else(|| SharedGroup::open(&card), Ok);
                let joined = shared.and_then(|shared| Member::join(shared, process.rank as u32));
                let joined = joined.map(Box::new).map_err(|error| error.to_string());
                let words = vec![joined.is_ok().into()];
                Ok(Heard::Again(Forming { process, words, stage: Stage::Joining(joined) }))
            }
            Stage::Joining(joined) => {
                if conclusion.first() != Some(&1) {
                    return Err(joined.err().unwrap_or_else(|| "a process could not join".into()));
                }
                let mut member = joined?;
                // It does not wait: all have joined.
                let outcome = member.finish_joining(&mut || {}).map_err(|failure| failure.to_string());
                let (attaches, maps) = if outcome.is_ok() { member.probe_memory() } else { (false, false) };
                let bits = [(outcome.is_ok(), HAS_FORMED), (attaches, ATTACHES), (maps, MAPS)];
                let word = bits.into_iter().map(|(holds, bit)| if holds { bit } else { 0 }).sum();
                Ok(Heard::Again(Forming { process, words: vec![word], stage: Stage::Formed { member, outcome } }))
            }
            Stage::Formed { mut member, outcome } => {
                let all = conclusion.first().copied().unwrap_or(0);
                if all & HAS_FORMED == 0 {
                    return Err(outcome.err().unwrap_or_else(|| "the group did not form".into()));
                }
                member.set_memory(all & ATTACHES != 0, all & MAPS != 0);
                Ok(Heard::Formed(member))
            }
        }
    }
}

/// Why processes that have said this form no group, and the process because of which.
fn judge(all: &[Hello], size: usize) -> (u64, usize) {
    let Some(first) = all.first().filter(|_| all.len() == size) else { return (verdict::NUMBER, 0) };
    if let Some(of) = all.iter().position(|hello| hello.version != VERSION) {
        return (verdict::VERSION, of);
    }
    if let Some(of) = all.iter().position(|hello| hello.place != first.place) {
        return (verdict::PLACE, of);
    }
    if let Some(of) = all.iter().position(|hello| hello.refuses != 0) {
        return (verdict::REFUSES, of);
    }
    (if first.card.bytes == 0 { verdict::NO_MEMORY } else { verdict::NONE }, 0)
}

/// Where the group's memory is, by a conclusion; or why there is no group.
fn card_of(conclusion: &[u64]) -> Result<Card, String> {
    let [verdict, of, first @ ..] = conclusion else { return Err("a conclusion is too short".into()) };
    Err(match *verdict {
        verdict::NONE => {
            return Hello::from_words(first).map(|hello| hello.card).ok_or_else(|| "a conclusion is too short".into());
        }
        verdict::NUMBER => "its processes do not agree on their number".into(),
        verdict::VERSION => "its processes have several versions of this library".into(),
        verdict::PLACE => SEVERAL_HOSTS.into(),
        verdict::REFUSES => format!("process {of} takes no part"),
        _ => "process 0 could not make the group's memory".into(),
    })
}

impl Member {
    /// Collective: agrees with the other processes on a group. The error says why there is none.
    pub fn form(process: &Process, shape: Shape, exchange: &mut dyn Exchange) -> Result<Member, String> {
        let mut forming = Forming::new(process.clone(), shape);
        loop {
            let all = exchange.gather(forming.words())?;
            let conclusion = forming.conclude(&all);
            match forming.hear(&conclusion)? {
                Heard::Again(next) => forming = next,
                Heard::Formed(member) => return Ok(*member),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forming(rank: usize, size: usize, place: u64, refuses: Option<&'static str>) -> Forming {
        let shape = Shape { members: size as u32, credits: 2, bytes: 64 };
        Forming::new(Process { rank, size, place, refuses }, shape)
    }

    /// Carries on all processes of a group-to-be, in this process, with one conclusion for all.
    fn carry_on(mut all: Vec<Forming>) -> Vec<Result<Member, String>> {
        loop {
            let words: Vec<u64> = all.iter().flat_map(|one| one.words().to_vec()).collect();
            let conclusion = all[0].conclude(&words);
            assert!(conclusion.len() <= Forming::WORDS_MAX);
            assert!(
                all.iter().all(|one| one.words().len() <= Forming::WORDS_MAX && one.conclude(&words) == conclusion)
            );
            let heard: Vec<_> = all.into_iter().map(|one| one.hear(&conclusion)).collect();
            match heard.iter().all(|heard| matches!(heard, Ok(Heard::Again(_)))) {
                true => all = heard.into_iter().filter_map(Result::ok).filter_map(Heard::again).collect(),
                false => return heard.into_iter().map(|heard| heard.map(Heard::formed)).collect(),
            }
        }
    }

    impl Heard {
        fn again(self) -> Option<Forming> {
            match self {
                Heard::Again(forming) => Some(forming),
                Heard::Formed(_) => None,
            }
        }

        fn formed(self) -> Member {
            match self {
                Heard::Formed(member) => *member,
                Heard::Again(_) => panic!("processes do not end in the same round"),
            }
        }
    }

    #[test]
    fn processes_form_a_group_step_by_step() {
        for size in 1..=5 {
            let members = carry_on((0..size).map(|rank| forming(rank, size, 7, None)).collect());
            for (rank, member) in members.iter().enumerate() {
                let member = member.as_ref().expect("all agree");
                assert_eq!((member.rank(), member.size(), member.failure()), (rank, size, None));
            }
        }
    }

    #[test]
    fn all_learn_why_there_is_no_group() {
        let reasons = |all: Vec<Forming>| carry_on(all).into_iter().map(|one| one.err().unwrap_or_default());
        let one_elsewhere = (0..3).map(|rank| forming(rank, 3, u64::from(rank == 2), None)).collect();
        assert!(reasons(one_elsewhere).all(|reason| reason == SEVERAL_HOSTS));
        for who in 0..3 {
            let refused = (0..3).map(|rank| forming(rank, 3, 0, (rank == who).then_some("it is off"))).collect();
            for (rank, reason) in reasons(refused).enumerate() {
                let wanted = if rank == who { "it is off".into() } else { format!("process {who} takes no part") };
                assert_eq!(reason, wanted);
            }
        }
        let too_few = (0..2).map(|rank| forming(rank, 3, 0, None)).collect();
        assert!(reasons(too_few).all(|reason| reason.contains("their number")));
    }

    #[test]
    fn nonsense_is_an_error() {
        for words in [&[][..], &[0], &[0, 0, 1], &[9, 9, 9, 9, 9, 9, 9, 9], &[0, 0, 1, 0, 0, 0, 0, 4096]] {
            let heard = forming(1, 2, 0, None).hear(words);
            // A card that names nothing is known only when the file is opened; all hear of it in the next round.
            let says_no = match heard {
                Ok(Heard::Again(next)) => next.words() == [0],
                Ok(Heard::Formed(_)) => false,
                Err(_) => true,
            };
            assert!(says_no, "{words:?}");
        }
    }
}
