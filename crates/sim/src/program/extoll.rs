// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL units of a rank, as a program uses them: messages, puts, gets, locks, notifications (seed 002, sections 7.4, 7.5).
//!
//! Each rank is a node with one port, VPID 0. All of its memory is registered: a network logical address is the address of
//! the memory. Commands are those of `nic`, which the simulation carries as it carries the others.
//!
//! A call that finds what it waits for at once pays for the library and for the line that it reads. A call that waits pays for
//! them when it is woken.

use selvedge_nic::NoMemory;
use selvedge_nic::atu::{AddressEntry, NlaPage, PAGE_BYTES, PageSize, Rights};
use selvedge_nic::rma::{Descriptor, Notification, Operation, Requester, options};
use selvedge_nic::velo::{Endpoint, Mailbox, Outgoing, Status};

use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::node::tables::OwnTables;
use crate::node::{Ask, Bytes};
use crate::time::Time;

use super::process::{Core, Process};

/// The port of a rank.
const VPID: u16 = 0;
/// Slots of a mailbox between two publications of its read pointer.
const LAZINESS: u32 = 16;

/// The units of a rank, as its program sees them.
pub(super) struct Port {
    mailbox: Mailbox,
    /// Notifications taken so far.
    notifications: u64,
}

impl Port {
    /// Opens the port of a NIC, and registers so many bytes from address 0 on. None: the NIC has no units.
    pub fn open(tables: &mut OwnTables, bytes: usize) -> Option<Port> {
        let mut nic = tables.nic();
        nic.port_open(Some(VPID), options::PHYSICAL).ok()?;
        for page in 0..(bytes as u64).div_ceil(PAGE_BYTES) {
            let entry = AddressEntry::new(Rights::ReadWrite, VPID, page, PageSize::Kib4).ok()?;
            nic.write_entry(NlaPage::new(page).ok()?, entry).ok()?;
        }
        let mailbox = Mailbox::new(&tables.signals(), VPID, LAZINESS)?;
        Some(Port { mailbox, notifications: 0 })
    }
}

/// What a call pays that finds a message of this class at once.
fn found(machine: &Machine, class: Class) -> Time {
    machine.graph.path(class).receive + machine.host.memory_access
}

impl Core {
    fn take_message(&mut self, into: &mut [u8]) -> Option<(Status, usize)> {
        let signals = self.tables.signals();
        self.port.as_mut()?.mailbox.take(&signals, into).ok()?
    }

    fn take_notification(&mut self) -> Option<Notification> {
        let signals = self.tables.signals();
        let port = self.port.as_mut()?;
        signals.take_notification(VPID, &mut port.notifications).map(Notification::decode)
    }
}

impl Process {
    /// Sends a message of 1 to as many bytes as the machine's VELO unit takes.
    ///
    /// # Panics
    /// If it is empty or longer, which is a bug of the program.
    pub async fn velo_send(&self, to: u32, mtt: u8, tag: u8, payload: &[u8]) {
        let message = Outgoing {
            source: Endpoint { node: self.rank() as u16, vpid: VPID },
            destination: Endpoint { node: to as u16, vpid: VPID },
            target: to.into(),
            mtt,
            tag,
            start: 0,
            bytes: payload.len() as u32,
        };
        let command = message.command().expect("a message that a unit takes");
        self.start(Box::new(command), Bytes::from_slice(payload)).await;
    }

    /// Receives the next message; gives its type, its tag and its bytes.
    pub async fn velo_receive(&self) -> (u8, u8, Vec<u8>) {
        let mut bytes = vec![0; 128];
        let mut waited = false;
        loop {
            let taken = self.core.borrow_mut().take_message(&mut bytes);
            if let Some((status, length)) = taken {
                if !waited {
                    self.spend(found(&self.machine(), Class::Velo));
                }
                bytes.truncate(length);
                return (status.mtt, status.tag, bytes);
            }
            waited = true;
            self.ask(Ask::Wait { until: Time::MAX }).await;
        }
    }

    /// Posts a command of the RMA unit. `is_physical`: its addresses are not translated.
    ///
    /// # Panics
    /// If the requester refuses it, which is a bug of the program.
    pub async fn rma_post(&self, to: u32, operation: Operation, code: u8, spec: u8, is_physical: bool) {
        let (command, payload) = {
            let mut core = self.core.borrow_mut();
            let from = Requester {
                node: core.rank as u16,
                vpid: VPID,
                options: if is_physical { options::PHYSICAL } else { options::TE },
                prototype: false,
                target: to.into(),
                uid: 0,
            };
            let descriptor = Descriptor { code, vpid: VPID as u8, node: to as u16, spec, modifiers: 0, operation };
            let made = core.tables.nic().rma_request(&mut NoMemory, &from, &descriptor);
            let command = made.unwrap_or_else(|error| panic!("the requester refuses {descriptor:?}: {error:?}"));
            let mut payload = Bytes::new();
            if command.has_payload() {
                payload.resize(command.length as usize, 0);
                core.memory.read(command.source.start, &mut payload).expect("registered memory is there");
            }
            (command, payload)
        };
        self.start(Box::new(command), payload).await;
    }

    /// Takes the next notification. Waits for it.
    pub async fn rma_notification(&self) -> Notification {
        let mut waited = false;
        loop {
            let taken = self.core.borrow_mut().take_notification();
            if let Some(notification) = taken {
                if !waited {
                    self.spend(found(&self.machine(), Class::RmaNotificationPut));
                }
                return notification;
            }
            waited = true;
            self.ask(Ask::Wait { until: Time::MAX }).await;
        }
    }
}
