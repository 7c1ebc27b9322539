// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on the share of a limited address space (RLIMIT_AS, `ulimit -v`) that this process takes.
//!
//! Costs: a system call; with a limit also a read of /proc.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::mapping::MapError;
use crate::shortage::Need;

/// One reserve takes at most one part in `SHARE` of a limited address space, and optional mappings leave as much free.
const SHARE: u64 = 4;

/// Returns the most bytes that this process should reserve at one place: a quarter of its address space if that is
/// limited (RLIMIT_AS, `ulimit -v`), so that the program and its other libraries have room. Without a limit,
/// `u64::MAX`.
pub fn reserve_bytes_max() -> u64 {
    getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / SHARE)
}

/// Refuses an optional mapping of `bytes` if it would leave less than a quarter of a limited address space.
pub fn check_room(path: &Path, bytes: u64) -> Result<(), MapError> {
    let Some(limit) = getrlimit(Resource::As).current else { return Ok(()) };
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| text.split(' ').next()?.parse().ok());
    let used = pages.unwrap_or(0u64).saturating_mul(rustix::param::page_size() as u64);
    match used.saturating_add(bytes) <= limit - limit / SHARE {
        true => Ok(()),
        false => Err(MapError::of(Errno::NOMEM, Need::AddressSpace(path, bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_limit_leaves_room_to_the_program() {
        in_child(|| {
            let limit = libc::rlimit { rlim_cur: 8 * GIB, rlim_max: 8 * GIB };
            // SAFETY: a structure of this frame; the limit is this child's alone.
            unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
            assert_eq!(reserve_bytes_max(), 2 * GIB);
            let path = Path::new("/peer");
            assert!(check_room(path, 4 * GIB).is_ok());
            assert!(matches!(check_room(path, 6 * GIB), Err(MapError::Shortage(_))), "used space counts");
        });
    }

    #[test]
    fn without_a_limit_all_may_be_taken() {
        assert_eq!(reserve_bytes_max(), u64::MAX);
        assert!(check_room(Path::new("/peer"), u64::MAX).is_ok());
    }
}
