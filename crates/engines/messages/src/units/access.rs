// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes over the RMA unit: from the call to the commands, and from the answers to the completion.
//!
//! ```text
//! transfer ─ runs: a translation of each key ─ order ─ ready: room, local memory registered ─> post_ready ─> command_ended ─> completion
//!     │         └ unknown: look it up, EAGAIN                                                                └ refused: a retry
//!     └ no translation: packets
//! ```
//!
//! Invariants
//! 1. An access is posted whole, or nothing has happened.
//! 2. The registration of a command's local memory lives until the command has ended.

use std::sync::Arc;

use libc::iovec;
use selvedge_nic::rma::{Notification, Operation as Rma, code, spec};

use super::Units;
use super::command_queue::{Name, Purpose, Sent};
use super::directory;
use super::limits::{ACCESS_VPID, COMMANDS_MAX};
use super::memory::Registered;
use super::one_sided::{NotPosted, OneSided};
use crate::error::Fault;
use crate::flags::{REMOTE_READ, REMOTE_WRITE};
use crate::in_flight::InFlight;
use crate::own_nic::OwnNic;
use crate::pieces::gather;
use crate::transfer::{OverUnits, Run, Transfer};
use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::{PostError, Posted};

/// Largest length of one command: the limit of a descriptor.
const COMMAND_BYTES_MAX: u64 = selvedge_nic::rma::descriptor::BYTES_MAX as u64;
/// Bytes that a descriptor carries inline.
const IMMEDIATE_BYTES: u64 = 8;

/// A run whose commands are about to be posted.
pub(super) struct Ready {
    run: Run,
    local: Option<(Arc<Registered>, u64)>,
}

/// An access that was started: its number, and whether all of its commands were posted.
pub(crate) type Started = (usize, Result<(), Fault>);

/// The result of a command's end outside of the port for accesses.
pub(crate) enum CommandEnd {
    Nothing,
    /// A command of this access has ended.
    OfAccess(usize),
    /// The target no longer answers puts.
    TargetGone,
    /// *Forget* must be sent to the target again, for this round.
    ForgetAgain(u64),
}

impl Units {
    /// Starts an access. Returns its operation number, and whether all of its commands were posted.
    pub fn start_access(
        &mut self,
        flight: &mut InFlight,
        transfer: &Transfer<'_>,
        length: usize,
    ) -> Result<Started, NotPosted> {
        let Some(id) = flight.peers.get(transfer.peer).map(|peer| peer.id) else { return Err(NotPosted::Invalid) };
        let right = if transfer.write { REMOTE_WRITE } else { REMOTE_READ };
        let found = self.one_sided.runs(id, right, transfer.pieces, transfer.remote);
        if found == Err(NotPosted::NotPermitted) {
            let number = flight.operations.begin_access(transfer.ticket, transfer.peer, None);
            return Ok((number, Err(Fault::NotPermitted)));
        }
        // Refuse unmapped memory now, not when the translation arrives.
        if found == Err(NotPosted::Later) && !are_mapped(&flight.nic, transfer) {
            return Err(NotPosted::NotMapped);
        }
        let runs = found?;
        // SAFETY: a ticket of a new operation names an open endpoint.
        let orders = unsafe { (*transfer.ticket.bindings).orders };
        // A refused access is retried. If this one were posted now, it would overtake the retry.
        if !self.admits_access(&mut flight.peers, transfer.peer, orders)
            || flight.peers.has_refused(transfer.peer, &transfer.ticket)
        {
            return Err(NotPosted::Later);
        }
        // An injected write keeps a copy for a possible retry.
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
        let ready = self.one_sided.ready(id, transfer.write, &runs)?;
        if copied.is_some() && length as u64 > IMMEDIATE_BYTES {
            flight.nic.interface.charge_copy(length as u64);
        }
        let number = flight.operations.begin_access(transfer.ticket, transfer.peer, transfer.note());
        if let Some(pending) = flight.operations.access(number) {
            pending.staging.operands = copied;
            let (write, remote) = (transfer.write, transfer.remote.into());
            pending.over_units =
                Some(Box::new(OverUnits { write, pieces, remote, runs, is_refused: false, repetitions: 0 }));
        }
        Ok((number, self.one_sided.post_ready(flight, (number, id), transfer.write, ready)))
    }
}

