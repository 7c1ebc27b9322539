// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol table: which protocol carries a message to a peer (docs/design/messages.md).
//!
//! | protocol | messages | the send completes when |
//! |---|---|---|
//! | inline | as long as a slot of the peer's ring | the slot is published, or dequeued |
//! | ring | up to `SELVEDGE_FI_LANE_MAX` | the slot is published, or dequeued |
//! | direct | any, if a receive is posted in memory that this process reaches | the call returns |
//! | rendezvous | longer than those of a ring, and no receive is posted | the receiver has fetched the payload |
//! | packet | any, if this process cannot run the peer's NIC | the reply has come |
//! | tiny | up to `SELVEDGE_FI_TINY_MAX`, over VELO and RMA | the message has left, or was taken |
//! | small | up to `SELVEDGE_FI_VELO_MAX` | the same |
//! | medium | up to `SELVEDGE_FI_BOUNCE_MAX` | the same |
//! | long | longer ones, and those whose send ends with their match | the receiver has fetched the payload |
//!
//! The rows of a peer are fixed when the peer is first met. A message then costs a comparison of its length. A protocol
//! that cannot take the message now (no room in the ring, no receive in mapped memory) leaves it to the next one.

use selvedge_host::rings::{INLINE_BYTES, MESSAGE_BYTES_MAX as RING_MESSAGE_BYTES_MAX};

use selvedge_settings::units;

use crate::message::SendEnd;

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = (isize::MAX as usize) / 2;
/// Longest message that is copied within the call, so that the program may reuse its buffer.
pub const INJECT_BYTES: usize = RING_MESSAGE_BYTES_MAX / 2;
/// The longest unexpected payload that the buffers of a portal table entry take ([`crate::pool`]).
pub const POOLED_BYTES_MAX: usize = 2 * RING_MESSAGE_BYTES_MAX;

/// Default for the longest message that goes through a ring (`selvedge bench mpi` shows where the curves cross).
const RING_MAX_DEFAULT: usize = 16 << 10;
/// Default for the longest message that goes through a ring although a receive may be posted in directly mapped memory.
const SMALL_MAX_DEFAULT: usize = 2 << 10;

/// Defaults for the longest messages over VELO and RMA. A VELO message has 56 bytes after a heading of 8 bytes. From
/// 512 bytes on a put takes less processor time than VELO messages. From 4 KiB on copying nothing pays (seed 002,
/// sections 8.6 and 9.3).
const TINY_MAX_DEFAULT: usize = 56;
const VELO_MAX_DEFAULT: usize = 512;
const BOUNCE_MAX_DEFAULT: usize = 4 << 10;
/// The longest message of half a grant of mailbox slots, and the longest message of a slot of bounce memory.
const VELO_MAX_MOST: usize = 992;
const BOUNCE_MAX_MOST: usize = 64 << 10;

/// The protocol that is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The message is copied into the peer's ring.
    Ring,
    /// The message is copied into a posted receive in mapped memory; if there is none, into the ring.
    DirectElseRing,
    /// This process runs the peer's NIC. If no receive is posted, the payload goes to an overflow buffer.
    Direct,
    /// Like `Direct`, but if no receive is posted, the payload stays here until the receiver fetches it.
    Rendezvous,
    /// One VELO message.
    Tiny,
    /// Several VELO messages.
    Small,
    /// The message is copied, and put into memory that the peer has for this process.
    Medium,
    /// The payload stays here until the receiver fetches it with gets.
    Long,
}

/// The limits between protocols, from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest message that goes through a ring.
    pub ring_max: usize,
    /// Longest message that goes through a ring although a receive may be posted in directly mapped memory.
    pub small_max: usize,
    /// Longest message in one VELO message with a short heading; in several; and in a put.
    pub tiny_max: usize,
    pub velo_max: usize,
    pub bounce_max: usize,
}

const RING_SETTING: &str = "SELVEDGE_FI_LANE_MAX";
const SMALL_SETTING: &str = "SELVEDGE_FI_SMALL_MAX";
const TINY_SETTING: &str = "SELVEDGE_FI_TINY_MAX";
const VELO_SETTING: &str = "SELVEDGE_FI_VELO_MAX";
const BOUNCE_SETTING: &str = "SELVEDGE_FI_BOUNCE_MAX";

