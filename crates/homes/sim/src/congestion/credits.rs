// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits of a receiver, and their use by a sender.
//!
//! A flow sends its first flits without credit (the *unsolicited* window of NDP, SIGCOMM 2017, and EQDS, NSDI 2022). The
//! window fills again within a round trip, so a flow of small messages needs no credit. A flow announces all further flits in a request, and sends them as credits come. A receiver gives credits of
//! one packet to its senders in turn, one in the time that a packet takes on its link, and never has more credit out than
//! the path holds. So unsolicited packets of many senders drain while credited ones do not take their place; NDP trims
//! packets there, which a lossless network does not.

use std::collections::{BTreeMap, VecDeque};

use super::flow::Permit;
use super::header::{Header, Kind};
use crate::time::Time;

/// A sender's side of one flow. All amounts are flits.
#[derive(Clone, Debug)]
pub(super) struct Credits {
    /// May leave without credit.
    free: u64,
    /// Flits sent in the last round trip, as far as they count against the unsolicited window.
    recent: u64,
    /// May leave with credit. The last packet may take more than there is; what comes next pays for it.
    credit: i64,
    /// Announced, without credit yet.
    announced: u64,
    /// Not announced yet.
    unannounced: u64,
    /// The unsolicited window.
    unsolicited: u64,
    round_trip: Time,
    /// Time to which `recent` refers.
    last: Time,
}

impl Credits {
    pub fn new(round_trip: Time, unsolicited: u64) -> Credits {
        let (free, recent, credit, announced, unannounced, last) = (0, 0, 0, 0, 0, Time::ZERO);
        Credits { unsolicited, free, recent, credit, announced, unannounced, round_trip, last }
    }

    /// Adds flits that the flow will send.
    pub fn want(&mut self, now: Time, flits: u64) {
        self.unannounced += flits;
        self.forget(now);
        if self.is_idle_but(flits) {
            self.free = flits.min(self.unsolicited.saturating_sub(self.recent));
            self.unannounced -= self.free;
        }
    }

    /// Takes the flits to be announced now. A flow whose announced flits last for a round trip waits with the others, so
    /// that one request has many.
    pub fn take_request(&mut self, enough: u64) -> Option<u64> {
        if self.unannounced == 0 || self.announced + self.credit.max(0) as u64 > enough {
            return None;
        }
        self.announced += self.unannounced;
        Some(std::mem::take(&mut self.unannounced))
    }

    pub fn permit(&mut self, flits: u32) -> Permit {
        let flits = u64::from(flits);
        if self.free > 0 && self.free < flits {
            // The rest does not hold a packet.
            self.unannounced += std::mem::take(&mut self.free);
        }
        if self.free >= flits || self.credit > 0 { Permit::Now } else { Permit::Closed }
    }

    /// Records a packet that leaves.
    pub fn sent(&mut self, now: Time, flits: u32) -> Header {
        self.forget(now);
        let flits = u64::from(flits);
        self.recent = (self.recent + flits).min(self.unsolicited);
        let is_free = self.free >= flits;
        if is_free {
            self.free -= flits;
        } else {
            self.credit -= flits as i64;
        }
        Header { kind: if is_free { Kind::Unsolicited } else { Kind::Credited }, ..Header::PLAIN }
    }

    pub fn grant(&mut self, flits: u64) {
        self.announced = self.announced.saturating_sub(flits);
        self.credit += flits as i64;
    }

    /// Lets the unsolicited window fill again: all of it in a round trip.
    fn forget(&mut self, now: Time) {
        let passed = now.saturating_sub(self.last).0;
        let trip = u128::from(self.round_trip.0.max(1));
        let flits = (u128::from(self.unsolicited) * u128::from(passed) / trip) as u64;
        if flits > 0 || self.recent == 0 {
            (self.recent, self.last) = (self.recent.saturating_sub(flits), now);
        }
    }

    /// Whether nothing waits but flits not announced.
    fn is_idle_but(&self, flits: u64) -> bool {
        self.free + self.announced == 0 && self.credit == 0 && self.unannounced == flits
    }

    /// Whether a new flow would do as well.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.is_idle_but(0) && now >= self.last + self.round_trip
    }
}

/// A receiver: the senders that wait for credit.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    /// Flits announced by each sender and without credit; never 0.
    wanted: BTreeMap<u32, u64>,
    turns: VecDeque<u32>,
    /// Credit that has not come back as packets. Below 0: packets came for credit that is on its way.
    out: i64,
    /// The most credit out: what the longest path holds.
    most: u64,
    next: Time,
}

impl Receiver {
    /// Records a request. `most`: credit that the sender's path holds.
    pub fn request(&mut self, from: u32, flits: u64, most: u64) {
        self.most = self.most.max(most);
        if flits == 0 {
            return;
        }
        *self.wanted.entry(from).or_insert_with(|| {
            self.turns.push_back(from);
            0
        }) += flits;
    }

