// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory: match entries of the NIC under the region's key, for writers, for readers, and for operations
//! that do both. Addresses of remote operations are offsets into the region.
//!
//! A region counts accesses by others at its own counters, or else at those of the transport
//! ([`Regions::find_remote_counters`]).

use std::collections::HashSet;

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use slab::Slab;

use crate::endpoints::Endpoints;
use crate::flags::{REMOTE_READ, REMOTE_WRITE};
use crate::own_nic::OwnNic;
use crate::region::{Full, Region};
use crate::ticket::{FOLLOWED, REGION_PORTALS};
use crate::units::Units;

/// The accesses by others that counters count, in the order of a region's counters.
pub const REMOTE_ACCESSES: [u64; 2] = [REMOTE_WRITE, REMOTE_READ];

pub(crate) struct Regions {
    list: Slab<Region>,
    /// The counters of others' writes and reads, for regions without their own, or NONE.
    remote_counters: [u32; 2],
    keys: HashSet<u64>,
    key_next: u64,
}

impl Regions {
    /// No regions. Keys that this process chooses start at `key_next`.
    pub fn new(key_next: u64) -> Regions {
        Regions { list: Slab::new(), remote_counters: [NONE; 2], keys: HashSet::new(), key_next }
    }

    // ---- keys ----

    /// A key that is not in use.
    pub fn new_key(&mut self) -> u64 {
        loop {
            let key = self.key_next;
            self.key_next += 1;
            if !self.keys.contains(&key) {
                return key;
            }
        }
    }

    /// Claims a key. Returns false if it is in use.
    pub fn claim_key(&mut self, key: u64) -> bool {
        self.keys.insert(key)
    }

    // ---- regions ----

    /// Records a region that others cannot access yet. Returns its number.
    pub fn add(&mut self, start: u64, length: u64, access: u64, key: u64) -> usize {
        self.list.insert(Region {
            start,
            length,
            access,
            key,
            entries: [None; 6],
            counters: [NONE; 2],
            enabled: false,
            exposed: None,
        })
    }

    /// Lets others access a region.
    pub fn enable(&mut self, nic: &OwnNic, units: Option<&mut Units>, number: usize) -> Result<(), Full> {
        match self.list.get(number) {
            Some(region) if !region.enabled => self.link(nic, units, number),
            _ => Ok(()),
        }
    }

    /// Sets a region's counter for one of [`REMOTE_ACCESSES`]. Returns false if it already has one.
    pub fn set_counter(&mut self, number: usize, access: usize, counter: u32) -> bool {
        let Some(region) = self.list.get_mut(number) else { return false };
        let is_free = region.counters[access] == NONE;
        if is_free {
            region.counters[access] = counter;
        }
        is_free
    }

    /// Links a region's entries again after its counters have changed.
    pub fn recount(&mut self, nic: &OwnNic, units: Option<&mut Units>, number: usize) -> Result<(), Full> {
        match self.list.get(number) {
            Some(region) if region.enabled => self.link(nic, units, number),
            _ => Ok(()),
        }
    }

    /// Removes a region.
    pub fn remove(&mut self, nic: &OwnNic, units: Option<&mut Units>, number: usize) {
        self.conceal(units, number);
        let Some(region) = self.list.try_remove(number) else { return };
        for entry in region.entries {
            nic.take_memory_back(entry);
        }
        self.keys.remove(&region.key);
    }

    /// The counter of one of [`REMOTE_ACCESSES`] for regions without their own counter, or NONE.
    pub fn remote_counter(&self, access: usize) -> u32 {
        self.remote_counters[access]
    }

    /// Finds the counters of remote accesses again after an endpoint has changed its bindings. If one has changed, the
    /// entries of all regions are linked again.
    pub fn find_remote_counters(
        &mut self,
        nic: &OwnNic,
        mut units: Option<&mut Units>,
        endpoints: &Endpoints,
    ) -> Result<(), Full> {
        let mut counters = [NONE; 2];
        for bindings in endpoints.iter() {
            // The order of `Bindings::counters` differs from that of `REMOTE_ACCESSES`.
            for (counter, at) in counters.iter_mut().zip([5, 4]) {
                if *counter == NONE {
                    *counter = bindings.counters[at];
                }
            }
        }
        if std::mem::replace(&mut self.remote_counters, counters) == counters {
            return Ok(());
        }
        let numbers: Vec<usize> = self.list.iter().map(|(number, _)| number).collect();
        let mut outcome = Ok(());
        for number in numbers {
            outcome = outcome.and(self.recount(nic, units.as_deref_mut(), number));
        }
        outcome
    }

