// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of opening a NIC, of starting an operation, of accepting a packet; ends of waits.

use crate::segment::SegmentError;
use selvedge_os::mapping::MapError;
use selvedge_os::shortage::Shortage;

/// Reasons for which an interface was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no descriptor, space, address space or permission for the NIC.
    #[error("no room for the NIC: {0}")]
    Shortage(Shortage),
    /// The NIC is larger than its limits allow.
    #[error("no room for the NIC: {0}")]
    NoSpace(SegmentError),
    #[error(transparent)]
    Segment(SegmentError),
}

impl From<SegmentError> for OpenError {
    fn from(error: SegmentError) -> OpenError {
        match error {
            SegmentError::Map(MapError::Shortage(shortage)) => OpenError::Shortage(shortage),
            SegmentError::Map(MapError::TooLarge { .. }) => OpenError::NoSpace(error),
            other => OpenError::Segment(other),
        }
    }
}

/// Reasons for which an operation was not started. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The descriptor's memory is not mapped.
    Memory,
    /// There is no room for the pending request, or, with [`crate::Interface::start_now`], none in the ring at the
    /// target. There may be later.
    NoSpace,
    /// There is no descriptor, or no space in the job's directory, for the way to the target, or for the payload. The
    /// reason was printed.
    Shortage,
}

/// Reasons for which a packet was not accepted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The ring has no room now.
    Full,
    /// The owner has ended or closed its NIC.
    Gone,
    /// There is no descriptor, or no space in the job's directory, for a ring or for the payload. The reason was
    /// printed.
    Shortage,
}

/// Reasons for which a wait ended before its poll found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    TimedOut,
    Aborted,
    /// The interface was closed, or the object of the wait was freed.
    Closed,
}
