// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The objects of libfabric behind one endpoint: fabric, domain, address vector, completion queue, endpoint.
//!
//! They are closed in the opposite order. [`Objects::close_endpoint`] comes first: it ends libfabric's use of
//! registered memory. Then the memory regions are closed ([`super::memory::Registered`]), then the other objects.

use std::ffi::c_int;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::ptr;

use selvedge_libfabric::*;

use super::call::{call, close};
use super::errors::{EndpointError, SubmitError};
use super::provider::{find_provider, is_deprecated, provider_of};
use crate::random::fill_random;

/// A peer's endpoint in the address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(pub(super) fi_addr_t);

/// The open objects. Functions of [`super::Endpoint`] that move data use them directly.
pub(super) struct Objects {
    library: Library,
    provider: String,
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    addresses: *mut fid_av,
    pub(super) queue: *mut fid_cq,
    pub(super) endpoint: *mut fid_ep,
    wait: Option<RawFd>,
}

impl Objects {
    /// Opens them at an address of this host. `wanted` names the provider; None takes libfabric's first. `completions`:
    /// entries of the queue.
    pub(super) fn open(node: IpAddr, wanted: Option<&str>, completions: usize) -> Result<Objects, EndpointError> {
        if is_deprecated(wanted) {
            return Err(EndpointError::Deprecated);
        }
        let library = Library::load().map_err(EndpointError::Library)?;
        let info = find_provider(&library, node, wanted)
            .ok_or_else(|| EndpointError::NoProvider { wanted: wanted.map(str::to_owned), node })?;
        // SAFETY: `find_provider` returns a structure of libfabric with its attributes.
        let provider = unsafe { provider_of(info) };
        let mut opened = Objects {
            library,
            provider,
            info,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            addresses: ptr::null_mut(),
            queue: ptr::null_mut(),
            endpoint: ptr::null_mut(),
            wait: None,
        };
        opened.make(completions)?;
        Ok(opened)
    }

    /// Makes libfabric's objects. After an error the drop closes the objects made so far.
    fn make(&mut self, completions: usize) -> Result<(), EndpointError> {
        // SAFETY: each call gets objects that were made before it, attributes that live across it, and room for its result. The tables of
        // functions are the provider's, complete by fi_provider(7).
        unsafe {
            let info = self.info;
            let made = (self.library.fabric)((*info).fabric_attr, &mut self.fabric, ptr::null_mut());
            self.check("open its fabric", made)?;
            let made = call!((*(*self.fabric).ops).domain, self.fabric, info, &mut self.domain, ptr::null_mut());
            self.check("open its domain", made)?;
            let domain = (*self.domain).ops;
            let mut attributes = fi_av_attr { type_: FI_AV_TABLE, ..Default::default() };
            let made = call!((*domain).av_open, self.domain, &mut attributes, &mut self.addresses, ptr::null_mut());
            self.check("open its address vector", made)?;
            let mut attributes =
                fi_cq_attr { size: completions, format: FI_CQ_FORMAT_MSG, wait_obj: FI_WAIT_FD, ..Default::default() };
            let mut made = call!((*domain).cq_open, self.domain, &mut attributes, &mut self.queue, ptr::null_mut());
            if made == 0 {
                let mut descriptor: c_int = -1;
                let queue = &raw mut (*self.queue).fid;
                let control = (*(*queue).ops).control;
                if call!(control, queue, FI_GETWAIT as c_int, (&raw mut descriptor).cast()) == 0 {
                    self.wait = Some(descriptor);
                }
            } else {
                // The provider has no descriptor to sleep on: the progress thread polls.
                attributes.wait_obj = FI_WAIT_NONE;
                made = call!((*domain).cq_open, self.domain, &mut attributes, &mut self.queue, ptr::null_mut());
            }
            self.check("open its completion queue", made)?;
            let made = call!((*domain).endpoint, self.domain, info, &mut self.endpoint, ptr::null_mut());
            self.check("open its endpoint", made)?;
            let endpoint = &raw mut (*self.endpoint).fid;
            let ops = (*endpoint).ops;
            let bound = call!((*ops).bind, endpoint, &raw mut (*self.addresses).fid, 0);
            self.check("bind its address vector", bound)?;
            let both = u64::from(FI_TRANSMIT) | u64::from(FI_RECV);
            let bound = call!((*ops).bind, endpoint, &raw mut (*self.queue).fid, both);
            self.check("bind its completion queue", bound)?;
            let enabled = call!((*ops).control, endpoint, FI_ENABLE as c_int, ptr::null_mut());
            self.check("enable its endpoint", enabled)?;
        }
        Ok(())
    }

    fn check(&self, doing: &'static str, result: c_int) -> Result<(), EndpointError> {
        match result {
            0 => Ok(()),
            code => Err(self.error(doing, code)),
        }
    }

    pub(super) fn error(&self, doing: &'static str, code: c_int) -> EndpointError {
        EndpointError::Call { provider: self.provider.clone(), doing, why: self.library.error_text(code) }
    }

    /// Converts libfabric's error number, without its sign, of a call that submits a frame or a read.
    pub(super) fn submit_error(&self, code: c_int) -> SubmitError {
        match code == FI_EAGAIN as c_int {
            true => SubmitError::Full,
            false => SubmitError::Broken(self.error_text(code)),
        }
    }

    pub(super) fn error_text(&self, code: c_int) -> String {
        self.library.error_text(code)
    }

