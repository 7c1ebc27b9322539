// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result and the events of a command: those of `nic`, and those that a processor derives from the RTL's answers.

use selvedge_nic::portals::errors::{AppendError, UnlinkError};
use selvedge_nic::portals::{Delivery, EntrySpec, Event, event_kind, fail, list, options};
use selvedge_nic::tables::{Request, kind};

use super::words::{ListCommand, answer, entry_a, entry_b, header_a, header_b, key, plan, status};
use crate::bits::Field;
use crate::error::LockstepError;

/// The result and the events of a command, on one of the two sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The result of a message.
    pub delivery: Option<Delivery>,
    /// The result of an append: a reference, or a full table.
    pub appended: Option<Result<u32, AppendError>>,
    /// Whether an append has linked its entry.
    pub is_linked: bool,
    pub unlinked: Option<Result<(), UnlinkError>>,
    pub events: Vec<Event>,
}

/// An answer of the RTL, with the effect of a message on its entry.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub words: Vec<u32>,
    pub cycle: u32,
}

impl Answer {
    pub fn get(&self, field: Field) -> u64 {
        field.get(&self.words)
    }
    fn key(&self, field: Field) -> u64 {
        self.get(field.within(answer::KEY.at))
    }
    fn a(&self, field: Field) -> u64 {
        self.get(field.within(answer::A.at))
    }
    fn b(&self, field: Field) -> u64 {
        self.get(field.within(answer::B.at))
    }
}

impl Outcome {
    /// Derives the result and the events from the RTL's answers to a command, and from a message's plan.
    pub(super) fn of_rtl(
        command: &ListCommand,
        answers: &[Answer],
        plan: Option<&[u32]>,
    ) -> Result<Outcome, LockstepError> {
        let mut outcome = Outcome::default();
        for answer in answers {
            let status = answer.get(answer::STATUS);
            match command {
                ListCommand::Deliver(request) => outcome.deliver(request, answer, plan)?,
                ListCommand::Append { portal, which, spec } => {
                    let reference = answer.get(answer::ENTRY_REFERENCE) as u32;
                    match status {
                        status::MATCHED => taken_header(&mut outcome, answer, spec, None),
                        status::DRAINED => drained(&mut outcome, answer),
                        status::LINKED => {
                            (outcome.appended, outcome.is_linked) = (Some(Ok(reference)), true);
                            if spec.options & options::EVENT_LINK_DISABLE == 0 {
                                outcome.events.push(about_entry(
                                    *portal,
                                    spec.start,
                                    spec.user_ptr,
                                    event_kind::LINK,
                                    *which,
                                ));
                            }
                        }
                        status::SPENT => {
                            outcome.appended = Some(Ok(reference));
                            if spec.options & options::EVENT_UNLINK_DISABLE == 0 {
                                let kind = event_kind::AUTO_UNLINK;
                                outcome.events.push(about_entry(
                                    *portal,
                                    spec.start,
                                    spec.user_ptr,
                                    kind,
                                    list::PRIORITY,
                                ));
                            }
                        }
                        status::ENTRIES_FULL => outcome.appended = Some(Err(AppendError::Full)),
                        other => return Err(format!("status {other} of an append").into()),
                    }
                }
                ListCommand::Unlink(_) => {
                    outcome.unlinked = Some(match status {
                        status::UNLINKED => Ok(()),
                        status::IN_USE => Err(UnlinkError::InUse),
                        status::INVALID => Err(UnlinkError::Invalid),
                        other => return Err(format!("status {other} of an unlink").into()),
                    });
                }
                ListCommand::Search { portal, spec, delete } => match status {
                    status::MATCHED => {
                        taken_header(&mut outcome, answer, spec, (!delete).then_some(event_kind::SEARCH))
                    }
                    status::DRAINED => drained(&mut outcome, answer),
                    status::COMPLETE => {}
                    status::NO_MATCH => {
                        if spec.options & options::EVENT_COMM_DISABLE == 0 {
                            let about =
                                about_entry(*portal, spec.start, spec.user_ptr, event_kind::SEARCH, list::OVERFLOW);
                            outcome.events.push(Event { fail: fail::NO_MATCH, ..about });
                        }
                    }
                    other => return Err(format!("status {other} of a search").into()),
                },
            }
        }
        Ok(outcome)
    }

