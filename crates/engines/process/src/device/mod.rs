// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EXTOLL units of this process's NIC, as a driver offers them to libraries (seed 002, sections 8.1.3 to 8.1.5):
//! ports, registered memory, commands, messages.
//!
//! Every process is a node of its own. For libraries its node id is its Portals id - 1, which under a launcher is its
//! rank. Its ports are the VPIDs of that node.
//!
//! Invariants
//! 1. A process has one [`Device`] for libraries, made at first use. libvelo2 and librma2 share it. A transport that
//!    sends over the units has one over its own NIC ([`Device::over`]).
//! 2. Entries of global address tables are written and cleared under the NIC's lock. Transfers run under the same lock.
//!    So when [`Device::unregister`] returns, no transfer reaches the memory any more.
//! 3. A page of a region has the VPID that registered it. Another VPID gets a fault.
//!
//! * [`pages`]: free entries of the tables. [`staging`]: slots from which payload is sent. [`connection`]: commands and
//!   messages to one port of another node.
//! * [`notifications`]: a port's notification queue as its program reads it. [`messages`]: its messages.

pub mod connection;
pub mod messages;
pub mod notifications;
pub mod pages;
pub mod staging;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use selvedge_host::Interface;
use selvedge_host::config::UNANSWERED_MAX;
use selvedge_host::rings::port::Port as PortOfRings;
use selvedge_nic::atu::{AddressEntry, FlushMode, NlaPage, PAGE_BYTES, PageSize, Rights, Unit};
use selvedge_nic::tables::{BlockedHead, PAGES};
use selvedge_nic::velo::header::SLOTS_MAX;
use selvedge_nic::velo::{Label, PortError, PortId, options};
use selvedge_nic::{Limits, Register};
use selvedge_os::sync::IgnorePoison;

use crate::place::job_spans_hosts;
use crate::process::{Opened, Process, ProcessError};
use messages::MessageReader;
use pages::FreePages;

const NI: u32 = 9;

/// Reasons for which a device, a port or a region is not available.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The process is a forked child of one that has joined the job.
    #[error("this process was forked by a process of the job, and is not part of it")]
    Forked,
    /// All VPIDs are open.
    #[error("all {0} ports of the node are open")]
    PortsUsed(u32),
    /// The port is not open.
    #[error("the port is not open")]
    NotOpen,
    #[error("{bytes} bytes at {address:#x} are not mapped")]
    NotMapped { address: u64, bytes: u64 },
    /// The tables have no free run of entries that is long enough.
    #[error("the address tables have no room for {pages} pages; SELVEDGE_ADDRESS_TABLES sets their number")]
    TablesFull { pages: u64 },
    /// The entries do not form a region.
    #[error("there is no region of {pages} pages at page {first:#x}")]
    NoRegion { first: u64, pages: u64 },
}

/// The EXTOLL units of this process's NIC.
pub struct Device {
    interface: Arc<Interface>,
    /// The claim of the NIC's id, if this device has opened the NIC.
    _opened: Option<Opened>,
    /// The home's address of node 0.
    first: u64,
    /// The addresses of nodes in a job of several hosts; 0 if unknown.
    homes: Vec<AtomicU64>,
    free: Mutex<FreePages>,
    /// Unanswered lock requests of each open port, where they may be kept: VPID here; node and VPID there.
    asked: Mutex<BTreeSet<(u16, (u16, u8))>>,
}

/// Pairs of ports on different hosts whose messages may all wait unread while commands still have room. Each search for
/// lost requests visits all of these messages.
const UNREAD_PORTS: u32 = 24;

/// The home's address of node 0 among the nodes of libraries.
const FIRST_OF_LIBRARIES: u64 = 1;

static DEVICE: Mutex<Option<Arc<Device>>> = Mutex::new(None);

impl Device {
    /// Returns the device of this process. The first call opens its NIC.
    pub fn current() -> Result<Arc<Device>, DeviceError> {
        Device::with_room(0, 0)
    }

