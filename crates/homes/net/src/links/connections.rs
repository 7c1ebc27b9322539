// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening and closing of links: a process's control connections, accepted, greeted, timed, closed.

use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::Once;
use std::time::{Duration, Instant};

use log::Level;

use super::payloads::abandon_placed;
use super::progress_state::ProgressState;
use super::senders::Senders;
use super::shared::Shared;
use super::watch::Watched;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::errors::{LinkError, OpenError};
use crate::faults::FaultyNetwork;
use crate::greeting::{Answer, GreetingError, NO_HOST};
use crate::ids::PeerId;
use crate::incoming::{Frame, GREETING_MAX, Incoming, LAST_FRAMES, ProvenSender};
use crate::random::fill_random;
use crate::settings::Check;

/// Limit of connections that have not proved themselves. With a further one, a random one of them is closed: so a
/// stranger's do not keep those of members out, whose greetings take one round trip.
const UNPROVEN_MAX: usize = 256;
/// Limit of peers. A member of the job cannot fill this process's memory by claiming one address after the other.
const PEERS_MAX: usize = 1 << 17;
/// The pauses between looks at the times of all links, while one of them waits for time to pass, and otherwise. A look
/// goes over all links, and a process may have hundreds.
const CHECK_SOON: Duration = Duration::from_millis(1);
const CHECK_LATER: Duration = Duration::from_millis(20);
/// The time that connections wait when this process has no descriptor for them.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl ProgressState {
    /// Continues greetings, and finds peers that have ended. Never blocks.
    pub(super) fn advance_control(&mut self, shared: &Shared) {
        shared.watch.for_each_ready(|watched| {
            self.waits = true;
            match watched {
                Watched::Listener => self.accept(shared),
                Watched::Outgoing(peer) => shared.advance_outgoing(peer),
                Watched::Incoming(number) => self.advance_incoming(shared, number),
            }
        });
        let is_waiting = self.waits || shared.settings.check != Check::None;
        let pause = if is_waiting { CHECK_SOON } else { CHECK_LATER };
        let now = Instant::now();
        if self.checked.is_none_or(|checked| now.saturating_duration_since(checked) >= pause) {
            self.checked = Some(now);
            self.check_times(shared, now);
            self.waits = self.links_wait(shared);
        }
    }

    fn accept(&mut self, shared: &Shared) {
        loop {
            let (stream, from) = match shared.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => return self.stop_accepting(shared, &error),
                },
            };
            let mut nonce = [0; 32];
            let made = fill_random(&mut nonce).and_then(|()| Control::accepted(stream, shared.settings.timeout));
            let control = match made {
                Ok(control) => control,
                Err(error) => {
                    log::warn!("a connection from {from} was not taken: {error}");
                    continue;
                }
            };
            self.make_room(shared);
            let number = self.incoming.insert(Incoming::new(control, nonce));
            if let Some(incoming) = self.incoming.get_mut(number) {
                shared.watch.add(incoming.control(), Watched::Incoming(number));
            }
            self.advance_incoming(shared, number);
        }
    }

    /// Makes room for a connection that has not proved itself.
    fn make_room(&mut self, shared: &Shared) {
        let unproven = self.incoming.unproven();
        if unproven.len() < UNPROVEN_MAX {
            return;
        }
        let mut random = [0; 8];
        // Without randomness the first one goes.
        let _ = fill_random(&mut random);
        let number = unproven[(u64::from_le_bytes(random) % unproven.len() as u64) as usize];
        self.close_unproven(shared, number, Level::Warn, &"too many connections have not proved themselves");
    }

    /// Closes a connection that has not proved itself.
    fn close_unproven(&mut self, shared: &Shared, number: usize, level: Level, why: &dyn Display) {
        let from = self.incoming.get_mut(number).and_then(|incoming| incoming.control().peer_ip());
        self.strangers.report(level, from, why);
        self.drop_incoming(shared, number);
    }

    /// Stops accepting for a while: most likely this process has no free descriptor. The listener stays readable.
    fn stop_accepting(&mut self, shared: &Shared, why: &std::io::Error) {
        static REPORTED: Once = Once::new();
        REPORTED.call_once(|| {
            log::warn!("connections of other hosts wait: this process cannot accept them: {why}; raise `ulimit -n`");
        });
        self.refuses_since = Some(Instant::now());
        shared.watch.remove_listener(&shared.listener);
    }

    fn accept_again(&mut self, shared: &Shared) {
        if self.refuses_since.take_if(|since| since.elapsed() > ACCEPT_AGAIN_AFTER).is_some() {
            if let Err(error) = shared.watch.add_listener(&shared.listener) {
                log::error!("this process accepts no more connections: {error}");
            }
        }
    }

    fn advance_incoming(&mut self, shared: &Shared, number: usize) {
        let Some(incoming) = self.incoming.get_mut(number) else { return };
        let admit = |sender| shared.admit(number, sender);
        match incoming.advance(shared.address.token(), &shared.settings, admit) {
            // The end of a connection keeps it readable: it is watched no longer, only timed.
            Ok(()) if incoming.has_ended() => shared.watch.remove(incoming.control()),
            Ok(()) => shared.watch.update(incoming.control(), Watched::Incoming(number)),
            Err(why) => match incoming.peer() {
                Some(peer) => {
                    log::warn!("a connection to this process ended: {why}");
                    self.drop_incoming(shared, number);
                    shared.lose(shared.lock(), peer, &LinkError::Greeting(why));
                }
                None if why == GreetingError::Ended => self.close_unproven(shared, number, Level::Info, &why),
                None => self.close_unproven(shared, number, Level::Warn, &why),
            },
        }
    }

    /// Closes a connection. It is taken out of the set first, because a forked child may have a copy.
    fn drop_incoming(&mut self, shared: &Shared, number: usize) {
        if let Some(mut incoming) = self.incoming.remove(number) {
            if let Some((peer, reads)) = incoming.peer().zip(incoming.reads()) {
                abandon_placed(shared, peer, reads);
            }
            shared.watch.remove(incoming.control());
            shared.recycle(incoming.into_held());
        }
    }

    /// Ends all links from peers, which learn that this process ends in order.
    pub(super) fn drop_all_incoming(&mut self, shared: &Shared) {
        for number in self.incoming.numbers() {
            if let Some(incoming) = self.incoming.get_mut(number) {
                incoming.announce_end();
            }
            self.drop_incoming(shared, number);
        }
    }

    /// Ends greetings that take too long, and links to peers whose last frames have come.
    fn check_times(&mut self, shared: &Shared, now: Instant) {
        self.accept_again(shared);
        let (mut over, mut missing, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for number in self.incoming.numbers() {
            let Some(incoming) = self.incoming.get_mut(number) else { continue };
            incoming.send_due(now);
            let is_lost = incoming.peer().is_some_and(|peer| shared.is_lost(peer));
            missing.extend(incoming.peer().zip(incoming.missing_frame(shared.settings.timeout, now)));
            if incoming.is_over(now) {
                over.extend(incoming.end());
                self.drop_incoming(shared, number);
            } else if is_lost {
                self.drop_incoming(shared, number);
            } else if incoming.is_stale() {
                let limit = GREETING_MAX.as_secs();
                self.close_unproven(shared, number, Level::Warn, &format_args!("no greeting within {limit} s"));
            }
        }
        let has_incoming = |peer| self.incoming.iter().any(|incoming| incoming.peer() == Some(peer));
        {
            let mut senders = shared.lock();
            let (mut repeats, mut closed) = (Vec::new(), Vec::new());
            for (id, peer) in senders.peers.iter_mut() {
                if peer.outgoing.connection.is_due_again(now) {
                    closed.push(id);
                }
                peer.outgoing.tell_sent(now);
                if peer.outgoing.check_timeout(now) {
                    repeats.push(id);
                }
                let is_due = peer.outgoing.connection.ending_since().is_some_and(|at| at.elapsed() > LAST_FRAMES);
                if is_due && !has_incoming(id) {
                    over.extend(peer.outgoing.connection.take_end().map(|why| (id, why)));
                }
            }
            repeats.into_iter().for_each(|peer| senders.peers.mark_busy(peer));
            for peer in closed {
                failed.extend(shared.connect_now(&mut senders, peer).err().map(|error| (peer, error)));
            }
        }
        self.keep_within_limit(shared, now, &mut failed);
        for (peer, why) in failed.into_iter().chain(over) {
            shared.lose(shared.lock(), peer, &why);
        }
        for (peer, number) in missing {
            shared.lose(shared.lock(), peer, &LinkError::Missing(number));
        }
    }

    /// Whether the next look at the links must come soon.
    pub(super) fn waits_for_time(&self, shared: &Shared) -> bool {
        // Frames that are sent, and frames that come, wait for time only with a check.
        let has_check = shared.settings.check != Check::None;
        self.waits
            || shared.lock().peers.has_busy()
            || self.faulty.as_ref().is_some_and(FaultyNetwork::holds_frames)
            || has_check && self.links_wait(shared)
    }

    /// Whether a link waits for time to pass.
    fn links_wait(&self, shared: &Shared) -> bool {
        let waits = |link: &crate::outgoing::Outgoing| {
            let connection = &link.connection;
            connection.ending_since().is_some() || connection.was_closed_by_receiver() || link.waits_for_ack()
        };
        let senders = shared.lock();
        !senders.waiting.is_empty()
            || senders.peers.iter().any(|peer| waits(&peer.outgoing))
            || self.incoming.iter().any(Incoming::waits_for_time)
    }
}

