// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why an operation, a group or a job failed.

use core::fmt;

/// Why something failed. The values are those of the wire format; 0 there means that nothing has.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The node does not know the job.
    NoJob = 1,
    /// The node is not in the tree.
    NoTree = 2,
    /// The job has as many groups as its quota allows, or asks for a longer operation.
    Quota = 3,
    /// The node has no room for a group: records, children or operands.
    NoRoom = 4,
    /// Members do not agree on the group: its size, its children, its options, or who is in it.
    GroupMismatch = 5,
    /// Members do not agree on the operation: what it is, its types, its length, its target.
    OperationMismatch = 6,
    /// An operation that cannot reduce elements of its type, or a length that is no multiple of an element's.
    NoSuchOperation = 7,
    /// More bytes than an operation of the group may have.
    TooLong = 8,
    /// A request out of its order, or one for which the child has no credit.
    Credit = 9,
    /// A member has left the group, or a group that is still forming.
    Left = 10,
    /// A process or a node of the group is lost.
    Lost = 11,
    /// The manager has taken the job's resources back.
    Revoked = 12,
    /// The receiver has no such group, or it is another job's.
    NoGroup = 13,
}

impl Failure {
    pub(super) const ALL: [Failure; 13] = [
        Failure::NoJob,
        Failure::NoTree,
        Failure::Quota,
        Failure::NoRoom,
        Failure::GroupMismatch,
        Failure::OperationMismatch,
        Failure::NoSuchOperation,
        Failure::TooLong,
        Failure::Credit,
        Failure::Left,
        Failure::Lost,
        Failure::Revoked,
        Failure::NoGroup,
    ];

    /// The failure with this number. None: 0, or a number that no failure has.
    pub fn from_u8(number: u8) -> Option<Failure> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::NoJob => "the aggregation node does not know the job",
            Failure::NoTree => "the aggregation node is not in the tree",
            Failure::Quota => "the job's quota at an aggregation node is used up",
            Failure::NoRoom => "an aggregation node has no room for the group",
            Failure::GroupMismatch => "members do not agree on the group",
            Failure::OperationMismatch => "members do not agree on the operation, its type, its length or its target",
            Failure::NoSuchOperation => "the operation does not reduce elements of this type",
            Failure::TooLong => "more bytes than an operation of the group may have",
            Failure::Credit => "a member has sent a request out of its order, or without a credit",
            Failure::Left => "a member has left the group",
            Failure::Lost => "a process or an aggregation node of the group is lost",
            Failure::Revoked => "the manager has taken the job's aggregation resources back",
            Failure::NoGroup => "there is no such group at the aggregation node, or it is another job's",
        })
    }
}

impl core::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn numbers_and_failures_are_the_same_thing() {
        assert_eq!((Failure::from_u8(0), Failure::from_u8(14)), (None, None));
        for failure in Failure::ALL {
            assert_eq!(Failure::from_u8(failure as u8), Some(failure));
            let same = |other: &&Failure| other.to_string() == failure.to_string();
            assert_eq!(Failure::ALL.iter().filter(same).count(), 1, "{failure}");
        }
    }
}
