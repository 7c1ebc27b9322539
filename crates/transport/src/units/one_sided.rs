// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes of registered memory as gets and puts of the RMA unit (seed 002, section 8.6; docs/design/extoll.md, one-sided
//! MPI).
//!
//! ```text
//! transfer ─ translation of each key ─ order ─ room ─ local memory registered ─> puts, gets ─> a get behind puts
//!     │            └ not known: look it up, EAGAIN                                                    │
//!     └ no translation: packets                                    completion <─ answers <────────────┘
//! ```
//!
//! Invariants
//! 1. At most [`COMMANDS_MAX`] commands of accesses and [`LANDINGS`] gets of the library itself are under way. Each brings at most one
//!    notification, to this process. So the notification queue has room for all, and no queue of a target gets any.
//! 2. An access is posted whole, or nothing has happened.
//! 3. The registration of a command's local memory lives until the command has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::Arc;

use libc::iovec;
use selvedge_nic::atu::Rights;
use selvedge_nic::rma::{Descriptor, LockRequest, Notification, Operation as Rma, code, options, spec};
use selvedge_nic::tables::{LOCKS, PAGES};
use slab::Slab;

use super::accesses::{Accesses, Name, Purpose, Sent};
use super::directory::{self, BUCKET_BYTES, Directory, Entry};
use super::memory::{Block, Registered, Registrations};
use super::retired::Retired;
use super::translations::{Place, Translations};
use super::wire::Control;
use crate::extoll::connection::{PostError, Posted};
use crate::extoll::staging::{Staging, StagingSlot};
use crate::extoll::{Device, DeviceError};
use crate::flags::{EACCES, EAGAIN, EFAULT, EHOSTDOWN, REMOTE_READ, REMOTE_WRITE};
use crate::message::Message;
use crate::operation::Operation;
use crate::pieces::{RemoteRange, gather};
use crate::remote::each_common;
use crate::ticket::Kind;
use crate::transfer::{OverUnits, Pending, Run, Transfer};
use crate::transport::Transport;

/// The port for accesses. Its pages are those of regions, so that no access reaches memory of messages.
pub(super) const VPID: u16 = 1;
/// Commands of accesses under way.
pub(super) const COMMANDS_MAX: usize = 256;
/// Gets of the library itself under way: look-ups, and those behind puts.
pub(super) const LANDINGS: u64 = 64;
/// Bytes of one command: as many as a descriptor can say.
const COMMAND_BYTES_MAX: u64 = selvedge_nic::rma::descriptor::BYTES_MAX as u64;
/// Bytes that a descriptor carries itself.
const IMMEDIATE_BYTES: u64 = 8;
/// Lock requests under way.
pub(super) const MARKS_MAX: usize = 16;
/// The share of the address tables that closed regions may keep before peers are asked to forget them: one in so many.
const RETIRED_SHARE: u64 = 4;
/// Bytes of a get behind puts.
const FLUSH_BYTES: u64 = 8;

/// The accesses to one other process.
#[derive(Default)]
struct Target {
    accesses: Accesses,
    translations: Translations,
    mark: Mark,
}

/// Whether a target knows that this process remembers its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    No,
    Asked,
    Yes,
}

/// The port for accesses, with everything that is under way there.
pub(crate) struct OneSided {
    device: Arc<Device>,
    notifications_read: u64,
    directory: Directory,
    /// Where the library's own gets write.
    landings: Staging,
    landing: Block,
    registrations: Registrations,
    /// By the ids of the processes.
    targets: BTreeMap<u64, Target>,
    commands: usize,
    marks: usize,
    /// Closed regions of this process.
    retired: Retired<Registered>,
    /// The tables had no room for a region.
    lacks_room: bool,
    /// Targets that are told when what is under way to them has ended.
    forgetting: BTreeSet<u64>,
    /// Targets of puts that no get may be behind.
    unflushed: BTreeSet<u64>,
    /// Accesses that were refused, until it is known why.
    doubts: Vec<usize>,
}

/// Why an access is not posted over the units now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refused {
    Error(c_int),
    /// It travels as a packet.
    Packets,
    /// There is no room, or a translation is on its way. Nothing has changed.
    Later,
}

