// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues (fi_cq(3)). They grow as needed and drop nothing.
//!
//! A read of an empty queue first polls the domain. Errors have their own queue. While it holds an error, a read
//! returns the completions that came before the error and then `-FI_EAVAIL`.

use std::sync::atomic::AtomicBool;

use selvedge_messages::completion::CompletionQueue;

use crate::ffi::fid_cq;
use crate::objects::domain_object::Object;

/// A completion queue as the program holds it.
pub type Handle = Object<fid_cq, Fixed, CompletionQueue>;

/// The part that does not change, or is set without the lock.
pub struct Fixed {
    pub(crate) entry_bytes: usize,
    pub(crate) may_wait: bool,
    /// Set by fi_cq_signal, which makes a waiting thread return.
    pub(crate) signalled: AtomicBool,
}
