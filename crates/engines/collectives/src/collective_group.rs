// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of any kind, and its outstanding operations: the value that front doors hold.
//!
//! | its processes | kind |
//! |---|---|
//! | share memory | a live group ([`Member`]) |
//! | are on several hosts | live groups and nodes between them ([`HierarchicalGroup`]) |
//! | are on a simulated machine | the nodes of its switches ([`TreeGroup`]) |

use crate::one_host::{Bootstrap, FormError, Member, Participant, Pending, ProgressEngine, ProgressHook, Queue, Shape};
use selvedge_host::simulated::is_simulated;
use selvedge_job::own_place;
use selvedge_nic::aggregation::Failure;

use crate::between_hosts::{HierarchicalGroup, TreeGroup};

/// A group of any kind, and its outstanding operations.
pub struct CollectiveGroup {
    rank: usize,
    size: usize,
    kind: Kind,
}

#[expect(clippy::large_enum_variant, reason = "there are few, and none moves once it is made")]
enum Kind {
    OneHost(Queue<Member>),
    Hierarchical(Queue<HierarchicalGroup>),
    Switches(Queue<TreeGroup>),
}

/// Calls the queue of any kind.
macro_rules! each {
    ($kind:expr, $queue:ident => $does:expr) => {
        match $kind {
            Kind::OneHost($queue) => $does,
            Kind::Hierarchical($queue) => $does,
            Kind::Switches($queue) => $does,
        }
    };
}

impl CollectiveGroup {
    /// Collective: agrees with the other processes on a group. The error says why there is none. `refuses`: why this one takes no part.
    /// `credits`: operations that a live group has under way; `bytes`: of the longest that its node carries out by itself.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<&'static str>,
        (credits, bytes): (u32, u32),
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<CollectiveGroup, String> {
        let made = |kind| CollectiveGroup { rank, size, kind };
        // The processes of a simulated machine share no memory.
        if is_simulated() {
            let formed = TreeGroup::form((rank, size), refuses.map(str::to_owned), bootstrap);
            return formed.map(|group| made(Kind::Switches(Queue::new(group))));
        }
        let process = Participant { rank, size, place: own_place(), refuses };
        let shape = |members: usize| Shape { members: members as u32, credits, bytes };
        match Member::form(&process, shape(size), bootstrap) {
            Err(FormError::SeveralHosts) => {
                let formed = HierarchicalGroup::form((rank, size), process.place, shape, refuses, bootstrap);
                let formed = formed.map(|group| made(Kind::Hierarchical(Queue::new(group))));
                formed.map_err(|why| format!("{}: {why}", FormError::SeveralHosts))
            }
            formed => formed.map(|member| made(Kind::OneHost(Queue::new(member)))).map_err(|error| error.to_string()),
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

    /// The number of its processes' hosts. None: on a simulated machine, each process has an end node.
    pub fn hosts(&self) -> Option<usize> {
        match &self.kind {
            Kind::OneHost(_) => Some(1),
            Kind::Hierarchical(queue) => Some(queue.engine().hosts()),
            Kind::Switches(_) => None,
        }
    }

    /// Whether the group's nodes carry an operation out. All members give the same answer. Other operations are completed, too, except those
    /// whose elements have more bytes than a request has.
    #[inline]
    pub fn supports(&self, operation: &Pending) -> bool {
        each!(&self.kind, queue => queue.engine().supports(operation))
    }

    /// Waits until an operation is over, which begins after those under way ([`Queue::complete`]).
    #[inline]
    pub fn complete(
        &mut self,
        operation: Pending,
        idle: ProgressHook<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        each!(&mut self.kind, queue => queue.complete(operation, idle, over))
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, operation: Pending) -> u64 {
        each!(&mut self.kind, queue => queue.add(operation))
    }

    /// Advances all operations ([`Queue::advance`]).
    pub fn advance(&mut self) {
        each!(&mut self.kind, queue => queue.advance())
    }

    /// The outcome of an operation, once it is over. None: it is not.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        each!(&self.kind, queue => queue.outcome(number))
    }

    /// As [`CollectiveGroup::outcome`], after all have advanced if it was not over.
    pub fn test(&mut self, number: u64) -> Option<Result<(), Failure>> {
        each!(&mut self.kind, queue => queue.test(number))
    }

    /// Forgets an operation that is over.
    pub fn take(&mut self, number: u64) {
        each!(&mut self.kind, queue => queue.take(number))
    }
}