    /// Links a region's entries, so that others can access the memory. New entries with the current counters replace
    /// linked ones. The old ones are unlinked after the new ones are there.
    fn link(&mut self, nic: &OwnNic, units: Option<&mut Units>, number: usize) -> Result<(), Full> {
        let Some(region) = self.list.get(number) else { return Ok(()) };
        let rights = [REMOTE_WRITE, REMOTE_READ, REMOTE_WRITE | REMOTE_READ];
        let operations = [options::OP_PUT, options::OP_GET, options::OP_PUT | options::OP_GET];
        let (mut made, mut no_room) = ([None; 6], false);
        for (place, portal) in REGION_PORTALS.into_iter().enumerate() {
            if region.access & rights[place] != rights[place] {
                continue;
            }
            // A fetching atomic modifies the region (fi_mr(3)), and counts as a read of the endpoint (fi_endpoint(3)).
            let [writes, reads] = region.counters;
            let counters = match place {
                0 => [writes, NONE, self.remote_counters[0]],
                1 => [NONE, reads, self.remote_counters[1]],
                _ => [writes, reads, self.remote_counters[1]],
            };
            let counter = counters.into_iter().find(|counter| *counter != NONE).unwrap_or(NONE);
            let quiet = options::EVENT_LINK_DISABLE | options::EVENT_COMM_DISABLE | options::EVENT_UNLINK_DISABLE;
            let spec = EntrySpec {
                options: operations[place] | quiet | options::NO_TRUNCATE,
                start: region.start,
                length: region.length,
                iov: NONE,
                iov_count: 0,
                match_bits: region.key,
                ignore_bits: 0,
                source: 0,
                source_ignore: u64::MAX,
                min_free: 0,
                user_ptr: 0,
                counter: NONE,
                uid: u32::MAX,
            };
            // An operation counts once, by its last request.
            let last = EntrySpec { options: spec.options | options::EVENT_CT_COMM, counter, ..spec };
            let specs = match counter {
                NONE => [Some(spec), None],
                _ => [
                    Some(EntrySpec { source_ignore: !FOLLOWED, ..last }),
                    Some(EntrySpec { source: FOLLOWED, source_ignore: !FOLLOWED, ..spec }),
                ],
            };
            for (slot, spec) in made[2 * place..].iter_mut().zip(specs) {
                let Some(spec) = spec else { continue };
                *slot = nic.append(portal, list::PRIORITY, &spec);
                no_room |= slot.is_none();
            }
        }
        if no_room {
            log::warn!("the NIC has no room for another registered region");
            for entry in made {
                nic.unlink(entry);
            }
            return Err(Full);
        }
        let region = &mut self.list[number];
        region.enabled = true;
        for entry in std::mem::replace(&mut region.entries, made) {
            nic.take_memory_back(entry);
        }
        match self.counts_accesses(number) {
            true => self.conceal(units, number),
            false => self.expose(units, number),
        }
        Ok(())
    }

    fn counts_accesses(&self, number: usize) -> bool {
        let Some(region) = self.list.get(number) else { return false };
        let mut counters = region.counters.into_iter().zip(self.remote_counters).zip(REMOTE_ACCESSES);
        counters.any(|((own, common), access)| region.access & access != 0 && (own != NONE || common != NONE))
    }

    /// Lists a region in the directory, so that peers reach it over the units, if there are units.
    fn expose(&mut self, units: Option<&mut Units>, number: usize) {
        let is_for_others = |region: &Region| region.access & (REMOTE_READ | REMOTE_WRITE) != 0;
        if !self.list.get(number).is_some_and(is_for_others) {
            return;
        }
        let (Some(units), Some(region)) = (units, self.list.get_mut(number)) else { return };
        for has_made_room in [false, true] {
            if region.exposed.is_none() {
                region.exposed = units.one_sided.expose((region.start, region.length), region.access, region.key);
            }
            if region.exposed.is_none() && !has_made_room {
                units.reuse_addresses();
            }
        }
    }

    /// Ends accesses to a region over the units.
    fn conceal(&mut self, units: Option<&mut Units>, number: usize) {
        let (Some(units), Some(region)) = (units, self.list.get_mut(number)) else { return };
        if let Some(exposed) = region.exposed.take() {
            units.one_sided.conceal(region.key, exposed);
            units.reuse_addresses();
        }
    }
}
