// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of any kind, and its operations under way: what front doors hold.
//!
//! | its processes | kind |
//! |---|---|
//! | share memory | a live group ([`Member`]) |
//! | are on several hosts | live groups and nodes between them ([`Spanning`]) |
//! | are on a simulated machine | the nodes of its switches ([`Group`]) |

use selvedge_host::aggregation::{Carries, Exchange, Idle, Member, Pending, Process, Queue, SEVERAL_HOSTS, Shape};
use selvedge_host::simulated::is_simulated;
use selvedge_job::own_place;
use selvedge_nic::aggregation::Failure;

use super::{Group, Spanning};

/// A group, and its operations under way.
pub struct Operations {
    rank: usize,
    size: usize,
    kind: Kind,
}

#[expect(clippy::large_enum_variant, reason = "there are few, and none moves once it is made")]
enum Kind {
    Live(Queue<Member>),
    Spanning(Queue<Spanning>),
    Elsewhere(Queue<Group>),
}

/// What each kind does.
macro_rules! each {
    ($kind:expr, $queue:ident => $does:expr) => {
        match $kind {
            Kind::Live($queue) => $does,
            Kind::Spanning($queue) => $does,
            Kind::Elsewhere($queue) => $does,
        }
    };
}

impl Operations {
    /// Collective: agrees with the other processes on a group. The error says why there is none. `refuses`: why this one takes no part.
    /// `credits`: operations that a live group has under way; `bytes`: of the longest that its node carries out by itself.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<&'static str>,
        (credits, bytes): (u32, u32),
        exchange: &mut dyn Exchange,
    ) -> Result<Operations, String> {
        let made = |kind| Operations { rank, size, kind };
        // The processes of a simulated machine share no memory.
        if is_simulated() {
            let formed = Group::form((rank, size), refuses.map(str::to_owned), exchange);
            return formed.map(|group| made(Kind::Elsewhere(Queue::new(group))));
        }
        let process = Process { rank, size, place: own_place(), refuses };
        let shape = |members: usize| Shape { members: members as u32, credits, bytes };
        match Member::form(&process, shape(size), exchange) {
            Err(why) if why == SEVERAL_HOSTS => {
                let formed = Spanning::form((rank, size), process.place, shape, refuses, exchange);
                let formed = formed.map(|group| made(Kind::Spanning(Queue::new(group))));
                formed.map_err(|why| format!("{SEVERAL_HOSTS}: {why}"))
            }
            formed => formed.map(|member| made(Kind::Live(Queue::new(member)))),
        }
    }

    /// This process's number, and how many there are.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many hosts its processes are on. None: on a simulated machine, each process has an end node.
    pub fn hosts(&self) -> Option<usize> {
        match &self.kind {
            Kind::Live(_) => Some(1),
            Kind::Spanning(queue) => Some(queue.carrier().hosts()),
            Kind::Elsewhere(_) => None,
        }
    }

    /// Whether an operation is one that the group's nodes are good for. All members say the same. Others are carried out, too, but elements
    /// with more bytes than a request has.
    #[inline]
    pub fn takes(&self, operation: &Pending) -> bool {
        each!(&self.kind, queue => queue.carrier().takes(operation))
    }

    /// Waits until an operation is over, which begins after those under way ([`Queue::complete`]).
    #[inline]
    pub fn complete(
        &mut self,
        operation: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        each!(&mut self.kind, queue => queue.complete(operation, idle, over))
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, operation: Pending) -> u64 {
        each!(&mut self.kind, queue => queue.add(operation))
    }

    /// Carries on what can be ([`Queue::advance`]).
    pub fn advance(&mut self) {
        each!(&mut self.kind, queue => queue.advance())
    }

    /// The outcome of an operation, once it is over. None: it is not.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        each!(&self.kind, queue => queue.outcome(number))
    }

    /// As [`Operations::outcome`], after all have been carried on if it was not over.
    pub fn test(&mut self, number: u64) -> Option<Result<(), Failure>> {
        each!(&mut self.kind, queue => queue.test(number))
    }

    /// Forgets an operation that is over.
    pub fn take(&mut self, number: u64) {
        each!(&mut self.kind, queue => queue.take(number))
    }
}