impl Limits {
    pub fn from_environment() -> Limits {
        Limits {
            ring_max: length(RING_SETTING, RING_MAX_DEFAULT).min(RING_MESSAGE_BYTES_MAX),
            small_max: length(SMALL_SETTING, SMALL_MAX_DEFAULT),
            tiny_max: length(TINY_SETTING, TINY_MAX_DEFAULT),
            velo_max: length(VELO_SETTING, VELO_MAX_DEFAULT).min(VELO_MAX_MOST),
            bounce_max: length(BOUNCE_SETTING, BOUNCE_MAX_DEFAULT).min(BOUNCE_MAX_MOST),
        }
    }
}

/// Lengths of messages that take one protocol, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: usize,
    /// The longest; `None` if there is no limit.
    pub to: Option<usize>,
    pub protocol: Protocol,
    /// The message is in one slot of the ring.
    pub is_inline: bool,
    /// The environment variable that moves the upper end.
    pub setting: Option<&'static str>,
}

/// A length in bytes, from a setting or the default.
fn length(variable: &str, default: usize) -> usize {
    selvedge_settings::read(variable, default, |text| units::bytes(text).ok().and_then(|bytes| bytes.try_into().ok()))
}

/// The rows of one peer. A bound is the length of the first message that is too long; 0 if the peer has no ring.
#[derive(Clone, Copy, Debug)]
pub struct Protocols {
    /// Shorter messages fit into one slot of the ring, and are visible there at once.
    pub inline_below: usize,
    /// Like `small_below`, for messages that are visible at once.
    pub long_below: usize,
    /// Shorter messages go through the ring, even if a receive is posted.
    small_below: usize,
    /// Shorter messages go through the ring if no receive is posted in directly mapped memory.
    ring_below: usize,
    /// The payload of longer messages stays here until a receive is posted.
    rendezvous_above: usize,
    /// The rows of a peer that takes messages over the units.
    units: Option<UnitRows>,
}

#[derive(Clone, Copy, Debug)]
struct UnitRows {
    tiny_below: usize,
    small_below: usize,
    medium_below: usize,
}

impl Protocols {
    /// The rows of a peer with or without a ring for us. `publishes`: messages in the ring are visible at once.
    pub fn new(limits: &Limits, has_ring: bool, publishes: bool) -> Protocols {
        let below = |longest: usize| if has_ring { longest.min(limits.ring_max) + 1 } else { 0 };
        let at_once = |longest: usize| if publishes { below(longest) } else { 0 };
        Protocols {
            inline_below: at_once(INLINE_BYTES),
            long_below: at_once(limits.small_max),
            small_below: below(limits.small_max),
            ring_below: below(limits.ring_max),
            rendezvous_above: limits.ring_max.max(INJECT_BYTES),
            units: None,
        }
    }

    /// The rows of a peer on another host. It has no ring, and a payload that stays here costs two more trips.
    pub fn elsewhere(limits: &Limits) -> Protocols {
        Protocols { rendezvous_above: POOLED_BYTES_MAX.max(limits.ring_max), ..Protocols::new(limits, false, false) }
    }

    /// The rows of a peer that takes messages over the units. It has no ring.
    pub fn over_units(limits: &Limits) -> Protocols {
        let below = |longest: usize| longest + 1;
        let tiny_below = below(limits.tiny_max);
        let small_below = below(limits.velo_max);
        let units = UnitRows { tiny_below, small_below, medium_below: below(limits.bounce_max) };
        Protocols { units: Some(units), ..Protocols::new(limits, false, false) }
    }

    /// The protocol to try first for a message of this length.
    #[inline]
    pub fn of(&self, length: usize, end: SendEnd) -> Protocol {
        let takes_ring = match end {
            SendEnd::Sent => true,
            // If a message is not visible at once, the peer's reply reports the delivery.
            SendEnd::Delivered => self.inline_below != 0,
            SendEnd::Matched => false,
        };
        match takes_ring {
            true if length < self.small_below => Protocol::Ring,
            true if length < self.ring_below => Protocol::DirectElseRing,
            _ => self.row(length, end).unwrap_or_else(|| self.without_ring(length, end)),
        }
    }

