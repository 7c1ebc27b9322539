// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggered operations in the form in which a program requests them.

use crate::tables::Command;

/// An armed operation, for [`TriggeredOperations::cancel`](super::triggered::TriggeredOperations::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The work of a triggered operation.
#[derive(Clone, Copy, Debug)]
pub enum Action<'c> {
    Command(&'c Command),
    CounterSet {
        counter: u32,
        success: u64,
        failure: u64,
    },
    CounterIncrement {
        counter: u32,
        success: u64,
        failure: u64,
    },
    /// Sets the successes of a counter; its failures keep their value.
    CounterSuccess {
        counter: u32,
        success: u64,
    },
    /// Links a reserved entry.
    Append {
        entry: u32,
        list: u8,
    },
    /// Handles a reserved entry as a posted receive. If no unexpected message matches, the entry is linked to the
    /// priority list. If one matches, its payload is moved to the entry's memory, with the event and the count of a
    /// delivery, and the entry is freed. If the payload cannot be moved from this process, or stayed with its sender,
    /// the entry is freed and the message stays in the unexpected list; a SEARCH event reports this. The events go to
    /// `queue`.
    Receive {
        entry: u32,
        queue: u32,
    },
    Unlink {
        entry: u32,
    },
}

/// An [`Action`] without its borrow, as shown to a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmedAction {
    Command { command: Command },
    CounterSet { counter: u32, success: u64, failure: u64 },
    CounterIncrement { counter: u32, success: u64, failure: u64 },
    CounterSuccess { counter: u32, success: u64 },
    Append { entry: u32, list: u8 },
    Receive { entry: u32, queue: u32 },
    Unlink { entry: u32 },
}

impl From<Action<'_>> for ArmedAction {
    fn from(action: Action<'_>) -> ArmedAction {
        match action {
            Action::Command(command) => ArmedAction::Command { command: *command },
            Action::CounterSet { counter, success, failure } => ArmedAction::CounterSet { counter, success, failure },
            Action::CounterIncrement { counter, success, failure } => {
                ArmedAction::CounterIncrement { counter, success, failure }
            }
            Action::CounterSuccess { counter, success } => ArmedAction::CounterSuccess { counter, success },
            Action::Append { entry, list } => ArmedAction::Append { entry, list },
            Action::Receive { entry, queue } => ArmedAction::Receive { entry, queue },
            Action::Unlink { entry } => ArmedAction::Unlink { entry },
        }
    }
}

impl Armed {
    pub(crate) fn pair(self) -> (u32, u32) {
        (self.index, self.generation)
    }
}
