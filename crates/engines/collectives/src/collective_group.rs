// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of any kind, and its outstanding operations: the value that front doors hold.
//!
//! | the members | kind |
//! |---|---|
//! | share memory | a live group ([`Member`]) |
//! | are on several hosts | live groups, with nodes between them ([`HierarchicalGroup`]) |
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

#[expect(clippy::large_enum_variant, reason = "groups are few and never move")]
enum Kind {
    OneHost(Queue<Member>),
    Hierarchical(Queue<HierarchicalGroup>),
    Switches(Queue<TreeGroup>),
}

/// Calls a method on the queue of any kind.
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
    /// Collective: agrees with the other processes on a group. The error is the reason if none forms. `refuses`: the
    /// reason why this process takes no part. `credits`: operations that a live group may have under way. `bytes`:
    /// longest operation of its node.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<&'static str>,
        (credits, bytes): (u32, u32),
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<CollectiveGroup, String> {
        selvedge_settings::report();
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

    /// The number of this process.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of hosts with members. `None`: on a simulated machine, where each process has an end node.
    pub fn hosts(&self) -> Option<usize> {
        match &self.kind {
            Kind::OneHost(_) => Some(1),
            Kind::Hierarchical(queue) => Some(queue.engine().hosts()),
            Kind::Switches(_) => None,
        }
    }

    /// Whether the group's nodes accept this operation. All members get the same answer. The group also completes other
    /// operations, unless an element has more bytes than a request.
    #[inline]
    pub fn supports(&self, operation: &Pending) -> bool {
        each!(&self.kind, queue => queue.engine().supports(operation))
    }

    /// Runs an operation to its end, after those under way ([`Queue::complete`]).
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

    /// The outcome of an operation. `None`: it has not ended.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        each!(&self.kind, queue => queue.outcome(number))
    }

    /// Like [`CollectiveGroup::outcome`], but first advances all operations if this one has not ended.
    pub fn test(&mut self, number: u64) -> Option<Result<(), Failure>> {
        each!(&mut self.kind, queue => queue.test(number))
    }

    /// Removes an operation that has ended.
    pub fn take(&mut self, number: u64) {
        each!(&mut self.kind, queue => queue.take(number))
    }
}
