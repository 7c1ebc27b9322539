// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why active messages are not available, and why a message is refused.

use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;
use selvedge_process::process::ProcessError;

/// Reason why active messages are not available.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(
        "this process's EXTOLL mailboxes are too small for {0} nodes: call gasnet_init before velo2_open and rma2_open"
    )]
    NoRoom(u16),
    #[error("no memory for a segment of {0} bytes: raise SELVEDGE_HEAP_BYTES or the size of /dev/shm")]
    NoMemory(u64),
    #[error("the segment is attached already")]
    Attached,
}

/// Reason why a message is refused. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("node {node} does not exist: the job has {nodes} nodes, numbered from 0")]
    NoNode { node: u32, nodes: u16 },
    #[error("call gasnet_attach before the first message")]
    NotAttached,
    #[error("node {node} has registered no handler {handler}: add it to the table of its gasnet_attach")]
    NoHandler { node: u16, handler: u8 },
    #[error("the payload of {bytes} bytes exceeds the limit of {most}: send it in pieces")]
    TooLong { bytes: u64, most: u64 },
    #[error(
        "{bytes} bytes at {start:#x} are not within the segment of node {node}: gasnet_getSegmentInfo returns its range"
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
