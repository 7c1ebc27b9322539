// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Built-in programs, by name.
//!
//! | file | programs |
//! |---|---|
//! | `ping_pong` | latency of messages, and of counting puts against put, fence and flag (seed 004, section 3.1) |
//! | `stream` | bandwidth with many messages in flight; many senders to one receiver |
//! | `overlap` | the share of communication that overlaps with computing |
//! | `all_to_all` | all-to-all by several protocols (seed 000, section 5.5; seed 004, section 3.2) |
//! | `halo` | exchange of faces between neighbours in two or three dimensions |
//! | `wavefront` | a pipelined stencil (seed 004, section 3.3) |
//! | `collective` | barrier, allreduce, broadcast |
//! | `commands` | commands of many programs at one NIC; mailboxes that become full (seed 002, chapter 6) |
//! | `queues` | long queues of unexpected messages and of posted receives (seed 000, section 5.2; seed 003, section VI-E) |
//! | `traffic` | messages to random ranks: uniform, to one rank, to neighbours |
//! | `replay` | the operations of a trace file |
//! | [`parameter`] | parameters of programs, and their syntax |
//!
//! Rules
//! 1. All payload is real, and a receiver checks every byte. A wrong byte is in the results, with exit code 1.
//! 2. A program records its results ([`Process::record`]) over one quantity, [`BuiltIn::over`].
//! 3. The values of parameters are checked before anything runs.

mod all_to_all;
mod collective;
mod commands;
mod error;
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

use std::sync::Arc;

use crate::machine::Machine;

use super::{Body, Needs, Process, Shared, Tasks};

pub use error::ProgramError;
use error::listed;
use parameter::Arguments;
pub use parameter::{Kind, Parameter};

/// A built-in program.
pub struct BuiltIn {
    pub name: &'static str,
    pub about: &'static str,
    /// Quantity on the x axis of its results, with its unit.
    pub over: &'static str,
    /// Fewest ranks that it supports.
    pub ranks_min: u32,
    pub parameters: &'static [Parameter],
    make: fn(&Setting<'_>) -> Result<Prepared, ProgramError>,
}

pub(crate) struct Setting<'s> {
    pub ranks: u32,
    pub machine: &'s Machine,
    pub arguments: Arguments<'s>,
}

type NeedsOf = Arc<dyn Fn(u32) -> Needs + Send + Sync>;

/// A program that is ready to run.
#[derive(Clone)]
pub struct Prepared {
    /// Needs of the rank that needs most.
    pub needs: Needs,
    pub body: Arc<dyn Fn(Process) -> Body + Send + Sync>,
    /// Every parameter with its value.
    pub settings: Vec<(&'static str, String)>,
    needs_of: Option<NeedsOf>,
}

impl Prepared {
    pub(crate) fn new<F: Future<Output = i32> + 'static>(
        needs: Needs,
        body: impl Fn(Process) -> F + Send + Sync + 'static,
    ) -> Prepared {
        let body = Arc::new(move |process| Box::pin(body(process)) as Body);
        Prepared { needs, body, settings: Vec::new(), needs_of: None }
    }

    /// Makes the ranks that run it.
    pub fn tasks(&self, ranks: u32, machine: &Arc<Machine>) -> Tasks {
        self.some_tasks(ranks, machine, &|_| true, &Shared::default())
    }

    /// Makes those of the ranks that `is_here` names. All that are made with the same `shared` have results together.
    pub fn some_tasks(
        &self,
        ranks: u32,
        machine: &Arc<Machine>,
        is_here: &dyn Fn(u32) -> bool,
        shared: &Shared,
    ) -> Tasks {
        let needs = |rank| self.needs_of.as_ref().map_or(self.needs, |needs| needs(rank));
        Tasks::some(ranks, machine, is_here, shared, needs, |process| (self.body)(process))
    }
}

static ALL: [BuiltIn; 19] = [
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
    commands::COMMANDS,
    commands::CROSSFIRE,
    replay::REPLAY,
];

/// Returns all programs.
pub fn all() -> &'static [BuiltIn] {
    &ALL
}

/// Returns the program of this name.
pub fn find(name: &str) -> Result<&'static BuiltIn, ProgramError> {
    let found = ALL.iter().find(|ready| ready.name == name);
    found.ok_or_else(|| ProgramError::NoSuchProgram {
        name: name.to_owned(),
        there: listed(ALL.iter().map(|ready| ready.name)),
    })
}

impl BuiltIn {
    /// Prepares the program for n ranks of a machine. Parameters not given have their defaults.
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
