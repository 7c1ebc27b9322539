// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of operations: the reason why a call was refused, and the reason why an accepted operation has failed. A
//! front door maps both to the numbers of its interface.

/// The reason why a call was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room now. The program tries again.
    NoRoom,
    /// Lengths differ, there is no such peer, or no message was claimed with this context.
    Invalid,
    TooLong,
    /// The process of the peer has ended.
    PeerGone,
    /// The program's memory is not mapped.
    NotMapped,
    /// The endpoint has no portal table entry.
    NoEndpoint,
    /// There is no descriptor or space for the message. The reason was printed.
    NoMemory,
}

impl Refusal {
    pub const ALL: [Refusal; 7] = [
        Refusal::NoRoom,
        Refusal::Invalid,
        Refusal::TooLong,
        Refusal::PeerGone,
        Refusal::NotMapped,
        Refusal::NoEndpoint,
        Refusal::NoMemory,
    ];
}

/// The reason why an operation has failed. Its completion carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only a part of the operation had room.
    NoRoom,
    /// The program's arguments do not match.
    Invalid,
    TooLong,
    /// The message was longer than its receive.
    Truncated,
    /// The process of the peer has ended.
    PeerGone,
    /// The message of a deferred send was not taken.
    Unreachable,
    /// The memory is not mapped, here or at the target.
    NotMapped,
    /// Outside of the registered memory, or an access without the right.
    NotPermitted,
    /// No memory is registered under the key.
    NoKey,
    Cancelled,
    /// No unexpected message matches.
    NoMessage,
    /// The NIC's tables are full.
    TablesFull,
    NoMemory,
    /// Collective operations: the group cannot carry out the operation.
    Unsupported,
    Other,
}

impl Fault {
    pub const ALL: [Fault; 15] = [
        Fault::NoRoom,
        Fault::Invalid,
        Fault::TooLong,
        Fault::Truncated,
        Fault::PeerGone,
        Fault::Unreachable,
        Fault::NotMapped,
        Fault::NotPermitted,
        Fault::NoKey,
        Fault::Cancelled,
        Fault::NoMessage,
        Fault::TablesFull,
        Fault::NoMemory,
        Fault::Unsupported,
        Fault::Other,
    ];
}