    fn deliver(&mut self, request: &Request, answer: &Answer, effect: Option<&[u32]>) -> Result<(), LockstepError> {
        let failed = match answer.get(answer::STATUS) {
            status::MATCHED => {
                let Some(effect) = effect else { return Err("no plan".into()) };
                self.deliver_to_entry(request, answer, |field| field.get(effect));
                return Ok(());
            }
            status::NO_MATCH | status::HEADERS_FULL => fail::DROPPED,
            status::PERMISSION => fail::PERM_VIOLATION,
            status::OPERATION => fail::OP_VIOLATION,
            other => return Err(format!("status {other} of a message").into()),
        };
        self.delivery = Some(Delivery::failed(failed));
        effect.map_or(Ok(()), |_| Err("a refused message has a plan".into()))
    }

    fn deliver_to_entry(&mut self, request: &Request, answer: &Answer, effect: impl Fn(Field) -> u64) {
        let flags = answer.key(key::OPTIONS) as u32;
        let which = answer.get(answer::OVERFLOW) as u8;
        let (start, user_ptr) = (answer.a(entry_a::START), answer.b(entry_b::USER_PTR));
        let (offset, mlength) = (effect(plan::OFFSET), effect(plan::MLENGTH));
        let ack_disabled = flags & options::ACK_DISABLE != 0;
        self.delivery = Some(Delivery { fail: fail::OK, mlength, remote_offset: offset, ack_disabled, list: which });
        if flags & (options::EVENT_COMM_DISABLE | options::EVENT_SUCCESS_DISABLE) == 0 {
            self.events.push(Event {
                start: start.wrapping_add(offset),
                user_ptr,
                header_data: request.header_data,
                match_bits: request.match_bits,
                rlength: request.length,
                mlength,
                remote_offset: request.remote_offset,
                initiator: request.initiator,
                uid: request.uid,
                portal: request.portal,
                kind: if request.kind == kind::GET { event_kind::GET } else { event_kind::PUT },
                list: which,
                ..Event::default()
            });
        }
        let mut about = |kind| {
            if flags & options::EVENT_UNLINK_DISABLE == 0 {
                self.events.push(about_entry(request.portal, start, user_ptr, kind, which));
            }
        };
        if effect(plan::UNLINKS) == 1 {
            about(event_kind::AUTO_UNLINK);
            if which == list::OVERFLOW && effect(plan::FREED) == 1 {
                about(event_kind::AUTO_FREE);
            }
        }
    }
}

fn about_entry(portal: u32, start: u64, user_ptr: u64, kind: u8, which: u8) -> Event {
    Event { start, user_ptr, portal, kind, list: which, ..Event::default() }
}

/// The event for a header that an append or a search has taken.
fn taken_header(outcome: &mut Outcome, answer: &Answer, spec: &EntrySpec, kind: Option<u8>) {
    let own = if kind.is_some() { options::EVENT_COMM_DISABLE } else { options::EVENT_OVER_DISABLE };
    if spec.options & (own | options::EVENT_SUCCESS_DISABLE) != 0 {
        return;
    }
    let is_get = answer.a(header_a::OPERATION) == u64::from(kind::GET);
    let over = if is_get { event_kind::GET_OVERFLOW } else { event_kind::PUT_OVERFLOW };
    outcome.events.push(Event {
        start: answer.a(header_a::START),
        user_ptr: spec.user_ptr,
        header_data: answer.a(header_a::HEADER_DATA),
        match_bits: answer.key(key::MATCH_BITS),
        rlength: answer.key(key::LENGTH),
        mlength: answer.a(header_a::MLENGTH),
        remote_offset: answer.a(header_a::REMOTE_OFFSET),
        initiator: answer.key(key::SOURCE),
        uid: answer.b(header_b::UID) as u32,
        portal: answer.key(key::PORTAL) as u32,
        kind: kind.unwrap_or(over),
        list: list::OVERFLOW,
        ..Event::default()
    });
}

/// The event for an overflow entry that has waited for its last header.
fn drained(outcome: &mut Outcome, answer: &Answer) {
    if answer.key(key::OPTIONS) as u32 & options::EVENT_UNLINK_DISABLE == 0 {
        let user_ptr = answer.b(entry_b::USER_PTR);
        let portal = answer.key(key::PORTAL) as u32;
        let start = answer.a(entry_a::START);
        outcome.events.push(about_entry(portal, start, user_ptr, event_kind::AUTO_FREE, list::OVERFLOW));
    }
}
