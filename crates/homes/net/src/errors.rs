// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of links.

use std::io;
use std::net::IpAddr;

use crate::endpoint::EndpointError;
use crate::greeting::GreetingError;

/// A packet was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The peer is lost.
    Gone,
    /// Too much waits for this link already.
    Full,
}

/// Why a link could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("it cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    #[error("its process has ended, or its host is lost")]
    Ended,
    #[error(
        "its frame {0} has not come, though later ones have; SELVEDGE_NET_CHECK=crc has frames repeated that are lost"
    )]
    Missing(u64),
    /// The user of the links has ended it ([`crate::Links::disconnect`]).
    #[error("{0}")]
    Disconnected(String),
    #[error("libfabric: {0}")]
    Endpoint(String),
}

/// Why there are no links.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot listen at {at}: {error}; SELVEDGE_NET_INTERFACE names another address of this host")]
    Listen { at: IpAddr, error: io::Error },
    #[error("links between hosts cannot be opened: {0}")]
    System(#[from] io::Error),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}