impl OneSided {
    /// Opens the port. Nothing else is registered yet.
    pub(super) fn open(device: &Arc<Device>) -> Result<OneSided, DeviceError> {
        device.open_port(Some(VPID), 0)?;
        let block = Block::with_rights(device, VPID, directory::BYTES, Rights::ReadOnly)?;
        if block.nla() != directory::NLA {
            return Err(DeviceError::NotMapped { address: block.start(), bytes: directory::BYTES as u64 });
        }
        let landing = Block::new(device, VPID, LANDINGS as usize * BUCKET_BYTES)?;
        Ok(OneSided {
            device: device.clone(),
            notifications_read: 0,
            directory: Directory::new(block),
            landings: Staging::new(landing.start(), landing.nla(), BUCKET_BYTES as u64, LANDINGS),
            landing,
            registrations: Registrations::new(VPID),
            targets: BTreeMap::new(),
            commands: 0,
            marks: 0,
            retired: Retired::default(),
            lacks_room: false,
            forgetting: BTreeSet::new(),
            unflushed: BTreeSet::new(),
            doubts: Vec::new(),
        })
    }

    // ---- this process's regions ----

    /// Lets peers reach memory under a key. None: they reach it by packets.
    pub(crate) fn expose(&mut self, memory: (u64, u64), access: u64, key: u64) -> Option<Registered> {
        let rights = directory::rights(access).filter(|_| memory.1 != 0)?;
        let registered = Registered::with_rights(&self.device, VPID, memory, rights)
            .inspect_err(|error| {
                self.lacks_room |= matches!(error, DeviceError::TablesFull { .. });
                log::info!("peers reach a region by packets: {error}");
            })
            .ok()?;
        let entry = Entry { key, nla: registered.nla_of(memory.0), length: memory.1, access };
        self.directory.insert(&entry).then_some(registered)
    }

    /// Takes a region back. Afterwards no peer reaches the memory, whatever it remembers of the key.
    pub(crate) fn conceal(&mut self, key: u64, registered: Registered) {
        self.directory.remove(key);
        registered.revoke();
        let pages = registered.pages();
        self.retired.add(registered, pages);
    }

    /// Begins to free the addresses of closed regions, if it is time. Returns the peers that are to forget them.
    pub(super) fn begin_round(&mut self) -> BTreeSet<u64> {
        let tables = u64::from(self.device.interface().limits().address_tables);
        let pages_max = if std::mem::take(&mut self.lacks_room) { 0 } else { tables * PAGES as u64 / RETIRED_SHARE };
        if !self.retired.is_due(pages_max) {
            return BTreeSet::new();
        }
        let holders = self.holders();
        self.retired.begin(holders.clone());
        holders.iter().for_each(|id| self.probe(*id));
        holders
    }

    /// The processes that may remember addresses of this one's regions.
    pub(super) fn holders(&self) -> BTreeSet<u64> {
        let mut nic = self.device.interface().lock();
        let mut is_held = |number: u32| {
            let reading = LockRequest { vpid: VPID, number, compare: i32::MIN, add: 0 };
            nic.lock_now(&reading).is_ok_and(|lock| lock.value != 0)
        };
        (0..LOCKS as u32).filter(|number| is_held(*number)).map(u64::from).collect()
    }

    /// A process remembers no address of this one's regions.
    pub(super) fn is_forgotten_by(&mut self, id: u64) {
        self.retired.forgotten(id);
    }

    /// Finds out which of the peers that are to forget addresses are gone.
    pub(super) fn probe_holders(&mut self) {
        for id in self.retired.holders() {
            self.probe(id);
        }
    }

    fn probe(&mut self, id: u64) {
        if let Some(slot) = self.landings.take() {
            self.get_for_us(id, directory::NLA, slot, FLUSH_BYTES, Purpose::Probe);
        }
    }

    /// Forgets the addresses of a target's regions. It is told by [`OneSided::next_forgotten`].
    pub(super) fn forget(&mut self, id: u64) {
        self.target(id).translations.clear();
        self.forgetting.insert(id);
    }