    /// Returns the provider's name, as libfabric writes it: `tcp;ofi_rxm`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the endpoint's own name, for peers to insert.
    pub fn name(&self) -> Result<Vec<u8>, EndpointError> {
        let mut bytes = vec![0u8; 512];
        let mut length = bytes.len();
        // SAFETY: `length` says how much room there is, and fi_getname(3) writes no more.
        let result = unsafe {
            let endpoint = &raw mut (*self.endpoint).fid;
            call!((*(*self.endpoint).cm).getname, endpoint, bytes.as_mut_ptr().cast(), &mut length)
        };
        self.check("say its name", result)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Adds a peer's endpoint, for good: frames to it may be in flight long after its end. The name comes from a peer
    /// of the same provider, whose proof was checked.
    pub fn insert(&mut self, name: &[u8]) -> Result<Destination, EndpointError> {
        // A short name would make the provider read past its end.
        let own = self.name()?;
        // SAFETY: the structure is open until the drop.
        let format = unsafe { (*self.info).addr_format };
        let has_family = [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format);
        // A name of another address family would, too.
        let is_alike = !has_family || name.get(..2) == own.get(..2);
        if name.len() != own.len() || !is_alike {
            return Err(self.error("take the name of a peer", -(FI_EINVAL as c_int)));
        }
        let mut address: fi_addr_t = u64::MAX;
        // SAFETY: the name is as long as names of this provider are.
        let count = unsafe {
            let ops = (*self.addresses).ops;
            call!((*ops).insert, self.addresses, name.as_ptr().cast(), 1, &mut address, 0, ptr::null_mut())
        };
        match count {
            1 => Ok(Destination(address)),
            code => Err(self.error("take the name of a peer", if code < 0 { code } else { -(FI_EINVAL as c_int) })),
        }
    }

    /// Whether peers can read this endpoint's memory, and this endpoint theirs.
    pub(super) fn can_read(&self) -> bool {
        let needed = u64::from(FI_RMA) | u64::from(FI_READ) | u64::from(FI_REMOTE_READ);
        // SAFETY: the structure is open until the drop.
        let (caps, key_bytes) = unsafe { ((*self.info).caps, (*(*self.info).domain_attr).mr_key_size) };
        caps & needed == needed && key_bytes <= size_of::<u64>()
    }

    /// Whether the provider addresses memory regions by virtual address; otherwise from 0.
    pub(super) fn has_virtual_addresses(&self) -> bool {
        // SAFETY: the structure is open until the drop.
        let mode = unsafe { (*(*self.info).domain_attr).mr_mode };
        mode & FI_MR_VIRT_ADDR as c_int != 0
    }

    /// Whether the provider pins memory when it is registered, so that it stays when the program unmaps it.
    pub(super) fn pins_memory(&self) -> bool {
        // SAFETY: the structure is open until the drop.
        let mode = unsafe { (*(*self.info).domain_attr).mr_mode };
        mode & FI_MR_ALLOCATED as c_int != 0
    }

    /// Registers memory that the provider uses. It stays until the region is closed.
    pub(super) fn register(&self, start: *const u8, bytes: usize, access: u32) -> Result<*mut fid_mr, c_int> {
        let access = u64::from(access);
        let mut region = ptr::null_mut();
        // SAFETY: the structure is open until the drop.
        let key_bytes = unsafe { (*(*self.info).domain_attr).mr_key_size };
        // A provider that chooses keys itself ignores this one. With other providers, a peer that knows one key must
        // not guess the next.
        let mut key = [0; 8];
        fill_random(&mut key[..key_bytes.clamp(1, 8)]).map_err(|_| -(FI_EAGAIN as c_int))?;
        let key = u64::from_le_bytes(key);
        // SAFETY: the domain is open, and there is room for the result.
        let made = unsafe {
            let ops = (*self.domain).mr;
            let domain = &raw mut (*self.domain).fid;
            call!((*ops).reg, domain, start.cast(), bytes, access, 0, key, 0, &mut region, ptr::null_mut())
        };
        if made == 0 { Ok(region) } else { Err(made) }
    }

    /// Registers memory of this process for its own operations if the provider wants that; otherwise returns null.
    pub(super) fn register_local(&self, start: *const u8, bytes: usize, access: u32) -> Result<*mut fid_mr, c_int> {
        // SAFETY: the structure is open until the drop.
        let is_wanted = unsafe { (*(*self.info).domain_attr).mr_mode } & FI_MR_LOCAL as c_int != 0;
        if is_wanted { self.register(start, bytes, access) } else { Ok(ptr::null_mut()) }
    }

    /// Returns the descriptor that becomes readable when the endpoint must be polled; None if the provider has none.
    pub fn wait_descriptor(&self) -> Option<RawFd> {
        self.wait
    }

    /// Whether a thread may sleep on the descriptor now. If not, the endpoint must be polled.
    pub fn may_sleep(&mut self) -> bool {
        // SAFETY: the queue was opened with a wait descriptor, or the call fails.
        unsafe {
            let mut fid = &raw mut (*self.queue).fid;
            // If the provider lacks the call, the thread may sleep, because it polls from time to time.
            call!((*(*self.fabric).ops).trywait, self.fabric, &mut fid, 1) != -(FI_EAGAIN as c_int)
        }
    }

    /// Closes the endpoint. Afterwards libfabric touches no memory that was given to it.
    pub(super) fn close_endpoint(&mut self) {
        // SAFETY: null, or opened once and closed once.
        unsafe { close(ptr::replace(&raw mut self.endpoint, ptr::null_mut()).cast()) };
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.close_endpoint();
        // SAFETY: each object was opened once and is closed once, and before the objects that it uses.
        unsafe {
            close(self.queue.cast());
            close(self.addresses.cast());
            close(self.domain.cast());
            close(self.fabric.cast());
            (self.library.freeinfo)(self.info);
        }
    }
}
