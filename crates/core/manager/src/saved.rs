// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager's state as bytes, for a restart.
//!
//! Trees are not saved: they are made again from the parts that were lost when they were made, and compared by a
//! checksum. So the network must be the same. Values that follow from others are not saved either.
//!
//! Invariants
//! 1. `restore(save())` is the same state: it gives the same actions and saves the same bytes.
//! 2. Other bytes give an error, never a panic; so does an inconsistent state with a right checksum.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::aggregation::Part;
use selvedge_fabric::{AnId, NodeId, RouterId, Topology, TreeError, TreeSet};
use selvedge_nic::aggregation::{Failure, Limits, Quota};
use selvedge_nic::packet::crc32c;
use serde::{Deserialize, Serialize};

use crate::actions::{Action, Step};
use crate::frame::{self, FrameError};
use crate::job::{Job, Member};
use crate::jobs::{presence, unite};
use crate::trees::{self, Place, Set};
use crate::{Config, Manager, Use};

const MAGIC: &str = "selvedge-manager";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Reasons for which bytes are not the state of a manager.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    #[error("not the saved state of an aggregation manager: give a file that one has saved")]
    NotOne,
    #[error(
        "saved state of version {is}, but {VERSION} is known: start without a state, or with the manager that saved it"
    )]
    Version { is: u32 },
    #[error("damaged saved state: start without it")]
    Damaged,
    #[error("inconsistent saved state: {0}")]
    Impossible(&'static str),
    #[error(
        "the saved state has other trees than this network: start with the network, sites and limits that it was saved with"
    )]
    OtherTrees,
    #[error("the trees of the saved state cannot be made over this network: {0}")]
    Trees(#[from] TreeError),
    #[error("the jobs of the saved state exceed the aggregation nodes: give the limits that it was saved with")]
    OtherLimits,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    lost: Vec<SavedPart>,
    sets: Vec<SavedSet>,
    /// Number, set and index of each tree.
    trees: Vec<(u16, u32, u32)>,
    current: Option<u32>,
    next_job: u32,
    jobs: Vec<SavedJob>,
    owed: Vec<(u32, Vec<(u32, u64)>)>,
    kept: Vec<SavedAction>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSet {
    number: u32,
    lost: Vec<SavedPart>,
    checksum: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedJob {
    number: u32,
    external: u64,
    key: u64,
    priority: u32,
    /// Groups, credits, bytes.
    quota: (u32, u32, u32),
    members: Vec<(u64, u32)>,
    trees: Vec<(u16, u32, u32)>,
    /// 0: it has its resources.
    failure: u8,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedPart {
    Router(u32),
    Node(u32),
    Channel(u32),
    An(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedAction {
    Tell { process: u64, job: u32, failure: u8 },
    Lose { an: u32, address: u64 },
    Forget { an: u32, job: u32, key: u64 },
    ClearTree { an: u32, number: u16, failure: u8 },
}

impl Manager {
    /// Encodes the state, to be stored before the actions of the last change are carried out.
    pub fn save(&self) -> Vec<u8> {
        frame::close(MAGIC, VERSION, &self.state())
    }

    /// Restores a manager over the same network. `address` as for [`Manager::new`]; nodes may have moved.
    pub fn restore(
        bytes: &[u8],
        topology: Topology,
        config: &Config,
        address: impl Fn(AnId) -> u64,
    ) -> Result<Manager, SavedError> {
        let state: State =
            serde_json::from_slice(frame::open(MAGIC, VERSION, bytes)?).map_err(|_| SavedError::Damaged)?;
        let mut manager = Manager::empty(topology, config);
        for saved in state.sets {
            let lost: BTreeSet<Part> = saved.lost.iter().map(|&part| part.into()).collect();
            let trees = trees::build(&manager.topology, &manager.spec, &lost)?;
            if checksum(&trees) != saved.checksum {
                return Err(SavedError::OtherTrees);
            }
            if manager.forest.sets.insert(saved.number, Set { lost, trees }).is_some() {
                return Err(SavedError::Impossible("two sets of trees with one number"));
            }
        }
        if manager.forest.sets.is_empty() {
            return Err(SavedError::Impossible("no trees"));
        }
        manager.find_sites(address);
        manager.lost = state.lost.iter().map(|&part| part.into()).collect();
        let of_sets = manager.forest.sets.values().flat_map(|set| &set.lost);
        if !manager.lost.iter().chain(of_sets).all(|&part| manager.has_part(part)) {
            return Err(SavedError::Impossible("a lost part that the network does not have"));
        }
        manager.restore_trees(state.trees, state.current)?;
        for saved in state.jobs {
            manager.restore_job(saved)?;
        }
        if manager.jobs.contains_key(&state.next_job) || state.next_job == 0 {
            return Err(SavedError::Impossible("the number of the next job is 0 or in use"));
        }
        manager.next_job = state.next_job;
        manager.check_uses()?;
        for (an, jobs) in state.owed {
            let an = manager.known(an)?;
            manager.owed.insert(an, jobs.into_iter().collect());
        }
        manager.kept = state.kept.into_iter().map(|saved| manager.action(saved)).collect::<Result<_, _>>()?;
        Ok(manager)
    }

    fn state(&self) -> State {
        let sets = self.forest.sets.iter().map(|(&number, set)| SavedSet {
            number,
            lost: set.lost.iter().map(|&part| part.into()).collect(),
            checksum: checksum(&set.trees),
        });
        let flat = |(&number, place): (&u16, &Place)| (number, place.set, place.index);
        let jobs = self.jobs.iter().map(|(&number, job)| SavedJob {
            number,
            external: job.external,
            key: job.key,
            priority: job.priority,
            quota: (job.quota.groups, job.quota.credits, job.quota.bytes),
            members: job.members.iter().map(|member| (member.process, member.node.0)).collect(),
            trees: job.trees.iter().map(|(number, place)| flat((number, place))).collect(),
            failure: job.revoked.map_or(0, |failure| failure as u8),
        });
        State {
            lost: self.lost.iter().map(|&part| part.into()).collect(),
            sets: sets.collect(),
            trees: self.forest.numbers.iter().map(flat).collect(),
            current: self.forest.current,
            next_job: self.next_job,
            jobs: jobs.collect(),
            owed: self.owed.iter().map(|(an, jobs)| (an.0, jobs.iter().copied().collect())).collect(),
            kept: self.kept.iter().filter_map(saved_action).collect(),
        }
    }

    fn restore_trees(&mut self, trees: Vec<(u16, u32, u32)>, current: Option<u32>) -> Result<(), SavedError> {
        for (number, set, index) in trees {
            let place = self.known_place(set, index)?;
            let is_new = !self.forest.numbers.values().any(|known| *known == place);
            let is_free = u32::from(number) < self.limits.trees && !self.forest.numbers.contains_key(&number);
            if !is_new || !is_free {
                return Err(SavedError::Impossible("a tree's number is out of range or used twice"));
            }
            self.forest.numbers.insert(number, place);
        }
        if current.is_some_and(|set| !self.forest.sets.contains_key(&set)) {
            return Err(SavedError::Impossible("an unknown current set of trees"));
        }
        self.forest.current = current;
        Ok(())
    }

    fn restore_job(&mut self, saved: SavedJob) -> Result<(), SavedError> {
        let members: Vec<Member> =
            saved.members.iter().map(|&(process, node)| Member { process, node: NodeId(node) }).collect();
        self.check_members(&members).map_err(|_| SavedError::Impossible("invalid members of a job"))?;
        let revoked = match saved.failure {
            0 => None,
            number => Some(Failure::from_u8(number).ok_or(SavedError::Impossible("an unknown failure code"))?),
        };
        let (mut trees, mut nodes) = (Vec::new(), BTreeMap::new());
        for (number, set, index) in saved.trees {
            let place = self.known_place(set, index)?;
            // A job without resources keeps the number of its tree, which another tree may have by now.
            if revoked.is_none() && self.forest.numbers.get(&number) != Some(&place) {
                return Err(SavedError::Impossible("an open job with a tree that has ended"));
            }
            let tree = self.forest.tree(place).ok_or(SavedError::Impossible("an unknown tree"))?;
            let more = presence(tree, &members).map_err(|_| SavedError::Impossible("a member outside of its tree"))?;
            unite(&mut nodes, &more);
            trees.push((number, place));
        }
        let is_new = saved.number != 0 && !self.jobs.contains_key(&saved.number);
        if !is_new || trees.is_empty() || self.jobs.values().any(|job| job.key == saved.key) {
            return Err(SavedError::Impossible("a job without trees, or with a number or key that is in use"));
        }
        let SavedJob { number, external, key, priority, quota: (groups, credits, bytes), .. } = saved;
        let quota = Quota { groups, credits, bytes };
        self.jobs.insert(number, Job { external, key, priority, quota, members, trees, revoked, nodes });
        Ok(())
    }

    fn check_uses(&self) -> Result<(), SavedError> {
        let Limits { jobs, groups, operand_blocks, .. } = self.limits;
        let fits = |it: &Use| it.jobs <= jobs && it.groups <= groups.into() && it.blocks <= operand_blocks.into();
        if self.uses().values().all(fits) { Ok(()) } else { Err(SavedError::OtherLimits) }
    }

    fn known_place(&self, set: u32, index: u32) -> Result<Place, SavedError> {
        let place = Place { set, index };
        self.forest.tree(place).map(|_| place).ok_or(SavedError::Impossible("an unknown tree"))
    }

    fn known(&self, an: u32) -> Result<AnId, SavedError> {
        let is_there = self.has_part(Part::An(AnId(an)));
        is_there.then_some(AnId(an)).ok_or(SavedError::Impossible("an unknown aggregation node"))
    }

    fn action(&self, saved: SavedAction) -> Result<Action, SavedError> {
        let failure = |number| Failure::from_u8(number).ok_or(SavedError::Impossible("an unknown failure code"));
        let (an, step) = match saved {
            SavedAction::Tell { process, job, failure: number } => {
                return Ok(Action::Tell { process, job, failure: failure(number)? });
            }
            SavedAction::Lose { an, address } => (an, Step::Lose { address }),
            SavedAction::Forget { an, job, key } => (an, Step::Forget { job, key }),
            SavedAction::ClearTree { an, number, failure: why } => {
                (an, Step::ClearTree { number, failure: failure(why)? })
            }
        };
        let an = self.known(an)?;
        Ok(Action::Node { an, address: self.address(an), step })
    }
}

/// Checksum of the shape of each tree of a set.
fn checksum(set: &TreeSet) -> u32 {
    let mut words = Vec::new();
    let number = |an: Option<AnId>| an.map_or(u32::MAX, |an| an.0);
    words.extend((0..set.nodes()).map(|node| number(set.attached(NodeId(node)))));
    for tree in set.trees() {
        words.push(tree.root().0);
        words.extend(tree.nodes().flat_map(|an| [an.0, number(tree.parent(an))]));
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    crc32c(&bytes)
}

fn saved_action(action: &Action) -> Option<SavedAction> {
    Some(match *action {
        Action::Tell { process, job, failure } => SavedAction::Tell { process, job, failure: failure as u8 },
        Action::Node { an, step, .. } => match step {
            Step::Lose { address } => SavedAction::Lose { an: an.0, address },
            Step::Forget { job, key } => SavedAction::Forget { an: an.0, job, key },
            Step::ClearTree { number, failure } => SavedAction::ClearTree { an: an.0, number, failure: failure as u8 },
            // They follow from the state.
            Step::Revoke { .. } | Step::SetTree { .. } | Step::Admit { .. } => return None,
        },
    })
}

impl From<FrameError> for SavedError {
    fn from(error: FrameError) -> SavedError {
        match error {
            FrameError::NotOne => SavedError::NotOne,
            FrameError::Version { is } => SavedError::Version { is },
            FrameError::Damaged => SavedError::Damaged,
        }
    }
}

impl From<Part> for SavedPart {
    fn from(part: Part) -> SavedPart {
        match part {
            Part::Router(router) => SavedPart::Router(router.0),
            Part::Node(node) => SavedPart::Node(node.0),
            Part::Channel(channel) => SavedPart::Channel(channel),
            Part::An(an) => SavedPart::An(an.0),
        }
    }
}

impl From<SavedPart> for Part {
    fn from(part: SavedPart) -> Part {
        match part {
            SavedPart::Router(router) => Part::Router(RouterId(router)),
            SavedPart::Node(node) => Part::Node(NodeId(node)),
            SavedPart::Channel(channel) => Part::Channel(channel),
            SavedPart::An(an) => Part::An(AnId(an)),
        }
    }
}
