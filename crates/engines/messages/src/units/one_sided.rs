// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port for reads and writes of registered memory over the RMA unit (seed 002, section 8.6; docs/design/extoll.md,
//! one-sided MPI): this process's regions, known regions of other processes, and the commands under way.
//!
//! [`access`](super::access) makes commands of a program's reads and writes.
//!
//! Invariants
//! 1. At most [`COMMANDS_MAX`](super::limits::COMMANDS_MAX) commands of accesses, [`LANDINGS`] gets of the library
//!    itself and [`MARKS_MAX`] lock requests are under way. Each brings at most one notification, to this process. So
//!    the notification queue has room for all, and no queue of a target gets any.
//! 2. An address of a target is remembered only while the target knows it ([`super::retired`]).
//! 3. Regions have one of two VPIDs, alternating from one opening of this process's NIC to the next. So an address of
//!    the previous opening meets no entry. The directory and the library's own memory always have the VPID of the port.
//! 4. The knowledge about a target belongs to one process. It is dropped when another process has the id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use libc::iovec;
use selvedge_nic::NoMemory;
use selvedge_nic::atu::Rights;
use selvedge_nic::rma::{Descriptor, LockRequest, Notification, Operation as Rma, code, options, spec};
use selvedge_nic::tables::{LOCKS, PAGES};
use selvedge_os::sync::IgnorePoison;

use super::command_queue::{CommandQueue, Name, Purpose, Sent};
use super::directory::{self, BUCKET_BYTES, Directory, Entry};
use super::limits::{ACCESS_VPID, LANDINGS, MARKS_MAX, REGION_VPIDS};
use super::memory::{Block, Registered, Registrations};
use super::retired::Retired;
use super::translations::{Place, Translations};
use crate::pieces::{RemoteRange, each_common};
use crate::transfer::Run;
use selvedge_process::device::connection::{PostError, Posted};
use selvedge_process::device::staging::{Staging, StagingSlot};
use selvedge_process::device::{Device, DeviceError};

/// The share of the address tables that closed regions may keep (one part in this number) before peers must forget.
const RETIRED_SHARE: u64 = 4;
/// Bytes of a get behind puts.
const FLUSH_BYTES: u64 = 8;

/// The number of times that this process has opened a NIC, by the NIC's id.
static OPENINGS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// The VPID of the regions of the next opening of the NIC with this id.
fn next_region_vpid(id: u64) -> u16 {
    let mut openings = OPENINGS.lock().ignore_poison();
    let opening = openings.entry(id).or_default();
    *opening += 1;
    REGION_VPIDS[(*opening - 1) % REGION_VPIDS.len()]
}

/// The accesses to one other process.
#[derive(Default)]
pub(super) struct Target {
    /// The process, by the word that names it in locks. `None`: no access to it was tried.
    owner: Option<u64>,
    pub(super) queue: CommandQueue,
    pub(super) translations: Translations,
    mark: Mark,
}

impl Target {
    /// Forgets its addresses, including those of look-ups under way.
    fn clear(&mut self) {
        self.translations.clear();
        self.queue.void_look_ups();
    }

    /// Records that its NIC is closed.
    fn is_gone(&mut self) {
        self.clear();
        self.mark = Mark::No;
    }
}

/// Whether a target knows that this process remembers its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    No,
    Asked,
    Yes,
}

/// The port for accesses, with everything under way there.
pub(crate) struct OneSided {
    pub(super) device: Arc<Device>,
    notifications_read: u64,
    /// The port of this opening's regions.
    region_vpid: u16,
    directory: Directory,
    /// The destination slots of the library's own gets.
    pub(super) landings: Staging,
    landing: Block,
    pub(super) registrations: Registrations,
    /// By process id.
    pub(super) targets: BTreeMap<u64, Target>,
    pub(super) commands: usize,
    marks: usize,
    retired: Retired<Registered>,
    /// The tables had no room for a region.
    lacks_room: bool,
    /// Targets to answer *forgotten* once nothing is under way to them, with the numbers of their rounds.
    forgetting: BTreeMap<u64, u64>,
    /// Targets of puts that may have no get behind them.
    pub(super) unflushed: BTreeSet<u64>,
    /// Refused accesses, until their keys are known again.
    retries: Vec<usize>,
}

