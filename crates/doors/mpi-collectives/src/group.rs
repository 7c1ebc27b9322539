// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The group of a communicator, and its outstanding requests.

use std::ptr;
use std::sync::Mutex;

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Pending, ProgressHook};
use selvedge_nic::aggregation::Failure;

use crate::requests::Started;

/// The group of a communicator. `None`: the MPI carries out its operations.
pub type GroupState = Option<Mutex<Group>>;

/// A group and its requests.
pub struct Group {
    pub operations: CollectiveGroup,
    /// The requests that are not over, with the numbers of their operations.
    pub started: Vec<(u64, Started)>,
    pub is_listed: bool,
    /// Whether its communicator is freed.
    pub is_forgotten: bool,
}

// SAFETY: an operation under way has addresses of the program's buffers, which any of its threads may use.
unsafe impl Send for Group {}

impl Group {
    pub fn new(operations: CollectiveGroup) -> Group {
        Group { operations, started: Vec::new(), is_listed: false, is_forgotten: false }
    }

    /// This process's number; below, the number of processes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.operations.rank()
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.operations.size()
    }

    /// For the log: the extent of the group, if it is not one host.
    pub fn extent(&self) -> String {
        match self.operations.hosts() {
            Some(hosts @ 2..) => format!(" of {hosts} hosts"),
            _ => String::new(),
        }
    }

    /// Whether the group carries out this operation. Else the MPI does, at all processes.
    #[inline]
    pub fn supports(&self, operation: &Pending) -> bool {
        self.operations.supports(operation)
    }

    /// Completes an operation, after all outstanding ones, which progress meanwhile.
    #[inline]
    pub fn complete(&mut self, operation: Pending, idle: ProgressHook<'_>) -> Result<(), Failure> {
        let started = &mut self.started;
        self.operations.complete(operation, idle, &mut |number, outcome| {
            if let Some(at) = started.iter().position(|(of, _)| *of == number) {
                started.remove(at).1.end(outcome);
            }
        })
    }

    /// Advances outstanding operations. Requests that are over go to `over`.
    pub fn advance(&mut self, over: &mut Vec<(Started, Result<(), Failure>)>) {
        self.operations.advance();
        let mut at = 0;
        while let Some(&(number, _)) = self.started.get(at) {
            match self.operations.outcome(number) {
                None => at += 1,
                Some(outcome) => {
                    self.operations.take(number);
                    over.push((self.started.remove(at).1, outcome));
                }
            }
        }
    }
}

/// Frees a group.
///
/// # Safety
/// `make` has leaked it, and no reference to it exists any more.
pub unsafe fn free(group: &'static GroupState) {
    // SAFETY: by this function's contract.
    drop(unsafe { Box::from_raw(ptr::from_ref(group).cast_mut()) });
}
