// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why a host port is not opened, and why a message is not sent or not received.

use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;
use selvedge_process::process::ProcessError;

use super::vpids::HOST_PORTS;

/// Reason why a host port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(
        "the mailboxes of this process are too small for {0} nodes: open the ATOLL port before ports of velo2 and rma2"
    )]
    NoRoom(u16),
    #[error("no memory for {0} bytes of message buffers: raise SELVEDGE_HEAP_BYTES or the size of /dev/shm")]
    NoMemory(u64),
    #[error("host port {0} does not exist: a node has {HOST_PORTS}")]
    NoSuch(u32),
    #[error("all host ports are open, or other programs use the VPIDs of the free ones")]
    AllUsed,
}

/// Reason why a message is not sent, or not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("the handle names no connection")]
    NoHandle,
    #[error("the node does not exist")]
    NoNode,
    #[error("the peer's host port is not open")]
    NotAvailable,
    #[error("all channels are in use")]
    NoChannel,
    #[error("the route was invalidated: the peer has closed its port or has ended, or the fabric has another route")]
    Invalid,
    #[error("the message is too long")]
    Size,
    #[error("the send area has no room now")]
    NoRoom,
    #[error("matched messages that were not freed hold all slots of the peer's channel")]
    AllHeld,
    #[error("no message matches")]
    NoMessage,
    #[error("messages could not leave before the port closed, and are lost")]
    Lost,
    #[error("the wait was aborted")]
    Aborted,
    #[error("the network refuses the message: {0}")]
    Post(#[from] PostError),
}
