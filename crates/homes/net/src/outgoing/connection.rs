// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a link at its sender, and its control connection.
//!
//! | state | control connection | packets | on | then |
//! |---|---|---|---|---|
//! | `Closed` | none | none | [`Connection::connect`], at the first packet | `Greeting` |
//! | `Greeting` | connects, greets | wait | the answer | `Open` |
//! | | | | its end without an answer | `ClosedByReceiver` |
//! | `ClosedByReceiver` | ended | wait | [`Connection::connect`], after [`RETRY_AFTER`] | `Greeting` |
//! | `Open` | acknowledgements of frames | are sent | its end ([`Connection::note_end`]) | `Ending` |
//! | | | | it is idle, and this process has too many links ([`Connection::rest`]) | `Closing` |
//! | `Closing` | the last acknowledgement | wait | that acknowledgement | `Resting` |
//! | | | | its end | `Ending` |
//! | `Resting` | none | wait | [`Connection::connect`], at the next packet | `Greeting` |
//! | `Ending` | ended | are sent; the peer's last frames may still come | silence of the peer | `Lost` |
//! | `Lost` | none | refused | | |
//!
//! Every state but `Lost` goes to `Lost` on [`Connection::lose`]. A greeting has no time limit, because the peer's
//! program may compute. The kernel detects a lost host. A receiver that strangers flood may close a connection before
//! its greeting, so the sender connects again until the time-out of links; a process that has ended refuses the next
//! connection.

use std::time::{Duration, Instant};

use selvedge_host::links::LinkState;

use crate::address::LinkAddress;
use crate::control::{Control, Disconnect};
use crate::control_message::{ControlMessage, MessageSealer};
use crate::endpoint::{Destination, Endpoint};
use crate::errors::LinkError;
use crate::frame::{FrameHeader, Seal};
use crate::greeting::{Answer, GreetingError, Hello, Key, NO_HOST, Nonce, Offer};
use crate::retransmission::{InvalidAck, Window};
use crate::settings::{Check, Settings};

/// The pause before a connection that was closed in its greeting is made again.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// A sender that has sent no frame for this time tells the receiver how many it has sent.
const TELL_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Connection {
    stage: Stage,
    /// The name of the peer's endpoint and its entry in the address vector, since the link was first open.
    known: Option<(Vec<u8>, Destination)>,
}

enum Stage {
    Closed,
    Greeting(Box<Greeting>),
    ClosedByReceiver(Box<Greeting>, Instant),
    Open(Box<Open>),
    Ending(Box<Open>, Ending),
    Closing(Box<Open>),
    Resting,
    Lost,
}

struct Ending {
    since: Instant,
    why: LinkError,
}

struct Greeting {
    control: Control,
    key: Option<Key>,
    /// The time at which the receiver first closed a connection.
    first_closed: Option<Instant>,
}

pub(super) struct Open {
    control: Control,
    /// The peer's endpoint.
    pub(super) to: Destination,
    pub(super) header: FrameHeader,
    pub(super) seal: Seal,
    /// None: the link has no check, and no frame is repeated.
    pub(super) window: Option<Window>,
    sent: MessageSealer,
    received: MessageSealer,
    is_end_announced: bool,
    /// The receiver has announced the end of its process.
    has_receiver_ended: bool,
    /// The receiver has acknowledged all frames before this number.
    acked: u64,
    /// The receiver was told that frames before this number were sent.
    told: u64,
    /// The number of frames at the last look, and the time at which it was first seen.
    seen: (u64, Instant),
    /// The receiver has asked for the end of the link, once it is idle.
    is_asked_to_rest: bool,
    /// The receiver has acknowledged all frames, by its last message. [`Connection::rest`] sets it to false, because the
    /// receiver acknowledges once more.
    has_all_acknowledged: bool,
}

impl Connection {
    pub fn new() -> Connection {
        Connection { stage: Stage::Closed, known: None }
    }

