// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the manager as a service: the manager's, the hosts and jobs, and their sessions.
//!
//! Invariants
//! 1. A change is stored before it is carried out, and carried out before the next ([`selvedge_manager`]).
//! 2. Steps of a change reach nodes in order: a node gets its steps after the one before is done or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use log::{info, warn};
use selvedge_fabric::aggregation::{Part, Sites};
use selvedge_fabric::{AnId, NodeId, Topology, TreeSpec};
use selvedge_manager::{Action, Config, JobRequest, Manager, Member, SavedError, Step};
use selvedge_net::session::Session;
use selvedge_nic::aggregation::Quota;
use selvedge_os::sync::IgnorePoison;

use super::settings::{ServiceError, Settings};
use crate::service::NODES_AT;
use crate::service::store::Stored;
use crate::service::wire::{
    HostPlace, JobName, LinkBytes, ManagerReply, ManagerRequest, PROCESSES_MAX, Share, encode_limits, from_bytes,
    to_bytes,
};

pub(super) struct State {
    settings: Arc<Settings>,
    pub(super) manager: Manager,
    /// By host number.
    pub(super) hosts: Vec<Host>,
    pub(super) jobs: BTreeMap<JobName, Job>,
}

pub(super) struct Host {
    pub(super) place: HostPlace,
    pub(super) name: String,
    /// The current or previous link of its node.
    pub(super) link: Option<LinkBytes>,
    pub(super) node: Option<NodeSession>,
}

pub(super) struct NodeRegistration {
    pub(super) place: HostPlace,
    pub(super) name: String,
    pub(super) link: LinkBytes,
    /// Number and key of the jobs that the node knows.
    pub(super) jobs: Vec<(u32, u64)>,
}

pub(super) struct NodeSession {
    pub(super) session: Arc<Session>,
    pub(super) progress: Arc<NodeProgress>,
    /// The number of the last steps.
    pub(super) sent: u64,
}

#[derive(Default)]
pub(super) struct NodeProgress {
    /// The number of the last steps that it has carried out. `None`: its session has ended.
    pub(super) number: Mutex<Option<u64>>,
    pub(super) changed: Condvar,
}

pub(super) struct Job {
    pub(super) number: u32,
    /// Host and session of each process, by number.
    pub(super) processes: BTreeMap<u32, (u32, Arc<Session>)>,
    pub(super) next: u32,
}

impl State {
    pub(super) fn new(settings: Arc<Settings>) -> Result<State, ServiceError> {
        let topology = Topology::crossbar(settings.hosts)?;
        let sites = Sites::Hosts((0..settings.hosts).map(NodeId).collect());
        let spec = TreeSpec { trees: 1, radix_max: settings.radix, depth_max: None, sites };
        let config = Config { spec, limits: settings.limits, share: settings.share };
        let path = settings.state.clone().unwrap_or_default();
        let wrong = |why: String| ServiceError::State { path: path.clone(), why };
        let stored = settings.state.as_deref().map_or(Ok(None), Stored::read).map_err(wrong)?;
        let Some(stored) = stored else {
            let manager = Manager::without_hosts(topology, &config, address_of)?;
            return Ok(State { settings, manager, hosts: Vec::new(), jobs: BTreeMap::new() });
        };
        let manager = Manager::restore(stored.manager.as_bytes(), topology, &config, address_of)
            .map_err(|error: SavedError| wrong(error.to_string()))?;
        let host = |(place, name, link)| Host { place, name, link, node: None };
        let job = |(name, number, next)| (name, Job { number, processes: BTreeMap::new(), next });
        Ok(State {
            settings,
            manager,
            hosts: stored.hosts.into_iter().map(host).collect(),
            jobs: stored.jobs.into_iter().map(job).collect(),
        })
    }

