// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NICs of other processes of this host that this process has attached.
//!
//! A peer is found by its Portals process id: its segment is the file `<pid>.<ni>.nic` in the job's directory. A peer
//! is attached at the first message to it, and stays attached. A peer that has closed or died is looked up again at the
//! next message.
//!
//! A lack of a local resource says nothing about the peer, so it is not taken for its end: it ends this process.
//!
//! Invariants
//! 1. The table points to endpoints that live until [`Peers`] is dropped, so a reference to one is valid as long.
//! 2. There is one endpoint for a process, because a process has one ring for packets at a peer.
//!
//! Cost per peer: one pointer, and an [`Endpoint`] for each peer that was attached.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::mapping::MapError;
use selvedge_os::process::Identity;
use selvedge_os::shortage::end_reported;
use selvedge_os::sync::IgnorePoison;

use crate::config::ID_LIMIT;
use crate::endpoint::Endpoint;
use crate::segment::{Segment, SegmentError, state};

/// Number of operations between checks whether a target is alive.
const CHECK_EVERY: u32 = 4096;

pub(crate) struct Peers {
    /// The upper half of the ids of this host.
    host: u64,
    directory: PathBuf,
    /// The number of the NIC in its process; a peer's NIC has the same.
    ni: u32,
    word: u64,
    table: Box<[AtomicPtr<Endpoint>]>,
    uses: Box<[AtomicU32]>,
    /// Every endpoint that was attached. The drop frees them.
    attached: Mutex<Vec<*mut Endpoint>>,
    /// Number of checks by [`Peers::check_some`] so far.
    checked: AtomicU32,
}

impl Peers {
    pub(crate) fn new(nid: u32, directory: PathBuf, ni: u32, word: u64) -> Peers {
        Peers {
            host: u64::from(nid) << 32,
            directory,
            ni,
            word,
            table: (0..ID_LIMIT).map(|_| AtomicPtr::default()).collect(),
            uses: (0..ID_LIMIT).map(|_| AtomicU32::new(0)).collect(),
            attached: Mutex::new(Vec::new()),
            checked: AtomicU32::new(0),
        }
    }

    /// Returns the index of an id in the tables of this host's processes; at least 2^32 for an id of another host.
    #[inline(always)]
    fn index(&self, id: u64) -> u64 {
        id ^ self.host
    }

    #[inline(always)]
    pub(crate) fn is_remote(&self, id: u64) -> bool {
        self.index(id) >> 32 != 0
    }

    /// Returns the endpoint of another process. None if the process has no open NIC on this host.
    #[inline(always)]
    pub(crate) fn get(&self, id: u64) -> Option<&Endpoint> {
        let index = self.index(id) as usize;
        let slot = self.table.get(index)?;
        let uses = &self.uses[index];
        let count = uses.load(Relaxed);
        uses.store(count.wrapping_add(1), Relaxed);
        // SAFETY: invariant 1.
        match unsafe { slot.load(Acquire).as_ref() } {
            Some(peer) if peer.is_ready() && count % CHECK_EVERY != CHECK_EVERY - 1 => Some(peer),
            known => self.attach(id, known),
        }
    }

    /// Returns the endpoint that was attached last under an id.
    fn known(&self, id: u64) -> Option<&Endpoint> {
        let slot = self.table.get(self.index(id) as usize)?;
        // SAFETY: invariant 1.
        unsafe { slot.load(Acquire).as_ref() }
    }

    #[cold]
    fn attach(&self, id: u64, known: Option<&Endpoint>) -> Option<&Endpoint> {
        if known.is_some_and(Endpoint::check_alive) {
            return self.known(id);
        }
        let path = self.directory.join(format!("{}.{}.nic", id as u32, self.ni));
        let segment = match Segment::open(&path) {
            Ok(segment) => segment,
            // The peer may live: not to reach it must not look as if it had ended.
            Err(SegmentError::Map(MapError::Shortage(shortage))) => shortage.end_process(),
            // Nor as if it would come later.
            Err(error @ SegmentError::Version { .. }) => {
                let _ = writeln!(std::io::stderr(), "selvedge: {error}");
                end_reported()
            }
            Err(error) => {
                log::debug!("process {id} cannot be reached: {error}");
                return None;
            }
        };
        let header = segment.header();
        if header.id != id || header.ni != self.ni || header.hot.state.load(SeqCst) != state::READY {
            return None;
        }
        let peer = Box::new(Endpoint::new(segment, false, &self.directory));
        if !peer.check_alive() {
            return None;
        }
        let mut attached = self.attached.lock().ignore_poison();
        // Another thread may have attached the peer meanwhile (invariant 2).
        let is_new = |other: &&Endpoint| known.is_none_or(|known| !std::ptr::eq(known, *other));
        if let Some(other) = self.known(id).filter(is_new).filter(|other| other.owner() == peer.owner()) {
            return Some(other);
        }
        let pointer = Box::into_raw(peer);
        attached.push(pointer);
        self.table[self.index(id) as usize].store(pointer, SeqCst);
        // SAFETY: `Box::into_raw` made the pointer above, and only the drop frees it.
        Some(unsafe { &*pointer })
    }

    /// Whether the process `responder` of this host still owns the id.
    pub(crate) fn answers(&self, id: u64, responder: u64) -> bool {
        match self.known(id) {
            Some(peer) if peer.owner() == responder => peer.check_alive(),
            // Another process has the id now, or another process sent the request.
            _ => Identity::word_is_alive(responder),
        }
    }

    /// Checks whether a tenth of the peers are alive; the next call checks the next tenth. So a death is found even if
    /// few operations go to that peer.
    pub(crate) fn check_some(&self) {
        let attached = self.attached.lock().ignore_poison();
        let (count, share) = (attached.len(), attached.len().div_ceil(10));
        let first = self.checked.fetch_add(share as u32, Relaxed) as usize;
        for step in 0..share {
            // SAFETY: invariant 1.
            unsafe { &*attached[first.wrapping_add(step) % count] }.check_alive();
        }
    }

    /// Gives up this process's rings at the peers, because another NIC may take its id afterwards.
    pub(crate) fn give_up_rings(&self) {
        let attached = self.attached.lock().ignore_poison();
        for &peer in attached.iter() {
            // SAFETY: invariant 1.
            unsafe { &*peer }.packets.give_up();
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let attached = std::mem::take(self.attached.get_mut().ignore_poison());
        for pointer in attached {
            // SAFETY: `Box::into_raw` made the pointer in `attach`. Each pointer is taken from the list once, here.
            let peer = unsafe { Box::from_raw(pointer) };
            peer.give_up_grants(self.word);
        }
    }
}