    /// As [`Device::current`]. If this call opens the NIC, mailboxes and notification queues have at least these
    /// numbers of entries. An open NIC keeps its own numbers.
    pub fn with_room(mailbox_slots: u32, notifications: u32) -> Result<Arc<Device>, DeviceError> {
        let mut device = DEVICE.lock().ignore_poison();
        let process = Process::current()?;
        if process.is_forked_child() {
            return Err(DeviceError::Forked);
        }
        if let Some(device) = device.as_ref() {
            return Ok(device.clone());
        }
        let spans_hosts = job_spans_hosts() == Some(true);
        let limits = Limits {
            address_tables: process.settings.address_tables,
            mailbox_slots: Limits::EXTOLL.mailbox_slots.max(mailbox_slots).max(SLOTS_MAX * process.size()),
            notifications: Limits::EXTOLL.notifications.max(notifications),
            lock_waiters: process.settings.lock_waiters,
            // Unread messages to other hosts must leave room for commands.
            pending: Limits::EXTOLL.pending + if spans_hosts { UNREAD_PORTS * UNANSWERED_MAX } else { 0 },
            ..Limits::EXTOLL
        }
        .clamped();
        let opened = process.open(NI, None, &limits)?;
        let homes = if opened.interface.reaches_hosts() {
            process.publish_id(opened.interface.id())?;
            process.size()
        } else {
            0
        };
        let made = Arc::new(Device {
            homes: (0..homes).map(|_| AtomicU64::new(0)).collect(),
            free: free_pages_of(&opened.interface),
            interface: opened.interface.clone(),
            _opened: Some(opened),
            first: FIRST_OF_LIBRARIES,
            asked: Mutex::default(),
        });
        *device = Some(made.clone());
        Ok(made)
    }

    /// Wraps the units of a NIC that the caller has opened. A node's id is its id in the home.
    pub fn over(interface: Arc<Interface>) -> Device {
        let homes = Vec::new();
        Device { free: free_pages_of(&interface), interface, _opened: None, first: 0, homes, asked: Mutex::default() }
    }

    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the id of this node.
    pub fn node(&self) -> u16 {
        self.interface.id().saturating_sub(self.first) as u16
    }

    /// Returns the home's address of a node. That of a node on another host is known when its process has opened its
    /// units.
    pub fn target_of(&self, node: u16) -> u64 {
        let here = u64::from(node) + self.first;
        let Some(home) = self.homes.get(usize::from(node)) else { return here };
        match home.load(Relaxed) {
            0 => self.look_up(node, home).unwrap_or_else(|| self.nobody()),
            known => known,
        }
    }

    /// Returns an address that no node has: of this host, above those of processes.
    fn nobody(&self) -> u64 {
        self.interface.id() | u64::from(u32::MAX)
    }

    #[cold]
    fn look_up(&self, node: u16, home: &AtomicU64) -> Option<u64> {
        let id = Process::current().ok()?.id_of(node.into())?;
        home.store(id, Relaxed);
        Some(id)
    }

    /// Returns the number of nodes that there may be.
    pub fn nodes(&self) -> u16 {
        u16::try_from(Process::current().map_or(1, |process| process.size())).unwrap_or(u16::MAX).max(self.node() + 1)
    }

    /// Opens this VPID, or a free one, with options of its RMA part. Returns the reader of its messages too.
    pub fn open_mailbox(&self, wanted: Option<u16>, rma_options: u32) -> Result<(PortId, MessageReader), DeviceError> {
        let discards = self.mailboxes_discard();
        let port = self.open_port(wanted, rma_options | if discards { 0 } else { options::REFUSE })?;
        // A full ring makes its sender wait, so a mailbox that discards takes all messages itself.
        let rings = if discards { None } else { self.open_rings(port) };
        let reader = MessageReader::new(self.interface(), port.vpid, rings).ok_or(DeviceError::NotOpen)?;
        Ok((port, reader))
    }

    /// Whether a full mailbox discards messages: by the user's setting, or because the simulated machine cannot notify
    /// senders.
    fn mailboxes_discard(&self) -> bool {
        !self.interface().mailboxes_refuse()
            || Process::current().is_ok_and(|process| process.settings.mailboxes_discard)
    }

    /// Returns the number of ports of a node.
    pub fn ports(&self) -> u16 {
        self.interface().limits().vpids as u16
    }

    /// Opens this port, or any that is free.
    pub fn open_port(&self, wanted: Option<u16>, options: u32) -> Result<PortId, DeviceError> {
        self.interface().lock().ports().open(wanted, options).map_err(|error| match error {
            PortError::AllUsed => DeviceError::PortsUsed(self.ports().into()),
            PortError::NoSuchVpid | PortError::NotOpen => DeviceError::NotOpen,
        })
    }

    /// Opens a port's rings: senders enqueue messages there for its reader. None if it can have none; then messages
    /// come in its mailbox.
    fn open_rings(&self, port: PortId) -> Option<PortOfRings> {
        let interface = self.interface();
        if !interface.publishes_here() {
            return None;
        }
        let _nic = interface.lock();
        interface.rings().clear_ports(None);
        interface.rings().open_port(port.vpid, port.generation)
    }

    /// Closes the rings of a port with this number. The messages there are lost, and counted; their heads are kept.
    pub fn close_rings(&self, port: PortOfRings, vpid: u16) {
        let mut nic = self.interface().lock();
        let lost = self.interface().rings().close_port(port, |message| {
            if let Some(label) = Label::from_word(message.envelope.match_bits, message.length) {
                if let Some(heads) = nic.tables.blocked.as_deref_mut() {
                    heads.push(&BlockedHead::unread(label, self.node(), vpid));
                }
            }
        });
        nic.signals.registers.add(Register::VeloDiscarded, lost);
    }

