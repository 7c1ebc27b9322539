// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message under way: a [`Command`] of the NIC, so that every home carries it like those of the other units, or a
//! message in a ring to the port. The fields of the command:
//!
//! | field | contents |
//! |---|---|
//! | `kind` | [`kind::VELO_SEND`] |
//! | `match_bits` | the header word ([`super::header`]), with the destination |
//! | `initiator` | source node |
//! | `portal` | source VPID |
//! | `length` | bytes of the payload |
//! | `source` | the payload |
//!
//! In a ring ([`crate::ring`]) `match_bits` hold the [`Label`](super::header::Label), and payload and length are those
//! of the ring's message.

use super::completer::{Received, Velo, VeloMessage};
use super::header::{Endpoint, Extent, Header};
use crate::bus::Bus;
use crate::portals::constants::fail;
use crate::portals::delivery::{Delivery, Verdict};
use crate::tables::{BlockedHead, Command, Request, Side, blocked, kind};

/// A message for the requester: its destination, and the fields of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub source: Endpoint,
    pub destination: Endpoint,
    /// The home's address of the destination node.
    pub target: u64,
    pub mtt: u8,
    pub tag: u8,
    /// Address and bytes of the payload.
    pub start: u64,
    pub bytes: u32,
}

impl Outgoing {
    /// The command that sends it. None: the message is empty, or longer than any message.
    pub fn command(&self) -> Option<Command> {
        let extent = Extent::whole(self.bytes)?;
        let (destination, mtt, tag) = (self.destination, self.mtt, self.tag);
        let header = Header { destination, extent, mtt, tag, multicast: false, interrupt: false };
        Some(Command {
            request: Request {
                kind: kind::VELO_SEND,
                match_bits: header.word(),
                initiator: self.source.node.into(),
                portal: self.source.vpid.into(),
                length: self.bytes.into(),
                ..Request::default()
            },
            target: self.target,
            user_ptr: 0,
            source: Side { start: self.start, ..Side::NOWHERE },
            sink: Side::NOWHERE,
        })
    }
}

impl Velo<'_, '_> {
    pub(crate) fn deliver<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        let failed = |fail| Verdict::Done(Delivery::failed(fail));
        let (Ok(header), Ok(bytes)) = (Header::from_word(request.match_bits), u32::try_from(request.length)) else {
            return failed(fail::DROPPED);
        };
        let source = Endpoint { node: request.initiator as u16, vpid: request.portal as u16 };
        let message = VeloMessage { vpid: header.destination.vpid, status: header.status(source), bytes };
        match self.receive(bus, &message) {
            Received::Written { .. } => {
                Verdict::Done(Delivery { mlength: request.length, ..Delivery::failed(fail::OK) })
            }
            Received::Full => Verdict::Full,
            Received::NotOpen => {
                // Only its sender knows the node of the destination by its id.
                let target = header.destination.node.into();
                let ports = (header.destination.vpid.into(), request.portal);
                if let Some(heads) = self.blocked.as_deref_mut() {
                    heads.push(&BlockedHead::of(request, target, ports, blocked::CLOSED));
                }
                failed(fail::DROPPED)
            }
            Received::Discarded | Received::Malformed => failed(fail::DROPPED),
            Received::Initiator(fault) => Verdict::Initiator(fault),
        }
    }
}