impl OneSided {
    /// Prepares the commands of runs: registers their local memory, and checks for room.
    pub(super) fn ready(&mut self, id: u64, write: bool, runs: &[Run]) -> Result<Vec<Ready>, NotPosted> {
        let OneSided { device, registrations, commands, targets, .. } = self;
        let can_register = |bytes: u64| bytes < u64::from(device.interface().limits().address_tables) << 30;
        let queue = &targets.entry(id).or_default().queue;
        let wanted: u64 = runs.iter().map(|run| run.bytes.div_ceil(COMMAND_BYTES_MAX)).sum();
        if wanted > COMMANDS_MAX as u64 {
            return Err(NotPosted::Packets);
        }
        if *commands + wanted as usize > COMMANDS_MAX {
            return Err(NotPosted::Later);
        }
        let mut used: Vec<(u64, u64)> = Vec::new();
        let register = |run: &Run| {
            if write && run.bytes <= IMMEDIATE_BYTES {
                return match selvedge_process::memory_is_readable(run.start, run.bytes) {
                    true => Ok(Ready { run: *run, local: None }),
                    false => Err(NotPosted::NotMapped),
                };
            }
            let refused = |error| match error {
                DeviceError::TablesFull { .. } if *commands != 0 && can_register(run.bytes) => NotPosted::Later,
                DeviceError::TablesFull { .. } => NotPosted::Packets,
                _ => NotPosted::NotMapped,
            };
            let mut made = registrations.of(device, (run.start, run.bytes), !write).map_err(refused)?;
            let is_confused = |at: u64| {
                let bytes = (run.bytes - at).min(COMMAND_BYTES_MAX);
                let name = Name { code: code::BT_PUT, word0: made.nla_of(run.start) + at, bytes };
                queue.would_confuse(name, (run.vpid, run.nla + at))
            };
            let (start, end) = (run.start, run.start + run.bytes);
            let overlaps = used.iter().any(|other| start < other.1 && other.0 < end);
            if write && (overlaps || (0..run.bytes).step_by(COMMAND_BYTES_MAX as usize).any(is_confused)) {
                // Otherwise both puts have the same name, and a refusal could not tell them apart.
                made = Arc::new(Registered::new(device, ACCESS_VPID, run.start, run.bytes).map_err(refused)?);
            }
            used.push((start, end));
            let nla = made.nla_of(run.start);
            Ok(Ready { run: *run, local: Some((made, nla)) })
        };
        runs.iter().map(register).collect()
    }

    pub(super) fn post_ready(
        &mut self,
        flight: &mut InFlight,
        (number, id): (usize, u64),
        write: bool,
        ready: Vec<Ready>,
    ) -> Result<(), Fault> {
        let mut outcome = Ok(());
        for Ready { run, local } in ready {
            let mut at = 0;
            while at < run.bytes && outcome.is_ok() {
                let bytes = (run.bytes - at).min(COMMAND_BYTES_MAX);
                outcome = self.post_one(flight, (number, id), write, (run, at, bytes), local.as_ref());
                at += bytes;
            }
        }
        if write {
            self.unflushed.insert(id);
            self.flush(id);
        }
        outcome
    }

