// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of an aggregation node (seed 001, section III.F: the manager determines each job's resources).
//!
//! A quota holds at each of a job's nodes, for all its trees together, as the node counts it.
//!
//! Invariants
//! 1. At each node the jobs are at most `Limits::jobs`, their groups at most `Limits::groups`, and the blocks of their
//!    operands at most `Limits::operand_blocks`.
//! 2. A job is charged for the most blocks that groups of all its members can take. A group of `c` credits, `p`
//!    children and operands of `b` blocks takes `2 c p b`, which the node's allocator rounds up to a power of two: less
//!    than `4 c p b`.
//!
//! A job that has lost its resources counts until it ends, since its groups stay at the nodes until then. The allocator
//! can be fragmented: then a group is refused though the quota has room for it.

use std::collections::BTreeMap;

use selvedge_fabric::AnId;
use selvedge_nic::aggregation::records::OPERAND_ALIGN;
use selvedge_nic::aggregation::{Limits, Quota};

use crate::job::{Job, JobError, Presence};

/// Default size of an operation, that of SwitchIB-2 (seed 001, section IV).
pub const BYTES_DEFAULT: u32 = 256;
/// Default share in percent (`per_prio_default_quota` of SHARP's manager).
pub const SHARE_DEFAULT: u32 = 20;

/// The use of a node by jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub jobs: u32,
    pub groups: u64,
    /// Blocks of [`OPERAND_ALIGN`] bytes.
    pub blocks: u64,
}

/// Blocks of [`OPERAND_ALIGN`] bytes charged to a job at a node where its groups have this number of children.
pub fn blocks(quota: &Quota, children: u32) -> u64 {
    blocks_of_credit(quota.bytes, children).saturating_mul(quota.credits.into())
}

fn blocks_of_credit(bytes: u32, children: u32) -> u64 {
    4 * u64::from(children.max(2)) * u64::from(bytes.div_ceil(OPERAND_ALIGN))
}

pub(crate) fn uses<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeMap<AnId, Use> {
    let mut uses: BTreeMap<AnId, Use> = BTreeMap::new();
    for job in jobs {
        for (&an, presence) in &job.nodes {
            let it = uses.entry(an).or_default();
            it.jobs += 1;
            it.groups += u64::from(job.quota.groups);
            it.blocks = it.blocks.saturating_add(blocks(&job.quota, presence.children));
        }
    }
    uses
}

/// Returns a job's quota at some nodes. `wanted`: 0 for a default share; `uses`: that of other jobs.
pub(crate) fn share(
    limits: &Limits,
    percent: u32,
    wanted: &Quota,
    nodes: &BTreeMap<AnId, Presence>,
    uses: &BTreeMap<AnId, Use>,
) -> Result<Quota, JobError> {
    let of = |all: u32| (u64::from(all) * u64::from(percent) / 100).max(1);
    let or = |wanted: u32, default: u64| if wanted == 0 { default.try_into().unwrap_or(u32::MAX) } else { wanted };
    let groups = or(wanted.groups, of(limits.groups));
    let bytes = or(wanted.bytes, BYTES_DEFAULT.into());
    let children_max = nodes.values().map(|presence| presence.children).max().unwrap_or(0);
    let credits = of(limits.operand_blocks) / blocks_of_credit(bytes, children_max);
    // More credits than all groups may have are useless.
    let credits = or(wanted.credits, credits.clamp(1, (u64::from(groups) * u64::from(limits.credits)).max(1)));
    // Each group needs one credit.
    let groups = if wanted.groups == 0 { groups.min(credits) } else { groups };
    let quota = Quota { groups, credits, bytes };
    for (an, presence) in nodes {
        let used = uses.get(an).copied().unwrap_or_default();
        if used.jobs >= limits.jobs {
            return Err(JobError::TooManyJobs { jobs: limits.jobs });
        }
        let left = u64::from(limits.groups).saturating_sub(used.groups);
        if u64::from(groups) > left {
            return Err(JobError::NoGroups { wanted: groups, left });
        }
        let left = u64::from(limits.operand_blocks).saturating_sub(used.blocks);
        if blocks(&quota, presence.children) > left {
            let left = left / blocks_of_credit(bytes, presence.children);
            return Err(JobError::NoOperands { wanted: quota.credits, bytes, left });
        }
    }
    Ok(quota)
}
