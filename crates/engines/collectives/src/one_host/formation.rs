// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Agreement of processes on a live group, over the bootstrap of their front door.
//!
//! | way | for |
//! |---|---|
//! | [`Member::form`], over a [`Bootstrap`] | front doors that can wait for a gather |
//! | [`Formation`], a value that advances with each round | front doors whose calls do not wait |
//!
//! Invariants
//! 1. All take part or none: if one process cannot, all learn it, with a reason for the log.
//! 2. All processes get the same conclusions. So all end in the same round.
//!
//! Cost: three rounds of at most [`Formation::WORDS_MAX`] words of each process.

use super::member::Member;
use selvedge_nic::aggregation::Failure;
use thiserror::Error;

use super::segment::{OpenError, SegmentHandle, Shape, SharedGroup};

const VERSION: u64 = 1;

/// Communication between processes before they form a group.
pub trait Bootstrap {
    /// Collective: gathers the words of all processes in order. Each process gives as many words as `own` has.
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String>;
}

/// A process that takes part in forming a group.
#[derive(Clone, Debug)]
pub struct Participant {
    pub rank: usize,
    pub size: usize,
    /// The number of its host. Only processes of one host share memory.
    pub place: u64,
    /// The reason why it takes no part.
    pub refuses: Option<&'static str>,
}

#[derive(Clone, Copy)]
struct Hello {
    version: u64,
    place: u64,
    refuses: u64,
    /// The group's memory, made by the first process.
    handle: SegmentHandle,
}

impl Hello {
    const WORDS: usize = 6;

    fn words(&self) -> [u64; Hello::WORDS] {
        let SegmentHandle { pid, descriptor, inode, bytes } = self.handle;
        [self.version, self.place, self.refuses, u64::from(pid) << 32 | u64::from(descriptor), inode, bytes]
    }

    fn from_words(words: &[u64]) -> Option<Hello> {
        let [version, place, refuses, at, inode, bytes] = *words.first_chunk()?;
        let handle = SegmentHandle { pid: (at >> 32) as u32, descriptor: at as u32, inode, bytes };
        Some(Hello { version, place, refuses, handle })
    }
}

/// The outcome of a round at a process.
pub enum RoundResult {
    Again(Box<Formation>),
    Formed(Box<Member>),
}

/// A group that is being formed, at one of its processes. It goes through rounds: in each, every process gives a few
/// words ([`Formation::words`]), and gets the conclusion from the words of all ([`Formation::conclusion_of`],
/// [`Formation::advance`]). It never waits, so a front door whose calls do not wait advances it when words arrive.
pub struct Formation {
    process: Participant,
    stage: Stage,
    words: Vec<u64>,
}

/// The question of the round under way.
enum Stage {
    /// Whether all can form a group, and the address of its memory, which the first process has made.
    Meeting { shared: Option<SharedGroup>, refuses: Option<FormError> },
    /// Whether all have joined.
    Joining(Result<Box<Member>, FormError>),
    /// Whether every member has seen all others, and how they reach each other's memory.
    Formed { member: Box<Member>, outcome: Result<(), FormError> },
}