    fn post_one(
        &mut self,
        flight: &mut InFlight,
        (number, id): (usize, u64),
        write: bool,
        (run, at, bytes): (Run, u64, u64),
        local: Option<&(Arc<Registered>, u64)>,
    ) -> Result<(), Fault> {
        let there = run.nla + at;
        let here = local.map_or(0, |(_, nla)| nla + at);
        let (code, spec, word0, operation) = match (write, local) {
            (true, None) => {
                let mut value = [0u8; IMMEDIATE_BYTES as usize];
                // SAFETY: the memory was found readable earlier in this call. It is the program's or a copy.
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
        let posted = loop {
            match self.post((id, run.vpid), code, spec, operation) {
                // Poll until the unit has room.
                Err(PostError::Full) => flight.nic.interface.poll(),
                posted => break posted,
            }
        };
        if posted != Ok(Posted::Started) {
            return Err(Fault::NotMapped);
        }
        let purpose = if write { Purpose::Put { number, there: (run.vpid, there) } } else { Purpose::Get(number) };
        let sent = Sent { name: Name { code, word0, bytes }, purpose, local: local.map(|(made, _)| made.clone()) };
        self.target(id).queue.sent(sent);
        self.commands += 1;
        if let Some(pending) = flight.operations.access(number) {
            pending.left += 1;
        }
        Ok(())
    }

    // ---- ends of commands ----

    /// Handles a notification. Returns the commands that have ended, and whether the target refused them. The caller
    /// passes them to [`OneSided::command_ended`].
    pub fn take_notification(&mut self, notification: &Notification) -> (Vec<Sent>, bool) {
        let Notification { word0, size, node, code, error, .. } = *notification;
        let (id, bytes) = (u64::from(node), u64::from(size) + 1);
        let Some(target) = self.targets.get_mut(&id) else { return (Vec::new(), false) };
        // In a notification of a lock, the number is the lower 24 bits. The value is above it.
        let word0 = if matches!(code, code::LOCK | code::LOCK_RSP) { word0 & 0xff_ffff } else { word0 };
        if error != 0 {
            // A command that the requester refused is not in the queue, because its post has returned the error.
            let refused = target.queue.refused(Name { code, word0, bytes });
            if refused.is_none() {
                log::debug!("process {id} refused a command that belongs to no access");
            }
            return (refused.into_iter().collect(), true);
        }
        let ended = match code {
            code::LOCK_RSP => target.queue.locked(word0).into_iter().collect(),
            code::GET_BT_RSP => target.queue.answered(word0, bytes),
            _ => {
                log::warn!("a notification from process {id} belongs to no access");
                Vec::new()
            }
        };
        (ended, false)
    }

    /// Frees a command's resources and does what its purpose asks for.
    pub fn command_ended(&mut self, id: u64, sent: Sent, is_refused: bool) -> CommandEnd {
        let Sent { name, purpose, local } = sent;
        drop(local);
        match purpose {
            Purpose::Put { .. } | Purpose::Get(_) | Purpose::Dropped => self.commands -= 1,
            Purpose::Flush | Purpose::LookUp(_) | Purpose::Probe(_) => _ = self.landings.give_back(name.word0),
            Purpose::Mark(_) => {}
        }
        match purpose {
            Purpose::Put { number, .. } | Purpose::Get(number) => return CommandEnd::OfAccess(number),
            Purpose::LookUp(key) => {
                let found = if is_refused { None } else { directory::find(&self.bucket(name.word0), key) };
                self.target(id).translations.answer(key, found);
            }
            Purpose::Mark(key) => self.marked(id, key, is_refused),
            // A directory is unreadable only if its NIC is closed or its process has ended.
            Purpose::Flush if is_refused => return CommandEnd::TargetGone,
            Purpose::Probe(round) if self.probed(id, round, is_refused) => return CommandEnd::ForgetAgain(round),
            Purpose::Flush | Purpose::Dropped | Purpose::Probe(_) => {}
        }
        CommandEnd::Nothing
    }
}

/// Whether the program's pieces are mapped with the rights that the access needs.
fn are_mapped(nic: &OwnNic, transfer: &Transfer<'_>) -> bool {
    transfer.pieces.iter().all(|piece| {
        let (start, bytes) = (piece.iov_base as u64, piece.iov_len as u64);
        match transfer.write {
            _ if bytes == 0 => true,
            true => selvedge_process::memory_is_readable(start, bytes),
            false => nic.interface.has_writable(start, bytes),
        }
    })
}

/// The same runs over contiguous local memory that starts elsewhere.
fn moved_to(start: u64, runs: Vec<Run>) -> Vec<Run> {
    let mut at = start;
    let moved = |run: Run| {
        let moved = Run { start: at, ..run };
        at += run.bytes;
        moved
    };
    runs.into_iter().map(moved).collect()
}