    /// A target whose addresses are forgotten, when nothing to it is under way.
    pub(super) fn next_forgotten(&mut self) -> Option<u64> {
        let is_idle = |id: &&u64| self.targets.get(id).is_none_or(|target| target.accesses.is_idle());
        let id = self.forgetting.iter().find(is_idle).copied()?;
        self.forgetting.remove(&id);
        Some(id)
    }

    // ---- peers ----

    /// The program has named the process with this id again: it may have another NIC now.
    pub(crate) fn is_named_again(&mut self, id: u64) {
        if let Some(target) = self.targets.get_mut(&id) {
            target.translations.doubt_all();
        }
    }

    /// The process with this id has closed its NIC, or has ended.
    pub(super) fn forget_translations(&mut self, id: u64) {
        if let Some(target) = self.targets.get_mut(&id) {
            (target.mark, _) = (Mark::No, target.translations.clear());
        }
    }

    /// Whether no access to this process is under way.
    fn is_idle(&self, id: u64) -> bool {
        self.doubts.is_empty() && self.targets.get(&id).is_none_or(|target| target.accesses.is_idle())
    }

    /// An access with this key was refused, and is in doubt.
    pub(super) fn doubt(&mut self, id: u64, keys: impl Iterator<Item = u64>, number: usize) {
        let translations = &mut self.target(id).translations;
        keys.for_each(|key| translations.doubt(key));
        self.doubts.push(number);
    }

