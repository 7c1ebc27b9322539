// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of this host for processes that share memory.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::folder::jobs_folder;

/// Returns a number for this host: a hash of the boot of its kernel, its PID and IPC namespaces, and the directory of
/// jobs. Processes with the same number reach each other through shared memory. Names of hosts do not count.
pub fn own_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        for namespace in ["pid", "ipc"] {
            fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap_or_default().hash(&mut hasher);
        }
        jobs_folder().hash(&mut hasher);
        hasher.finish()
    })
}
