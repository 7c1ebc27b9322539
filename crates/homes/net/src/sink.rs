// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user of the links, which takes the packets that arrive.

pub use selvedge_host::remote_hosts::{PayloadEnd, Placement};
use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::ids::{NicName, PeerId};

/// The thread that makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressCaller {
    /// The program, in a call.
    Program,
    /// The progress thread, while the program computes.
    Thread,
}

/// Takes the packets of links.
pub trait Sink: Send + Sync {
    /// Takes a packet of a peer for a NIC of this process.
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8], caller: ProgressCaller);

    /// Returns the limit of a packet's payload, in bytes. It is called for a payload in several frames, before memory
    /// is used for it.
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64;

    /// Places a payload that is still in the peer's memory. All earlier packets of the peer were handed over, or
    /// placed. `may_wait`: the answer may be [`Placement::NotYet`], and the sink is asked again in a later step.
    fn place(
        &self,
        _from: PeerId,
        _to: NicName,
        _packet: &[u8; PACKET_BYTES],
        _caller: ProgressCaller,
        _may_wait: bool,
    ) -> Placement {
        Placement::Whole
    }

    /// Ends a packet that [`Sink::place`] has given a number.
    fn finish(&self, _from: PeerId, _to: NicName, _packet: &[u8; PACKET_BYTES], _number: u64, _end: PayloadEnd) {}

    /// Ends a packet of a peer that has no place, and whose payload will never come.
    fn give_up(&self, _from: PeerId, _to: NicName, _packet: &[u8; PACKET_BYTES]) {}

    /// Ends a packet of this process for a peer's NIC: the program has unmapped its payload before the peer had it.
    fn unreadable(&self, _peer: PeerId, _to: NicName, _packet: &[u8; PACKET_BYTES]) {}

    /// Notes that a peer was lost: requests to it fail, and waiters should look.
    fn lost(&self, peer: PeerId);

    /// Runs work that only this process can do, when the progress thread wakes and the program does not poll.
    fn run_owner_work(&self) {}
}