    /// Accesses in doubt. Those whose doubt stays are given back by [`OneSided::doubt_on`].
    pub(super) fn take_doubts(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.doubts)
    }

    pub(super) fn doubt_on(&mut self, number: usize) {
        self.doubts.push(number);
    }

    /// Forgets operations that ended with their endpoint.
    pub(super) fn forget_ended(&mut self, operations: &Slab<Operation>) {
        let is_over = |number: usize| !matches!(operations.get(number), Some(Operation::Remote(pending)) if pending.over_units.is_some());
        self.targets.values_mut().for_each(|target| target.accesses.forget(is_over));
        self.doubts.retain(|number| !is_over(*number));
    }

    /// The runs of an access: what local and remote memory have in common, with network logical addresses.
    pub(super) fn runs(
        &mut self,
        id: u64,
        access: u64,
        pieces: &[iovec],
        remote: &[RemoteRange],
    ) -> Result<Vec<Run>, Refused> {
        if self.forgetting.contains(&id) {
            return Err(Refused::Later);
        }
        let (mut runs, mut refused, mut unknown) = (Vec::new(), None, Vec::new());
        let target = self.targets.entry(id).or_default();
        each_common(pieces, remote, |start, offset, key, bytes, _| {
            let found = target.translations.find(key, access, offset, bytes);
            let why = match found {
                Place::At(nla) => {
                    runs.push(Run { start, nla, bytes });
                    return true;
                }
                Place::Unknown => {
                    unknown.push(key);
                    Refused::Later
                }
                Place::Asked => Refused::Later,
                Place::NotHere => Refused::Packets,
                Place::NotGranted => Refused::Error(EACCES),
            };
            // What is looked up may change the others; a packet finds out about all.
            refused = refused.max(Some(why));
            true
        });
        if refused != Some(Refused::Later) {
            remote.iter().for_each(|range| target.translations.used(range.key));
        }
        unknown.sort_unstable();
        unknown.dedup();
        for key in unknown {
            self.look_up(id, key);
        }
        refused.map_or(Ok(runs), Err)
    }

    /// Asks for the directory's bucket of a key, if there is room. The target first learns that this process remembers addresses.
    fn look_up(&mut self, id: u64, key: u64) {
        match self.target(id).mark {
            Mark::Yes => {}
            Mark::Asked => return,
            Mark::No => return self.mark(id, key),
        }
        let Some(slot) = self.landings.take() else { return };
        let read = directory::NLA + directory::bucket_of(key);
        if self.get_for_us(id, read, slot, BUCKET_BYTES as u64, Purpose::LookUp(key)) {
            self.targets.entry(id).or_default().translations.ask(key);
        }
    }

    fn mark(&mut self, id: u64, key: u64) {
        if self.marks >= MARKS_MAX {
            return;
        }
        let number = u32::from(self.device.node());
        let lock = Rma::Lock { number, compare: i32::MAX - 1, add: 1 };
        if self.post(id, code::LOCK, spec::COMPLETER, lock) == Ok(Posted::Started) {
            let name = Name { code: code::LOCK, word0: number.into(), bytes: 1 };
            let target = self.target(id);
            target.accesses.sent(Sent { name, purpose: Purpose::Mark(key), local: None });
            target.translations.ask(key);
            target.mark = Mark::Asked;
            self.marks += 1;
        }
    }

    /// A lock request has ended.
    fn marked(&mut self, id: u64, key: u64, is_refused: bool) {
        self.marks -= 1;
        let target = self.target(id);
        if is_refused {
            target.mark = Mark::No;
            return target.translations.answer(key, None);
        }
        target.mark = Mark::Yes;
        // Its look-up follows. Without room, the next try of the access asks again.
        target.translations.doubt_asked(key);
        self.look_up(id, key);
    }

    /// Sends a get behind the puts to a process, if one is wanted now and there is room.
    fn flush(&mut self, id: u64) {
        if !self.targets.get(&id).is_some_and(|target| target.accesses.wants_flush()) {
            return;
        }
        if let Some(slot) = self.landings.take() {
            self.get_for_us(id, directory::NLA, slot, FLUSH_BYTES, Purpose::Flush);
        }
    }

    /// Sends gets behind puts that have none.
    pub(super) fn flush_all(&mut self) {
        let unflushed: Vec<u64> = self.unflushed.iter().copied().collect();
        for id in unflushed {
            self.flush(id);
            if self.is_idle(id) {
                self.unflushed.remove(&id);
            }
        }
    }

    /// Posts a get into a landing slot. False: there is no room, and the slot is free again.
    fn get_for_us(&mut self, id: u64, read: u64, slot: StagingSlot, bytes: u64, purpose: Purpose) -> bool {
        let write = slot.nla;
        match self.post(id, code::BT_GET, spec::COMPLETER, Rma::Get { read, write, bytes: bytes as u32 }) {
            Ok(Posted::Started) => {
                let name = Name { code: code::BT_GET, word0: write, bytes };
                self.target(id).accesses.sent(Sent { name, purpose, local: None });
                true
            }
            Ok(Posted::Refused) | Err(_) => {
                self.landings.give_back(slot.nla);
                false
            }
        }
    }

    fn target(&mut self, id: u64) -> &mut Target {
        self.targets.entry(id).or_default()
    }

    fn post(&self, id: u64, code: u8, spec: u8, operation: Rma) -> Result<Posted, PostError> {
        let descriptor = Descriptor { code, node: id as u16, vpid: VPID as u8, spec, modifiers: 0, operation };
        self.device.post(VPID, options::TE, &descriptor)
    }

    /// The bucket that a look-up has brought.
    fn bucket(&self, nla: u64) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        let offset = (nla.saturating_sub(self.landing.nla()) as usize).min((LANDINGS as usize - 1) * BUCKET_BYTES);
        // SAFETY: the slot is within the block, by the line above, and its get has ended, so nobody writes it.
        unsafe { std::ptr::copy_nonoverlapping(self.landing.at(offset), bytes.as_mut_ptr(), BUCKET_BYTES) };
        bytes
    }

    /// The next notification of the port.
    fn next_notification(&mut self) -> Option<Notification> {
        let signals = self.device.interface().signals();
        signals.take_notification(VPID, &mut self.notifications_read).map(Notification::decode)
    }
}

/// A run whose commands are about to be posted.
pub(super) struct Ready {
    run: Run,
    local: Option<(Arc<Registered>, u64)>,
}

impl Transport {
    /// Reads or writes over the units. None: the access travels as packets.
    pub(crate) fn transfer_over_units(&mut self, transfer: &Transfer<'_>, length: usize) -> Option<isize> {
        if length == 0 || !self.reaches_by_units(transfer.peer) {
            return None;
        }
        for has_polled in [false, true] {
            match self.access(transfer, length) {
                Ok(()) => return Some(0),
                Err(Refused::Packets) => return None,
                Err(Refused::Error(error)) => return Some(-(error as isize)),
                Err(Refused::Later) => {}
            }
            if !has_polled {
                self.progress();
            }
        }
        Some(-(EAGAIN as isize))
    }

