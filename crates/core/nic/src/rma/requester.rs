// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requester: from a descriptor to a command.
//!
//! A command of the RMA unit is a [`Command`] of the NIC, so that every home carries it like those of Portals. Its
//! fields:
//!
//! | field | contents |
//! |---|---|
//! | `kind` | [`kind::RMA_PUT`] to [`kind::RMA_IMMEDIATE_PUT`] |
//! | `portal` | destination VPID in 15:0, source VPID in 31:16 |
//! | `initiator` | source node |
//! | `operation` | notifications that are written ([`super::command::spec`]) |
//! | `datatype` | command code ([`super::command::code`]) |
//! | `match_bits` | mode ([`super::command::mode`]) in 7:0, destination node in 31:16 |
//! | `remote_offset` | remote address; of a lock its number |
//! | `header_data` | local address, as the program names it |
//! | `length` | bytes |
//! | `operand[0]` | value of an immediate or a notification put; of a lock compare in 63:32 and addend in 31:0 |
//! | `operand[1]` | class of a notification put; of a lock [`WITHDRAWS`] or 0 |
//! | `source`, `sink` | the translated local memory of a put, of a get |
//! | `lookups` | of a put: the look-ups of its local pages |
//! | `user_ptr` | the generation of the source port: a later port of its VPID gets no response |

use super::command::{code, effective_spec, error, mode, mode_of, modifier, options, spec};
use super::descriptor::{Descriptor, Operation};
use super::notification::{Notification, lock_word};
use super::queue::Notifications;
use crate::atu::{Access, Atu, TranslationFault};
use crate::bus::Bus;
use crate::registers::Register;
use crate::signals::Signals;
use crate::tables::{Command, Port, Request, Side, Tables, kind, slot};

/// The side of a command that the descriptor does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// Source node and VPID.
    pub node: u16,
    pub vpid: u16,
    /// Options of the connection ([`super::command::options`]).
    pub options: u32,
    /// The command is a descriptor of the prototype ([`super::prototype`]).
    pub prototype: bool,
    /// The home's address of the destination node.
    pub target: u64,
    pub uid: u32,
}

/// Marks a lock command that requests no lock: it withdraws the source port's requests for the destination's locks.
const WITHDRAWS: u64 = 1;

/// Reasons for which a descriptor became no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The source VPID is not open.
    Closed,
    /// The local memory is contiguous for only this many bytes. The library must split the command there.
    Cut(u32),
    /// The command is refused. The program has an error notification of the requester.
    Refused,
}

/// The unit: requester, completer and responder. It uses the lock space, the notification queues and the ATU.
pub struct Rma<'n, 'a> {
    pub(crate) tables: &'n mut Tables<'a>,
    pub(crate) signals: &'n Signals<'a>,
}

impl<'a> Rma<'_, 'a> {
    #[inline(always)]
    pub(super) fn notifications(&mut self) -> Notifications<'_, 'a> {
        Notifications { ports: self.tables.ports, signals: self.signals }
    }

    #[inline(always)]
    pub(super) fn atu(&mut self) -> Atu<'_> {
        Atu::of(self.tables, self.signals)
    }
}

