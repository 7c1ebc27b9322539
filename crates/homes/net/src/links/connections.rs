// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How links are made and end: the control connections of a process, in one epoll set.
//!
//! Invariant: a connection leaves the set before it is closed. A forked child may hold a copy of its descriptor, which would stay
//! readable there for ever.

use std::io::ErrorKind;
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Links, OpenError, PeerId, State, Turn, fill_random};
use crate::control::Control;
use crate::faults::FaultyNetwork;
use crate::greeting::{Answer, GreetingError, NO_HOST};
use crate::incoming::{Incoming, LAST_FRAMES, Proven};
use crate::outgoing::LinkError;

/// Connections that have not proved themselves, at most. Further ones are closed.
const UNPROVEN_MAX: usize = 256;
/// How long connections wait when this process has no descriptor for them.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Events of control connections that are read at once.
const CONTROL_EVENTS: usize = 32;

/// What a descriptor in the epoll set belongs to.
#[derive(Clone, Copy)]
pub(super) enum Token {
    Listener,
    Bell,
    Outgoing(PeerId),
    Incoming(usize),
}

impl Token {
    pub(super) fn to_data(self) -> EventData {
        EventData::new_u64(match self {
            Token::Listener => 0,
            Token::Bell => 1,
            Token::Outgoing(PeerId(peer)) => 1 << 32 | u64::from(peer),
            Token::Incoming(number) => 2 << 32 | number as u64,
        })
    }

    fn of(data: EventData) -> Token {
        let word = data.u64();
        match word >> 32 {
            0 if word == 0 => Token::Listener,
            0 => Token::Bell,
            1 => Token::Outgoing(PeerId(word as u32)),
            _ => Token::Incoming(word as u32 as usize),
        }
    }
}

impl Links {
    /// Waits for the events that a connection is interested in.
    pub(super) fn watch(&self, control: Option<&Control>, token: Token, is_new: bool) {
        let Some(control) = control else { return };
        let result = match is_new {
            true => epoll::add(&*self.control, control.fd(), token.to_data(), control.interest()),
            false => epoll::modify(&*self.control, control.fd(), token.to_data(), control.interest()),
        };
        if let Err(error) = result {
            log::error!("a connection between hosts is not watched: {error}");
        }
    }

