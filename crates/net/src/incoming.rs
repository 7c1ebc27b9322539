// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's half of links: accept, greet, check frames, put packets together.
//!
//! Frames arrive in any order: a provider that keeps the order of sends matches them with receive buffers in that order, but completes a
//! short frame before a long one that it still reads. A frame that is early is held.
//!
//! Invariants
//! 1. Nothing is taken from a sender that has not proved itself, and no frame whose key is not that of its link.
//! 2. Frames are taken in the order of their numbers.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use selvedge_nic::packet::{HEADER_BYTES as PACKET_BYTES, Packet};

use crate::address::LinkAddress;
use crate::control::{Control, End};
use crate::endpoint::Arrived;
use crate::frame::{self, Assembler, FrameError, NicName};
use crate::greeting::{Answer, GreetingError, Hello, Key, Nonce, Offer, refusal};
use crate::links::PeerId;
use crate::settings::{Check, Settings};

/// How long a peer that has ended may be silent before it is lost: its last frames travel beside the control connection, and may
/// come after its end.
pub(crate) const LAST_FRAMES: Duration = Duration::from_millis(500);

/// The longest greeting. A sender may make no calls for a while; whoever says nothing for longer is no peer.
const GREETING_MAX: Duration = Duration::from_secs(600);

/// A link from a peer.
pub(crate) struct Incoming {
    control: Control,
    stage: Stage,
}

enum Stage {
    Greeting {
        nonce: Nonce,
        since: Instant,
    },
    Open {
        peer: PeerId,
        key: u64,
        /// The number of the next frame.
        number: u64,
        assembler: Assembler,
        /// Frames that are early, by number. Receive buffers bound them.
        held: BTreeMap<u64, Arrived>,
        /// When the control connection ended, or the last frame came after that.
        ended: Option<Instant>,
    },
}

/// A sender that has proved itself.
pub(crate) struct Proven {
    pub address: LinkAddress,
    pub nid: u32,
}

