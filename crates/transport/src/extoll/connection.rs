// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands and messages from one port of this node to ports of other nodes.
//!
//! Invariants
//! 1. A command whose local memory is not contiguous is cut where it breaks. The last piece alone writes the notifications that
//!    the command asks for, unless it asks for one of each piece. The target checks each piece for itself.
//! 2. A command that the requester refuses returns no error: its program finds an error notification, as with hardware. It is
//!    refused before its first piece is sent.

use selvedge_nic::NoMemory;
use selvedge_nic::rma::{Descriptor, Operation, RequestError, Requester, modifier};
use selvedge_nic::velo::Outgoing;
use selvedge_shm::StartError;

use super::Device;

/// Why a command was not posted, or a message not sent. Nothing has changed, except that earlier pieces of a command that was cut are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    #[error("the port is not open")]
    NotOpen,
    #[error("there is no room for the command now")]
    Full,
    #[error("the memory is not mapped")]
    Memory,
    #[error("the node has not opened its units")]
    NoNode,
    #[error("the message is empty, or longer than the longest")]
    Length,
}

/// What became of a command that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    Started,
    /// The requester has refused it. Its port has the error notification.
    Refused,
}

impl Device {
    /// Posts a command of a port. `options` are those of the connection.
    pub fn post(&self, vpid: u16, options: u32, descriptor: &Descriptor) -> Result<Posted, PostError> {
        let from = Requester {
            node: self.node(),
            vpid,
            options,
            prototype: false,
            target: Device::target_of(descriptor.node),
            uid: 0,
        };
        let mut rest = *descriptor;
        loop {
            // The guard ends here: what follows locks the NIC again.
            let made = self.interface().lock().rma_request(&mut NoMemory, &from, &rest);
            let command = match made {
                Ok(command) => command,
                Err(RequestError::Refused) => return Ok(Posted::Refused),
                Err(RequestError::Closed) => return Err(PostError::NotOpen),
                Err(RequestError::Cut(bytes)) => {
                    let (first, second) = cut(&rest, bytes);
                    if self.post(vpid, options, &first)? == Posted::Refused {
                        return Ok(Posted::Refused);
                    }
                    rest = second;
                    continue;
                }
            };
            return self.interface().start(&command).map(|()| Posted::Started).map_err(|error| match error {
                StartError::NoSpace => PostError::Full,
                StartError::Memory => PostError::Memory,
            });
        }
    }
}

impl Device {
    /// Sends a message of a port. The payload has been read when it returns. [`PostError::Full`]: the destination's mailbox has no
    /// room.
    pub fn send(&self, message: &Outgoing) -> Result<(), PostError> {
        let command = message.command().ok_or(PostError::Length)?;
        if !self.interface().has_peer(message.target) {
            return Err(PostError::NoNode);
        }
        self.interface().start_now(&command).map_err(|error| match error {
            StartError::NoSpace => PostError::Full,
            StartError::Memory => PostError::Memory,
        })?;
        if let Some(port) = self.interface().signals().port_pointers.get(usize::from(message.source.vpid)) {
            port.count_sent();
        }
        Ok(())
    }
}

/// A put or get in two pieces, of which the first has so many bytes.
fn cut(whole: &Descriptor, bytes_first: u32) -> (Descriptor, Descriptor) {
    let quiet = whole.modifiers & modifier::NTR == 0;
    let (mut first, mut second) = (*whole, *whole);
    if quiet {
        first.spec = 0;
    }
    let split = |read: u64, write: u64, bytes: u32| {
        let by = u64::from(bytes_first);
        ((read, write, bytes_first), (read.wrapping_add(by), write.wrapping_add(by), bytes.saturating_sub(bytes_first)))
    };
    match whole.operation {
        Operation::Put { read, write, bytes } => {
            let (a, b) = split(read, write, bytes);
            first.operation = Operation::Put { read: a.0, write: a.1, bytes: a.2 };
            second.operation = Operation::Put { read: b.0, write: b.1, bytes: b.2 };
        }
        Operation::Get { read, write, bytes } => {
            let (a, b) = split(read, write, bytes);
            first.operation = Operation::Get { read: a.0, write: a.1, bytes: a.2 };
            second.operation = Operation::Get { read: b.0, write: b.1, bytes: b.2 };
        }
        // Other commands have no local memory.
        _ => {}
    }
    (first, second)
}
