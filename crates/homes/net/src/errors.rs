// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of links.

use std::io;
use std::net::IpAddr;

use selvedge_os::shortage::{Need, Shortage};

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
    #[error("the process has ended, or its host is lost")]
    Ended,
    #[error(
        "its frame {0} is missing, though later ones have come; set SELVEDGE_NET_CHECK=crc to have lost frames repeated"
    )]
    Missing(u64),
    /// The user of the links ended it ([`crate::Links::disconnect`]).
    #[error("{0}")]
    Disconnected(String),
    #[error("libfabric: {0}")]
    Endpoint(String),
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
