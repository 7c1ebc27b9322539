// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that are there already, by name.
//!
//! | file | programs |
//! |---|---|
//! | `ping_pong` | latency of messages, and of counting puts against put, fence and flag (seed 004, section 3.1) |
//! | `stream` | bandwidth with many messages under way; many senders to one receiver |
//! | `overlap` | how much computing hides behind a message |
//! | `all_to_all` | all-to-all by several protocols (seed 000, section 5.5; seed 004, section 3.2) |
//! | `halo` | exchange of faces between neighbours in two or three dimensions |
//! | `wavefront` | a pipelined stencil (seed 004, section 3.3) |
//! | `collective` | barrier, allreduce, broadcast |
//! | `queues` | long queues of unexpected messages and of posted receives (seed 000, section 5.2; seed 003, section VI-E) |
//! | `traffic` | messages to random ranks: evenly, to one, to neighbours |
//! | `replay` | what a file says |
//! | [`parameter`] | what can be set, and how it is written |
//!
//! Rules
//! 1. All payload is real, and whoever receives checks every byte: what is wrong is named in the results, and the exit code is 1.
//! 2. A program fills in its results ([`Process::record`]) over one quantity, [`Ready::over`].
//! 3. Which numbers a parameter may have is checked before anything runs.

mod all_to_all;
mod collective;
mod halo;
mod overlap;
pub mod parameter;
mod payload;
mod ping_pong;
mod queues;
mod replay;
mod stream;
mod traffic;
mod wavefront;

use std::rc::Rc;
use std::sync::Arc;

use crate::machine::Machine;

use super::{Body, Needs, Process, Tasks};

use parameter::Arguments;
pub use parameter::{Kind, Parameter};

/// A program that is there already.
pub struct Ready {
    pub name: &'static str,
    pub about: &'static str,
    /// What the x of its results is, with its unit.
    pub over: &'static str,
    /// The fewest ranks that it makes sense with.
    pub ranks_min: u32,
    pub parameters: &'static [Parameter],
    make: fn(&Setting<'_>) -> Result<Prepared, ProgramError>,
}

/// What a program is made for.
pub(crate) struct Setting<'s> {
    pub ranks: u32,
    pub machine: &'s Machine,
    pub arguments: Arguments<'s>,
}

/// What each rank needs, by rank.
type NeedsOf = Rc<dyn Fn(u32) -> Needs>;

/// A program that can be run.
#[derive(Clone)]
pub struct Prepared {
    /// Of the rank that needs most.
    pub needs: Needs,
    pub body: Rc<dyn Fn(Process) -> Body>,
    /// Every parameter with the value that it has.
    pub settings: Vec<(&'static str, String)>,
    needs_of: Option<NeedsOf>,
}

impl Prepared {
    fn new<F: Future<Output = i32> + 'static>(needs: Needs, body: impl Fn(Process) -> F + 'static) -> Prepared {
        let body: Rc<dyn Fn(Process) -> Body> = Rc::new(move |process| Box::pin(body(process)));
        Prepared { needs, body, settings: Vec::new(), needs_of: None }
    }

    /// Ranks that run it.
    pub fn tasks(&self, ranks: u32, machine: &Arc<Machine>) -> Tasks {
        let needs = |rank| self.needs_of.as_ref().map_or(self.needs, |needs| needs(rank));
        Tasks::with_needs(ranks, machine, needs, |process| (self.body)(process))
    }
}

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("there is no program {name:?}; there are {there}")]
    NoSuchProgram { name: String, there: String },
    #[error("{program} has no parameter {name:?}; it has {there}")]
    NoSuchParameter { program: &'static str, name: String, there: String },
    #[error("parameter {name} of {program} is given twice")]
    GivenTwice { program: &'static str, name: &'static str },
    #[error("parameter {name} of {program} cannot be {value:?}: it is {expected}")]
    BadValue { program: &'static str, name: &'static str, value: String, expected: String },
    #[error("{program} needs {needed}, and there are {ranks} ranks")]
    BadSize { program: &'static str, needed: String, ranks: u32 },
    #[error("{file}:{line}: {what}")]
    Trace { file: String, line: usize, what: String },
    #[error("cannot read the trace {file}: {why}")]
    Unreadable { file: String, why: String },
}

static ALL: [Ready; 17] = [
    ping_pong::PING_PONG,
    ping_pong::COUNTING,
    stream::STREAM,
    stream::INCAST,
    overlap::OVERLAP,
    all_to_all::ALL_TO_ALL,
    halo::HALO,
    wavefront::WAVEFRONT,
    collective::BARRIER,
    collective::ALLREDUCE,
    collective::BROADCAST,
    queues::UNEXPECTED,
    queues::POSTED,
    traffic::UNIFORM,
    traffic::HOTSPOT,
    traffic::LOCALITY,
    replay::REPLAY,
];

/// All programs.
pub fn all() -> &'static [Ready] {
    &ALL
}

/// The program of this name.
pub fn find(name: &str) -> Result<&'static Ready, ProgramError> {
    let found = ALL.iter().find(|ready| ready.name == name);
    found.ok_or_else(|| ProgramError::NoSuchProgram {
        name: name.to_owned(),
        there: listed(ALL.iter().map(|ready| ready.name)),
    })
}

impl Ready {
    /// Makes the program for so many ranks of a machine. Parameters that are not named have their defaults.
    pub fn prepare(
        &self,
        ranks: u32,
        machine: &Arc<Machine>,
        arguments: &[(String, String)],
    ) -> Result<Prepared, ProgramError> {
        if ranks < self.ranks_min {
            let needed = format!("at least {} ranks", self.ranks_min);
            return Err(ProgramError::BadSize { program: self.name, needed, ranks });
        }
        let arguments = Arguments::parse(self.name, self.parameters, arguments)?;
        let settings = arguments.shown();
        let prepared = (self.make)(&Setting { ranks, machine, arguments })?;
        Ok(Prepared { settings, ..prepared })
    }
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