    /// The protocols that are tried first for messages whose send ends when they have left, by length.
    pub fn ranges(&self) -> Vec<Range> {
        let settings = [(self.ring_below, RING_SETTING), (self.small_below, SMALL_SETTING)];
        let units = self.units.iter().flat_map(|rows| {
            [(rows.tiny_below, TINY_SETTING), (rows.small_below, VELO_SETTING), (rows.medium_below, BOUNCE_SETTING)]
        });
        let settings: Vec<_> = settings.into_iter().chain(units).collect();
        let fixed = [0, self.inline_below, self.rendezvous_above + 1];
        let mut starts: Vec<usize> = settings.iter().map(|(start, _)| *start).chain(fixed).collect();
        starts.sort_unstable();
        let kind = |length: usize| (self.of(length, SendEnd::Sent), length < self.inline_below);
        // A limit that another one hides changes nothing.
        starts.dedup_by(|start, before| kind(*start) == kind(*before));
        let ends = starts.iter().skip(1).map(|start| Some(*start)).chain([None]);
        let range = |(&from, end): (&usize, Option<usize>)| {
            let (protocol, is_inline) = kind(from);
            let setting = settings.iter().find(|(start, _)| Some(*start) == end);
            Range { from, to: end.map(|end| end - 1), protocol, is_inline, setting: setting.map(|(_, name)| *name) }
        };
        starts.iter().zip(ends).map(range).collect()
    }

    /// The row over the units for a message of this length, if the peer takes messages over them.
    fn row(&self, length: usize, end: SendEnd) -> Option<Protocol> {
        let rows = self.units.as_ref()?;
        Some(match length {
            // Only the fetch of the payload reports that the message was matched.
            _ if end == SendEnd::Matched => Protocol::Long,
            _ if length < rows.tiny_below => Protocol::Tiny,
            _ if length < rows.small_below => Protocol::Small,
            _ if length < rows.medium_below => Protocol::Medium,
            _ => Protocol::Long,
        })
    }

    /// The protocol for a message that the ring does not take.
    pub fn without_ring(&self, length: usize, end: SendEnd) -> Protocol {
        // A fetched message has been matched.
        let stays = end == SendEnd::Matched;
        if length > self.rendezvous_above || stays { Protocol::Rendezvous } else { Protocol::Direct }
    }
}

/// Classes of message lengths. Each class has its own code for rings.
pub mod length_of {
    use selvedge_host::rings::INLINE_BYTES;
    use selvedge_os::copy;

    /// Nothing, half a word or a word.
    pub const A_WORD: u8 = 0;
    /// As much as fits into one slot.
    pub const A_SLOT: u8 = 1;
    /// Longer than a slot.
    pub const MORE: u8 = 2;