impl Shared {
    pub(super) fn is_lost(&self, peer: PeerId) -> bool {
        self.lock().peers.get(peer).is_none_or(|peer| peer.outgoing.connection.is_lost())
    }

    /// Admits a proven sender to the link with this number. Returns its number as a peer, and the answer to its offer.
    fn admit(&self, link: usize, sender: ProvenSender) -> Result<(PeerId, Answer), GreetingError> {
        let ProvenSender { address, nid, provider } = sender;
        let refused = |why: OpenError| {
            log::error!("a link was not taken: {why}");
            GreetingError::NotReady(why.to_string())
        };
        let mut key = [0; 8];
        fill_random(&mut key).map_err(|error| refused(error.into()))?;
        let mut senders = self.lock();
        self.open_endpoint(&mut senders).map_err(|error| refused(error.into()))?;
        // None if this process is about to end.
        let own: &Endpoint = senders.endpoint.as_ref().ok_or(GreetingError::Ended)?;
        if provider != own.provider() {
            return Err(GreetingError::Provider { ours: own.provider().to_owned(), theirs: provider });
        }
        let endpoint = own.name().map_err(|error| refused(error.into()))?;
        let known = senders.peers.with_address(&address).map(|peer| senders.peers[peer].nid);
        if let Some(known) = known.filter(|&known| known != NO_HOST && known != nid) {
            return Err(GreetingError::Host { claimed: nid, known });
        }
        if senders.peers.with_address(&address).is_none() && senders.peers.iter().count() >= PEERS_MAX {
            return Err(GreetingError::NotReady(format!("it has {PEERS_MAX} peers, which is its limit")));
        }
        let peer = senders.peers.number_of(address, nid);
        senders.count_new_link(peer);
        senders.peers[peer].outgoing.restart_read_count();
        Ok((peer, Answer { link: link as u32, key: u64::from_le_bytes(key), endpoint }))
    }