    /// Whether the link must be opened before it can be used: it never was open, or rests.
    pub fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::Resting)
    }

    /// Whether the link was closed because it was idle.
    pub fn is_resting(&self) -> bool {
        matches!(self.stage, Stage::Resting)
    }

    /// Whether the link waits for the last acknowledgement before it rests.
    pub fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing(_))
    }

    /// Whether the link has a connection, or makes one.
    pub fn is_in_use(&self) -> bool {
        !matches!(self.stage, Stage::Closed | Stage::Resting | Stage::Lost)
    }

    /// Returns the time since which an open link has sent no frame.
    pub fn idle_since(&self) -> Option<Instant> {
        let Stage::Open(open) = &self.stage else { return None };
        (open.seen.0 == open.header.number).then_some(open.seen.1)
    }

    /// Whether the receiver of an open link has asked for its end.
    pub fn is_asked_to_rest(&self) -> bool {
        matches!(&self.stage, Stage::Open(open) if open.is_asked_to_rest)
    }

    /// Begins to close an open link that has nothing to send, and nothing unacknowledged.
    pub fn rest(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Open(mut open) => {
                open.has_all_acknowledged = false;
                open.control.send(&open.sent.seal(ControlMessage::Rest(open.header.number)));
                // If the connection has ended, the next look at it finds that.
                let _ = open.control.send_now();
                Stage::Closing(open)
            }
            other => other,
        };
    }

    pub fn is_lost(&self) -> bool {
        matches!(self.stage, Stage::Lost)
    }

    /// Returns the time at which the control connection ended, while the peer's last frames may still come.
    pub fn ending_since(&self) -> Option<Instant> {
        if let Stage::Ending(_, ending) = &self.stage { Some(ending.since) } else { None }
    }

    /// Returns the reason for which the control connection ended.
    pub fn take_end(&mut self) -> Option<LinkError> {
        match &mut self.stage {
            Stage::Ending(_, ending) => Some(std::mem::replace(&mut ending.why, LinkError::Vanished)),
            _ => None,
        }
    }

    /// Whether frames can be sent, also while the link ends.
    pub fn is_open(&self) -> bool {
        self.open().is_some()
    }

    /// Whether a link that closes has the last acknowledgement.
    pub fn is_rest_acknowledged(&self) -> bool {
        matches!(&self.stage, Stage::Closing(open) if open.is_rest_acknowledged())
    }

    /// Ends the control connection of such a link.
    pub fn end_rest(&mut self) {
        self.stage = Stage::Resting;
    }

    /// Returns the state for tools.
    pub fn shown_state(&self) -> LinkState {
        match &self.stage {
            Stage::Closed | Stage::Resting => LinkState::Closed,
            Stage::Greeting(_) | Stage::ClosedByReceiver(..) => LinkState::Connecting,
            Stage::Open(_) | Stage::Closing(_) => LinkState::Open,
            Stage::Ending(..) => LinkState::Ending,
            Stage::Lost => LinkState::Lost,
        }
    }

    pub(super) fn open(&self) -> Option<&Open> {
        match &self.stage {
            Stage::Open(open) | Stage::Ending(open, _) => Some(open),
            _ => None,
        }
    }

    pub(super) fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.stage {
            Stage::Open(open) | Stage::Ending(open, _) => Some(open),
            _ => None,
        }
    }

    /// Returns the control connection, if there is one.
    pub fn control(&self) -> Option<&Control> {
        match &self.stage {
            Stage::Closed | Stage::Resting | Stage::Lost => None,
            Stage::Greeting(greeting) | Stage::ClosedByReceiver(greeting, _) => Some(&greeting.control),
            Stage::Open(open) | Stage::Ending(open, _) | Stage::Closing(open) => Some(&open.control),
        }
    }

    /// Returns the name of the peer's endpoint, once the link has been open.
    pub fn endpoint_name(&self) -> Option<&[u8]> {
        self.known.as_ref().map(|(name, _)| &name[..])
    }

    /// Begins to connect, for the first time or after the receiver has closed the last connection.
    pub fn connect(&mut self, address: &LinkAddress, settings: &Settings) -> Result<(), LinkError> {
        let control = Control::connect(settings.at, address.socket(), settings.timeout)?;
        let first_closed =
            if let Stage::ClosedByReceiver(before, _) = &self.stage { before.first_closed } else { None };
        self.stage = Stage::Greeting(Box::new(Greeting { control, key: None, first_closed }));
        Ok(())
    }

    /// Whether the receiver has closed the connection in its greeting. It is no longer watched.
    pub fn was_closed_by_receiver(&self) -> bool {
        matches!(self.stage, Stage::ClosedByReceiver(..))
    }

    /// Whether such a connection is due to be made again.
    pub fn is_due_again(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::ClosedByReceiver(_, since) if now.saturating_duration_since(since) >= RETRY_AFTER)
    }

    /// Continues the greeting, or reads the receiver's messages. An error that [`LinkError::is_end`] on an open link:
    /// the control connection has ended.
    pub fn advance(
        &mut self,
        address: &LinkAddress,
        own: &LinkAddress,
        settings: &Settings,
        endpoint: &mut Endpoint,
        nonce: impl Fn() -> Nonce,
    ) -> Result<(), LinkError> {
        let Greeting { control, key, .. } = match &mut self.stage {
            Stage::Closed | Stage::ClosedByReceiver(..) | Stage::Resting | Stage::Lost => return Ok(()),
            Stage::Open(open) | Stage::Ending(open, _) => return open.advance(),
            Stage::Closing(open) => {
                let ended = open.advance();
                return if open.is_rest_acknowledged() { Ok(()) } else { ended };
            }
            Stage::Greeting(greeting) => &mut **greeting,
        };
        let ended = control.advance();
        while let Some(message) = control.take_message()? {
            if let Some(key) = key {
                let answer = Answer::decode(&message, key)?;
                let to = match &self.known {
                    Some((name, to)) if *name == answer.endpoint => *to,
                    _ => endpoint.insert(&answer.endpoint).map_err(|error| LinkError::Endpoint(error.to_string()))?,
                };
                self.known = Some((answer.endpoint, to));
                let seal = settings.check.seal(key);
                let (sent, received) = (MessageSealer::for_sender(key), MessageSealer::for_receiver(key));
                if let Stage::Greeting(greeting) = std::mem::replace(&mut self.stage, Stage::Closed) {
                    let Greeting { control, .. } = *greeting;
                    self.stage = Stage::Open(Box::new(Open {
                        control,
                        to,
                        header: FrameHeader { link: answer.link, key: answer.key, number: 0 },
                        window: (settings.check != Check::None).then(Window::default),
                        seal,
                        sent,
                        received,
                        is_end_announced: false,
                        has_receiver_ended: false,
                        acked: 0,
                        told: 0,
                        seen: (0, Instant::now()),
                        is_asked_to_rest: false,
                        has_all_acknowledged: false,
                    }));
                }
                // The first acknowledgements may have come with the answer.
                return if let Stage::Open(open) = &mut self.stage { open.advance() } else { Ok(()) };
            }
            let hello = Hello::decode(&message)?;
            let own_nonce = nonce();
            let made = Key::new(address.token(), &settings.secret, hello.nonce, own_nonce);
            let offer = Offer {
                nonce: own_nonce,
                nid: settings.nid.unwrap_or(NO_HOST),
                address: *own,
                check: settings.check.number(),
                provider: endpoint.provider().to_owned(),
            };
            control.send(&offer.encode(&made));
            *key = Some(made);
            if let Err(end) = control.advance() {
                return self.end_greeting(end, settings.timeout);
            }
        }
        ended.or_else(|end| self.end_greeting(end, settings.timeout))
    }

    /// Ends a connection without an answer. It is made again, unless the receiver cannot be reached, or has closed
    /// connections for the time-out of links.
    fn end_greeting(&mut self, end: Disconnect, timeout: Duration) -> Result<(), LinkError> {
        if !end.is_by_peer() {
            return Err(end_of(end));
        }
        let now = Instant::now();
        match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Greeting(mut greeting) => {
                let since = *greeting.first_closed.get_or_insert(now);
                self.stage = Stage::ClosedByReceiver(greeting, now);
                if now.saturating_duration_since(since) < timeout { Ok(()) } else { Err(end_of(end)) }
            }
            other => {
                self.stage = other;
                Err(end_of(end))
            }
        }
    }

    /// Notes that the control connection of an open link has ended.
    pub fn note_end(&mut self, since: Instant, why: LinkError) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Open(open) | Stage::Closing(open) => Stage::Ending(open, Ending { since, why }),
            other => other,
        };
    }

    pub(super) fn lose(&mut self) {
        self.stage = Stage::Lost;
    }
}

