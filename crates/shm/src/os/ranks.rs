// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether every rank of this machine has a core of its own. A waiting rank then need not yield its core to another.

use std::ffi::CStr;

/// Environment variables in which launchers give the number of ranks on the machine: MPICH's, Open MPI's, ours.
const RANKS_HERE: [&CStr; 3] = [c"MPI_LOCALNRANKS", c"OMPI_COMM_WORLD_LOCAL_SIZE", c"SELVEDGE_SIZE"];

/// None: the launcher does not say. Allocates nothing.
pub fn have_cores() -> Option<bool> {
    let ranks = RANKS_HERE.iter().find_map(|name| {
        // SAFETY: the name ends in NUL. The value is read at once and not kept; a program that changes its environment
        // in another thread meanwhile breaks the rule of getenv(3) itself.
        let value = unsafe {
            let value = libc::getenv(name.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        };
        value?.to_str().ok()?.parse().ok()
    });
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    fit(ranks, unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
}

fn fit(ranks: Option<u32>, cores: i64) -> Option<bool> {
    Some(i64::from(ranks?) <= cores.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_beyond_the_cores_share_them() {
        assert_eq!(fit(Some(2), 2), Some(true));
        assert_eq!(fit(Some(3), 2), Some(false));
        assert_eq!(fit(None, 64), None, "who knows how many there are");
        assert_eq!(fit(Some(1), -1), Some(true), "the system cannot say");
    }
}
