// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for which the page is not served.
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::users::UsersError;

/// Reasons for which the page is not served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error("{address}: {error}; give another address and port")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("{0}: without HTTPS the page is served on loopback addresses only, such as 127.0.0.1:7392")]
    PlainAddress(SocketAddr),
    #[error("{0}: this page is served on loopback addresses only; reach it by `ssh -L`")]
    WatchAddress(SocketAddr),
    #[error("{}: {reason}", .path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("the page's thread: {0}")]
    Thread(io::Error),
}