    /// Goes on with greetings, and finds peers that have ended. Never blocks.
    pub(crate) fn advance_control(&self, turn: &mut Turn) {
        let mut events =
            [const { epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) } }; CONTROL_EVENTS];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&*self.control, &mut events, Some(&none)).unwrap_or(0);
        for event in &events[..count] {
            match Token::of(event.data) {
                Token::Listener => self.accept(turn),
                Token::Bell => {
                    let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
                }
                Token::Outgoing(peer) => self.advance_outgoing(peer),
                Token::Incoming(number) => self.advance_incoming(turn, number),
            }
        }
        self.check_times(turn);
    }

    fn accept(&self, turn: &mut Turn) {
        loop {
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => return self.stop_accepting(turn, &error),
                },
            };
            let mut nonce = [0; 32];
            let made = fill_random(&mut nonce).and_then(|()| Control::accepted(stream, self.settings.timeout));
            let control = match made {
                Ok(control) => control,
                Err(error) => {
                    log::warn!("a connection of {from} was not taken: {error}");
                    continue;
                }
            };
            if turn.incoming.iter().flatten().filter(|incoming| incoming.is_unproven()).count() >= UNPROVEN_MAX {
                log::warn!("a connection of {from} was closed: too many have not said who they are");
                continue;
            }
            let free = turn.incoming.iter().position(Option::is_none);
            let number = free.unwrap_or_else(|| {
                turn.incoming.push(None);
                turn.incoming.len() - 1
            });
            let incoming = Incoming::new(control, nonce);
            self.watch(Some(incoming.control()), Token::Incoming(number), true);
            turn.incoming[number] = Some(incoming);
            self.advance_incoming(turn, number);
        }
    }

    /// Leaves connections to wait for a while: most likely this process has no descriptor for them now. The listener stays readable.
    fn stop_accepting(&self, turn: &mut Turn, why: &std::io::Error) {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            log::warn!("connections of other hosts wait, because this process cannot accept them: {why}; `ulimit -n` is its limit");
        });
        turn.refuses_since = Some(Instant::now());
        let _ = epoll::delete(&*self.control, &*self.listener);
    }

    fn accept_again(&self, turn: &mut Turn) {
        if turn.refuses_since.take_if(|since| since.elapsed() > ACCEPT_AGAIN_AFTER).is_some() {
            if let Err(error) = epoll::add(&*self.control, &*self.listener, Token::Listener.to_data(), EventFlags::IN) {
                log::error!("this process accepts no more connections: {error}");
            }
        }
    }

    fn advance_incoming(&self, turn: &mut Turn, number: usize) {
        let Some(Some(incoming)) = turn.incoming.get_mut(number) else { return };
        let admit = |Proven { address, nid, provider }| {
            let refused = |why: OpenError| {
                log::error!("a link was not taken: {why}");
                GreetingError::NotReady(why.to_string())
            };
            let mut key = [0; 8];
            fill_random(&mut key).map_err(|error| refused(error.into()))?;
            let mut state = self.lock();
            self.open_endpoint(&mut state).map_err(|error| refused(error.into()))?;
            // None: this process is about to end.
            let own = state.endpoint.as_ref().ok_or(GreetingError::Ended)?;
            if provider != own.provider() {
                return Err(GreetingError::Provider { ours: own.provider().to_owned(), theirs: provider });
            }
            let endpoint = own.name().map_err(|error| refused(error.into()))?;
            let known = state.numbers.get(&address).map(|peer| state.peers[peer.0 as usize].nid);
            if let Some(known) = known.filter(|&known| known != NO_HOST && known != nid) {
                return Err(GreetingError::Host { claimed: nid, known });
            }
            let peer = state.number(address, nid);
            Ok((peer, Answer { link: number as u32, key: u64::from_le_bytes(key), endpoint }))
        };
        let result = incoming.advance(self.address.token(), &self.settings, admit);
        match result {
            // An end stays readable: it is watched no longer, only timed.
            Ok(()) if incoming.has_ended() => drop(epoll::delete(&*self.control, incoming.control().fd())),
            Ok(()) => self.watch(Some(incoming.control()), Token::Incoming(number), false),
            Err(why) => {
                let level = if why == GreetingError::Ended { log::Level::Info } else { log::Level::Warn };
                log::log!(level, "a connection to this process ended: {why}");
                let peer = incoming.peer();
                self.drop_incoming(turn, number);
                if let Some(peer) = peer {
                    self.lose(self.lock(), peer, &LinkError::Greeting(why));
                }
            }
        }
    }

    /// Closes a connection. A copy of it may be open in a forked child, so it is taken out of the set first.
    pub(super) fn drop_incoming(&self, turn: &mut Turn, number: usize) {
        if let Some(mut incoming) = turn.incoming[number].take() {
            if let Some((peer, reads)) = incoming.peer().zip(incoming.reads()) {
                self.abandon_placed(peer, reads);
            }
            let _ = epoll::delete(&*self.control, incoming.control().fd());
            self.give_back(incoming.into_held());
        }
    }

    fn advance_outgoing(&self, peer: PeerId) {
        let mut state = self.lock();
        let State { endpoint: Some(endpoint), peers, .. } = &mut *state else { return };
        let Some(target) = peers.get_mut(peer.0 as usize) else { return };
        let nonce = || {
            let mut nonce = [0; 32];
            // Without randomness the receiver's nonce still makes the greeting fresh.
            let _ = fill_random(&mut nonce);
            nonce
        };
        match target.outgoing.advance(&target.address, &self.address, &self.settings, endpoint, nonce) {
            Ok(()) => {
                self.watch(target.outgoing.control(), Token::Outgoing(peer), false);
                state.note_busy(peer);
            }
            // Its last frames may still come.
            Err(LinkError::Ended) if target.outgoing.destination().is_some() => {
                if let Some(control) = target.outgoing.control() {
                    let _ = epoll::delete(&*self.control, control.fd());
                }
                target.ended.get_or_insert_with(Instant::now);
            }
            Err(error) => self.lose(state, peer, &error),
        }
    }

    /// Ends what has taken too long, and peers whose last frames have come.
    fn check_times(&self, turn: &mut Turn) {
        self.accept_again(turn);
        let (mut over, mut missing, now) = (Vec::new(), Vec::new(), Instant::now());
        for number in 0..turn.incoming.len() {
            let Some(incoming) = &mut turn.incoming[number] else { continue };
            incoming.speak(now);
            let is_lost = incoming.peer().is_some_and(|peer| self.is_lost(peer));
            missing.extend(incoming.peer().zip(incoming.misses(self.settings.timeout)));
            if incoming.is_over() {
                over.extend(incoming.peer());
                self.drop_incoming(turn, number);
            } else if is_lost || incoming.is_stale() {
                self.drop_incoming(turn, number);
            }
        }
        let has_incoming = |peer| turn.incoming.iter().flatten().any(|incoming| incoming.peer() == Some(peer));
        {
            let mut state = self.lock();
            let mut repeats = Vec::new();
            for (number, peer) in state.peers.iter_mut().enumerate() {
                let id = PeerId(number as u32);
                if peer.outgoing.look_at_time(now) {
                    repeats.push(id);
                }
                let is_due = peer.ended.is_some_and(|at| at.elapsed() > LAST_FRAMES);
                if is_due && !peer.is_lost && !has_incoming(id) {
                    over.push(id);
                }
            }
            repeats.into_iter().for_each(|peer| state.note_busy(peer));
        }
        for peer in over {
            self.lose(self.lock(), peer, &LinkError::Ended);
        }
        for (peer, number) in missing {
            self.lose(self.lock(), peer, &LinkError::Missing(number));
        }
    }

    /// Whether control connections wait for time to pass.
    pub(crate) fn waits_for_time(&self, turn: &Turn) -> bool {
        let state = self.lock();
        !state.busy.is_empty()
            || state.peers.iter().any(|peer| peer.ended.is_some() && !peer.is_lost || peer.outgoing.waits_for_word())
            || turn.faulty.as_ref().is_some_and(FaultyNetwork::holds_frames)
            || turn.incoming.iter().flatten().any(Incoming::waits_for_time)
    }
}
