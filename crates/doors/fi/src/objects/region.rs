// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory (fi_mr(3)): match entries of the NIC under the region's key, for writers, for readers, and for
//! operations that do both. Addresses of remote operations are offsets into the region.

use crate::ffi::fid_mr;
use crate::objects::counter::Counter;
use crate::objects::domain_object::Object;

/// A registered region as the program holds it.
pub type Handle = Object<fid_mr, (), Region>;

/// The part that the domain's lock guards.
pub struct Region {
    /// The region's number in the transport.
    pub(crate) number: usize,
    pub(crate) counters: [*mut Counter; 2],
}
