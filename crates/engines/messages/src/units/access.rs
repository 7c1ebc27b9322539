// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program's reads and writes over the RMA unit: from the call to the commands, and from the answers to the completion.
//!
//! ```text
//! transfer ─ runs: a translation of each key ─ order ─ ready: room, local memory registered ─> post_ready ─> take_accesses ─> completion
//!     │         └ not known: look it up, EAGAIN                                                              └ refused: a doubt
//!     └ no translation: packets
//! ```
//!
//! Invariants
//! 1. An access is posted whole, or nothing has happened.
//! 2. The registration of a command's local memory lives until the command has ended.

use std::ffi::c_int;
use std::sync::Arc;

use libc::iovec;
use selvedge_nic::rma::{Notification, Operation as Rma, code, spec};

use super::command_queue::{Name, Purpose, Sent};
use super::directory;
use super::memory::Registered;
use super::one_sided::{COMMANDS_MAX, OneSided, Refused, VPID};
use super::wire::Control;
use crate::flags::{EACCES, EAGAIN, EFAULT, EHOSTDOWN, EINVAL, REMOTE_READ, REMOTE_WRITE};
use crate::message::Message;
use crate::operation::Operation;
use crate::pieces::gather;
use crate::ticket::Kind;
use crate::transfer::{OverUnits, Pending, Run, Transfer};
use crate::transport::Transport;
use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::{PostError, Posted};

