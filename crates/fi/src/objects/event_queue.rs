// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event queues (fi_eq(3)). They only hold what a program writes itself (`fi_eq_write`), because nothing here is
//! asynchronous.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::ffi::fid_eq;
use crate::objects::fabric::Fabric;
use crate::objects::object::Uses;

#[repr(C)]
pub struct EventQueue {
    pub(crate) eq: fid_eq,
    pub(crate) fabric: *mut Fabric,
    /// Whether the program may write to it.
    pub(crate) writable: bool,
    pub(crate) events: Mutex<VecDeque<(u32, Vec<u8>)>>,
    pub uses: Uses,
}
