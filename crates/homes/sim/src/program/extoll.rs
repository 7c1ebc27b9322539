// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL units for a program: messages, puts, gets, locks, notifications (seed 002, sections 7.4, 7.5).
//!
//! Each rank is a node with one port, VPID 0. All of its memory is registered: a network logical address is the address
//! of the memory. Commands are those of `nic`; the simulation carries them like the others.
//!
//! A call that finds its result at once pays for the library and the line that it reads; else it pays when woken.

use selvedge_nic::NoMemory;
use selvedge_nic::rma::{Descriptor, Notification, Operation, Requester, options};
use selvedge_nic::tables::Command;
use selvedge_nic::velo::{Endpoint, Outgoing};

use crate::machine::graph::Class;
use crate::machine::{FullMailbox, Machine};
use crate::node::{Bytes, RankRequest, StartFlags};
use crate::time::Time;

use super::port::VPID;
use super::process::Process;
use super::shared::Core;

/// Returns the cost of a call that finds such a message at once: its library, and a line of memory for each item.
fn found(machine: &Machine, class: Class, bytes: usize) -> Time {
    let path = machine.graph.path(class);
    path.receive + machine.host.memory_access * path.items(bytes as u64)
}

impl Process {
    /// Sends a message of 1 byte up to the maximum of the machine's VELO unit.
    ///
    /// # Panics
    /// If it is empty or longer, which is a bug of the program.
    pub async fn velo_send(&self, to: u32, mtt: u8, tag: u8, payload: &[u8]) {
        if self.machine().nic.full_mailbox != FullMailbox::Credits {
            let command = self.velo_command(to, mtt, tag, payload);
            return self.start(command, Bytes::from_slice(payload)).await;
        }
        // Like libvelo2: without room the library keeps arrived messages, so that two senders do not wait for each
        // other.
        while !self.velo_try_send(to, mtt, tag, payload).await {
            self.keep_messages();
            self.poll().await;
        }
    }

    /// Like [`Process::velo_send`]. False: the NIC or the mailbox has no room, and nothing was sent.
    ///
    /// # Panics
    /// Like [`Process::velo_send`].
    pub async fn velo_try_send(&self, to: u32, mtt: u8, tag: u8, payload: &[u8]) -> bool {
        let command = self.velo_command(to, mtt, tag, payload);
        let flags = StartFlags { or_refuse: true, waits: false };
        self.ask(RankRequest::Start { ni: 0, command, payload: Bytes::from_slice(payload), flags }).await;
        !std::mem::take(&mut self.core.borrow_mut().refused)
    }

    fn velo_command(&self, to: u32, mtt: u8, tag: u8, payload: &[u8]) -> Box<Command> {
        let message = Outgoing {
            source: Endpoint { node: self.rank() as u16, vpid: VPID },
            destination: Endpoint { node: to as u16, vpid: VPID },
            target: to.into(),
            mtt,
            tag,
            start: 0,
            bytes: payload.len() as u32,
        };
        Box::new(message.command().expect("a message that a unit takes"))
    }

    /// Receives the next message; returns its type, tag and bytes.
    pub async fn velo_receive(&self) -> (u8, u8, Vec<u8>) {
        let mut waited = false;
        loop {
            if let Some(message) = self.take_kept().or_else(|| self.take_velo(!waited)) {
                return message;
            }
            waited = true;
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }

    /// Receives the next message if it has arrived.
    pub fn velo_probe(&self) -> Option<(u8, u8, Vec<u8>)> {
        self.take_kept().or_else(|| self.take_velo(true))
    }

    fn take_kept(&self) -> Option<(u8, u8, Vec<u8>)> {
        self.core.borrow_mut().port.as_mut()?.kept.pop_front()
    }

    /// Moves arrived messages out of the mailbox.
    fn keep_messages(&self) {
        while let Some(message) = self.take_velo(true) {
            if let Some(port) = &mut self.core.borrow_mut().port {
                port.kept.push_back(message);
            }
        }
    }

    /// Takes the next message, and pays for it if `pays`.
    fn take_velo(&self, pays: bool) -> Option<(u8, u8, Vec<u8>)> {
        let taken = {
            let Core { tables, port, .. } = &mut *self.core.borrow_mut();
            let (port, signals) = (port.as_mut()?, tables.signals());
            let taken = port.take_message(&signals);
            if taken.is_none() {
                port.publish_mailbox(&signals);
            }
            taken
        };
        let (status, bytes) = taken?;
        if pays {
            self.spend(found(&self.machine(), Class::Velo, bytes.len()));
        }
        Some((status.mtt, status.tag, bytes))
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
            let made = core.tables.nic().rma().request(&mut NoMemory, &from, &descriptor);
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

    fn take_notification(&self) -> Option<Notification> {
        let Core { tables, port, .. } = &mut *self.core.borrow_mut();
        port.as_mut()?.take_notification(&tables.signals())
    }

    /// Waits for the next notification, and takes it.
    pub async fn rma_notification(&self) -> Notification {
        let mut waited = false;
        loop {
            let taken = self.take_notification();
            if let Some(notification) = taken {
                if !waited {
                    self.spend(found(&self.machine(), Class::RmaNotificationPut, 0));
                }
                return notification;
            }
            waited = true;
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
    }
}