impl Open {
    /// Reads the receiver's messages, and detects its end.
    fn advance(&mut self) -> Result<(), LinkError> {
        let ended = self.control.advance();
        while let Some(message) = self.control.take_message()? {
            let now = Instant::now();
            let message = self.received.open(&message)?;
            let number = match message {
                ControlMessage::Ack(number) | ControlMessage::Nack(number) => number,
                ControlMessage::End(_) => {
                    self.has_receiver_ended = true;
                    continue;
                }
                ControlMessage::Rest(_) => {
                    self.is_asked_to_rest = true;
                    continue;
                }
                ControlMessage::Sent(_) => return Err(GreetingError::Malformed.into()),
            };
            let moved = match (&mut self.window, message) {
                (Some(window), ControlMessage::Ack(_)) => window.on_ack(number, now),
                (Some(window), _) => window.on_nack(number, now),
                (None, ControlMessage::Ack(_)) if number <= self.header.number => Ok(()),
                (None, _) => Err(InvalidAck),
            };
            moved.map_err(|InvalidAck| GreetingError::Malformed)?;
            self.acked = self.acked.max(number);
            self.has_all_acknowledged = matches!(message, ControlMessage::Ack(_)) && number == self.header.number;
        }
        ended.map_err(|end| LinkError::of_end(end, self.has_receiver_ended))
    }

    fn is_rest_acknowledged(&self) -> bool {
        self.has_all_acknowledged && !self.control.has_to_send()
    }

    /// Looks whether frames were sent since the last look. If none has followed for a while, tells the receiver of a link
    /// without a check how many there were. So it notices if the last one was lost.
    pub(super) fn tell_sent(&mut self, now: Instant) {
        let number = self.header.number;
        if self.seen.0 != number {
            self.seen = (number, now);
            return;
        }
        if self.window.is_some() || number == self.told {
            return;
        }
        if now.saturating_duration_since(self.seen.1) >= TELL_AFTER {
            self.told = number;
            self.control.send(&self.sent.seal(ControlMessage::Sent(number)));
            // If the connection has ended, the next look at it finds that.
            let _ = self.control.send_now();
        }
    }

    /// Announces the end of the link, once. Returns whether frames are unacknowledged.
    pub(super) fn announce_end(&mut self) -> bool {
        let number = self.header.number;
        if !self.is_end_announced {
            self.is_end_announced = true;
            self.control.send(&self.sent.seal(ControlMessage::End(number)));
        }
        self.control.send_now().is_ok() && self.acked < number
    }
}

fn end_of(end: Disconnect) -> LinkError {
    match end {
        Disconnect::Closed => LinkError::Vanished,
        Disconnect::Failed(error) => LinkError::Io(error),
    }
}
