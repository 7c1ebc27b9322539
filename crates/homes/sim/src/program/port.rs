// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port of a rank at the EXTOLL units of its NIC: its program's state of mailbox and notification queue.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::Signals;
use selvedge_nic::atu::{AddressEntry, NlaPage, PAGE_BYTES, PageSize, Rights};
use selvedge_nic::rma::{Notification, options};
use selvedge_nic::velo::{Endpoint, Mailbox, Reassembler, Status};

use crate::machine::{FullMailbox, Machine};
use crate::node::tables::OwnTables;

pub(super) const VPID: u16 = 0;
/// Slots of a mailbox between two publications of its read pointer.
const LAZINESS: u32 = 16;

pub(super) struct Port {
    mailbox: Mailbox,
    /// Messages whose store was split.
    parts: BTreeMap<Endpoint, Reassembler<1>>,
    /// Messages that a send without room has taken out of the mailbox: type, tag, bytes.
    pub kept: VecDeque<(u8, u8, Vec<u8>)>,
    notifications: u64,
}

impl Port {
    /// Opens the port of a NIC, and registers n bytes from address 0 on. `None`: the NIC has no units.
    pub fn open(tables: &mut OwnTables, machine: &Machine, bytes: usize) -> Option<Port> {
        let mut nic = tables.nic();
        let refuses = machine.nic.full_mailbox != FullMailbox::Drop;
        let full_queue = if refuses { selvedge_nic::velo::options::REFUSE } else { 0 };
        nic.ports().open(Some(VPID), options::PHYSICAL | options::KEEP_LOCKS | full_queue).ok()?;
        for page in 0..(bytes as u64).div_ceil(PAGE_BYTES) {
            let entry = AddressEntry::new(Rights::ReadWrite, VPID, page, PageSize::Kib4).ok()?;
            nic.atu().write_entry(NlaPage::new(page).ok()?, entry).ok()?;
        }
        let mailbox = Mailbox::new(&tables.signals(), VPID, LAZINESS)?;
        Some(Port { mailbox, parts: BTreeMap::new(), kept: VecDeque::new(), notifications: 0 })
    }

    /// Takes the next complete message.
    pub fn take_message(&mut self, signals: &Signals<'_>) -> Option<(Status, Vec<u8>)> {
        let Port { mailbox, parts, .. } = self;
        let mut part = [0; 128];
        loop {
            let (status, length) = mailbox.take(signals, &mut part).ok()??;
            if status.extent.is_whole() {
                let whole = status.extent.message_bytes() as usize;
                return Some((status, part[..whole.min(length)].to_vec()));
            }
            // If the first part was lost with a full mailbox, the second is lost too.
            let of_source = parts.entry(status.source).or_default();
            if let Ok(Some((status, bytes))) = of_source.add(&status, &part[..length]) {
                let whole = status.extent.message_bytes() as usize;
                return Some((status, bytes[..whole.min(bytes.len())].to_vec()));
            }
        }
    }

    /// Publishes the read pointer, so that a sender that waits for room gets it.
    pub fn publish_mailbox(&mut self, signals: &Signals<'_>) {
        self.mailbox.publish(signals);
    }

    pub fn take_notification(&mut self, signals: &Signals<'_>) -> Option<Notification> {
        signals.take_notification(VPID, &mut self.notifications).map(Notification::decode)
    }
}
