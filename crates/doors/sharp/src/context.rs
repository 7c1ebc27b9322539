// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process with its caller's settings, and its communicators, which are groups.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use selvedge_collectives::CollectiveGroup;
use selvedge_collectives::one_host::{Bootstrap, Shape, log};
use selvedge_os::sync::IgnorePoison;

use crate::interface::{CommInitSpec, Config, Error, HIDE_ERRORS, InitSpec, OutOfBand};

/// Operations that a live group has under way; below, bytes of the longest that its node carries out itself.
pub const CREDITS: u32 = 8;
pub const BYTES: u32 = 16 << 10;

/// `struct sharp_coll_context`.
pub struct Context {
    config: Config,
    out_of_band: OutOfBand,
    out_of_band_context: *mut c_void,
    world_rank: c_int,
}

/// `struct sharp_coll_comm`.
pub struct Comm {
    operations: Mutex<CollectiveGroup>,
    hides_errors: bool,
}

impl Context {
    pub fn new(spec: &InitSpec) -> Result<Context, Error> {
        let (rank, size) = (spec.world_rank, spec.world_size);
        let OutOfBand { bcast, gather, .. } = spec.oob_colls;
        if size < 1 || !(0..size).contains(&rank) || bcast.is_none() || gather.is_none() {
            return Err(Error::Invalid);
        }
        Ok(Context {
            config: spec.config,
            out_of_band: spec.oob_colls,
            out_of_band_context: spec.oob_ctx,
            world_rank: rank,
        })
    }

    /// Collective: makes a communicator.
    pub fn make_comm(&self, spec: &CommInitSpec) -> Result<Comm, Error> {
        let (Ok(rank), Ok(size)) = (usize::try_from(spec.rank), usize::try_from(spec.size)) else {
            return Err(Error::Invalid);
        };
        if rank >= size || size > Shape::MEMBERS_MAX as usize {
            return Err(Error::Invalid);
        }
        let callbacks = match spec.oob_ctx.is_null() {
            true => self.out_of_band_context,
            false => spec.oob_ctx,
        };
        let mut bootstrap = OutOfBandBootstrap { context: self, callbacks, rank, size };
        let hides_errors = self.config.flags & HIDE_ERRORS != 0;
        match CollectiveGroup::form((rank, size), None, (CREDITS, BYTES), &mut bootstrap) {
            Ok(operations) => {
                log::info(|| {
                    format!(
                        "[group of process {}] group size:{size} rank:{rank} quota: (osts:{CREDITS} user_data_per_ost:{BYTES})",
                        self.world_rank
                    )
                });
                Ok(Comm { operations: Mutex::new(operations), hides_errors })
            }
            Err(reason) => {
                if !hides_errors {
                    log::error(|| format!("sharp_coll_comm_init: process {rank} of {size}: {reason}"));
                }
                Err(Error::GroupJoin)
            }
        }
    }
}

impl Comm {
    /// The group's operations. A thread that has panicked leaves them as they were.
    pub fn operations(&self) -> MutexGuard<'_, CollectiveGroup> {
        self.operations.lock().ignore_poison()
    }

    /// Reports the failure of an operation.
    pub fn report(&self, what: &str, why: &dyn std::fmt::Display) {
        if !self.hides_errors {
            log::error(|| format!("{what}: {why}"));
        }
    }
}

/// Bootstraps a group by the caller's collective functions.
struct OutOfBandBootstrap<'a> {
    context: &'a Context,
    callbacks: *mut c_void,
    rank: usize,
    size: usize,
}

impl Bootstrap for OutOfBandBootstrap<'_> {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        let OutOfBand { bcast: Some(bcast), gather: Some(gather), .. } = self.context.out_of_band else {
            return Err("the caller has passed no gather or broadcast function".into());
        };
        let mut own = own.to_vec();
        // Only the first process needs room for all, but some callers' functions write everywhere.
        let mut all = vec![0u64; own.len() * self.size];
        let each = size_of_val(own.as_slice()) as c_int;
        let whole = each.checked_mul(self.size as c_int).ok_or("there are too many processes")?;
        // SAFETY: the caller's functions get its own context, and buffers as long as the lengths say.
        let (gathered, shared) = unsafe {
            let gathered = gather(self.callbacks, 0, own.as_mut_ptr().cast(), all.as_mut_ptr().cast(), each);
            (gathered, bcast(self.callbacks, all.as_mut_ptr().cast(), whole, 0))
        };
        match (gathered, shared) {
            (0, 0) => Ok(all),
            _ => Err(format!("process {}: the caller's gather returned {gathered}, its broadcast {shared}", self.rank)),
        }
    }
}
