// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detection by an agent that the host of its parent, the launcher or another agent, has vanished.
//!
//! The channel goes through a remote shell, whose end at the agent's host notices that the other host has vanished only
//! when its TCP gives up, after some 15 minutes. So the parent listens ([`Presence`]), and each agent keeps a
//! connection that carries nothing ([`Watch`]). The kernels of the two hosts probe it. A parent that is stopped, or
//! whose output is not read, still counts as alive.
//!
//! Invariants
//! 1. The parent never accepts, reads or sends: a process that connects learns only that a port is open.
//! 2. An agent that cannot connect continues without a watch: there may be a firewall between.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, sockopt};

use super::addresses::address_towards;
use super::tree::FANOUT_MAX;

/// A process has no more children.
const WATCHES_MAX: i32 = FANOUT_MAX as i32;
/// Number of unanswered probes until the host counts as vanished.
const PROBES: u32 = 2;

/// The parent's end: one listener for each own address by which hosts reach this one.
#[derive(Default)]
pub(super) struct Presence {
    listeners: Vec<TcpListener>,
}

impl Presence {
    /// The port at which an agent at this address can watch this host.
    pub(super) fn towards(&mut self, host: IpAddr) -> io::Result<SocketAddr> {
        let own = address_towards(host)?;
        for listener in &self.listeners {
            let at = listener.local_addr()?;
            if at.ip() == own {
                return Ok(at);
            }
        }
        let listener = TcpListener::bind((own, 0))?;
        // Connections stay in the backlog.
        rustix::net::listen(&listener, WATCHES_MAX)?;
        let at = listener.local_addr()?;
        self.listeners.push(listener);
        Ok(at)
    }
}

/// An agent's end.
pub(super) struct Watch {
    socket: OwnedFd,
    is_connected: bool,
}

pub(super) enum WatchEvent {
    /// The launcher's host is alive.
    Connected,
    /// There is nothing more to watch: no connection, or the parent has closed it. The channel reports the rest.
    Ended,
    /// The host no longer answers.
    Vanished,
}

impl Watch {
    /// Begins to connect. The host counts as vanished after silence of three times `silence`.
    pub(super) fn start(at: SocketAddr, silence: Duration) -> io::Result<Watch> {
        let family = if at.is_ipv4() { rustix::net::AddressFamily::INET } else { rustix::net::AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let silence = silence.max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(&socket, silence)?;
        sockopt::set_tcp_keepintvl(&socket, silence)?;
        sockopt::set_tcp_keepcnt(&socket, PROBES)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        match rustix::net::connect(&socket, &at) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Watch { socket, is_connected: false }),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The events to poll for. Nothing is ever sent, so the socket is readable only at the connection's end.
    pub(super) fn interest(&self) -> PollFlags {
        if self.is_connected { PollFlags::IN } else { PollFlags::OUT }
    }

    pub(super) fn serve(&mut self) -> WatchEvent {
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) if !self.is_connected => {
                self.is_connected = true;
                WatchEvent::Connected
            }
            Ok(Err(error)) if !self.is_connected => {
                log::info!("this host cannot connect to its parent's, and will not notice its end: {error}");
                WatchEvent::Ended
            }
            // The parent has ended.
            Ok(Ok(()) | Err(Errno::CONNRESET | Errno::PIPE)) => WatchEvent::Ended,
            // Probes have no answer, or can no longer be sent.
            Ok(Err(_)) | Err(_) => WatchEvent::Vanished,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, poll};

    use super::*;

    fn next(watch: &mut Watch) -> WatchEvent {
        let mut polled = [PollFd::from_borrowed_fd(watch.fd(), watch.interest())];
        let limit = rustix::event::Timespec { tv_sec: 120, tv_nsec: 0 };
        assert_eq!(poll(&mut polled, Some(&limit)).expect("it waits"), 1, "nothing is seen");
        watch.serve()
    }

    #[test]
    fn a_launcher_that_never_accepts_is_there_until_it_ends() {
        let mut presence = Presence::default();
        let at = presence.towards([127, 0, 0, 1].into()).expect("it listens");
        assert_eq!(presence.towards([127, 0, 0, 1].into()).expect("it listens"), at, "one port for an address");
        let mut watches: Vec<Watch> =
            (0..300).map(|_| Watch::start(at, Duration::from_secs(5)).expect("a socket")).collect();
        watches.iter_mut().for_each(|watch| assert!(matches!(next(watch), WatchEvent::Connected)));
        drop(presence);
        watches.iter_mut().for_each(|watch| assert!(matches!(next(watch), WatchEvent::Ended)));
    }

    #[test]
    fn nobody_is_watched_where_nobody_listens() {
        let at = Presence::default().towards([127, 0, 0, 1].into()).expect("it listens");
        let mut watch = Watch::start(at, Duration::from_secs(5)).expect("a socket");
        assert!(matches!(next(&mut watch), WatchEvent::Ended));
    }
}
