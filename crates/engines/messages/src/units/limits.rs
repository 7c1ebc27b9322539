// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and limits of a transport's units: the mailbox and the notification queues have room for everything that may
//! be sent (docs/design/messages.md, why nothing is lost).

use selvedge_nic::Limits;
use selvedge_nic::velo::header::Extent;

use super::credits::{BOUNCES, SLOTS};

/// The port of a transport for messages.
pub(super) const MESSAGE_VPID: u16 = 0;
/// The port for accesses. Commands leave from it, and the directory is there.
pub(super) const ACCESS_VPID: u16 = 1;
/// The ports of regions. Each opening of a NIC uses one. An access to a region reaches no other memory.
pub(super) const REGION_VPIDS: [u16; 2] = [2, 3];
/// The number of ports in all.
pub(super) const PORTS: u32 = 4;
/// Largest number of puts whose payload has not been read yet.
pub(super) const STAGING_SLOTS: u64 = 16;
/// Largest number of gets under way.
pub(super) const GETS_MAX: usize = 64;
/// Control messages of one peer that may be in the mailbox: hello, the answer to ours, a question, the end of a grant,
/// *forget*, *forgotten*, and four repetitions of *forget* ([`super::retired`]).
pub(super) const CONTROL_SLOTS: u32 = 10;
/// Slots that the reader has freed but not yet published.
pub(super) const UNPUBLISHED_SLOTS: u32 = 16;
/// Number of peers with a grant if the size of the job is unknown, and its maximum.
pub(super) const PEERS_DEFAULT: u32 = 64;
pub(super) const PEERS_MAX: u32 = 256;
/// Number of ids of a job.
pub(super) const IDS: u32 = 1 << 10;
/// Largest number of access commands under way.
pub(super) const COMMANDS_MAX: usize = 256;
/// Largest number of the library's own gets under way: look-ups, and those behind puts.
pub(super) const LANDINGS: u64 = 64;
/// Largest number of lock requests under way.
pub(super) const MARKS_MAX: usize = 16;

/// The limits of a NIC for `peers` peers with a grant, and `sends_max` sends.
pub(crate) fn limits(nic: &Limits, peers: u32, address_tables: u32, sends_max: u32) -> Limits {
    let (slots, bounces) = (u32::from(SLOTS), u32::from(BOUNCES));
    // For each peer: puts, reports of our messages, their failures, and its end.
    let of_peer = bounces + 2 * (slots + bounces) + 1;
    // For this process: staging slots, gets and sources, and their failures.
    let own = 2 * (STAGING_SLOTS as u32 + GETS_MAX as u32 + sends_max);
    // The port for accesses has a queue of the same length. Each command brings one notification. Refusals of our own
    // requester are read at once.
    let of_accesses = (COMMANDS_MAX + MARKS_MAX) as u32 + LANDINGS as u32 + 1;
    Limits {
        vpids: PORTS,
        velo_bytes: Limits::EXTOLL.velo_bytes,
        mailbox_slots: peers * slots + IDS * CONTROL_SLOTS + UNPUBLISHED_SLOTS,
        notifications: (peers * of_peer + own).max(of_accesses),
        address_tables,
        ..*nic
    }
    .clamped()
}

/// The number of peers that may have a grant, from the size of the job.
pub(crate) fn peers_wanted() -> u32 {
    let size = std::env::var("SELVEDGE_SIZE").ok().and_then(|size| size.parse().ok());
    size.unwrap_or(PEERS_DEFAULT).clamp(1, PEERS_MAX)
}

/// Slots of a mailbox that a VELO message of this length takes.
pub(super) fn slots_of(bytes: usize) -> u16 {
    Extent::whole(bytes as u32).map_or(0, |extent| extent.slots() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailbox_and_queue_have_room_for_all_grants() {
        for peers in [1, 2, 64, PEERS_MAX] {
            let made = limits(&Limits::DEFAULT, peers, 4, 2048);
            assert!(made.mailbox_slots >= peers * u32::from(SLOTS) + IDS * CONTROL_SLOTS + UNPUBLISHED_SLOTS);
            assert!(made.notifications >= peers * (u32::from(BOUNCES) + 2 * u32::from(SLOTS + BOUNCES)) + 2 * 2048);
            assert_eq!((made.vpids, made.entries), (PORTS, Limits::DEFAULT.entries), "the other tables are unchanged");
        }
    }

    #[test]
    fn slots_are_those_of_the_mailbox() {
        assert_eq!([1, 8, 56, 57, 64].map(slots_of), [1, 1, 1, 2, 2]);
    }
}