    /// The number of a host. A new place gets the next one, or that of a host without node and job, not in `kept`.
    fn number(&mut self, place: HostPlace, kept: &[HostPlace]) -> Result<u32, String> {
        if let Some(known) = self.hosts.iter().position(|host| host.place == place) {
            return Ok(known as u32);
        }
        let new = |number: u32| Host { place, name: format!("host {number}"), link: None, node: None };
        let number = self.hosts.len() as u32;
        if number < self.settings.hosts {
            self.hosts.push(new(number));
            let actions = self.manager.host_back(NodeId(number));
            self.carry_out(actions)?;
            return Ok(number);
        }
        let number = self.unused(kept).ok_or_else(|| self.full())?;
        self.hosts[number as usize] = new(number);
        Ok(number)
    }

    /// Registers a node, welcomes it, and updates it to the manager's state.
    pub(super) fn register(
        &mut self,
        session: &Arc<Session>,
        progress: &Arc<NodeProgress>,
        registration: NodeRegistration,
    ) -> Result<(), String> {
        let NodeRegistration { place, name, link, jobs } = registration;
        let number = self.number(place, &[])?;
        let an = AnId(number);
        let host = &mut self.hosts[number as usize];
        let is_same = host.link == Some(link);
        if let Some(before) = host.node.take() {
            before.session.end();
        }
        info!("aggregation node {number} is on {name}, at {}", session.peer_address());
        // A node that outlived the manager still has its tables.
        let has_state = is_same && !self.is_lost(number);
        if !has_state && !self.is_lost(number) {
            let actions = self.manager.node_lost(an);
            self.carry_out(actions)?;
        }
        let host = &mut self.hosts[number as usize];
        (host.name, host.link) = (name, Some(link));
        host.node = Some(NodeSession { session: session.clone(), progress: progress.clone(), sent: 0 });
        let welcome = ManagerReply::Welcome { address: address_of(an), limits: encode_limits(&self.settings.limits) };
        session.send(&to_bytes(&welcome)).map_err(|error| error.to_string())?;
        let actions = if has_state { self.manager.node_again(an) } else { self.manager.node_back(an) };
        // The node may have missed the ends of jobs, if its session or the manager had ended.
        let known: Vec<(u32, u64)> = self.keys().collect();
        let ended = jobs.into_iter().filter(|job| !known.contains(job));
        let forget = |(job, key)| Action::Node { an, address: address_of(an), step: Step::Forget { job, key } };
        let actions = ended.map(forget).chain(actions).collect();
        self.carry_out(actions)?;
        Ok(())
    }

    /// Declares a node lost whose session has ended.
    pub(super) fn unregister(&mut self, session: &Arc<Session>) {
        let is_it = |host: &Host| host.node.as_ref().is_some_and(|node| Arc::ptr_eq(&node.session, session));
        let Some(number) = self.hosts.iter().position(is_it) else { return };
        let number = number as u32;
        let host = &mut self.hosts[number as usize];
        warn!("aggregation node {number} on {} has ended", host.name);
        host.node = None;
        let actions = self.manager.node_lost(AnId(number));
        self.carry_out_regardless(actions);
    }

    pub(super) fn end_job(&mut self, name: JobName) {
        let Some(job) = self.jobs.remove(&name) else { return };
        let actions = self.manager.end_job(job.number).unwrap_or_default();
        self.carry_out_regardless(actions);
    }

