// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of open links of a process ([`Settings::links_max`](crate::Settings)), and of those from others.
//!
//! A link beyond the limit waits until an idle one is closed. The sender says so with its last number of frames, the
//! receiver acknowledges when it has them all, and both drop the link. The next packet opens it again. So nothing is
//! lost and the order stays. A receiver with too many links asks the senders of idle ones to close them.
//!
//! The limit is not hard: if no link is idle for [`PATIENCE`], the next one is opened all the same. Otherwise processes
//! whose links all wait for each other would wait for ever.
//!
//! A link stays open while it is needed to notice the end of its peer: as long as requests to the peer are unanswered
//! ([`Links::answers`](super::Links::answers)), or a program waits for it ([`Links::watch`](super::Links::watch)).
//!
//! Not closed: libfabric's own connection to the peer's endpoint, which carries the frames of both directions. libfabric
//! cannot tell when the last frame has left it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::progress_state::ProgressState;
use super::senders::Senders;
use super::shared::Shared;
use crate::errors::LinkError;
use crate::ids::PeerId;

/// The longest wait for an idle link to close, before one is opened beyond the limit.
const PATIENCE: Duration = Duration::from_millis(500);
/// A peer that was asked about in this time has unanswered requests.
const ASKED_LATELY: Duration = Duration::from_millis(200);

/// The links that wait to be opened.
#[derive(Default)]
pub(super) struct WaitingLinks {
    waiting: VecDeque<(PeerId, Instant)>,
    /// Links in use at the last look, and those opened since.
    in_use: usize,
}

impl WaitingLinks {
    /// Takes a link that should be opened. Returns whether there is room for it now; otherwise it waits.
    pub(super) fn admit(&mut self, peer: PeerId, links_max: usize) -> bool {
        if self.in_use < links_max && self.waiting.is_empty() {
            self.in_use += 1;
            return true;
        }
        if self.waiting.iter().all(|&(waiting, _)| waiting != peer) {
            self.waiting.push_back((peer, Instant::now()));
        }
        false
    }

    /// Takes the next link that may be opened.
    fn next(&mut self, links_max: usize, now: Instant) -> Option<PeerId> {
        let &(peer, since) = self.waiting.front()?;
        if self.in_use >= links_max && now.saturating_duration_since(since) < PATIENCE {
            return None;
        }
        self.in_use += 1;
        self.waiting.pop_front();
        Some(peer)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of links beyond the limit, with those that wait.
    fn excess(&self, links_max: usize) -> usize {
        (self.in_use + self.waiting.len()).saturating_sub(links_max)
    }
}

impl ProgressState {
    /// Closes idle links while there are too many, and opens those that wait. `failed` gets the links that cannot be
    /// opened.
    pub(super) fn keep_within_limit(&mut self, shared: &Shared, now: Instant, failed: &mut Vec<(PeerId, LinkError)>) {
        let links_max = shared.settings.links_max;
        let open = self.incoming.iter().filter(|incoming| incoming.peer().is_some()).count();
        let mut excess = open.saturating_sub(links_max);
        if excess > 0 {
            for number in self.incoming.numbers() {
                let Some(incoming) = self.incoming.get_mut(number) else { continue };
                if !incoming.is_used() && excess > 0 {
                    incoming.ask_to_rest();
                    excess -= 1;
                }
            }
        }
        let mut senders = shared.lock();
        senders.rest_idle(links_max, now);
        while let Some(peer) = senders.waiting.next(links_max, now) {
            if senders.peers[peer].outgoing.connection.is_closed() {
                failed.extend(shared.connect_now(&mut senders, peer).err().map(|error| (peer, error)));
            }
        }
    }
}

impl Senders {
    /// Closes idle links: those whose receivers have asked for it, and while there are too many, the longest idle first.
    fn rest_idle(&mut self, links_max: usize, now: Instant) {
        self.waiting.in_use = self.peers.in_use();
        let excess = self.waiting.excess(links_max);
        let (mut idle, mut asked) = (Vec::new(), Vec::new());
        for (number, peer) in self.peers.iter_mut() {
            let is_awaited = peer.is_watched
                || peer.asked_about.is_some_and(|asked| now.saturating_duration_since(asked) < ASKED_LATELY);
            if is_awaited || !peer.outgoing.is_idle() {
                continue;
            }
            match peer.outgoing.connection.idle_since() {
                _ if peer.outgoing.connection.is_asked_to_rest() => asked.push(number),
                Some(since) if excess > 0 => idle.push((since, number)),
                _ => {}
            }
        }
        idle.sort_unstable();
        let chosen = idle.into_iter().take(excess.saturating_sub(asked.len())).map(|(_, number)| number);
        for number in asked.into_iter().chain(chosen) {
            self.peers[number].outgoing.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_beyond_the_limit_waits_its_turn_but_not_for_ever() {
        let mut links = WaitingLinks::default();
        assert!(links.admit(PeerId(0), 2) && links.admit(PeerId(1), 2));
        assert!(!links.admit(PeerId(2), 2) && !links.admit(PeerId(3), 2) && !links.admit(PeerId(2), 2));
        assert_eq!(links.excess(2), 2);
        let now = Instant::now();
        assert_eq!(links.next(2, now), None);
        links.in_use = 1;
        assert_eq!(links.next(2, now), Some(PeerId(2)), "one was closed");
        assert!(!links.admit(PeerId(4), 9), "it does not overtake");
        assert_eq!(links.next(2, now), None);
        assert_eq!(links.next(2, now + PATIENCE), Some(PeerId(3)), "beyond the limit");
    }
}