/// The reason why an access is not posted over the units now. With several reasons, the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NotPosted {
    /// The region does not grant the access.
    NotPermitted,
    NotMapped,
    /// There is no such peer.
    Invalid,
    /// The access travels as a packet.
    Packets,
    /// There is no room, or a translation is being looked up. Nothing has changed.
    Later,
}

impl OneSided {
    /// Opens the port. Nothing else is registered yet.
    pub fn open(device: &Arc<Device>) -> Result<OneSided, DeviceError> {
        device.open_port(Some(ACCESS_VPID), 0)?;
        let region_vpid = next_region_vpid(device.interface().id());
        device.open_port(Some(region_vpid), 0)?;
        let block = Block::with_rights(device, ACCESS_VPID, directory::BYTES, Rights::ReadOnly)?;
        if block.nla() != directory::NLA {
            return Err(DeviceError::NotMapped { address: block.start(), bytes: directory::BYTES as u64 });
        }
        let landing = Block::new(device, ACCESS_VPID, LANDINGS as usize * BUCKET_BYTES)?;
        Ok(OneSided {
            device: device.clone(),
            notifications_read: 0,
            region_vpid,
            directory: Directory::new(block),
            landings: Staging::new(landing.start(), landing.nla(), BUCKET_BYTES as u64, LANDINGS),
            landing,
            registrations: Registrations::new(ACCESS_VPID),
            targets: BTreeMap::new(),
            commands: 0,
            marks: 0,
            retired: Retired::default(),
            lacks_room: false,
            forgetting: BTreeMap::new(),
            unflushed: BTreeSet::new(),
            retries: Vec::new(),
        })
    }

    // ---- this process's regions ----

    /// Lets peers reach memory under a key. `None`: they reach it by packets.
    pub fn expose(&mut self, memory: (u64, u64), access: u64, key: u64) -> Option<Registered> {
        let rights = directory::rights(access).filter(|_| memory.1 != 0 && self.directory.has_room(key))?;
        let registered = Registered::with_rights(&self.device, self.region_vpid, memory, rights)
            .inspect_err(|error| {
                self.lacks_room |= matches!(error, DeviceError::TablesFull { .. });
                log::info!("peers reach a region by packets: {error}");
            })
            .ok()?;
        let entry = Entry { key, vpid: self.region_vpid, nla: registered.nla_of(memory.0), length: memory.1, access };
        self.directory.insert(&entry).then_some(registered)
    }

    /// Withdraws a region. Afterwards no peer reaches the memory by it, even if the peer remembers the key. (As a local
    /// buffer of an access, the memory keeps entries of the port for accesses, which no directory names.)
    pub fn conceal(&mut self, key: u64, registered: Registered) {
        self.directory.remove(key);
        registered.revoke();
        let pages = registered.pages();
        self.retired.add(registered, pages);
    }

    /// Begins to free the addresses of closed regions, if it is time. Returns the peers to ask, and the round.
    pub fn begin_round(&mut self) -> (BTreeSet<u64>, u64) {
        let tables = u64::from(self.device.interface().limits().address_tables);
        let pages_max = if std::mem::take(&mut self.lacks_room) { 0 } else { tables * PAGES as u64 / RETIRED_SHARE };
        if !self.retired.is_due(pages_max) {
            return (BTreeSet::new(), 0);
        }
        let holders = self.holders();
        let round = self.retired.begin(&holders);
        holders.iter().for_each(|id| self.probe(*id));
        (holders, round)
    }

    /// The processes that may remember addresses of this process's regions.
    pub fn holders(&self) -> BTreeSet<u64> {
        let mut nic = self.device.interface().lock();
        let mut is_held = |number: u32| {
            let reading = LockRequest { vpid: ACCESS_VPID, number, compare: i32::MIN, add: 0 };
            nic.locks().request(&mut NoMemory, &reading).is_ok_and(|lock| lock.value != 0)
        };
        (0..LOCKS as u32).filter(|number| is_held(*number)).map(u64::from).collect()
    }

    /// Records that a process remembers no address of a round.
    pub fn is_forgotten_by(&mut self, id: u64, round: u64) {
        self.retired.forgotten(id, round);
    }

    /// Records that a probe of a round has ended. True: send *forget* to the process again.
    pub fn probed(&mut self, id: u64, round: u64, is_refused: bool) -> bool {
        if is_refused {
            self.retired.forgotten(id, round);
        }
        !is_refused && self.retired.probed(id, round)
    }

