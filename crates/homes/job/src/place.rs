// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of this host for processes that share memory.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::OnceLock;

use selvedge_os::shortage::{Need, Shortage};

use crate::folder::jobs_folder;

/// Returns a number for this host: a hash of the boot of its kernel, its PID and IPC namespaces, and the directory of
/// jobs. Processes with the same number reach each other through shared memory. Names of hosts do not count.
pub fn own_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        let boot = "/proc/sys/kernel/random/boot_id";
        let id = fs::read(boot).unwrap_or_else(|error| {
            // With another number this process would take its host's other processes for those of other hosts.
            let lack = Shortage::of_io(&error, Need::File(Path::new(boot)));
            lack.filter(Shortage::is_passing).map_or_else(Vec::new, |shortage| shortage.end_process())
        });
        id.hash(&mut hasher);
        for namespace in ["pid", "ipc"] {
            fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap_or_default().hash(&mut hasher);
        }
        jobs_folder().hash(&mut hasher);
        hasher.finish()
    })
}
