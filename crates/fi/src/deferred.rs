// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferred work (fi_trigger(3)): operations that the NIC starts when a counter reaches a threshold.

use std::ffi::{c_int, c_void};

use crate::constants::*;
use crate::domain::Domain;

/// The commands of a domain that concern deferred work.
///
/// # Safety
/// `arg` is what the command asks for.
pub unsafe fn control(_domain: &mut Domain, _command: c_int, _arg: *mut c_void) -> c_int {
    -ENOSYS
}
