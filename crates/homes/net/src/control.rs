// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control connections: non-blocking TCP. They carry the greeting of a link, then a few messages
//! ([`crate::control_message`]). When a connection ends, its peer is lost. The kernel probes silent connections, so a
//! lost host or a cut cable ends them too.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::greeting::{self, GreetingError, LENGTH_BYTES};
use selvedge_os::forked::ParentOnly;

/// Limit of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens at an address of this host, at a port that the kernel chooses.
pub fn listen(at: IpAddr) -> io::Result<TcpListener> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(at, 0))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A connection.
pub struct Control {
    stream: ParentOnly<TcpStream>,
    is_connecting: bool,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

/// The end of a connection.
#[derive(Debug)]
pub enum Disconnect {
    /// The other side has closed it, or its process has ended.
    Closed,
    Failed(io::Error),
}

impl Control {
    /// Begins to connect, from an address of this host.
    pub fn connect(from: IpAddr, to: SocketAddr, timeout: Duration) -> io::Result<Control> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        probe_silence(&socket, timeout)?;
        if from.is_ipv4() == to.is_ipv4() {
            rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
        }
        let is_connecting = match rustix::net::connect(&socket, &to) {
            Ok(()) => false,
            Err(Errno::INPROGRESS) => true,
            Err(error) => return Err(error.into()),
        };
        let stream = ParentOnly::new(socket.into());
        Ok(Control { stream, is_connecting, incoming: Vec::new(), outgoing: Vec::new() })
    }

    /// Wraps a connection that the listener accepted.
    pub fn accepted(stream: TcpStream, timeout: Duration) -> io::Result<Control> {
        stream.set_nonblocking(true)?;
        probe_silence(&stream, timeout)?;
        Ok(Control {
            stream: ParentOnly::new(stream),
            is_connecting: false,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// Returns the other side's address; None if the connection has ended.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|from| from.ip().to_canonical())
    }

    /// Returns the kernel's smoothed round trip of the connection; None if it is not known.
    pub fn round_trip(&self) -> Option<Duration> {
        // SAFETY: the structure consists of integers, for which zeroes are valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&self.fd());
        // SAFETY: the descriptor is open, and the kernel writes at most `bytes` bytes to the structure.
        let told = unsafe {
            libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut bytes)
        };
        (told == 0 && info.tcpi_rtt != 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns the events to wait for.
    pub fn interest(&self) -> EventFlags {
        match self.is_connecting || !self.outgoing.is_empty() {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        }
    }

    /// Queues a message.
    pub fn send(&mut self, message: &[u8]) {
        self.outgoing.extend_from_slice(message);
    }

    /// Whether queued bytes are unsent.
    pub fn has_to_send(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends queued bytes on an open connection, as far as possible.
    pub fn send_now(&mut self) -> Result<(), Disconnect> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Disconnect::Failed(error)),
            }
        }
        Ok(())
    }

    /// Sends and receives as far as possible.
    pub fn advance(&mut self) -> Result<(), Disconnect> {
        if self.is_connecting {
            if let Err(error) = sockopt::socket_error(&*self.stream).map_err(Disconnect::from)? {
                return Err(error.into());
            }
            match self.stream.peer_addr() {
                Ok(_) => self.is_connecting = false,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(Disconnect::Failed(error)),
            }
        }
        self.send_now()?;
        let mut chunk = [0; 4096];
        while self.incoming.len() < LENGTH_BYTES + greeting::MESSAGE_BYTES_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Disconnect::Closed),
                Ok(count) => self.incoming.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Disconnect::Failed(error)),
            }
        }
        Ok(())
    }

    /// Returns the next whole message, without its length.
    pub fn take_message(&mut self) -> Result<Option<Vec<u8>>, GreetingError> {
        let Some(length) = greeting::length_of(&self.incoming) else { return Ok(None) };
        let end = LENGTH_BYTES + length?;
        if self.incoming.len() < end {
            return Ok(None);
        }
        let mut message: Vec<u8> = self.incoming.drain(..end).collect();
        message.drain(..LENGTH_BYTES);
        Ok(Some(message))
    }
}

impl Disconnect {
    /// Whether the other side has closed a connection that was made.
    pub fn is_by_peer(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match self {
            Disconnect::Closed => true,
            Disconnect::Failed(error) => matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset),
        }
    }
}

impl From<Errno> for Disconnect {
    fn from(error: Errno) -> Disconnect {
        Disconnect::Failed(error.into())
    }
}

/// Lets the kernel probe the connection. It ends when the other side is silent and answers no probe for `timeout`.
pub(crate) fn probe_silence(socket: &impl AsFd, timeout: Duration) -> io::Result<()> {
    let step = Duration::from_secs((timeout.as_secs() / 3).max(1));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, step)?;
    sockopt::set_tcp_keepintvl(socket, step)?;
    sockopt::set_tcp_keepcnt(socket, 2)?;
    sockopt::set_tcp_user_timeout(socket, timeout.as_millis().try_into().unwrap_or(u32::MAX))?;
    sockopt::set_tcp_nodelay(socket, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn pair() -> (Control, Control) {
        let listener = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        let ours = Control::connect(Ipv4Addr::LOCALHOST.into(), listener.local_addr().expect("bound"), TIMEOUT)
            .expect("begun");
        let theirs = loop {
            match listener.accept() {
                Ok((stream, _)) => break Control::accepted(stream, TIMEOUT).expect("set"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        (ours, theirs)
    }

    #[test]
    fn messages_are_whole_and_an_end_is_seen() {
        let (mut ours, mut theirs) = pair();
        theirs.send(&[2, 0, 0, 0, 7, 8, 1, 0, 0]);
        let first = loop {
            theirs.advance().expect("open");
            ours.advance().expect("open");
            if let Some(message) = ours.take_message().expect("in range") {
                break message;
            }
        };
        assert_eq!(first, [7, 8]);
        assert_eq!(ours.take_message(), Ok(None), "the second is not whole");
        drop(theirs);
        loop {
            if let Err(end) = ours.advance() {
                assert!(matches!(end, Disconnect::Closed), "{end:?}");
                break;
            }
        }
    }

    #[test]
    fn nobody_listens() {
        let listener = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        let at = listener.local_addr().expect("bound");
        drop(listener);
        let refused = match Control::connect(Ipv4Addr::LOCALHOST.into(), at, TIMEOUT) {
            Err(error) => error,
            Ok(mut control) => loop {
                match control.advance() {
                    Ok(()) => {}
                    Err(Disconnect::Failed(error)) => break error,
                    Err(Disconnect::Closed) => panic!("it was never open"),
                }
            },
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
