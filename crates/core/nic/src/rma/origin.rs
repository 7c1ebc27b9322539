// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of a command at its initiator: the requester's notification of a put, and the completer's handling of a
//! response.

use super::command::{error, mode, spec};
use super::notification::{Notification, lock_word};
use super::requester::Rma;
use crate::atu::Access;
use crate::bus::{Bus, NoMemory};
use crate::portals::constants::fail;
use crate::portals::delivery::Delivery;
use crate::registers::Register;
use crate::tables::{Command, kind, port, slot};

impl Rma<'_, '_> {
    /// Reports that the payload of a put was read. A failure is reported with the response.
    pub(crate) fn complete_send(&mut self, command: &Command, fail: u8) {
        if command.has_payload() && fail == fail::OK && self.is_of_open_port(command) {
            self.notify_requester(&mut NoMemory, command);
        }
    }

    /// Reports the target's response, or its failure.
    pub(crate) fn complete_response(&mut self, command: &Command, delivery: &Delivery) {
        if !self.is_of_open_port(command) {
            return;
        }
        let notification = if delivery.fail != fail::OK {
            command.error_notification(match command.kind {
                kind::RMA_GET | kind::RMA_LOCK => error::RESPONDER,
                _ => error::COMPLETER,
            })
        } else {
            let asks = command.operation & spec::COMPLETER != 0;
            let answer = command.initiator_notification(spec::COMPLETER, command.response_code());
            match command.kind {
                kind::RMA_GET => {
                    self.signals.registers.add(Register::CompleterGets, 1);
                    self.signals.registers.add(Register::BytesIn, delivery.mlength);
                    if !asks {
                        return;
                    }
                    answer
                }
                kind::RMA_LOCK if asks => {
                    let (value, success) = (delivery.remote_offset as i32, delivery.remote_offset >> 32 & 1 != 0);
                    Notification { word0: lock_word(value, success, command.remote_offset as u32), ..answer }
                }
                _ => return,
            }
        };
        self.notifications().write(&mut NoMemory, command.source_vpid(), &notification);
    }

    /// Whether the port that posted the command is still open, without a close in between.
    fn is_of_open_port(&self, command: &Command) -> bool {
        let record = self.tables.ports.get(usize::from(command.source_vpid()));
        record.is_some_and(|record| record.slot == slot::word(command.user_ptr as u32, port::OPEN))
    }

    /// Whether the reply of a get may still be written: the local memory is registered as it was when the get started.
    pub(crate) fn admits_reply<B: Bus>(&mut self, bus: &mut B, command: &Command) -> bool {
        if !self.is_of_open_port(command) {
            return false;
        }
        if command.mode() & mode::TE == 0 {
            return true;
        }
        match self.atu().translate(bus, command.source_vpid(), command.header_data, command.length, Access::Write) {
            Ok(run) => run.address == command.sink.start && run.bytes >= command.length,
            Err(_) => false,
        }
    }
}