    /// Gives a process its job's share, and its number in the job. The first process begins the job.
    pub(super) fn share(&mut self, session: &Arc<Session>, name: JobName, places: &[HostPlace]) -> Result<u32, String> {
        let numbers: Vec<u32> = places.iter().map(|&place| self.number(place, places)).collect::<Result<_, _>>()?;
        let &own = numbers.first().ok_or("its request names no host")?;
        if !self.jobs.contains_key(&name) {
            self.begin_job(name, &numbers)?;
        }
        let job = self.jobs.get_mut(&name).ok_or("there is no such job")?;
        let revoked = self.manager.jobs().find(|&(number, _)| number == job.number).and_then(|(_, why)| why);
        if let Some(failure) = revoked {
            return Err(format!("its job has lost its resources: {failure}"));
        }
        let granted = self.manager.granted(job.number).map_err(|error| error.to_string())?;
        let is_member = |host: u32| granted.members.iter().any(|member| member.node.0 == host);
        if let Some(&other) = numbers.iter().find(|&&host| !is_member(host)) {
            return Err(format!("{} joined its job after the job began", self.hosts[other as usize].name));
        }
        let free = |number: &u32| !job.processes.contains_key(number);
        let number = (job.next..PROCESSES_MAX).chain(0..job.next).find(free).ok_or("its job has too many processes")?;
        job.next = (number + 1) % PROCESSES_MAX;
        self.store()?;
        if let Some(job) = self.jobs.get_mut(&name) {
            job.processes.insert(number, (own, session.clone()));
        }
        let hosts = granted.members.iter().map(|member| (self.hosts[member.node.0 as usize].place, member.node.0));
        let share = Share {
            grant: String::from_utf8(granted.save()).unwrap_or_default(),
            hosts: hosts.collect(),
            links: self.links(),
            process: number,
        };
        // If it has ended, the end of its session reports that.
        let _ = session.send(&to_bytes(&ManagerReply::Granted(Box::new(share))));
        Ok(number)
    }

    /// Begins a job on these hosts, and on all that have a node, since the job may get there.
    fn begin_job(&mut self, name: JobName, hosts: &[u32]) -> Result<(), String> {
        let there = (0..self.hosts.len() as u32).filter(|&host| self.hosts[host as usize].node.is_some());
        let mut all: Vec<u32> = there.chain(hosts.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let member = |&host: &u32| Member { process: host.into(), node: NodeId(host) };
        let request = JobRequest {
            external: name[0],
            members: all.iter().map(member).collect(),
            quota: Quota { groups: 0, credits: 0, bytes: self.settings.bytes },
            trees: 1,
            priority: 0,
        };
        let mut key = [0; 8];
        selvedge_net::fill_random(&mut key).map_err(|error| error.to_string())?;
        let begun = self.manager.begin_job(&request, u64::from_le_bytes(key));
        let (granted, actions) = begun.map_err(|error| error.to_string())?;
        self.jobs.insert(name, Job { number: granted.job, processes: BTreeMap::new(), next: 0 });
        self.carry_out(actions)
    }

    /// Stores the state, and carries out a change. On an error the state is not stored, and nothing was carried out.
    fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), String> {
        self.store()?;
        self.perform(actions);
        Ok(())
    }