impl Rma<'_, '_> {
    /// Makes a command from a descriptor. `bus` reaches this node's memory.
    pub fn request<B: Bus>(
        &mut self,
        bus: &mut B,
        from: &Requester,
        descriptor: &Descriptor,
    ) -> Result<Command, RequestError> {
        if !self.notifications().is_open(from.vpid) {
            return Err(RequestError::Closed);
        }
        let Port { options: permitted, slot, .. } = self.tables.ports[usize::from(from.vpid)];
        let mode = mode_of(from.options, permitted, descriptor.modifiers);
        let mut command = Command {
            request: Request {
                operation: effective_spec(from.prototype, descriptor.code, descriptor.spec),
                datatype: descriptor.code,
                portal: u32::from(descriptor.vpid) | u32::from(from.vpid) << 16,
                uid: from.uid,
                initiator: from.node.into(),
                match_bits: u64::from(mode) | u64::from(descriptor.node) << 16,
                ..Request::default()
            },
            target: from.target,
            user_ptr: slot::generation(slot).into(),
            source: Side::NOWHERE,
            sink: Side::NOWHERE,
        };
        let request = &mut command.request;
        match descriptor.operation {
            Operation::Put { read, write, bytes } => {
                (request.kind, request.length) = (kind::RMA_PUT, bytes.into());
                (request.header_data, request.remote_offset) = (read, write);
            }
            Operation::Get { read, write, bytes } => {
                (request.kind, request.length) = (kind::RMA_GET, bytes.into());
                (request.header_data, request.remote_offset) = (write, read);
            }
            Operation::ImmediatePut { write, value, bytes } => {
                (request.kind, request.length) = (kind::RMA_IMMEDIATE_PUT, bytes.into());
                (request.remote_offset, request.operand[0]) = (write, value);
            }
            Operation::NotificationPut { value, class } => {
                request.kind = kind::RMA_NOTIFICATION_PUT;
                (request.operand[0], request.operand[1]) = (value, class.into());
            }
            Operation::Lock { number, compare, add } => {
                request.kind = kind::RMA_LOCK;
                request.remote_offset = number.into();
                request.operand[0] = u64::from(compare as u32) << 32 | u64::from(add as u32);
            }
        }
        // Multicast groups, an accelerator's memory and remote registers are not supported.
        let unsupported = descriptor.modifiers & (modifier::MC | modifier::ERA | modifier::EWA) != 0;
        if unsupported || from.options & options::RRA != 0 {
            return Err(self.refuse_request(bus, &command));
        }
        let registers = self.signals.registers;
        match request.kind {
            kind::RMA_PUT => {
                (command.source, command.request.lookups) = self.local_side(bus, from.vpid, &command, Access::Read)?;
                registers.add(Register::RequesterPuts, 1);
            }
            kind::RMA_GET => {
                // A check ahead: the completer translates the memory of a get when the bytes are there.
                (command.sink, _) = self.local_side(bus, from.vpid, &command, Access::Write)?;
                registers.add(Register::RequesterGets, 1);
            }
            kind::RMA_IMMEDIATE_PUT | kind::RMA_NOTIFICATION_PUT => registers.add(Register::RequesterPuts, 1),
            _ => {}
        }
        // None of the program's memory is read later. So even at the own node this notification precedes the target's.
        if !command.has_payload() {
            self.notify_requester(bus, &command);
        }
        Ok(command)
    }

    /// Makes a command that withdraws a port's unanswered lock requests at a destination. It writes no notification.
    pub fn withdrawal<B: Bus>(
        &mut self,
        bus: &mut B,
        from: &Requester,
        (node, vpid): (u16, u8),
    ) -> Result<Command, RequestError> {
        let operation = Operation::Lock { number: 0, compare: 0, add: 0 };
        let descriptor = Descriptor { code: code::LOCK, node, vpid, spec: 0, modifiers: 0, operation };
        let mut command = self.request(bus, from, &descriptor)?;
        (command.request.operation, command.request.operand[1]) = (0, WITHDRAWS);
        Ok(command)
    }

