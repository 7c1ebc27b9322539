// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets of the ports: frames are UDP datagrams to a link-local multicast group, so they cross one cable and no
//! router, and their source is the neighbour's link-local address, which is the next hop of routes.
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::seal::DATAGRAM_BYTES_MAX;

/// The group of all daemons on a cable, of link-local scope.
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x5356, 0x666d);
/// The UDP port of all daemons.
const PORT: u16 = 7391;
/// Datagrams of one port that are read in a row.
const BATCH: usize = 64;

struct Open {
    socket: UdpSocket,
    index: u32,
}

/// A socket for each port with an interface.
#[derive(Default)]
pub struct Sockets {
    open: BTreeMap<u16, Open>,
}

impl Sockets {
    /// Opens the socket of a port, unless it is open at this interface.
    pub fn open(&mut self, port: u16, index: u32) -> io::Result<()> {
        if self.open.get(&port).is_some_and(|open| open.index == index) {
            return Ok(());
        }
        self.open.remove(&port);
        let socket = UdpSocket::bind(SocketAddrV6::new(GROUP, PORT, 0, index))?;
        socket.join_multicast_v6(&GROUP, index)?;
        socket.set_multicast_loop_v6(false)?;
        socket.set_nonblocking(true)?;
        self.open.insert(port, Open { socket, index });
        Ok(())
    }

    pub fn close(&mut self, port: u16) {
        self.open.remove(&port);
    }

    pub fn send(&self, port: u16, datagram: &[u8]) -> io::Result<()> {
        let Some(open) = self.open.get(&port) else { return Err(io::ErrorKind::NotConnected.into()) };
        open.socket.send_to(datagram, SocketAddrV6::new(GROUP, PORT, 0, open.index)).map(|_| ())
    }

    /// Datagrams that have arrived at a port, with the neighbour's address. The rest is left for the next call.
    pub fn receive(&self, port: u16) -> Vec<(Vec<u8>, Ipv6Addr)> {
        let Some(open) = self.open.get(&port) else { return Vec::new() };
        let mut arrived = Vec::new();
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        for _ in 0..BATCH {
            let (bytes, from) = match open.socket.recv_from(&mut buffer) {
                Ok((bytes, SocketAddr::V6(from))) => (bytes, *from.ip()),
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An error of an earlier send.
                Err(_) => continue,
            };
            if bytes <= DATAGRAM_BYTES_MAX && from.is_unicast_link_local() {
                arrived.push((buffer[..bytes].to_vec(), from));
            }
        }
        arrived
    }

    pub fn descriptors(&self) -> impl Iterator<Item = (u16, BorrowedFd<'_>)> {
        self.open.iter().map(|(&port, open)| (port, open.socket.as_fd()))
    }
}