    fn perform(&mut self, actions: Vec<Action>) {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            match action {
                Action::Tell { process, job, failure } => {
                    let processes =
                        self.jobs.values().filter(|it| it.number == job).flat_map(|it| it.processes.values());
                    for (_, session) in processes.filter(|(host, _)| u64::from(*host) == process) {
                        let _ = session.send(&to_bytes(&ManagerReply::Lost { failure: failure as u8 }));
                    }
                }
                Action::Node { an, step, .. } => {
                    let mut steps = vec![step.into()];
                    while let Some(Action::Node { step, .. }) =
                        actions.next_if(|next| matches!(next, Action::Node { an: of, .. } if *of == an))
                    {
                        steps.push(step.into());
                    }
                    let links = self.links();
                    let Some(node) = self.hosts.get_mut(an.0 as usize).and_then(|host| host.node.as_mut()) else {
                        continue;
                    };
                    node.sent += 1;
                    let steps = ManagerReply::Steps { number: node.sent, steps, links };
                    let is_sent = node.session.send(&to_bytes(&steps)).is_ok();
                    if !is_sent || !node.progress.wait(node.sent, self.settings.silence) {
                        // The node's own thread declares it lost.
                        node.session.end();
                    }
                }
            }
        }
    }

    /// Carries out the change of an end or a loss, even if it cannot be stored: a manager restarted with the previous
    /// state finds the loss again.
    fn carry_out_regardless(&mut self, actions: Vec<Action>) {
        if let Err(why) = self.store() {
            warn!("{why}");
        }
        self.perform(actions);
    }

    fn store(&self) -> Result<(), String> {
        let Some(path) = &self.settings.state else { return Ok(()) };
        let hosts = self.hosts.iter().map(|host| (host.place, host.name.clone(), host.link)).collect();
        let jobs = self.jobs.iter().map(|(&name, job)| (name, job.number, job.next)).collect();
        let stored = Stored::new(hosts, jobs, self.manager.save());
        stored.write(path).map_err(|error| format!("the manager cannot store its state in {}: {error}", path.display()))
    }

    fn full(&self) -> String {
        format!("the limit of {} hosts is reached; raise --hosts", self.settings.hosts)
    }

    /// Declares nodes and jobs lost that have not reconnected after a restart.
    pub(super) fn lose_absent(&mut self) {
        for number in 0..self.hosts.len() as u32 {
            if self.hosts[number as usize].node.is_none() && !self.is_lost(number) {
                let actions = self.manager.node_lost(AnId(number));
                self.carry_out_regardless(actions);
            }
        }
        let ended = self.jobs.iter().filter(|(_, job)| job.processes.is_empty()).map(|(&name, _)| name);
        for name in ended.collect::<Vec<_>>() {
            self.end_job(name);
        }
    }

    /// A host without a node and a job whose place is not in `kept`.
    fn unused(&self, kept: &[HostPlace]) -> Option<u32> {
        let jobs = self.manager.jobs().filter_map(|(job, _)| self.manager.granted(job).ok());
        let used: BTreeSet<u32> = jobs.flat_map(|job| job.members).map(|member| member.node.0).collect();
        let is_free = |number: &u32| {
            let host = &self.hosts[*number as usize];
            host.node.is_none() && self.is_lost(*number) && !used.contains(number) && !kept.contains(&host.place)
        };
        (0..self.hosts.len() as u32).find(is_free)
    }

    fn keys(&self) -> impl Iterator<Item = (u32, u64)> {
        self.manager.jobs().filter_map(|(job, _)| Some((job, self.manager.granted(job).ok()?.key)))
    }

    /// Whether a node must still reconnect after a restart.
    pub(super) fn awaits_nodes(&self) -> bool {
        (0..self.hosts.len() as u32).any(|number| self.hosts[number as usize].node.is_none() && !self.is_lost(number))
    }

    fn is_lost(&self, number: u32) -> bool {
        self.manager.lost_parts().contains(&Part::An(AnId(number)))
    }

    /// The links of the nodes that are registered or must still reconnect.
    fn links(&self) -> Vec<(u64, LinkBytes)> {
        let there = |(number, host): (u32, &Host)| {
            host.link.filter(|_| !self.is_lost(number)).map(|link| (address_of(AnId(number)), link))
        };
        (0..).zip(&self.hosts).filter_map(there).collect()
    }
}

impl NodeProgress {
    /// Follows a node's session to its end.
    pub(super) fn follow(&self, session: &Session) {
        while let Ok(message) = session.receive() {
            match from_bytes(&message) {
                Ok(ManagerRequest::Done { number }) => *self.number.lock().ignore_poison() = Some(number),
                _ => break,
            }
            self.changed.notify_all();
        }
        *self.number.lock().ignore_poison() = None;
        self.changed.notify_all();
    }

    /// Waits until steps are carried out. False: the session has ended, or the node is silent.
    fn wait(&self, number: u64, silence: Duration) -> bool {
        let until = Instant::now() + silence;
        let mut done = self.number.lock().ignore_poison();
        loop {
            match *done {
                None => return false,
                Some(is) if is >= number => return true,
                Some(_) => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(done, left).ignore_poison();
            done = waited.0;
        }
    }
}

pub(super) fn address_of(an: AnId) -> u64 {
    NODES_AT | u64::from(an.0)
}