    fn advance_outgoing(&self, peer: PeerId) {
        let mut senders = self.lock();
        let Senders { endpoint: Some(endpoint), peers, .. } = &mut *senders else { return };
        let Some(target) = peers.get_mut(peer) else { return };
        let nonce = || {
            let mut nonce = [0; 32];
            // Without randomness the receiver's nonce still makes the greeting fresh.
            let _ = fill_random(&mut nonce);
            nonce
        };
        let connection = &mut target.outgoing.connection;
        match connection.advance(&target.address, &self.address, &self.settings, endpoint, nonce) {
            Ok(()) if connection.is_rest_acknowledged() => {
                if let Some(control) = connection.control() {
                    self.watch.remove(control);
                }
                connection.end_rest();
                target.outgoing.show_state("");
                if target.outgoing.has_to_send() {
                    if let Err(error) = self.connect(&mut senders, peer) {
                        self.lose(senders, peer, &error);
                    }
                }
            }
            Ok(()) => {
                match connection.control() {
                    Some(control) if connection.was_closed_by_receiver() => self.watch.remove(control),
                    Some(control) => self.watch.update(control, Watched::Outgoing(peer)),
                    None => {}
                }
                target.outgoing.show_state("");
                peers.mark_busy(peer);
            }
            // Its last frames may still come.
            Err(end) if end.is_end() && (connection.is_open() || connection.is_closing()) => {
                if let Some(control) = connection.control() {
                    self.watch.remove(control);
                }
                let why = end.to_string();
                connection.note_end(Instant::now(), end);
                target.outgoing.show_state(&why);
            }
            Err(error) => self.lose(senders, peer, &error),
        }
    }

    pub(super) fn recycle(&self, frames: Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        let mut senders = self.lock();
        let Some(endpoint) = senders.endpoint.as_mut() else { return };
        let received = |frame| if let Frame::Received(frame) = frame { Some(frame) } else { None };
        for frame in frames.into_iter().filter_map(received) {
            if let Err(error) = endpoint.repost(frame) {
                log::error!("{error}");
            }
        }
    }
}