/// Bytes of one command: as many as a descriptor can say.
const COMMAND_BYTES_MAX: u64 = selvedge_nic::rma::descriptor::BYTES_MAX as u64;
/// Bytes that a descriptor carries itself.
const IMMEDIATE_BYTES: u64 = 8;

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
        // A translation is not used that the peer, which has closed its NIC, has taken back by a message that is here.
        self.take_mail();
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

    /// Whether accesses to a peer go over the units: it has no ring for us, and is the process that the program means.
    fn reaches_by_units(&mut self, number: u32) -> bool {
        let Some(peer) = self.met(number) else { return false };
        let (has_ring, id, owner) = (peer.ring().is_some(), peer.id, peer.owner);
        // A packet tells that another process has the id.
        if has_ring || !self.interface.is_answered_by(id, owner) {
            return false;
        }
        if let Some(units) = &mut self.units {
            units.one_sided.belongs_to(id, owner);
        }
        true
    }

    fn access(&mut self, transfer: &Transfer<'_>, length: usize) -> Result<(), Refused> {
        let Some(id) = self.peers.get(transfer.peer).map(|peer| peer.id) else { return Err(Refused::Error(EINVAL)) };
        let right = if transfer.write { REMOTE_WRITE } else { REMOTE_READ };
        let units = self.units.as_mut().ok_or(Refused::Packets)?;
        let found = units.one_sided.runs(id, right, transfer.pieces, transfer.remote);
        if found == Err(Refused::Error(EACCES)) {
            let number = self.begin(transfer.ticket, transfer.peer, None);
            self.end_launch(number, EACCES);
            return Ok(());
        }
        // Refuse memory that is not mapped now, not when the translation has come.
        if found == Err(Refused::Later) && !self.are_mapped(transfer) {
            return Err(Refused::Error(EFAULT));
        }
        let runs = found?;
        // SAFETY: a ticket of a new operation names an open endpoint.
        let orders = unsafe { (*transfer.ticket.bindings).orders };
        // One that was refused is done again, and this one would be before it.
        if !self.admits_access(transfer.peer, orders) || self.has_refused(transfer.peer, &transfer.ticket) {
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
        let ready = self.ready(id, transfer.write, &runs)?;
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
                true => selvedge_process::memory_is_readable(start, bytes),
                false => self.interface.has_writable(start, bytes),
            }
        })
    }

    /// Prepares the commands of runs: registers their local memory, and finds room.
    pub(super) fn ready(&mut self, id: u64, write: bool, runs: &[Run]) -> Result<Vec<Ready>, Refused> {
        let units = self.units.as_mut().ok_or(Refused::Packets)?;
        let can_register = |bytes: u64| bytes < u64::from(units.device.interface().limits().address_tables) << 30;
        let OneSided { device, registrations, commands, targets, .. } = &mut units.one_sided;
        let accesses = &targets.entry(id).or_default().accesses;
        let wanted: u64 = runs.iter().map(|run| run.bytes.div_ceil(COMMAND_BYTES_MAX)).sum();
        if wanted > COMMANDS_MAX as u64 {
            return Err(Refused::Packets);
        }
        if *commands + wanted as usize > COMMANDS_MAX {
            return Err(Refused::Later);
        }
        let mut used: Vec<(u64, u64)> = Vec::new();
        let register = |run: &Run| {
            if write && run.bytes <= IMMEDIATE_BYTES {
                return match selvedge_process::memory_is_readable(run.start, run.bytes) {
                    true => Ok(Ready { run: *run, local: None }),
                    false => Err(Refused::Error(EFAULT)),
                };
            }
            let refused = |error| match error {
                DeviceError::TablesFull { .. } if *commands != 0 && can_register(run.bytes) => Refused::Later,
                DeviceError::TablesFull { .. } => Refused::Packets,
                _ => Refused::Error(EFAULT),
            };
            let mut made = registrations.of(device, (run.start, run.bytes), !write).map_err(refused)?;
            let is_confused = |at: u64| {
                let bytes = (run.bytes - at).min(COMMAND_BYTES_MAX);
                let name = Name { code: code::BT_PUT, word0: made.nla_of(run.start) + at, bytes };
                accesses.would_confuse(name, (run.vpid, run.nla + at))
            };
            let (start, end) = (run.start, run.start + run.bytes);
            let overlaps = used.iter().any(|other| start < other.1 && other.0 < end);
            if write && (overlaps || (0..run.bytes).step_by(COMMAND_BYTES_MAX as usize).any(is_confused)) {
                // The refusal of one of the puts could not tell them apart.
                made = Arc::new(Registered::new(device, VPID, run.start, run.bytes).map_err(refused)?);
            }
            used.push((start, end));
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
            match units.one_sided.post((id, run.vpid), code, spec, operation) {
                // The unit takes commands as it has room.
                Err(PostError::Full) => self.interface.poll(),
                posted => break posted,
            }
        };
        if posted != Ok(Posted::Started) {
            return EFAULT;
        }
        let purpose = if write { Purpose::Put { number, there: (run.vpid, there) } } else { Purpose::Get(number) };
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
            while let Some((id, round)) = units.one_sided.next_forgotten() {
                units.control(id, Control::Forgotten { round });
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
            Purpose::Put { .. } | Purpose::Get(_) | Purpose::Dropped => one_sided.commands -= 1,
            Purpose::Flush | Purpose::LookUp(_) | Purpose::Probe(_) => _ = one_sided.landings.give_back(name.word0),
            Purpose::Mark(_) => {}
        }
        match purpose {
            Purpose::Put { number, .. } | Purpose::Get(number) => {
                if is_refused {
                    self.access_refused(number);
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
            Purpose::Probe(round) => {
                if one_sided.probed(id, round, is_refused) {
                    units.control(id, Control::Forget { round });
                }
            }
            Purpose::Flush | Purpose::Dropped => {}
        }
    }

    /// No put to this process is answered any more.
    fn lose_target(&mut self, id: u64) {
        let Some(units) = &mut self.units else { return };
        let lost = units.one_sided.lose_puts(id);
        for sent in lost {
            if let Purpose::Put { number, .. } = sent.purpose {
                if let Some(pending) = self.pending(number) {
                    pending.error = EHOSTDOWN;
                }
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
        if message.kind == Kind::Note {
            // It has waited for the accesses before it ([`Transport::notify`]).
            return true;
        }
        // SAFETY: a ticket of a new message names an open endpoint.
        let orders = unsafe { (*message.ticket.bindings).orders };
        !orders.messages || self.accesses_are_done(message.peer)
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