    /// Whether accesses to a peer go over the units: it has no ring for us.
    fn reaches_by_units(&mut self, number: u32) -> bool {
        self.units.is_some() && self.met(number).is_some_and(|peer| peer.ring().is_none())
    }

    fn access(&mut self, transfer: &Transfer<'_>, length: usize) -> Result<(), Refused> {
        let id = self.peers.get(transfer.peer).map_or(0, |peer| peer.id);
        let right = if transfer.write { REMOTE_WRITE } else { REMOTE_READ };
        let units = self.units.as_mut().ok_or(Refused::Packets)?;
        let found = units.one_sided.runs(id, right, transfer.pieces, transfer.remote);
        if found == Err(Refused::Error(EACCES)) {
            let number = self.begin(transfer.ticket, transfer.peer, None);
            self.end_launch(number, EACCES);
            return Ok(());
        }
        // The program is told at once of memory that it does not have.
        if found == Err(Refused::Later) && !self.are_mapped(transfer) {
            return Err(Refused::Error(EFAULT));
        }
        let runs = found?;
        // SAFETY: a ticket of a new operation names an open endpoint.
        let orders = unsafe { (*transfer.ticket.bindings).orders };
        if !self.admits_access(transfer.peer, orders) {
            return Err(Refused::Later);
        }
        // An injected write keeps a copy, in case that it has to be done again.
        let mut pieces: Box<[iovec]> = transfer.pieces.into();
        let copied = transfer.inject.then(|| {
            let mut bytes = vec![0u8; length].into_boxed_slice();
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(transfer.pieces, bytes.as_mut_ptr()) };
            bytes
        });
        let runs = match &copied {
            None => runs,
            Some(bytes) => {
                pieces = [iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: length }].into();
                moved_to(bytes.as_ptr() as u64, runs)
            }
        };
        let ready = self.ready(transfer.write, &runs)?;
        if copied.is_some() && length as u64 > IMMEDIATE_BYTES {
            self.interface.charge_copy(length as u64);
        }
        let number = self.begin(transfer.ticket, transfer.peer, transfer.note());
        if let Some(pending) = self.pending(number) {
            pending.staging.operands = copied;
            let (write, remote) = (transfer.write, transfer.remote.into());
            pending.over_units =
                Some(Box::new(OverUnits { write, pieces, remote, runs, is_refused: false, repetitions: 0 }));
        }
        let error = self.post_ready(number, id, transfer.write, ready);
        self.end_launch(number, error);
        Ok(())
    }

    /// Whether the program's pieces are mapped, as an access needs them.
    fn are_mapped(&self, transfer: &Transfer<'_>) -> bool {
        transfer.pieces.iter().all(|piece| {
            let (start, bytes) = (piece.iov_base as u64, piece.iov_len as u64);
            match transfer.write {
                _ if bytes == 0 => true,
                true => crate::memory_is_readable(start, bytes),
                false => self.interface.has_writable(start, bytes),
            }
        })
    }

    /// Prepares the commands of runs: registers their local memory, and finds room.
    pub(super) fn ready(&mut self, write: bool, runs: &[Run]) -> Result<Vec<Ready>, Refused> {
        let units = self.units.as_mut().ok_or(Refused::Packets)?;
        let can_register = |bytes: u64| bytes < u64::from(units.device.interface().limits().address_tables) << 30;
        let OneSided { device, registrations, commands, .. } = &mut units.one_sided;
        let wanted: u64 = runs.iter().map(|run| run.bytes.div_ceil(COMMAND_BYTES_MAX)).sum();
        if wanted > COMMANDS_MAX as u64 {
            return Err(Refused::Packets);
        }
        if *commands + wanted as usize > COMMANDS_MAX {
            return Err(Refused::Later);
        }
        let register = |run: &Run| {
            if write && run.bytes <= IMMEDIATE_BYTES {
                return match crate::memory_is_readable(run.start, run.bytes) {
                    true => Ok(Ready { run: *run, local: None }),
                    false => Err(Refused::Error(EFAULT)),
                };
            }
            let made = registrations.of(device, (run.start, run.bytes), !write).map_err(|error| match error {
                DeviceError::TablesFull { .. } if *commands != 0 && can_register(run.bytes) => Refused::Later,
                DeviceError::TablesFull { .. } => Refused::Packets,
                _ => Refused::Error(EFAULT),
            })?;
            let nla = made.nla_of(run.start);
            Ok(Ready { run: *run, local: Some((made, nla)) })
        };
        runs.iter().map(register).collect()
    }

    /// Posts the commands of an operation. Returns 0, or an error.
    pub(super) fn post_ready(&mut self, number: usize, id: u64, write: bool, ready: Vec<Ready>) -> c_int {
        let mut error = 0;
        for Ready { run, local } in ready {
            let mut at = 0;
            while at < run.bytes && error == 0 {
                let bytes = (run.bytes - at).min(COMMAND_BYTES_MAX);
                error = self.post_one(number, id, write, (run, at, bytes), local.as_ref());
                at += bytes;
            }
        }
        if let (true, Some(units)) = (write, &mut self.units) {
            units.one_sided.unflushed.insert(id);
            units.one_sided.flush(id);
        }
        error
    }

    fn post_one(
        &mut self,
        number: usize,
        id: u64,
        write: bool,
        (run, at, bytes): (Run, u64, u64),
        local: Option<&(Arc<Registered>, u64)>,
    ) -> c_int {
        let there = run.nla + at;
        let here = local.map_or(0, |(_, nla)| nla + at);
        let (code, spec, word0, operation) = match (write, local) {
            (true, None) => {
                let mut value = [0u8; IMMEDIATE_BYTES as usize];
                // SAFETY: the memory was readable a moment ago, in the same call, and it is the program's or a copy of this process.
                unsafe { std::ptr::copy_nonoverlapping(run.start as *const u8, value.as_mut_ptr(), bytes as usize) };
                let put = Rma::ImmediatePut { write: there, value: u64::from_le_bytes(value), bytes: bytes as u32 };
                (code::IMMEDIATE_PUT, 0, there, put)
            }
            (true, Some(_)) => (code::BT_PUT, 0, here, Rma::Put { read: here, write: there, bytes: bytes as u32 }),
            (false, _) => {
                let get = Rma::Get { read: there, write: here, bytes: bytes as u32 };
                (code::BT_GET, spec::COMPLETER, here, get)
            }
        };
        let Some(units) = &mut self.units else { return EFAULT };
        let posted = loop {
            match units.one_sided.post(id, code, spec, operation) {
                // The unit takes commands as it has room.
                Err(PostError::Full) => self.interface.poll(),
                posted => break posted,
            }
        };
        if posted != Ok(Posted::Started) {
            return EFAULT;
        }
        let purpose = if write { Purpose::Put(number) } else { Purpose::Get(number) };
        let sent = Sent { name: Name { code, word0, bytes }, purpose, local: local.map(|(made, _)| made.clone()) };
        units.one_sided.target(id).accesses.sent(sent);
        units.one_sided.commands += 1;
        if let Some(pending) = self.pending(number) {
            pending.left += 1;
        }
        0
    }

    pub(super) fn pending(&mut self, number: usize) -> Option<&mut Pending> {
        match self.operations.get_mut(number) {
            Some(Operation::Remote(pending)) => Some(pending),
            _ => None,
        }
    }

    /// Takes what has become of accesses. Returns whether there was anything.
    pub(super) fn take_accesses(&mut self) -> bool {
        let mut any = false;
        while let Some(notification) = self.units.as_mut().and_then(|units| units.one_sided.next_notification()) {
            any = true;
            self.take_access_notification(&notification);
        }
        self.settle_doubts();
        if let Some(units) = &mut self.units {
            units.one_sided.flush_all();
            while let Some(id) = units.one_sided.next_forgotten() {
                units.control(id, Control::Forgotten);
            }
        }
        any
    }

    fn take_access_notification(&mut self, notification: &Notification) {
        let Notification { word0, size, node, code, error, .. } = *notification;
        let (id, bytes) = (u64::from(node), u64::from(size) + 1);
        let Some(units) = &mut self.units else { return };
        let one_sided = &mut units.one_sided;
        let Some(target) = one_sided.targets.get_mut(&id) else { return };
        // Of a lock the number is the lower part, beside its value.
        let word0 = if matches!(code, code::LOCK | code::LOCK_RSP) { word0 & 0xff_ffff } else { word0 };
        if error != 0 {
            // A command that the requester has refused is not in the queue: its caller knows.
            match target.accesses.refused(Name { code, word0, bytes }) {
                Some(sent) => self.access_ended(id, sent, true),
                None => log::debug!("a command to process {id} is refused, and no access waits for it"),
            }
            return;
        }
        if code == code::LOCK_RSP {
            if let Some(sent) = target.accesses.locked(word0) {
                self.access_ended(id, sent, false);
            }
            return;
        }
        if code != code::GET_BT_RSP {
            return log::warn!("a notification of process {id} belongs to no access");
        }
        for sent in target.accesses.answered(word0, bytes) {
            self.access_ended(id, sent, false);
        }
    }

    /// A command has ended.
    fn access_ended(&mut self, id: u64, sent: Sent, is_refused: bool) {
        let Sent { name, purpose, local } = sent;
        drop(local);
        let Some(units) = &mut self.units else { return };
        let one_sided = &mut units.one_sided;
        match purpose {
            Purpose::Put(_) | Purpose::Get(_) | Purpose::Dropped => one_sided.commands -= 1,
            Purpose::Flush | Purpose::LookUp(_) | Purpose::Probe => _ = one_sided.landings.give_back(name.word0),
            Purpose::Mark(_) => {}
        }
        match purpose {
            Purpose::Put(number) | Purpose::Get(number) => {
                if let (true, Some(over_units)) =
                    (is_refused, self.pending(number).and_then(|pending| pending.over_units.as_mut()))
                {
                    over_units.is_refused = true;
                }
                self.one_less(number);
            }
            Purpose::LookUp(key) => {
                let found = if is_refused { None } else { directory::find(&one_sided.bucket(name.word0), key) };
                one_sided.target(id).translations.answer(key, found);
            }
            Purpose::Mark(key) => one_sided.marked(id, key, is_refused),
            // A directory that cannot be read is that of a NIC that is closed, or of a process that has ended.
            Purpose::Flush if is_refused => self.lose_target(id),
            Purpose::Probe if is_refused => one_sided.is_forgotten_by(id),
            Purpose::Flush | Purpose::Probe | Purpose::Dropped => {}
        }
    }

    /// No put to this process is answered any more.
    fn lose_target(&mut self, id: u64) {
        let Some(units) = &mut self.units else { return };
        let target = units.one_sided.target(id);
        (target.mark, _) = (Mark::No, target.translations.clear());
        let lost = target.accesses.lose_puts();
        for sent in lost {
            if let Some(pending) = match sent.purpose {
                Purpose::Put(number) => self.pending(number),
                _ => None,
            } {
                pending.error = EHOSTDOWN;
            }
            self.access_ended(id, sent, false);
        }
    }

    /// Whether a message or a packet may follow the accesses to a peer.
    pub(crate) fn accesses_are_done(&mut self, number: u32) -> bool {
        let Some(id) = self.peers.get(number).map(|peer| peer.id) else { return true };
        let is_idle = |transport: &Transport| transport.units.as_ref().is_none_or(|units| units.one_sided.is_idle(id));
        if is_idle(self) {
            return true;
        }
        self.progress();
        is_idle(self)
    }

    /// Whether a message may follow the accesses to its peer.
    pub(crate) fn admits_message(&mut self, message: &Message<'_>) -> bool {
        // SAFETY: a ticket of a new message names an open endpoint.
        let orders = unsafe { (*message.ticket.bindings).orders };
        // The notification of a write follows the end of that write, and so that of those before it.
        message.kind == Kind::Note || !orders.messages || self.accesses_are_done(message.peer)
    }
}

/// The same runs, of memory that begins elsewhere and has no gaps.
fn moved_to(start: u64, runs: Vec<Run>) -> Vec<Run> {
    let mut at = start;
    let moved = |run: Run| {
        let moved = Run { start: at, ..run };
        at += run.bytes;
        moved
    };
    runs.into_iter().map(moved).collect()
}
