// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows: the messages to one portal table entry of a peer that travel as packets, including refused ones.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use selvedge_nic::portals::{Delivery, fail};

/// The first pause after a refusal, and the longest, live and in virtual time.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_micros(10);
pub(crate) const PAUSE_LONGEST: Duration = Duration::from_millis(1);
pub(crate) const PAUSE_LONGEST_SIMULATED: Duration = Duration::from_secs(3600);

/// The messages to one portal table entry of a peer.
pub(crate) struct Flow {
    /// The epoch of the messages in flight.
    pub(crate) epoch: u64,
    pub(crate) under_way: u32,
    /// The largest number of messages in flight.
    pub(crate) window: u32,
    /// The number of messages sent.
    pub(crate) sequence: u64,
    /// The refused messages: their sequence numbers and the numbers of their operations.
    pub(crate) retries: VecDeque<(u64, usize)>,
    /// The epoch of the portal table entry after a refusal.
    pub(crate) refused: Option<u64>,
    pub(crate) pause: Duration,
    /// Refused messages are not sent again before this time.
    pub(crate) again_at: Option<Instant>,
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow {
            epoch: 1,
            under_way: 0,
            window: u32::MAX,
            sequence: 0,
            retries: VecDeque::new(),
            refused: None,
            pause: PAUSE_FIRST,
            again_at: None,
        }
    }

    /// Whether another message may be sent.
    pub(crate) fn is_open(&mut self) -> bool {
        if self.under_way == 0 {
            if let Some(epoch) = self.refused.take() {
                (self.epoch, self.window) = (epoch, 1);
            }
        }
        self.refused.is_none() && self.under_way < self.window
    }

    pub(crate) fn accept(&mut self) {
        self.window = self.window.saturating_add(1);
        self.pause = PAUSE_FIRST;
    }

    pub(crate) fn refuse(&mut self, epoch: u64, longest: Duration) {
        if self.refused.is_none() {
            self.rest(longest);
        }
        self.refused = Some(epoch);
    }

    /// Starts a pause, and makes the next one an eighth longer. So a sender wakes late by at most that fraction.
    pub(crate) fn rest(&mut self, longest: Duration) {
        self.again_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause + self.pause / 8).min(longest);
    }

    pub(crate) fn keep(&mut self, sequence: u64, number: usize) {
        let behind = self.retries.iter().rev().take_while(|later| later.0 > sequence).count();
        self.retries.insert(self.retries.len() - behind, (sequence, number));
    }
}

/// All flows of a transport, one for each portal table entry that has received a packet.
#[derive(Default)]
pub(crate) struct Flows {
    pub(crate) list: Vec<Flow>,
    /// By peer and portal table entry.
    pub(crate) by_place: HashMap<(u32, u32), u32>,
    /// The number of refused messages in all flows.
    pub(crate) retries: usize,
}

impl Flows {
    /// Whether there are refused messages.
    #[inline(always)]
    pub fn has_retries(&self) -> bool {
        self.retries != 0
    }

    pub(crate) fn of(&mut self, peer: u32, portal: u32) -> Option<&mut Flow> {
        if self.list.is_empty() {
            return None;
        }
        let flow = *self.by_place.get(&(peer, portal))?;
        self.list.get_mut(flow as usize)
    }

    /// The epoch for a message to a portal table entry; 0 before the first packet. `None`: earlier messages go first.
    pub fn epoch_now(&mut self, peer: u32, portal: u32) -> Option<u64> {
        let Some(flow) = self.of(peer, portal) else { return Some(0) };
        (flow.retries.is_empty() && flow.is_open()).then_some(flow.epoch)
    }

    /// Records that a portal table entry has refused a message within the call. The message is not kept.
    pub fn refused_in_call(&mut self, peer: u32, portal: u32, delivery: &Delivery) {
        if delivery.fail == fail::PT_DISABLED {
            self.refuse(peer, portal, delivery.remote_offset);
        }
    }

    /// Records a refusal within the call. The message is not kept.
    pub fn refuse(&mut self, peer: u32, portal: u32, epoch: u64) {
        if let Some(flow) = self.of(peer, portal) {
            flow.refuse(epoch, PAUSE_LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_stops_the_flow_until_all_in_flight_are_answered() {
        let mut flow = Flow::new();
        assert!(flow.is_open());
        flow.under_way = 3;
        flow.refuse(7, PAUSE_LONGEST);
        assert!(!flow.is_open(), "others are in flight with the old epoch");
        flow.under_way = 0;
        assert!(flow.is_open());
        assert_eq!((flow.epoch, flow.window), (7, 1), "the first message with the new epoch is sent alone");
        flow.under_way = 1;
        assert!(!flow.is_open());
        flow.accept();
        assert!(flow.is_open(), "each accepted message widens the window");
    }

    #[test]
    fn refused_messages_are_kept_in_the_order_in_which_they_were_sent() {
        let mut flow = Flow::new();
        for sequence in [4, 2, 9, 3] {
            flow.keep(sequence, sequence as usize * 10);
        }
        assert_eq!(flow.retries, [(2, 20), (3, 30), (4, 40), (9, 90)]);
    }

    #[test]
    fn pauses_grow_to_a_limit_and_start_over() {
        let mut flow = Flow::new();
        for _ in 0..1000 {
            flow.rest(PAUSE_LONGEST);
        }
        assert_eq!(flow.pause, PAUSE_LONGEST);
        flow.accept();
        assert_eq!(flow.pause, PAUSE_FIRST);
    }

    #[test]
    fn an_entry_that_no_packet_went_to_has_epoch_0() {
        let mut flows = Flows::default();
        assert_eq!(flows.epoch_now(1, 2), Some(0));
        flows.list.push(Flow::new());
        flows.by_place.insert((1, 2), 0);
        assert_eq!((flows.epoch_now(1, 2), flows.epoch_now(1, 3)), (Some(1), Some(0)));
        flows.refuse(1, 2, 5);
        assert_eq!(flows.epoch_now(1, 2), Some(5));
        flows.list[0].keep(0, 0);
        assert_eq!(flows.epoch_now(1, 2), None, "a refused message goes first");
    }
}