    /// Records that a process has closed its NIC. `Some`: send *forget* for this round again, in case it has another
    /// NIC.
    pub fn is_closed_by(&mut self, id: u64) -> Option<u64> {
        self.forget_translations(id);
        let is_holder = self.retired.closed(id);
        is_holder.then(|| {
            self.probe(id);
            self.retired.number()
        })
    }

    /// Probes the peers that must forget addresses, to find out which are gone.
    pub fn probe_holders(&mut self) {
        for id in self.retired.holders() {
            self.probe(id);
        }
    }

    fn probe(&mut self, id: u64) {
        if let Some(slot) = self.landings.take() {
            self.get_for_us(id, directory::NLA, slot, FLUSH_BYTES, Purpose::Probe(self.retired.number()));
        }
    }

    /// Forgets the addresses of a target's regions. [`OneSided::next_forgotten`] then names the target.
    pub fn forget(&mut self, id: u64, round: u64) {
        self.target(id).clear();
        self.forgetting.insert(id, round);
    }

    /// The next target whose addresses are forgotten and to which nothing is under way, with the number of its round.
    pub fn next_forgotten(&mut self) -> Option<(u64, u64)> {
        let id = self.forgetting.keys().copied().find(|id| self.has_ended_to(*id))?;
        self.forgetting.remove_entry(&id)
    }

    // ---- peers ----

    /// The targets that may know that this process remembers their addresses.
    pub fn marked_targets(&self) -> impl Iterator<Item = u64> {
        self.targets.iter().filter(|(_, target)| target.mark != Mark::No).map(|(id, _)| *id)
    }

    /// Starts an access to this process. Forgets what belonged to another process with the same id.
    pub fn belongs_to(&mut self, id: u64, owner: u64) {
        let target = self.target(id);
        if target.owner.replace(owner).is_some_and(|other| other != owner) {
            target.is_gone();
        }
    }

    /// Records that the program has named the process with this id again: it may have another NIC now.
    pub fn is_named_again(&mut self, id: u64) {
        if let Some(target) = self.targets.get_mut(&id) {
            target.translations.named_again();
        }
    }

    /// Forgets the translations of a process that has closed its NIC or has ended.
    pub fn forget_translations(&mut self, id: u64) {
        if let Some(target) = self.targets.get_mut(&id) {
            target.is_gone();
        }
    }

    /// Takes the puts under way to this process, which are no longer answered.
    pub fn lose_puts(&mut self, id: u64) -> Vec<Sent> {
        self.forget_translations(id);
        self.target(id).queue.lose_puts()
    }

    /// Whether no access to this process is under way.
    pub fn is_idle(&self, id: u64) -> bool {
        self.retries.is_empty() && self.has_ended_to(id)
    }

    /// Whether no command to this process is under way.
    pub fn has_ended_to(&self, id: u64) -> bool {
        self.targets.get(&id).is_none_or(|target| target.queue.is_idle())
    }

    /// Keeps a refused access, and looks its keys up again.
    pub fn keep_for_retry(&mut self, id: u64, keys: impl Iterator<Item = u64>, number: usize) {
        let translations = &mut self.target(id).translations;
        keys.for_each(|key| translations.look_up_again(key));
        self.retries.push(number);
    }