    /// Records a packet with credit that arrived, or was lost.
    pub fn arrived(&mut self, flits: u64) {
        self.out -= flits as i64;
    }

    /// Returns the time of the next credit. `None`: no sender waits, or packets have to arrive first.
    pub fn due(&self) -> Option<Time> {
        (!self.turns.is_empty() && self.out < self.most as i64).then_some(self.next)
    }

    /// Gives the next credit, if it is due: the sender and the flits.
    pub fn give(&mut self, now: Time, packet_flits: u32, flit_time: Time) -> Option<(u32, u64)> {
        self.due().filter(|at| *at <= now)?;
        let to = self.turns.pop_front()?;
        let wanted = self.wanted.get_mut(&to)?;
        let flits = (*wanted).min(packet_flits.into());
        *wanted -= flits;
        match *wanted {
            0 => _ = self.wanted.remove(&to),
            _ => self.turns.push_back(to),
        }
        self.out += flits as i64;
        self.next = now.max(self.next) + flit_time * flits;
        Some((to, flits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Time = Time::from_ns(1);

    #[test]
    fn senders_get_credit_in_turn_at_the_rate_of_the_link() {
        let mut receiver = Receiver::default();
        receiver.request(1, 25, 40);
        receiver.request(2, 100, 30);
        let mut given = vec![];
        for now in 0..100 {
            given.extend(receiver.give(Time::from_ns(now), 10, TIME).map(|(to, flits)| (now, to, flits)));
        }
        assert_eq!(given, [(0, 1, 10), (10, 2, 10), (20, 1, 10), (30, 2, 10)], "40 flits are out");
        receiver.arrived(10);
        assert_eq!(receiver.due(), Some(Time::from_ns(40)));
        assert_eq!(receiver.give(Time::from_ns(100), 10, TIME), Some((1, 5)), "all that it wanted");
        assert_eq!(receiver.give(Time::from_ns(105), 10, TIME), Some((2, 10)));
        assert_eq!(receiver.give(Time::from_ns(200), 10, TIME), None, "45 are out");
    }

    #[test]
    fn a_flow_sends_its_first_flits_without_credit_and_announces_the_others() {
        let mut flow = Credits::new(Time::from_ns(100), 25);
        flow.want(Time::ZERO, 50);
        assert_eq!(flow.take_request(30), Some(25));
        let mut kinds = vec![];
        while flow.permit(10) == Permit::Now {
            kinds.push(flow.sent(Time::ZERO, 10).kind);
        }
        assert_eq!(kinds, [Kind::Unsolicited; 2]);
        assert_eq!(flow.take_request(30), Some(5), "the rest of the window holds no packet");
        flow.want(Time::ZERO, 40);
        assert_eq!(flow.take_request(29), None, "30 announced flits are enough");
        flow.grant(10);
        assert_eq!(flow.permit(10), Permit::Now);
        assert_eq!(flow.sent(Time::ZERO, 10).kind, Kind::Credited);
        assert_eq!(flow.permit(10), Permit::Closed);
        assert_eq!(flow.take_request(29), Some(40));
    }

    #[test]
    fn a_part_of_the_credit_for_a_packet_is_not_kept_from_others() {
        let mut flow = Credits::new(Time::from_ns(100), 0);
        flow.want(Time::ZERO, 20);
        assert_eq!(flow.take_request(0), Some(20));
        flow.grant(3);
        assert_eq!(flow.permit(10), Permit::Now);
        flow.sent(Time::ZERO, 10);
        flow.grant(7);
        assert_eq!(flow.permit(10), Permit::Closed, "all its credit is used");
        flow.grant(10);
        assert_eq!(flow.permit(10), Permit::Now);
        flow.sent(Time::ZERO, 10);
        assert!(flow.is_forgotten(Time::from_ns(100)));
    }

    #[test]
    fn the_unsolicited_window_fills_again_within_a_round_trip() {
        let mut flow = Credits::new(Time::from_ns(100), 20);
        flow.want(Time::ZERO, 20);
        for _ in 0..2 {
            assert_eq!((flow.permit(10), flow.sent(Time::ZERO, 10).kind), (Permit::Now, Kind::Unsolicited));
        }
        flow.want(Time::from_ns(49), 10);
        assert_eq!(flow.permit(10), Permit::Closed);
        assert_eq!(flow.take_request(0), Some(10));
        flow.grant(10);
        flow.sent(Time::from_ns(50), 10);
        flow.want(Time::from_ns(100), 10);
        assert_eq!((flow.permit(10), flow.sent(Time::from_ns(100), 10).kind), (Permit::Now, Kind::Unsolicited));
        assert!(!flow.is_forgotten(Time::from_ns(199)) && flow.is_forgotten(Time::from_ns(200)));
    }
}