    /// Closes a port, and removes its regions from the tables. It withdraws its lock requests, and requests that are
    /// kept for its own locks fail.
    pub fn close_port(&self, port: PortId) -> Result<(), DeviceError> {
        self.withdraw_lock_requests(port.vpid);
        // Holding this, another thread that opens the VPID registers nothing before the regions are gone.
        let mut free = self.free_pages();
        let fired = {
            let mut nic = self.interface().lock();
            nic.ports().note_unread(port, self.node()).map_err(|_| DeviceError::NotOpen)?;
            nic.ports().close(port).map_err(|_| DeviceError::NotOpen)?;
            nic.has_fired()
        };
        self.interface().settle(fired);
        for (first, pages) in free.regions_of(port.vpid) {
            self.clear(&mut free, first, pages);
        }
        Ok(())
    }

    /// Registers the pages that hold this memory for a port. Memory that is not writable is registered for reading. Returns the
    /// network logical address of the first page.
    pub fn register(&self, vpid: u16, address: u64, bytes: u64) -> Result<u64, DeviceError> {
        self.register_with(vpid, address, bytes, self.rights_to(address, bytes))
    }

    /// Returns the rights for memory that is registered without any: those of this process.
    pub fn rights_to(&self, address: u64, bytes: u64) -> Rights {
        match self.interface().has_writable(address, bytes.max(1)) {
            true => Rights::ReadWrite,
            false => Rights::ReadOnly,
        }
    }

    /// As [`Device::register`], with these rights.
    pub fn register_with(&self, vpid: u16, address: u64, bytes: u64, rights: Rights) -> Result<u64, DeviceError> {
        let not_mapped = || DeviceError::NotMapped { address, bytes };
        let last = address.checked_add(bytes.max(1) - 1).ok_or_else(not_mapped)?;
        if !crate::memory_is_readable(address, bytes.max(1)) {
            return Err(not_mapped());
        }
        let (first, last) = (address / PAGE_BYTES, last / PAGE_BYTES);
        let pages = last - first + 1;
        let mut free = self.free_pages();
        let start = free.take(vpid, pages).ok_or(DeviceError::TablesFull { pages })?;
        let mut nic = self.interface().lock();
        for at in 0..pages {
            let entry = AddressEntry::new(rights, vpid, first + at, PageSize::Kib4);
            let page = NlaPage::new(start + at);
            let written = match (entry, page) {
                (Ok(entry), Ok(page)) => nic.atu().write_entry(page, entry).is_ok(),
                _ => false,
            };
            if !written {
                drop(nic);
                self.clear(&mut free, start, pages);
                return Err(not_mapped());
            }
        }
        Ok(start * PAGE_BYTES)
    }

    /// Removes a region from the tables. Afterwards no command reaches it.
    pub fn unregister(&self, vpid: u16, nla: u64, pages: u64) -> Result<(), DeviceError> {
        let first = nla / PAGE_BYTES;
        let mut free = self.free_pages();
        if free.pages_of(vpid, first) != Some(pages) {
            return Err(DeviceError::NoRegion { first, pages });
        }
        self.clear(&mut free, first, pages);
        Ok(())
    }

    /// Clears the entries of a region, which keeps its network logical addresses until [`Device::unregister`]. Afterwards no command
    /// reaches the memory.
    pub fn revoke(&self, vpid: u16, nla: u64, pages: u64) {
        let first = nla / PAGE_BYTES;
        let free = self.free_pages();
        if free.pages_of(vpid, first) == Some(pages) {
            self.clear_entries(first, pages);
        }
    }

    /// Clears and flushes the entries of a region. No transfer runs while the lock is held, so all units answer at once.
    fn clear(&self, free: &mut FreePages, first: u64, pages: u64) {
        self.clear_entries(first, pages);
        free.give(first);
    }

    fn clear_entries(&self, first: u64, pages: u64) {
        let mut nic = self.interface().lock();
        if let (Ok(page), Ok(count)) = (NlaPage::new(first), u32::try_from(pages)) {
            let _ = nic.atu().clear_entries(page, count);
            if let Ok(mut flush) = nic.atu().flush_entries(page, count, FlushMode::Both) {
                for unit in Unit::ALL {
                    let _ = nic.atu().answer_flush(&mut flush, unit);
                }
            }
        }
    }

    fn free_pages(&self) -> MutexGuard<'_, FreePages> {
        self.free.lock().ignore_poison()
    }
}

fn free_pages_of(interface: &Interface) -> Mutex<FreePages> {
    Mutex::new(FreePages::new(u64::from(interface.limits().address_tables) * PAGES as u64))
}