impl Incoming {
    /// Takes a connection, and says hello.
    pub fn new(mut control: Control, nonce: Nonce) -> Incoming {
        control.send(&Hello { nonce }.encode());
        Incoming { control, stage: Stage::Greeting { nonce, since: Instant::now() } }
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    pub fn peer(&self) -> Option<PeerId> {
        match self.stage {
            Stage::Open { peer, .. } => Some(peer),
            Stage::Greeting { .. } => None,
        }
    }

    /// Goes on with the greeting. `admit` gets a sender that has proved itself, and the key for its answer; it returns the peer and the
    /// answer. `Err` ends the link.
    pub fn advance(
        &mut self,
        own_token: u64,
        settings: &Settings,
        provider: &str,
        admit: impl FnOnce(Proven) -> (PeerId, Answer),
    ) -> Result<(), GreetingError> {
        let ended = self.control.advance();
        let Stage::Greeting { nonce, .. } = &self.stage else {
            let Stage::Open { ended: at, .. } = &mut self.stage else { return Ok(()) };
            if ended.is_err() {
                at.get_or_insert_with(Instant::now);
            }
            return if self.control.has_bytes() { Err(GreetingError::Malformed) } else { Ok(()) };
        };
        if let Some(message) = self.control.take_message()? {
            let own_nonce = *nonce;
            let key_of = |theirs| Key::new(own_token, &settings.secret, own_nonce, theirs);
            let opened = Offer::decode(&message, key_of).and_then(|(offer, key)| {
                if offer.provider != provider {
                    let theirs = offer.provider;
                    return Err(GreetingError::Provider { ours: provider.to_owned(), theirs });
                }
                if offer.check != settings.check.number() {
                    return Err(GreetingError::Check);
                }
                Ok((Proven { address: offer.address, nid: offer.nid }, key))
            });
            match opened {
                Ok((proven, key)) => {
                    let (peer, answer) = admit(proven);
                    self.control.send(&answer.encode(&key));
                    let assembler = Assembler::default();
                    self.stage = Stage::Open { peer, key: answer.key, number: 0, assembler, held: BTreeMap::new(), ended: None };
                }
                Err(why) => {
                    self.control.send(&refusal(&why));
                    let _ = self.control.advance();
                    return Err(why);
                }
            }
            if self.control.advance().is_err() {
                if let Stage::Open { ended, .. } = &mut self.stage {
                    *ended = Some(Instant::now());
                }
            }
            return Ok(());
        }
        match ended {
            Ok(()) => Ok(()),
            Err(End::Closed | End::Failed(_)) => Err(GreetingError::Stranger),
        }
    }

    /// Takes a frame of this link. `whole` gets each packet that is complete, `done` the frames that are used up.
    pub fn take(
        &mut self,
        frame: Arrived,
        check: Check,
        whole: &mut dyn FnMut(PeerId, NicName, &[u8; PACKET_BYTES], &[u8]),
        done: &mut Vec<Arrived>,
    ) -> Result<(), Dropped> {
        let mut next = Some(frame);
        while let Some(frame) = next.take() {
            match self.take_one(&frame, check, whole) {
                Ok(()) => done.push(frame),
                Err(Dropped::Early(early)) => {
                    let Stage::Open { held, .. } = &mut self.stage else { return Err(Dropped::Foreign) };
                    done.extend(held.insert(early, frame));
                    return Ok(());
                }
                Err(error) => {
                    done.push(frame);
                    return Err(error);
                }
            }
            if let Stage::Open { held, number, .. } = &mut self.stage {
                next = held.remove(number);
            }
        }
        Ok(())
    }

    /// The frames that are held, when the link ends.
    pub fn into_held(self) -> Vec<Arrived> {
        match self.stage {
            Stage::Open { held, .. } => held.into_values().collect(),
            Stage::Greeting { .. } => Vec::new(),
        }
    }

    fn take_one(
        &mut self,
        frame: &[u8],
        check: Check,
        whole: &mut dyn FnMut(PeerId, NicName, &[u8; PACKET_BYTES], &[u8]),
    ) -> Result<(), Dropped> {
        let Stage::Open { peer, key, number, assembler, ended, .. } = &mut self.stage else {
            return Err(Dropped::Foreign);
        };
        let (header, records) = frame::read(frame, check != Check::None)?;
        if header.key != *key {
            return Err(Dropped::Foreign);
        }
        match header.number.cmp(number) {
            Ordering::Equal => *number += 1,
            Ordering::Greater => return Err(Dropped::Early(header.number)),
            Ordering::Less => return Err(Dropped::Again { expected: *number, found: header.number }),
        }
        if let Some(at) = ended {
            *at = Instant::now();
        }
        for record in records {
            assembler.take(record?, Packet::payload_bytes_of, |to, packet, payload| {
                whole(*peer, to, packet, payload);
            })?;
        }
        Ok(())
    }

    /// Whether the control connection has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Open { ended: Some(_), .. })
    }

    /// Whether the peer has ended, and its last frames have come.
    pub fn is_over(&self) -> bool {
        match &self.stage {
            Stage::Open { ended: Some(at), .. } => at.elapsed() > LAST_FRAMES,
            _ => false,
        }
    }

    /// Whether this link's last frames are awaited.
    pub fn waits_for_time(&self) -> bool {
        matches!(self.stage, Stage::Open { ended: Some(_), .. })
    }

    /// Whether its sender has not proved itself.
    pub fn is_unproven(&self) -> bool {
        matches!(self.stage, Stage::Greeting { .. })
    }

    /// Whether its greeting takes too long.
    pub fn is_stale(&self) -> bool {
        matches!(&self.stage, Stage::Greeting { since, .. } if since.elapsed() > GREETING_MAX)
    }
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dropped {
    #[error("its link or key is unknown")]
    Foreign,
    #[error("its number is {found}, but {expected} is next: it comes again")]
    Again { expected: u64, found: u64 },
    #[error("its number is {0}, and one before has not come")]
    Early(u64),
    #[error(transparent)]
    Frame(#[from] FrameError),
}
