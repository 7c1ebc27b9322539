// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptors that the links of a process watch: control connections, the listener and a bell, in one epoll set.
//!
//! Invariant: a connection leaves the set before it is closed. Otherwise the copy of its descriptor in a forked child
//! would stay readable in the set for ever.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::control::Control;
use crate::ids::PeerId;
use selvedge_os::forked::ParentOnly;

/// Events read by one call.
const EVENTS: usize = 32;

#[derive(Clone, Copy)]
pub(super) enum Watched {
    Listener,
    /// The connection of the link to a peer.
    Outgoing(PeerId),
    /// The connection of the link from a peer, by the link's number.
    Incoming(usize),
}

const LISTENER: u64 = 0;
const BELL: u64 = 1;

impl Watched {
    fn to_data(self) -> EventData {
        EventData::new_u64(match self {
            Watched::Listener => LISTENER,
            Watched::Outgoing(PeerId(peer)) => 1 << 32 | u64::from(peer),
            Watched::Incoming(number) => 2 << 32 | number as u64,
        })
    }

    /// Returns None for the bell.
    fn of(data: EventData) -> Option<Watched> {
        let word = data.u64();
        match word >> 32 {
            0 if word == LISTENER => Some(Watched::Listener),
            0 => None,
            1 => Some(Watched::Outgoing(PeerId(word as u32))),
            _ => Some(Watched::Incoming(word as u32 as usize)),
        }
    }
}

pub(super) struct Watch {
    set: ParentOnly<OwnedFd>,
    /// Wakes the thread.
    bell: ParentOnly<OwnedFd>,
}

impl Watch {
    pub(super) fn open(listener: &TcpListener) -> io::Result<Watch> {
        let set = ParentOnly::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let bell = ParentOnly::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let watch = Watch { set, bell };
        watch.add_listener(listener)?;
        epoll::add(&*watch.set, &*watch.bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(watch)
    }

    /// Returns the descriptor that becomes readable with events.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    pub(super) fn add_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::add(&*self.set, listener, Watched::Listener.to_data(), EventFlags::IN)?)
    }

    pub(super) fn remove_listener(&self, listener: &TcpListener) {
        let _ = epoll::delete(&*self.set, listener);
    }

    /// Waits for the events of a new connection's interest.
    pub(super) fn add(&self, control: &Control, of: Watched) {
        report(epoll::add(&*self.set, control.fd(), of.to_data(), control.interest()));
    }

    /// Waits for the events of a connection's present interest.
    pub(super) fn update(&self, control: &Control, of: Watched) {
        report(epoll::modify(&*self.set, control.fd(), of.to_data(), control.interest()));
    }

    pub(super) fn remove(&self, control: &Control) {
        let _ = epoll::delete(&*self.set, control.fd());
    }

    pub(super) fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }

    /// Calls `ready` for each connection with events, and silences the bell.
    pub(super) fn for_each_ready(&self, mut ready: impl FnMut(Watched)) {
        let mut events = [const { epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) } }; EVENTS];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&*self.set, &mut events, Some(&none)).unwrap_or(0);
        for event in &events[..count] {
            match Watched::of(event.data) {
                Some(watched) => ready(watched),
                None => drop(rustix::io::read(&*self.bell, &mut [0; 8])),
            }
        }
    }
}

fn report(result: rustix::io::Result<()>) {
    if let Err(error) = result {
        log::error!("a connection between hosts cannot be watched: {error}");
    }
}
