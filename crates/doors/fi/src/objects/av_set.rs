// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Subsets of an address vector (fi_av_set(3)): numbers of its entries, in the program's order, without duplicates.

use crate::ffi::fid_av_set;
use crate::objects::address_vector;
use crate::objects::domain_object::Object;

/// A set as the program holds it. The lock guards its members.
pub type Handle = Object<fid_av_set, Fixed, Vec<u64>>;

/// The part that does not change.
pub struct Fixed {
    pub(crate) vector: *mut address_vector::Handle,
    /// The collective address of the set ([`crate::objects::collective::Groups::new_set`]).
    pub(crate) address: u64,
}