    /// Takes the refused accesses. [`OneSided::retry_later`] puts back those that cannot be retried yet.
    pub fn take_retries(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.retries)
    }

    pub fn retry_later(&mut self, number: usize) {
        self.retries.push(number);
    }

    /// Forgets operations that ended with their endpoint.
    pub fn forget_ended(&mut self, is_open: impl Fn(usize) -> bool) {
        self.targets.values_mut().for_each(|target| target.queue.forget(|number| !is_open(number)));
        self.retries.retain(|number| is_open(*number));
    }

    /// The runs of an access: ranges contiguous at both sides, with network logical addresses.
    pub fn runs(
        &mut self,
        id: u64,
        access: u64,
        pieces: &[iovec],
        remote: &[RemoteRange],
    ) -> Result<Vec<Run>, NotPosted> {
        if self.forgetting.contains_key(&id) {
            return Err(NotPosted::Later);
        }
        let (mut runs, mut refused, mut unknown) = (Vec::new(), None, Vec::new());
        let target = self.targets.entry(id).or_default();
        each_common(pieces, remote, |start, offset, key, bytes, _| {
            let found = target.translations.find(key, access, offset, bytes);
            let why = match found {
                Place::At { vpid, nla } => {
                    runs.push(Run { start, vpid, nla, bytes });
                    return true;
                }
                Place::Unknown => {
                    unknown.push(key);
                    NotPosted::Later
                }
                Place::Asked => NotPosted::Later,
                Place::NotHere => NotPosted::Packets,
                Place::NotGranted => NotPosted::NotPermitted,
            };
            // The strongest reason counts: a look-up may change the others, and a packet's target checks all ranges.
            refused = refused.max(Some(why));
            true
        });
        if refused != Some(NotPosted::Later) {
            remote.iter().for_each(|range| target.translations.used(range.key));
        }
        unknown.sort_unstable();
        unknown.dedup();
        for key in unknown {
            self.look_up(id, key);
        }
        refused.map_or(Ok(runs), Err)
    }

    /// Asks for the directory's bucket of a key, if there is room. First tells the target that we remember addresses.
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
        if self.post((id, ACCESS_VPID), code::LOCK, spec::COMPLETER, lock) == Ok(Posted::Started) {
            let name = Name { code: code::LOCK, word0: number.into(), bytes: 1 };
            let target = self.target(id);
            target.queue.sent(Sent { name, purpose: Purpose::Mark(key), local: None });
            target.translations.ask(key);
            target.mark = Mark::Asked;
            self.marks += 1;
        }
    }

    /// Handles the end of a lock request.
    pub fn marked(&mut self, id: u64, key: u64, is_refused: bool) {
        self.marks -= 1;
        let target = self.target(id);
        if is_refused {
            target.mark = Mark::No;
            return target.translations.answer(key, None);
        }
        target.mark = Mark::Yes;
        // The look-up of the key follows. Without room, the next try of the access asks again.
        target.translations.ask_again(key);
        self.look_up(id, key);
    }

    /// Sends a get behind the puts to a process, if one is due and there is room.
    pub fn flush(&mut self, id: u64) {
        if !self.targets.get(&id).is_some_and(|target| target.queue.wants_flush()) {
            return;
        }
        if let Some(slot) = self.landings.take() {
            self.get_for_us(id, directory::NLA, slot, FLUSH_BYTES, Purpose::Flush);
        }
    }

    /// Sends gets behind puts that have none.
    pub fn flush_all(&mut self) {
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
        match self.post((id, ACCESS_VPID), code::BT_GET, spec::COMPLETER, Rma::Get { read, write, bytes: bytes as u32 })
        {
            Ok(Posted::Started) => {
                let name = Name { code: code::BT_GET, word0: write, bytes };
                self.target(id).queue.sent(Sent { name, purpose, local: None });
                true
            }
            Ok(Posted::Refused) | Err(_) => {
                self.landings.give_back(slot.nla);
                false
            }
        }
    }

    pub(super) fn target(&mut self, id: u64) -> &mut Target {
        self.targets.entry(id).or_default()
    }

    /// Posts a command to a port of a process.
    pub fn post(&self, to: (u64, u16), code: u8, spec: u8, operation: Rma) -> Result<Posted, PostError> {
        let (id, vpid) = to;
        let descriptor = Descriptor { code, node: id as u16, vpid: vpid as u8, spec, modifiers: 0, operation };
        self.device.post(ACCESS_VPID, options::TE, &descriptor)
    }

    /// The bucket that a look-up has read.
    pub fn bucket(&self, nla: u64) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        let offset = (nla.saturating_sub(self.landing.nla()) as usize).min((LANDINGS as usize - 1) * BUCKET_BYTES);
        // SAFETY: the slot is within the block, by the line above. Its get has ended, so no unit writes it.
        unsafe { std::ptr::copy_nonoverlapping(self.landing.at(offset), bytes.as_mut_ptr(), BUCKET_BYTES) };
        bytes
    }

    /// The next notification of the port.
    pub fn next_notification(&mut self) -> Option<Notification> {
        let signals = self.device.interface().signals();
        signals.take_notification(ACCESS_VPID, &mut self.notifications_read).map(Notification::decode)
    }
}
