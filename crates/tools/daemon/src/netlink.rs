// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to the kernel over netlink, and the kernel's messages about interfaces.
//!
//! The kernel answers a request before the send returns, so a request does not wait for anyone.
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Group of messages about interfaces, as a bit (`RTMGRP_LINK`).
const GROUP_LINK: u32 = 1;

/// A socket for requests.
pub struct Requests {
    socket: Socket,
    sequence: u32,
}

impl Requests {
    pub fn open() -> io::Result<Requests> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Requests { socket, sequence: 0 })
    }

    /// Changes something; `flags` beside those of each request.
    pub fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_ACK | flags).map(|_| ())
    }

    /// All objects of a kind.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.request(message, NLM_F_DUMP)
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, self.sequence);
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            for answer in messages::<RouteNetlinkMessage>(&datagram) {
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}

/// The kernel's messages about interfaces.
pub struct Events {
    socket: Socket,
}

impl Events {
    pub fn open() -> io::Result<Events> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Events { socket })
    }

    /// Reads messages until none is left. Returns whether interfaces have changed: the caller reads them anew.
    pub fn drain(&self) -> bool {
        let mut has_changed = false;
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => {
                    has_changed |= messages::<RouteNetlinkMessage>(&datagram).any(|message| {
                        let inner = match message.payload {
                            NetlinkPayload::InnerMessage(inner) => inner,
                            _ => return false,
                        };
                        matches!(inner, RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelLink(_))
                    });
                }
                // Messages were lost.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    has_changed = true;
                }
                Err(_) => return has_changed,
            }
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as `self`, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

/// The messages of a datagram. One that cannot be read is left out; a wrong length ends the list.
fn messages<I: NetlinkDeserializable + NetlinkSerializable>(
    datagram: &[u8],
) -> impl Iterator<Item = NetlinkMessage<I>> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?) as usize;
            let message = rest.get(..length).filter(|message| message.len() >= 16)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if let Ok(message) = NetlinkMessage::deserialize(message) {
                return Some(message);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lengths_end_a_datagram() {
        let count = |bytes: &[u8]| messages::<RouteNetlinkMessage>(bytes).count();
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[0; 64]), 0, "a length of 0 does not repeat for ever");
        let mut long = [0xff; 64];
        long[..4].copy_from_slice(&65u32.to_ne_bytes());
        assert_eq!(count(&long), 0);
        let mut done = [0; 20];
        done[..4].copy_from_slice(&20u32.to_ne_bytes());
        done[4..6].copy_from_slice(&3u16.to_ne_bytes());
        assert_eq!(count(&[done, done].concat()), 2);
    }

    #[test]
    fn the_loopback_interface_is_found() {
        let mut requests = Requests::open().unwrap();
        let asked = RouteNetlinkMessage::GetLink(Default::default());
        let found = requests.dump(asked).unwrap();
        assert!(found.iter().any(|each| matches!(each, RouteNetlinkMessage::NewLink(link)
            if link.header.flags.contains(netlink_packet_route::link::LinkFlags::Loopback))));
    }
}