/// The reason why processes form no group.
#[derive(Debug, Error)]
pub enum FormError {
    #[error("its processes disagree on the size of the group")]
    SizeMismatch,
    #[error("its processes run different versions of Selvedge; install the same for all")]
    VersionMismatch,
    #[error("its processes are on several hosts")]
    SeveralHosts,
    #[error("process {0} takes no part")]
    Refused(u64),
    /// This process's own reason to take no part.
    #[error("{0}")]
    OwnRefusal(&'static str),
    #[error("process 0 could not allocate the group's memory")]
    NoMemory,
    #[error("a process could not join")]
    JoinFailed,
    #[error("the group did not form")]
    NotFormed,
    #[error("a process sent too few words")]
    ShortConclusion,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Group(#[from] Failure),
    #[error("{0}")]
    Bootstrap(String),
}

/// The first word of a conclusion of [`Stage::Meeting`]. The second is the number of a process.
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

impl Formation {
    /// Largest number of words of a process, and of a conclusion.
    pub const WORDS_MAX: usize = Hello::WORDS + 2;
    /// Rounds of a group that forms.
    pub const ROUNDS: usize = 3;

    pub fn new(process: Participant, shape: Shape) -> Formation {
        let (mut shared, mut handle) = (None, SegmentHandle::default());
        let mut refuses = process.refuses.map(FormError::OwnRefusal);
        if process.rank == 0 && refuses.is_none() {
            match SharedGroup::found(shape) {
                Ok((founded, at)) => (shared, handle) = (Some(founded), at),
                Err(error) => refuses = Some(error.into()),
            }
        }
        let hello = Hello { version: VERSION, place: process.place, refuses: process.refuses.is_some().into(), handle };
        Formation { process, words: hello.words().to_vec(), stage: Stage::Meeting { shared, refuses } }
    }

    /// The words of this process in the current round.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Draws the conclusion from the words of all processes in order. It is the same at all processes.
    pub fn conclusion_of(&self, all: &[u64]) -> Vec<u64> {
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

    /// Ends the round with its conclusion.
    pub fn advance(self, conclusion: &[u64]) -> Result<RoundResult, FormError> {
        let Formation { process, stage, .. } = self;
        match stage {
            Stage::Meeting { refuses: Some(reason), .. } => Err(reason),
            Stage::Meeting { shared, .. } => {
                let handle = handle_of(conclusion)?;
                let shared = shared.map_or_else(|| SharedGroup::open(&handle), Ok);
                let joined = shared.and_then(|shared| Member::join(shared, process.rank as u32));
                let joined = joined.map(Box::new).map_err(FormError::Open);
                let words = vec![joined.is_ok().into()];
                Ok(RoundResult::Again(Box::new(Formation { process, words, stage: Stage::Joining(joined) })))
            }
            Stage::Joining(joined) => {
                if conclusion.first() != Some(&1) {
                    return Err(joined.err().unwrap_or(FormError::JoinFailed));
                }
                let mut member = joined?;
                // This does not wait, because all have joined.
                let outcome = member.finish_joining(&mut || {}).map_err(FormError::Group);
                let (attaches, maps) = if outcome.is_ok() { member.probe_memory() } else { (false, false) };
                let bits = [(outcome.is_ok(), HAS_FORMED), (attaches, ATTACHES), (maps, MAPS)];
                let word = bits.into_iter().map(|(holds, bit)| if holds { bit } else { 0 }).sum();
                Ok(RoundResult::Again(Box::new(Formation {
                    process,
                    words: vec![word],
                    stage: Stage::Formed { member, outcome },
                })))
            }
            Stage::Formed { mut member, outcome } => {
                let all = conclusion.first().copied().unwrap_or(0);
                if all & HAS_FORMED == 0 {
                    return Err(outcome.err().unwrap_or(FormError::NotFormed));
                }
                member.set_memory(all & ATTACHES != 0, all & MAPS != 0);
                Ok(RoundResult::Formed(member))
            }
        }
    }
}

/// The verdict on processes that have given these words, and the number of the process that causes a refusal.
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
    (if first.handle.bytes == 0 { verdict::NO_MEMORY } else { verdict::NONE }, 0)
}

/// The handle of the group's memory from a conclusion, or the reason why no group forms.
fn handle_of(conclusion: &[u64]) -> Result<SegmentHandle, FormError> {
    let [verdict, of, first @ ..] = conclusion else { return Err(FormError::ShortConclusion) };
    Err(match *verdict {
        verdict::NONE => {
            return Hello::from_words(first).map(|hello| hello.handle).ok_or(FormError::ShortConclusion);
        }
        verdict::NUMBER => FormError::SizeMismatch,
        verdict::VERSION => FormError::VersionMismatch,
        verdict::PLACE => FormError::SeveralHosts,
        verdict::REFUSES => FormError::Refused(*of),
        _ => FormError::NoMemory,
    })
}

impl Member {
    /// Collective: agrees with the other processes on a group.
    pub fn form(process: &Participant, shape: Shape, bootstrap: &mut dyn Bootstrap) -> Result<Member, FormError> {
        let mut formation = Formation::new(process.clone(), shape);
        loop {
            let all = bootstrap.allgather(formation.words()).map_err(FormError::Bootstrap)?;
            let conclusion = formation.conclusion_of(&all);
            match formation.advance(&conclusion)? {
                RoundResult::Again(next) => formation = *next,
                RoundResult::Formed(member) => return Ok(*member),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formation(rank: usize, size: usize, place: u64, refuses: Option<&'static str>) -> Formation {
        let shape = Shape { members: size as u32, credits: 2, bytes: 64 };
        Formation::new(Participant { rank, size, place, refuses }, shape)
    }

    /// Advances all processes of a group in this process, with one conclusion for all.
    fn run_rounds(mut all: Vec<Formation>) -> Vec<Result<Member, FormError>> {
        loop {
            let words: Vec<u64> = all.iter().flat_map(|one| one.words().to_vec()).collect();
            let conclusion = all[0].conclusion_of(&words);
            assert!(conclusion.len() <= Formation::WORDS_MAX);
            assert!(
                all.iter()
                    .all(|one| one.words().len() <= Formation::WORDS_MAX && one.conclusion_of(&words) == conclusion)
            );
            let result: Vec<_> = all.into_iter().map(|one| one.advance(&conclusion)).collect();
            match result.iter().all(|result| matches!(result, Ok(RoundResult::Again(_)))) {
                true => all = result.into_iter().filter_map(Result::ok).filter_map(RoundResult::again).collect(),
                false => return result.into_iter().map(|result| result.map(RoundResult::formed)).collect(),
            }
        }
    }

    impl RoundResult {
        fn again(self) -> Option<Formation> {
            match self {
                RoundResult::Again(formation) => Some(*formation),
                RoundResult::Formed(_) => None,
            }
        }

        fn formed(self) -> Member {
            match self {
                RoundResult::Formed(member) => *member,
                RoundResult::Again(_) => panic!("processes did not end in the same round"),
            }
        }
    }

    #[test]
    fn processes_form_a_group_step_by_step() {
        for size in 1..=5 {
            let members = run_rounds((0..size).map(|rank| formation(rank, size, 7, None)).collect());
            for (rank, member) in members.iter().enumerate() {
                let member = member.as_ref().expect("all agree");
                assert_eq!((member.rank(), member.size(), member.failure()), (rank, size, None));
            }
        }
    }

    #[test]
    fn all_learn_why_there_is_no_group() {
        let reasons = |all: Vec<Formation>| {
            run_rounds(all).into_iter().map(|one| one.err().map_or(String::new(), |error| error.to_string()))
        };
        let one_elsewhere = (0..3).map(|rank| formation(rank, 3, u64::from(rank == 2), None)).collect();
        assert!(reasons(one_elsewhere).all(|reason| reason == FormError::SeveralHosts.to_string()));
        for who in 0..3 {
            let refused = (0..3).map(|rank| formation(rank, 3, 0, (rank == who).then_some("it is off"))).collect();
            for (rank, reason) in reasons(refused).enumerate() {
                let wanted = if rank == who { "it is off".into() } else { format!("process {who} takes no part") };
                assert_eq!(reason, wanted);
            }
        }
        let too_few = (0..2).map(|rank| formation(rank, 3, 0, None)).collect();
        assert!(reasons(too_few).all(|reason| reason.contains("the size of the group")));
    }

    #[test]
    fn nonsense_is_an_error() {
        for words in [&[][..], &[0], &[0, 0, 1], &[9, 9, 9, 9, 9, 9, 9, 9], &[0, 0, 1, 0, 0, 0, 0, 4096]] {
            let result = formation(1, 2, 0, None).advance(words);
            // An invalid handle is found only when the file is opened. The next round reports it to all.
            let says_no = match result {
                Ok(RoundResult::Again(next)) => next.words() == [0],
                Ok(RoundResult::Formed(_)) => false,
                Err(_) => true,
            };
            assert!(says_no, "{words:?}");
        }
    }
}
