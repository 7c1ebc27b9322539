// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The window of a sender for one destination, under ECN.
//!
//! A *round* begins with the first packet after the previous round and ends when one of its packets is echoed, so it
//! takes one round trip, queues included. Windows change once in a round:
//!
//! - A marked echo: `window *= 1 - alpha / 2` (DCTCP, SIGCOMM 2010, equation 2), and a new round.
//! - At the end of each round: `alpha += gain * (share of marked flits - alpha)` (equation 1).
//! - At the end of a round without marks in which the window has held packets back: `window += increase`. A window below
//!   one packet grows by that part of it.
//!
//! A window below one packet means a pause: the next packet leaves `round trip * flits / window` after the last one
//! (Swift, SIGCOMM 2020, section 3.3). With it 256 senders can share a link whose round trip holds 20 packets.

use super::config::Ecn;
use super::flow::Permit;
use super::header::{Header, Kind};
use crate::time::Time;

/// The least window, as a part of a packet.
const LEAST: f64 = 1.0 / 512.0;
/// Round trips for which a flow is idle before it begins anew.
const IDLE_ROUNDS: u64 = 64;

#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Flits.
    window: f64,
    /// The window of a new flow.
    begin: f64,
    most: f64,
    /// Flits of a full packet.
    packet: f64,
    /// DCTCP's estimate of the share of marked flits.
    alpha: f64,
    in_flight: u64,
    /// Flits echoed since the estimate changed, and those of them that were marked.
    echoed: u64,
    marked: u64,
    round: u8,
    /// It has been cut in this round.
    is_cut: bool,
    /// It has held a packet back in this round.
    is_limit: bool,
    round_trip: Time,
    /// Earliest time of the next packet, if the window is smaller than a packet.
    next: Time,
    last: Time,
}

impl Window {
    /// Makes the window of a flow whose path holds `path_flits` in a round trip.
    pub fn new(round_trip: Time, path_flits: u32, most: Option<u32>, packet_flits: u32) -> Window {
        let packet = f64::from(packet_flits);
        let begin = f64::from(path_flits) + 2.0 * packet;
        let most = most.map_or(2.0 * begin, f64::from);
        Window {
            window: begin.min(most),
            begin: begin.min(most),
            most,
            packet,
            alpha: 1.0,
            in_flight: 0,
            echoed: 0,
            marked: 0,
            round: 0,
            is_cut: false,
            is_limit: false,
            round_trip,
            next: Time::ZERO,
            last: Time::ZERO,
        }
    }

    pub fn permit(&mut self, now: Time, flits: u32) -> Permit {
        let fits = (self.in_flight + u64::from(flits)) as f64 <= self.window;
        match self.in_flight {
            0 if self.next <= now => Permit::Now,
            0 => {
                self.is_limit = true;
                Permit::At(self.next)
            }
            _ if fits => Permit::Now,
            _ => {
                self.is_limit = true;
                Permit::Closed
            }
        }
    }

    /// Records a packet that leaves.
    pub fn sent(&mut self, now: Time, flits: u32) -> Header {
        self.in_flight += u64::from(flits);
        self.last = now;
        let flits = f64::from(flits);
        if flits > self.window {
            self.next = now + Time((self.round_trip.0 as f64 * flits / self.window) as u64);
        }
        Header { kind: Kind::Windowed, marked: false, round: self.round }
    }

    /// Records the echo of a packet.
    pub fn echo(&mut self, ecn: &Ecn, flits: u64, header: Header) {
        self.in_flight = self.in_flight.saturating_sub(flits);
        self.echoed += flits;
        self.marked += if header.marked { flits } else { 0 };
        if header.round == self.round {
            let share = self.marked as f64 / self.echoed.max(1) as f64;
            self.alpha += ecn.gain * (share - self.alpha);
            if self.marked == 0 && self.is_limit {
                let increase = ecn.increase_flits * (self.window / self.packet).min(1.0);
                self.window = (self.window + increase).min(self.most);
            }
            self.begin_round();
            self.is_cut = false;
        }
        if header.marked && !self.is_cut {
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(self.packet * LEAST);
            self.begin_round();
            self.is_cut = true;
        }
    }

    fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        (self.echoed, self.marked, self.is_limit) = (0, 0, false);
    }

    /// Whether a new window would do as well: nothing is in flight, and it has not been used for long.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.in_flight == 0 && (self.window >= self.begin || now >= self.last + self.round_trip * IDLE_ROUNDS)
    }

    #[cfg(test)]
    pub fn flits(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECN: Ecn = Ecn { mark_flits: 0, gain: 0.0625, increase_flits: 1.0 };

    fn echo(window: &mut Window, flits: u32, marked: bool) {
        let header = window.sent(Time::ZERO, flits);
        window.is_limit = true;
        window.echo(&ECN, flits.into(), Header { marked, ..header });
    }

    #[test]
    fn a_mark_cuts_once_in_a_round_by_half_of_the_estimate() {
        let mut window = Window::new(Time::from_ns(1000), 80, None, 10);
        assert_eq!(window.flits(), 100.0);
        let headers: Vec<Header> = (0..10).map(|_| window.sent(Time::ZERO, 10)).collect();
        assert_eq!(window.permit(Time::ZERO, 10), Permit::Closed);
        for header in headers {
            window.echo(&ECN, 10, Header { marked: true, ..header });
        }
        assert_eq!(window.flits(), 50.0, "the ten packets are of one round");
        assert_eq!(window.permit(Time::ZERO, 10), Permit::Now);
        echo(&mut window, 10, true);
        assert_eq!(window.flits(), 25.0, "all flits were marked, so the estimate is 1");
    }

    #[test]
    fn the_estimate_follows_the_share_of_marked_flits() {
        let mut window = Window::new(Time::from_ns(1000), 80, None, 10);
        for _ in 0..200 {
            echo(&mut window, 10, false);
        }
        assert!(window.alpha < 1e-5, "{}", window.alpha);
        assert_eq!(window.flits(), 200.0, "the largest window is twice the first one");
        echo(&mut window, 10, true);
        assert!(window.alpha <= 0.0626 && window.flits() > 193.0, "{window:?}");
    }

    #[test]
    fn a_window_grows_by_a_step_in_each_round_and_below_a_packet_by_a_part_of_it() {
        let mut window = Window::new(Time::from_ns(1000), 80, None, 10);
        echo(&mut window, 10, true);
        let mut seen = vec![];
        for _ in 0..3 {
            echo(&mut window, 10, false);
            seen.push(window.flits());
        }
        assert_eq!(seen, [51.0, 52.0, 53.0]);
        let mut window = Window::new(Time::from_ns(1000), 80, Some(5), 10);
        window.most = 6.0;
        echo(&mut window, 10, false);
        assert_eq!(window.flits(), 5.5);
        echo(&mut window, 10, false);
        assert_eq!(window.flits(), 6.0, "the largest window");
    }

    #[test]
    fn a_window_below_a_packet_is_a_pause() {
        let mut window = Window::new(Time::from_ns(1000), 80, Some(5), 10);
        assert_eq!(window.permit(Time::ZERO, 10), Permit::Now);
        let header = window.sent(Time::ZERO, 10);
        assert_eq!(window.permit(Time::ZERO, 10), Permit::Closed, "one packet is in flight");
        window.echo(&ECN, 10, header);
        assert_eq!(window.permit(Time::from_ns(1500), 10), Permit::At(Time::from_ns(2000)));
        assert_eq!(window.permit(Time::from_ns(2000), 10), Permit::Now);
    }

    #[test]
    fn a_cut_window_is_kept_while_it_matters() {
        let mut window = Window::new(Time::from_ns(1000), 80, None, 10);
        assert!(window.is_forgotten(Time::ZERO));
        echo(&mut window, 10, true);
        assert!(!window.is_forgotten(Time::from_ns(63_000)));
        assert!(window.is_forgotten(Time::from_ns(64_000)));
    }
}