    /// Whether a length belongs to the class `LENGTH`.
    #[inline(always)]
    pub fn is<const LENGTH: u8>(bytes: usize) -> bool {
        match LENGTH {
            A_WORD => copy::is_word(bytes),
            A_SLOT => bytes <= INLINE_BYTES,
            _ => bytes > INLINE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { ring_max: 16 << 10, small_max: 2 << 10, tiny_max: 56, velo_max: 512, bounce_max: 4 << 10 };

    #[test]
    fn a_peer_with_a_ring_has_every_row() {
        let rows = Protocols::new(&LIMITS, true, true);
        let first = |length| rows.of(length, SendEnd::Sent);
        assert_eq!(rows.inline_below, INLINE_BYTES + 1);
        assert_eq!([0, 1, INLINE_BYTES, INLINE_BYTES + 1, 2 << 10].map(first), [Protocol::Ring; 5]);
        assert_eq!([(2 << 10) + 1, 16 << 10].map(first), [Protocol::DirectElseRing; 2]);
        assert_eq!([(16 << 10) + 1, 1 << 30].map(first), [Protocol::Rendezvous; 2]);
    }

    #[test]
    fn a_peer_without_a_ring_is_reached_directly() {
        let rows = Protocols::new(&LIMITS, false, true);
        assert_eq!((rows.inline_below, rows.long_below), (0, 0));
        assert_eq!([0, 8, 16 << 10].map(|length| rows.of(length, SendEnd::Sent)), [Protocol::Direct; 3]);
        assert_eq!(rows.of((16 << 10) + 1, SendEnd::Sent), Protocol::Rendezvous);
    }

    #[test]
    fn a_send_that_waits_for_its_match_takes_no_ring() {
        let rows = Protocols::new(&LIMITS, true, true);
        assert_eq!([0, 8, 1 << 20].map(|length| rows.of(length, SendEnd::Matched)), [Protocol::Rendezvous; 3]);
    }

    #[test]
    fn a_send_that_waits_for_its_delivery_takes_a_ring_if_its_message_is_visible_at_once() {
        let first = |rows: &Protocols, end| {
            [0, 8, 2 << 10, (2 << 10) + 1, 16 << 10, 1 << 20].map(|length| rows.of(length, end))
        };
        let rows = Protocols::new(&LIMITS, true, true);
        assert_eq!(first(&rows, SendEnd::Delivered), first(&rows, SendEnd::Sent));
        let later = Protocols::new(&LIMITS, true, false);
        assert_eq!((later.of(8, SendEnd::Sent), later.inline_below, later.long_below), (Protocol::Ring, 0, 0));
        let without = Protocols::new(&LIMITS, false, true);
        assert_eq!(first(&later, SendEnd::Delivered), first(&without, SendEnd::Sent));
    }

    #[test]
    fn a_peer_with_units_has_four_rows() {
        let rows = Protocols::over_units(&LIMITS);
        assert_eq!((rows.inline_below, rows.long_below), (0, 0));
        for end in [SendEnd::Sent, SendEnd::Delivered] {
            let first = |length| rows.of(length, end);
            assert_eq!([0, 56].map(first), [Protocol::Tiny; 2]);
            assert_eq!([57, 512].map(first), [Protocol::Small; 2]);
            assert_eq!([513, 4 << 10].map(first), [Protocol::Medium; 2]);
            assert_eq!([(4 << 10) + 1, 1 << 30].map(first), [Protocol::Long; 2]);
        }
        assert_eq!([0, 8, 1 << 20].map(|length| rows.of(length, SendEnd::Matched)), [Protocol::Long; 3]);
        // A limit of 0 closes its row, and the next row takes the messages.
        let rows = Protocols::over_units(&Limits { velo_max: 0, bounce_max: 100, ..LIMITS });
        assert_eq!(
            [56, 57, 100, 101].map(|length| rows.of(length, SendEnd::Sent)),
            [Protocol::Tiny, Protocol::Medium, Protocol::Medium, Protocol::Long]
        );
    }

    #[test]
    fn ranges_are_the_rows_for_people() {
        let kinds = |rows: &Protocols| -> Vec<_> {
            rows.ranges().iter().map(|range| (range.from, range.to, range.protocol, range.setting)).collect()
        };
        let rows = Protocols::new(&LIMITS, true, true);
        let wanted = [
            (0, Some(INLINE_BYTES), Protocol::Ring, None),
            (INLINE_BYTES + 1, Some(2 << 10), Protocol::Ring, Some(SMALL_SETTING)),
            ((2 << 10) + 1, Some(16 << 10), Protocol::DirectElseRing, Some(RING_SETTING)),
            ((16 << 10) + 1, None, Protocol::Rendezvous, None),
        ];
        assert_eq!(kinds(&rows), wanted);
        assert!(rows.ranges()[0].is_inline && !rows.ranges()[1].is_inline);
        let far = Protocols::elsewhere(&LIMITS);
        let limit = POOLED_BYTES_MAX;
        assert_eq!(
            kinds(&far),
            [(0, Some(limit), Protocol::Direct, None), (limit + 1, None, Protocol::Rendezvous, None)]
        );
        let units = Protocols::over_units(&Limits { velo_max: 0, ..LIMITS });
        let wanted = [
            (0, Some(56), Protocol::Tiny, Some(TINY_SETTING)),
            (57, Some(4 << 10), Protocol::Medium, Some(BOUNCE_SETTING)),
            ((4 << 10) + 1, None, Protocol::Long, None),
        ];
        assert_eq!(kinds(&units), wanted);
        // Every length is in one range, with the protocol that the table gives it.
        for rows in [rows, far, units] {
            let mut next = 0;
            for range in rows.ranges() {
                assert_eq!(range.from, next);
                for length in [range.from, range.to.unwrap_or(range.from)] {
                    assert_eq!(rows.of(length, SendEnd::Sent), range.protocol);
                }
                next = range.to.map_or(0, |to| to + 1);
            }
            assert_eq!(next, 0, "the last has no end");
        }
    }

    #[test]
    fn settings_may_close_the_ring_to_all_but_empty_messages() {
        let rows = Protocols::new(&Limits { ring_max: 0, small_max: 0, ..LIMITS }, true, true);
        assert_eq!(rows.of(0, SendEnd::Sent), Protocol::Ring);
        assert_eq!(rows.of(1, SendEnd::Sent), Protocol::Direct);
    }
}
