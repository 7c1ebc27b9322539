// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number of ranks on this machine, and whether each has a core of its own. Then a waiting rank need not yield its
//! core.
//!
//! Nothing here allocates, because it also runs in a preloaded library.

use std::ffi::CStr;

/// Environment variables with the number of ranks on the machine: of MPICH and `selvedge run`, of Open MPI, of
/// `selvedge run` on one host.
const RANKS_HERE: [&CStr; 3] = [c"MPI_LOCALNRANKS", c"OMPI_COMM_WORLD_LOCAL_SIZE", c"SELVEDGE_SIZE"];

/// Returns the number of ranks on this machine. None if the launcher does not say.
pub fn here() -> Option<u32> {
    let of_slurm = || of_slurm(variable(c"SLURM_STEP_TASKS_PER_NODE")?, variable(c"SLURM_NODEID")?.parse().ok()?);
    RANKS_HERE.iter().find_map(|name| variable(name)?.parse().ok()).or_else(of_slurm)
}

/// Whether every rank has a core. None if the launcher does not say.
pub fn have_cores() -> Option<bool> {
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    fit(here(), unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) })
}

fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: the name ends in NUL. The value is read at once and not kept; a program that changes its environment
    // in another thread meanwhile breaks the rule of getenv(3) itself.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    value?.to_str().ok()
}

/// Returns the number of tasks of a node from Slurm's list for the nodes of a step: `2(x3),1` is 2 on nodes 0 to 2, and
/// 1 on node 3.
fn of_slurm(list: &str, node: u32) -> Option<u32> {
    let mut next = 0;
    list.split(',').find_map(|part| {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (part, 1),
        };
        next = u32::saturating_add(next, nodes);
        if node < next { tasks.parse().ok() } else { None }
    })
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
        assert_eq!(fit(None, 64), None, "the number of ranks is unknown");
        assert_eq!(fit(Some(1), -1), Some(true), "the number of cores is unknown");
    }

    #[test]
    fn slurms_list_gives_the_tasks_of_a_node() {
        let of_nodes = |list| (0..5).map(|node| of_slurm(list, node)).collect::<Vec<_>>();
        assert_eq!(of_nodes("2(x3),1"), [Some(2), Some(2), Some(2), Some(1), None]);
        assert_eq!(of_nodes("16"), [Some(16), None, None, None, None]);
        assert_eq!(of_nodes("3,4(x2)"), [Some(3), Some(4), Some(4), None, None]);
        for bad in ["", ",", "2(x", "2(x)", "2(xy)", "(x2)", "a", "2(x4294967296)", "-1"] {
            assert_eq!(of_slurm(bad, 0), None, "{bad:?}");
        }
        assert_eq!(of_slurm("1(x4294967295),2(x4294967295)", u32::MAX), None, "no overflow");
    }
}
