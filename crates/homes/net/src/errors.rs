// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of links.

use std::io;
use std::net::IpAddr;

use selvedge_host::backend::Loss;
use selvedge_os::shortage::{Need, Shortage};

use crate::control::Disconnect;
use crate::endpoint::EndpointError;
use crate::greeting::GreetingError;

/// Reasons for which a packet was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The peer is lost.
    Gone,
    /// Too many bytes wait for this link.
    Full,
}

/// Reasons for which a link could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("cannot connect: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// The peer has announced its end.
    #[error("its process has ended")]
    Ended,
    #[error(
        "its connection has closed, and it has not announced its end: it was killed, or has \
             lost this process"
    )]
    Vanished,
    /// The kernel of the peer's host acknowledges nothing.
    #[error("its host does not answer: {0}")]
    Silent(io::Error),
    #[error("its frame {0} is missing, though it was sent; set SELVEDGE_NET_CHECK=crc to have lost frames repeated")]
    Missing(u64),
    /// A frame of a link without a check.
    #[error("a frame is damaged: {0}; set SELVEDGE_NET_CHECK=crc to have such frames sent again")]
    Damaged(String),
    /// The user of the links ended it ([`crate::Links::disconnect`]).
    #[error("{0}")]
    Disconnected(String),
    #[error("libfabric: {0}")]
    Endpoint(String),
}

impl LinkError {
    /// Returns the reason for which an open link's control connection has ended. `is_announced`: the peer has announced
    /// its end on it.
    pub(crate) fn of_end(end: Disconnect, is_announced: bool) -> LinkError {
        match end {
            _ if is_announced => LinkError::Ended,
            end if end.is_by_peer() => LinkError::Vanished,
            Disconnect::Failed(error) => LinkError::Silent(error),
            Disconnect::Closed => LinkError::Vanished,
        }
    }

    /// Whether the control connection of an open link has ended, and the peer's last frames may still come.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, LinkError::Ended | LinkError::Vanished | LinkError::Silent(_))
    }
}

/// Reasons for which links could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot listen at {at}: {error}; set SELVEDGE_NET_INTERFACE to another address of this host")]
    Listen { at: IpAddr, error: io::Error },
    #[error("cannot open links between hosts: {0}")]
    System(io::Error),
    /// There is no descriptor, thread or memory for them.
    #[error(transparent)]
    Shortage(Shortage),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match Shortage::of_io(&error, Need::Object("links between hosts")) {
            Some(shortage) => OpenError::Shortage(shortage),
            None => OpenError::System(error),
        }
    }
}

impl From<&LinkError> for Loss {
    fn from(why: &LinkError) -> Loss {
        Loss { is_orderly: matches!(why, LinkError::Ended), why: why.to_string() }
    }
}
