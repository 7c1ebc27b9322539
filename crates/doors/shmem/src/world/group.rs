// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The group that carries out a team's operations in aggregation nodes, of any kind (`docs/design/aggregation.md`).
//!
//! Invariants
//! 1. A team forms its group once, at the first operation that a node could carry out. All members take part and agree:
//!    if one refuses, there is no group.
//! 2. It ends with the team.
//!
//! Costs of a group on one host: some 100 us, a mapping, and a page for each operand length in use.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Bootstrap, Pending, ProgressHook};
use selvedge_nic::aggregation::Failure;

/// Operations that a live group has under way; below, bytes of the longest that its node carries out itself.
const CREDITS: u32 = 4;
const BYTES: u32 = 16 << 10;
/// The most groups of a process: each takes a mapping.
const GROUPS_MAX: usize = 32;

static GROUPS: AtomicUsize = AtomicUsize::new(0);

/// A team's group. One operation at a time is under way.
pub(crate) struct Group(CollectiveGroup);

// SAFETY: it is not `Send` because it holds addresses of operands and results; between two calls it holds none.
unsafe impl Send for Group {}

#[derive(Default)]
pub(crate) enum GroupState {
    /// No operation has needed it yet.
    #[default]
    Unasked,
    /// There is none: the team's own algorithms carry out its operations.
    NoGroup,
    Group(Box<Group>),
}

impl Group {
    /// Collective: agrees with the other members on a group. The error is the reason why there is none.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<&'static str>,
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<Group, String> {
        let is_full = GROUPS.load(Relaxed) >= GROUPS_MAX;
        let refuses = refuses.or(is_full.then_some("this process has reached its limit of groups"));
        let operations = CollectiveGroup::form((rank, size), refuses, (CREDITS, BYTES), bootstrap)?;
        GROUPS.fetch_add(1, Relaxed);
        Ok(Group(operations))
    }

    /// For the log: the extent of the group, if it is not one host.
    pub fn extent(&self) -> String {
        match self.0.hosts() {
            Some(1) => String::new(),
            Some(hosts) => format!(" of {hosts} hosts"),
            None => " of its switches".to_owned(),
        }
    }

    /// Carries out an operation. `None`: the team's own algorithms do, at all members.
    #[inline]
    pub fn complete(&mut self, operation: Pending, idle: ProgressHook<'_>) -> Option<Result<(), Failure>> {
        self.0.supports(&operation).then(|| self.0.complete(operation, idle, &mut |_, _| {}))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        GROUPS.fetch_sub(1, Relaxed);
    }
}
