// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets of the ports: frames are UDP datagrams to a link-local multicast group, so they cross one cable and no
//! router, and their source is the neighbour's link-local address, which is the next hop of routes.
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The group of all daemons on a cable, of link-local scope.
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x5356, 0x666d);
/// The UDP port of the daemons' frames.
pub const FRAMES: u16 = 7391;
/// The UDP port of tests of a cable.
pub const TESTS: u16 = 7392;
/// Datagrams of one port that are read in a row.
const BATCH: usize = 64;

struct Open {
    socket: UdpSocket,
    index: u32,
}

/// A socket for each port with an interface.
pub struct Sockets {
    udp_port: u16,
    bytes_max: usize,
    open: BTreeMap<u16, Open>,
}

impl Sockets {
    /// Sockets at a UDP port of all daemons, which take datagrams of at most so many bytes. Those of [`TESTS`] have no
    /// checksum, so that damaged datagrams come through.
    pub fn new(udp_port: u16, bytes_max: usize) -> Sockets {
        Sockets { udp_port, bytes_max, open: BTreeMap::new() }
    }

    /// Opens the socket of a port, unless it is open at this interface.
    pub fn open(&mut self, port: u16, index: u32) -> io::Result<()> {
        if self.open.get(&port).is_some_and(|open| open.index == index) {
            return Ok(());
        }
        self.open.remove(&port);
        let socket = UdpSocket::bind(SocketAddrV6::new(GROUP, self.udp_port, 0, index))?;
        socket.join_multicast_v6(&GROUP, index)?;
        socket.set_multicast_loop_v6(false)?;
        socket.set_nonblocking(true)?;
        if self.udp_port == TESTS {
            without_checksum(&socket)?;
        }
        self.open.insert(port, Open { socket, index });
        Ok(())
    }

    pub fn close(&mut self, port: u16) {
        self.open.remove(&port);
    }

    pub fn send(&self, port: u16, datagram: &[u8]) -> io::Result<()> {
        let Some(open) = self.open.get(&port) else { return Err(io::ErrorKind::NotConnected.into()) };
        open.socket.send_to(datagram, SocketAddrV6::new(GROUP, self.udp_port, 0, open.index)).map(|_| ())
    }

    /// Datagrams that have arrived at a port, with the neighbour's address. The rest is left for the next call.
    pub fn receive(&self, port: u16) -> Vec<(Vec<u8>, Ipv6Addr)> {
        let Some(open) = self.open.get(&port) else { return Vec::new() };
        let mut arrived = Vec::new();
        let mut buffer = vec![0; self.bytes_max + 1];
        for _ in 0..BATCH {
            let (bytes, from) = match open.socket.recv_from(&mut buffer) {
                Ok((bytes, SocketAddr::V6(from))) => (bytes, *from.ip()),
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An error of an earlier send.
                Err(_) => continue,
            };
            // One that is too long arrives cut, and its reader refuses it.
            if from.is_unicast_link_local() {
                arrived.push((buffer[..bytes].to_vec(), from));
            }
        }
        arrived
    }

    pub fn descriptors(&self) -> impl Iterator<Item = (u16, BorrowedFd<'_>)> {
        self.open.iter().map(|(&port, open)| (port, open.socket.as_fd()))
    }
}

/// Sends and takes datagrams without a checksum (RFC 6935): the receiver finds damage, and counts it.
fn without_checksum(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    for option in [libc::UDP_NO_CHECK6_TX, libc::UDP_NO_CHECK6_RX] {
        // SAFETY: the kernel reads an int from `on`, which lives across the call.
        let done = unsafe {
            let bytes = size_of_val(&on) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, (&raw const on).cast(), bytes)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