    /// Translates the local memory of a put or a get. Also returns the look-ups.
    fn local_side<B: Bus>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        command: &Command,
        access: Access,
    ) -> Result<(Side, u32), RequestError> {
        let (address, bytes) = (command.header_data, command.length);
        if command.mode() & mode::TE == 0 {
            return Ok((Side { start: address, ..Side::NOWHERE }, 0));
        }
        match self.atu().translate_counting(bus, vpid, (address, bytes), access) {
            Ok((run, looked)) if run.bytes >= bytes => {
                Ok((Side { start: run.address, ..Side::NOWHERE }, looked.packed()))
            }
            // The whole range is checked before the first piece is sent.
            Ok((run, _)) => {
                let check = |_: &mut B, _, _, _| Ok::<(), TranslationFault>(());
                match self.atu().translate_all(bus, vpid, address, bytes, access, check) {
                    Ok(()) => Err(RequestError::Cut(run.bytes as u32)),
                    Err(_) => Err(self.refuse_request(bus, command)),
                }
            }
            Err(_) => Err(self.refuse_request(bus, command)),
        }
    }

    /// Writes the requester's notification, if the command requests it.
    pub(super) fn notify_requester<B: Bus>(&mut self, bus: &mut B, command: &Command) {
        if command.operation & spec::REQUESTER != 0 {
            self.notifications().write(
                bus,
                command.source_vpid(),
                &command.initiator_notification(spec::REQUESTER, command.datatype),
            );
        }
    }

    fn refuse_request<B: Bus>(&mut self, bus: &mut B, command: &Command) -> RequestError {
        self.notifications().write(bus, command.source_vpid(), &command.error_notification(error::REQUESTER));
        RequestError::Refused
    }
}

/// The fields of a command of the RMA unit, as in the table of this file.
impl Request {
    pub fn destination_vpid(&self) -> u16 {
        self.portal as u16
    }
    pub fn source_vpid(&self) -> u16 {
        (self.portal >> 16) as u16
    }
    pub fn destination_node(&self) -> u16 {
        (self.match_bits >> 16) as u16
    }
    /// The port of the request: VPID in 15:0, node in 31:16.
    pub(super) fn asking_port(&self) -> u32 {
        u32::from(self.source_vpid()) | u32::from(self.initiator as u16) << 16
    }
    /// Whether it is a lock command that withdraws requests.
    pub(super) fn withdraws(&self) -> bool {
        self.kind == kind::RMA_LOCK && self.operand[1] == WITHDRAWS
    }
    pub(super) fn mode(&self) -> u8 {
        self.match_bits as u8
    }

    /// A notification of this command at its initiator, written by this unit.
    pub(super) fn initiator_notification(&self, unit: u8, code: u8) -> Notification {
        Notification {
            word0: match self.kind {
                kind::RMA_NOTIFICATION_PUT => self.operand[0],
                kind::RMA_LOCK => lock_word((self.operand[0] >> 32) as i32, false, self.remote_offset as u32),
                kind::RMA_IMMEDIATE_PUT => self.remote_offset,
                _ => self.header_data,
            },
            size: self.size_field(),
            vpid: self.destination_vpid() as u8,
            node: self.destination_node(),
            unit,
            code,
            mode: self.mode(),
            error: 0,
        }
    }

    /// A notification of this command at its target, written by this unit.
    pub(super) fn target_notification(&self, unit: u8, code: u8) -> Notification {
        Notification {
            word0: match self.kind {
                kind::RMA_NOTIFICATION_PUT => self.operand[0],
                _ => self.remote_offset,
            },
            size: self.size_field(),
            vpid: self.source_vpid() as u8,
            node: self.initiator as u16,
            unit,
            code,
            mode: self.mode(),
            error: 0,
        }
    }

    /// The notification at the initiator that a unit has refused the command.
    pub(super) fn error_notification(&self, unit: u8) -> Notification {
        Notification { error: unit, ..self.initiator_notification(spec::REQUESTER, self.datatype) }
    }

    fn size_field(&self) -> u32 {
        match self.kind {
            kind::RMA_NOTIFICATION_PUT => self.operand[1] as u32,
            kind::RMA_LOCK => 0,
            _ => self.length.wrapping_sub(1) as u32,
        }
    }

    pub(super) fn response_code(&self) -> u8 {
        match self.datatype {
            code::QW_GET => code::GET_QW_RSP,
            code::LOCK => code::LOCK_RSP,
            _ => code::GET_BT_RSP,
        }
    }
}
