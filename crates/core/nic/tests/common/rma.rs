// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared by the tests of the RMA unit: a bus that records stores, and the driver's and the program's part.

use std::sync::Mutex;

use selvedge_nic::atu::{AddressEntry, FlushMode, NlaPage, PageSize, Rights, Unit};
use selvedge_nic::rma::{Notification, Requester, options};
use selvedge_nic::tables::{Command, Request, kind};
use selvedge_nic::{Bus, Fault, Limits, Nic, Step};

use super::{Home, MEMORY_AT, TestBus};

pub const PAGE: u64 = 4096;
/// The first page of the target's memory.
pub const FIRST_PAGE: u64 = MEMORY_AT / PAGE;

pub fn limits(vpids: u32, notifications: u32, tlb_entries: u32, lock_waiters: u32) -> Limits {
    let tlb_ways = tlb_entries.min(1);
    Limits { vpids, notifications, address_tables: 1, tlb_entries, tlb_ways, lock_waiters, ..Limits::NONE }.clamped()
}

/// A fresh NIC. It copies an earlier one, because the address tables take long to make.
pub fn fresh(limits: &Limits) -> Home {
    static MADE: Mutex<Vec<Home>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(same) = made.iter().find(|home| home.layout.limits == *limits) {
        return same.clone();
    }
    let home = Home::new(limits);
    made.push(home.clone());
    home
}

/// Bytes that identify their place.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(167)) as u8).collect()
}

/// A store to the target's memory: whether it used [`Bus::put_mapped`], address, number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    pub mapped: bool,
    pub address: u64,
    pub bytes: u64,
}

/// The bus of the tests, and its stores.
#[derive(Clone, Default)]
pub struct Recorder {
    pub bus: TestBus,
    pub stores: Vec<Store>,
    /// An access failed.
    pub faulted: bool,
    /// Addresses from here on are not reachable.
    pub unreachable_from: Option<u64>,
}

impl Recorder {
    fn note<T>(&mut self, stored: Option<(u64, u64)>, result: Result<T, Fault>) -> Result<T, Fault> {
        match (&result, stored) {
            (Ok(_), Some((address, bytes))) => self.stores.push(Store { mapped: false, address, bytes }),
            (Ok(_), None) => {}
            (Err(_), _) => self.faulted = true,
        }
        result
    }
}

impl Bus for Recorder {
    fn reaches(&mut self, address: u64, bytes: u64) -> bool {
        let is_near = self.unreachable_from.is_none_or(|end| address.saturating_add(bytes) <= end);
        self.bus.reaches(address, bytes) && is_near
    }
    fn put_mapped(&mut self, payload_offset: u64, address: u64, bytes: u64) -> bool {
        let is_put = self.bus.put_mapped(payload_offset, address, bytes);
        if is_put {
            self.stores.push(Store { mapped: true, address, bytes });
        }
        is_put
    }
    fn put(&mut self, payload_offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let result = self.bus.put(payload_offset, address, bytes);
        self.note(Some((address, bytes)), result)
    }
    fn get(&mut self, address: u64, reply_offset: u64, bytes: u64) -> Result<(), Fault> {
        let result = self.bus.get(address, reply_offset, bytes);
        self.note(None, result)
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let result = self.bus.read(address, into);
        self.note(None, result)
    }
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let result = self.bus.write(address, from);
        self.note(Some((address, from.len() as u64)), result)
    }
    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let result = self.bus.payload(payload_offset, into);
        self.note(None, result)
    }
    fn reply(&mut self, reply_offset: u64, from: &[u8]) -> Result<(), Fault> {
        let result = self.bus.reply(reply_offset, from);
        self.note(None, result)
    }
    fn charge(&mut self, step: Step) {
        self.bus.charge(step);
    }
}

/// Clears and flushes pages, as a driver does; all units answer at once.
pub fn unregister(nic: &mut Nic<'_>, page: u64, count: u32) {
    let first = NlaPage::new(page).expect("in range");
    nic.atu().clear_entries(first, count).expect("in range");
    let mut flush = nic.atu().flush_entries(first, count, FlushMode::Both).expect("in range");
    Unit::ALL.into_iter().for_each(|unit| nic.atu().answer_flush(&mut flush, unit).map(|_| ()).expect("it is awaited"));
}

/// Registers a page of memory for a VPID, in place of another one.
pub fn register(nic: &mut Nic<'_>, page: u64, rights: Rights, vpid: u16, target: u64) {
    unregister(nic, page, 1);
    let entry = AddressEntry::new(rights, vpid, target, PageSize::Kib4).expect("in range");
    nic.atu().write_entry(NlaPage::new(page).expect("in range"), entry).expect("in range");
}

/// The program of a VPID takes its next notification.
pub fn take(home: &mut Home, vpid: u16, head: &mut u64) -> Option<Notification> {
    home.nic().signals.take_notification(vpid, head).map(Notification::decode)
}

/// A requester on node 3, which translates.
pub fn requester(vpid: u16) -> Requester {
    Requester { node: 3, vpid, options: options::TE, prototype: false, target: 0, uid: 0 }
}

/// The words of a NIC's memory without registers, TLB and heads of messages to closed ports, which may change when a
/// command is refused, and without the address tables beyond the pages that tests use.
pub fn lasting_words(home: &mut Home) -> Vec<u64> {
    let layout = home.layout;
    let end = (layout.address_tables / 8) as usize + 128;
    let mut words = home.words()[..end].to_vec();
    words[(layout.registers / 8) as usize..(layout.portals / 8) as usize].fill(0);
    words[(layout.blocked / 8) as usize..(layout.memberships / 8) as usize].fill(0);
    words[(layout.tlb / 8) as usize..(layout.mailboxes / 8) as usize].fill(0);
    words
}

/// A notification put with a value, at its target.
pub fn notification_put(vpid: u16, value: u64) -> Request {
    let operation = selvedge_nic::rma::spec::COMPLETER;
    let datatype = selvedge_nic::rma::code::NOTIFICATION_PUT;
    let operand = [value, 1, 0, 0];
    Request {
        kind: kind::RMA_NOTIFICATION_PUT,
        operation,
        datatype,
        portal: vpid.into(),
        operand,
        ..Request::default()
    }
}

/// A command without local memory.
pub fn command(request: Request) -> Command {
    Command { request, ..Command::default() }
}
