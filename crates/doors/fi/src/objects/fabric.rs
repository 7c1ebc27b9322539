// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric (fi_fabric(3)): domains and event queues are opened from it.

use crate::ffi::fid_fabric;
use crate::objects::object::Uses;

#[repr(C)]
pub struct Fabric {
    pub fabric: fid_fabric,
    pub uses: Uses,
}
