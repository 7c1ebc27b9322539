// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of collective operations as the program holds it (fi_collective(3)). Its state is in
//! [`Groups`](crate::objects::collective::Groups).

use crate::ffi::fid_mc;
use crate::objects::domain::Domain;
use crate::objects::endpoint::Endpoint;

/// A group as the program holds it.
#[repr(C)]
pub struct Group {
    pub mc: fid_mc,
    pub domain: *mut Domain,
    /// The endpoint that has joined, never an alias. It counts its groups.
    pub endpoint: *mut Endpoint,
    /// Its number in the groups of the domain.
    pub number: usize,
}
