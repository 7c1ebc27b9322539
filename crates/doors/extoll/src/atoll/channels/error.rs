// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why a host port is not opened, and why a message is not sent or not received.

use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::PostError;
use selvedge_process::process::ProcessError;

use super::vpids::HOST_PORTS;

/// The reason why a host port cannot be opened.
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
    #[error(
        "there is no memory for {0} bytes of message buffers: SELVEDGE_HEAP_BYTES limits it, and the size of /dev/shm"
    )]
    NoMemory(u64),
    #[error("there is no host port {0}: a node has {HOST_PORTS}")]
    NoSuch(u32),
    #[error("all host ports are open, or the VPIDs of the free ones are used by others")]
    AllUsed,
}

/// The reason why a message is not sent, or not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("the handle is of no connection")]
    NoHandle,
    #[error("there is no such node")]
    NoNode,
    #[error("the peer's host port is not open")]
    NotAvailable,
    #[error("all channels are in use")]
    NoChannel,
    #[error("the route was invalidated: the peer has closed its port, or has ended")]
    Invalid,
    #[error("the message is too long")]
    Size,
    #[error("the send area has no room now")]
    NoRoom,
    #[error("all slots of the peer's channel hold messages that were matched and not freed")]
    AllHeld,
    #[error("there is no message")]
    NoMessage,
    #[error("messages that were sent have not left, and are lost")]
    Lost,
    #[error("the wait was aborted")]
    Aborted,
    #[error("the network refuses the message: {0}")]
    Post(#[from] PostError),
}
