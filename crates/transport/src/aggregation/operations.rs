// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of any kind, and its operations under way: what front doors hold.
//!
//! | its processes | kind |
//! |---|---|
//! | share memory | a live group ([`Member`]) |
//! | are on several hosts | live groups and nodes between them ([`Spanning`]) |
//! | are on a simulated machine | the nodes of its switches ([`Group`]) |

use selvedge_nic::aggregation::Failure;
use selvedge_shm::aggregation::{Carries, Exchange, Idle, Member, Pending, Process, Queue, SEVERAL_HOSTS, Shape};
use selvedge_shm::simulated::is_simulated;

use super::{Group, Spanning};

/// A group, and its operations under way.
#[expect(clippy::large_enum_variant, reason = "there are few, and none moves once it is made")]
pub enum Operations {
    Live(Queue<Member>),
    Spanning(Queue<Spanning>),
    Elsewhere(Queue<Group>),
}

/// What each kind does.
macro_rules! each {
    ($operations:expr, $queue:ident => $does:expr) => {
        match $operations {
            Operations::Live($queue) => $does,
            Operations::Spanning($queue) => $does,
            Operations::Elsewhere($queue) => $does,
        }
    };
}

impl Operations {
    /// Collective: agrees with the other processes on a group. The error says why there is none. `shape`: of a live group of so many members.
    pub fn form(
        process: &Process,
        shape: impl Fn(usize) -> Shape,
        exchange: &mut dyn Exchange,
    ) -> Result<Operations, String> {
        let Process { rank, size, place, refuses } = *process;
        // The processes of a simulated machine share no memory.
        if is_simulated() {
            let formed = Group::form((rank, size), refuses.map(str::to_owned), exchange);
            return formed.map(|group| Operations::Elsewhere(Queue::new(group)));
        }
        match Member::form(process, shape(size), exchange) {
            Err(why) if why == SEVERAL_HOSTS => {
                let formed = Spanning::form((rank, size), place, shape, refuses, exchange);
                let formed = formed.map(|group| Operations::Spanning(Queue::new(group)));
                formed.map_err(|why| format!("{SEVERAL_HOSTS}: {why}"))
            }
            formed => formed.map(|member| Operations::Live(Queue::new(member))),
        }
    }

    /// This process's number, and how many there are.
    #[inline]
    pub fn rank(&self) -> usize {
        each!(self, queue => queue.carrier().rank())
    }

    #[inline]
    pub fn size(&self) -> usize {
        each!(self, queue => queue.carrier().size())
    }

    /// How many hosts its processes are on. None: on a simulated machine, each process has an end node.
    pub fn hosts(&self) -> Option<usize> {
        match self {
            Operations::Live(_) => Some(1),
            Operations::Spanning(queue) => Some(queue.carrier().hosts()),
            Operations::Elsewhere(_) => None,
        }
    }

    /// Whether an operation is one that the group's nodes are good for. All members say the same. Others are carried out, too, but elements
    /// with more bytes than a request has.
    #[inline]
    pub fn takes(&self, operation: &Pending) -> bool {
        each!(self, queue => queue.carrier().takes(operation))
    }

    /// Waits until an operation is over, which begins after those under way ([`Queue::complete`]).
    #[inline]
    pub fn complete(
        &mut self,
        operation: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        each!(self, queue => queue.complete(operation, idle, over))
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, operation: Pending) -> u64 {
        each!(self, queue => queue.add(operation))
    }

    /// Carries on what can be ([`Queue::advance`]).
    pub fn advance(&mut self) {
        each!(self, queue => queue.advance())
    }

    /// The outcome of an operation, once it is over. None: it is not.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        each!(self, queue => queue.outcome(number))
    }

    /// Forgets an operation that is over.
    pub fn take(&mut self, number: u64) {
        each!(self, queue => queue.take(number))
    }

    /// Whether no operation is under way.
    pub fn is_idle(&self) -> bool {
        each!(self, queue => queue.is_idle())
    }

    /// Ends the group for all members: no operation of it is carried on any more.
    pub fn fail(&mut self, failure: Failure) {
        each!(self, queue => queue.fail(failure))
    }
}
