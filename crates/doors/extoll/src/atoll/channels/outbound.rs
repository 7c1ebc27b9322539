// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender's end of a channel, and the answers to its lock requests.

use selvedge_nic::rma::{LockResult, Notification};
use selvedge_nic::velo::Endpoint;

use super::wire::Route;
use selvedge_process::fabric::Lease;

/// A connection's handle, as programs see it.
pub type Handle = u32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub from: Endpoint,
    pub number: u32,
    /// `None`: the request was refused, because the port is not open.
    pub result: Option<LockResult>,
}

impl Answer {
    pub fn of(notification: &Notification) -> Answer {
        let word = notification.word0;
        let result = LockResult { value: (word >> 32) as i32, success: word >> 24 & 1 != 0 };
        Answer {
            from: Endpoint { node: notification.node, vpid: notification.vpid.into() },
            number: word as u32 & 0xff_ffff,
            result: (notification.error == 0).then_some(result),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// The peer has closed its port, or its route was withdrawn.
    Invalid,
}

pub(super) struct Outbound {
    pub handle: Handle,
    pub destination: Endpoint,
    /// Number of the target's host port.
    pub number: u8,
    pub link: usize,
    pub route: Route,
    /// Free credits, and all credits.
    pub credits: u64,
    pub all: u64,
    /// The channel's first slot at the target.
    pub slots_nla: u64,
    pub uses: u32,
    pub state: State,
    /// The route that the daemon of the fabric has handed out, if one runs here and the peer is on another host.
    pub lease: Option<Lease>,
}
