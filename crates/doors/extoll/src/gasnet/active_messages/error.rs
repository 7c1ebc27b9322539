// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why active messages are not available, and why a message is refused.

use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;
use selvedge_process::process::ProcessError;

/// The reason why active messages are not available.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(
        "the EXTOLL units of this process were opened with too small mailboxes for {0} nodes: call gasnet_init before velo2_open and rma2_open"
    )]
    NoRoom(u16),
    #[error("there is no memory for a segment of {0} bytes: SELVEDGE_HEAP_BYTES limits it, and the size of /dev/shm")]
    NoMemory(u64),
    #[error("the segment is attached already")]
    Attached,
}

/// The reason why a message is refused. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("node {node} does not exist: the job has {nodes} nodes, numbered from 0")]
    NoNode { node: u32, nodes: u16 },
    #[error("gasnet_attach comes before the first message")]
    NotAttached,
    #[error("node {node} has registered no handler {handler}: add it to the table of its gasnet_attach")]
    NoHandler { node: u16, handler: u8 },
    #[error("the payload of {bytes} bytes is longer than the longest, {most}: send it in pieces")]
    TooLong { bytes: u64, most: u64 },
    #[error(
        "{bytes} bytes at {start:#x} are not within the segment of node {node}: gasnet_getSegmentInfo tells where it is"
    )]
    OutsideSegment { node: u16, start: u64, bytes: u64 },
    #[error("the payload cannot be read: {0}")]
    Source(DeviceError),
    #[error("the request was answered already: a handler replies at most once")]
    Replied,
    #[error("this is the handler of a reply, and replies are not answered")]
    IsReply,
    #[error("the message cannot be sent: {0}")]
    Post(#[from] PostError),
    #[error("the wait was aborted")]
    Aborted,
}
