// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for which an operation, a group or a job failed.

use core::fmt;

/// A reason for failure. The values are those of the wire format, where 0 means no failure.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The node does not know the job.
    NoJob = 1,
    /// The node is not in the tree.
    NoTree = 2,
    /// The job has the most groups that its quota allows, or asks for a longer operation.
    Quota = 3,
    /// The node has no room for a group: records, children or operands.
    NoRoom = 4,
    /// Members do not agree on the group: its size, children, options or members.
    GroupMismatch = 5,
    /// Members do not agree on the operation: its code, types, length or target.
    OperationMismatch = 6,
    /// The operation does not reduce elements of its type, or the length is not a multiple of an element's.
    NoSuchOperation = 7,
    /// More bytes than an operation of the group may have.
    TooLong = 8,
    /// A request out of order, or without a credit of the child.
    Credit = 9,
    /// A member has left the group, or a group that is still forming.
    Left = 10,
    /// A process or a node of the group is lost.
    Lost = 11,
    /// The manager has revoked the job's resources.
    Revoked = 12,
    /// The receiver has no such group, or it belongs to another job.
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

    /// The failure with this number. None: 0, or an unknown number.
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
            Failure::TooLong => "the operation has more bytes than the group allows",
            Failure::Credit => "a member has sent a request out of order, or without a credit",
            Failure::Left => "a member has left the group",
            Failure::Lost => "a process or an aggregation node of the group is lost",
            Failure::Revoked => "the manager has revoked the job's aggregation resources",
            Failure::NoGroup => "there is no such group at the aggregation node, or it belongs to another job",
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
