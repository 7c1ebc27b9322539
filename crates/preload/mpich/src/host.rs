// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks that share memory: of one host and one process id namespace, so they can open each other's files.

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::mpich::{COMM_TYPE_SHARED, Mpich, UNDEFINED};

/// A number for this host and namespace, from the boot id and the namespace's file. In virtual time every rank has a
/// host of its own.
pub fn number() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/pid").ok().hash(&mut hasher);
    std::env::var_os("SELVEDGE_SIM").and_then(|_| std::env::var_os("SELVEDGE_RANK")).hash(&mut hasher);
    hasher.finish()
}

/// `MPI_Comm_split_type` for shared memory. `None`: the ranks request another type. Collective. A rank with
/// `MPI_UNDEFINED` does not know the type of the others, so all exchange their types first.
pub fn split(mpich: &Mpich, comm: i32, split_type: c_int, key: c_int) -> Option<Result<i32, c_int>> {
    match mpich.is_inter(comm) {
        Ok(false) => {}
        Ok(true) => return None,
        Err(error) => return Some(Err(error)),
    }
    let host = number();
    let all = match mpich.allgather(comm, [split_type as u64, host]) {
        Ok(all) => all,
        Err(error) => return Some(Err(error)),
    };
    color(&all, split_type, host).map(|color| mpich.split(comm, color, key))
}

/// The color of a rank for `MPI_Comm_split`, from all types and hosts. `None`: none requests shared memory.
fn color(all: &[[u64; 2]], split_type: c_int, host: u64) -> Option<c_int> {
    if all.iter().all(|[asked, _]| *asked as c_int != COMM_TYPE_SHARED) {
        return None;
    }
    let first = all.iter().position(|[_, other]| *other == host).unwrap_or(0);
    Some(if split_type == COMM_TYPE_SHARED { first as c_int } else { UNDEFINED })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u64 = COMM_TYPE_SHARED as u64;

    #[test]
    fn ranks_of_one_host_have_one_color() {
        let all = [[SHARED, 7], [SHARED, 9], [UNDEFINED as u64, 7], [SHARED, 7], [SHARED, 9]];
        let colors: Vec<_> = all.iter().map(|[asked, host]| color(&all, *asked as c_int, *host)).collect();
        assert_eq!(colors, [Some(0), Some(1), Some(UNDEFINED), Some(0), Some(1)]);
    }

    #[test]
    fn other_types_are_left_to_mpich() {
        assert_eq!(color(&[[2, 7], [UNDEFINED as u64, 7]], UNDEFINED, 7), None);
        assert_eq!(color(&[[UNDEFINED as u64, 7]], UNDEFINED, 7), None);
    }

    #[test]
    fn a_host_has_one_number() {
        assert_eq!(number(), number());
    }
}
