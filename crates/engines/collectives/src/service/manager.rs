// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation manager as a service: it hears of nodes and jobs in sessions, and carries out what the [`Manager`] says.
//!
//! A host is known by its place, and gets the next number when a node or a process of it is first heard of. Its aggregation node is there as long
//! as its session. A job begins when the first of its processes asks for its share, and ends with the last session of them.
//!
//! Invariants
//! 1. A change is stored before it is carried out, and carried out before the next ([`selvedge_manager`]).
//! 2. Steps of a change reach nodes in order: the next node gets its own when the one before has carried its out, or is lost.
//! 3. A node that says nothing for the time of silence is lost.
//!
//! After a restart nodes and processes come back by themselves. Those that have not after [`Settings::returns`] are lost, and their jobs end.
//!
//! Cost: two threads for each node, one for each process that asks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::{info, warn};
use selvedge_fabric::aggregation::{Part, Sites};
use selvedge_fabric::{AnId, NodeId, Topology, TopologyError, TreeError, TreeSpec};
use selvedge_manager::{Action, Config, JobRequest, Manager, Member, SavedError, Step};
use selvedge_net::session::{IncomingSession, Session, SessionListener};
use selvedge_nic::aggregation::{Limits, Quota};

use crate::service::NODES_AT;
use crate::service::store::Stored;
use crate::service::wire::{
    Answer, HostPlace, JobName, LinkBytes, PROCESSES_MAX, Say, Share, VERSION, from_bytes, said_limits, to_bytes,
};

mod show;

/// [`Settings::returns`] by default.
pub const RETURN: Duration = Duration::from_secs(30);

/// What a service manages.
#[derive(Clone, Debug)]
pub struct Settings {
    pub secret: Vec<u8>,
    /// A node that is silent for so long is lost.
    pub silence: Duration,
    /// The most hosts.
    pub hosts: u32,
    /// Of each aggregation node.
    pub limits: Limits,
    /// The most children of a node of a tree.
    pub radix: u32,
    /// What a job gets of a node, in percent.
    pub share: u32,
    /// Bytes of an operation.
    pub bytes: u32,
    /// Where the state is kept. None: nowhere.
    pub state: Option<PathBuf>,
    /// How long nodes and processes have to come back after a restart of the service.
    pub returns: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            secret: Vec::new(),
            silence: crate::service::SILENCE,
            hosts: 256,
            // 64 MB for operands, which the system gives as they are used: a job's share is some credits for each of its groups.
            limits: Limits { credits: 8, operand_blocks: 1 << 20, ..Limits::DEFAULT },
            radix: Limits::DEFAULT.children,
            share: selvedge_manager::SHARE_DEFAULT,
            bytes: 2048,
            state: None,
            returns: RETURN,
        }
    }
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("cannot listen at {at}: {error}")]
    Listen { at: SocketAddr, error: io::Error },
    #[error("{}: {why}", path.display())]
    State { path: PathBuf, why: String },
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// The service.
pub struct Service {
    sessions: SessionListener,
    desk: Arc<Desk>,
}

/// What the threads of a service share.
struct Desk {
    settings: Settings,
    state: Mutex<State>,
    /// Until when nodes and processes may come back after a restart.
    returns_until: Option<Instant>,
    /// A node is there, or that time is over.
    returned: Condvar,
}

struct State {
    manager: Manager,
    /// By number.
    hosts: Vec<Host>,
    jobs: BTreeMap<JobName, Job>,
}

struct Host {
    place: HostPlace,
    name: String,
    /// Where its node is, or was.
    link: Option<LinkBytes>,
    node: Option<Node>,
}

/// What a node says of itself.
struct SaidNode {
    place: HostPlace,
    name: String,
    link: LinkBytes,
    /// Number and key of the jobs that it knows.
    jobs: Vec<(u32, u64)>,
}

/// The session of a node.
struct Node {
    session: Arc<Session>,
    done: Arc<Done>,
    /// The number of the last steps.
    sent: u64,
}

/// How far a node is.
#[derive(Default)]
struct Done {
    /// The number of the last steps that it has carried out. None: its session is over.
    number: Mutex<Option<u64>>,
    changed: Condvar,
}

struct Job {
    number: u32,
    /// Host and session of each process, by number.
    processes: BTreeMap<u32, (u32, Arc<Session>)>,
    next: u32,
}

impl Service {
    /// Listens, with the state that is kept, if there is one.
    pub fn open(at: SocketAddr, settings: Settings) -> Result<Service, ServiceError> {
        let state = State::new(&settings)?;
        let sessions = SessionListener::open(at).map_err(|error| ServiceError::Listen { at, error })?;
        let is_back = !state.hosts.is_empty();
        let returns_until = is_back.then(|| Instant::now() + settings.returns);
        let desk = Arc::new(Desk { settings, state: Mutex::new(state), returns_until, returned: Condvar::new() });
        if is_back {
            let desk = desk.clone();
            start("selvedge-return", move || {
                std::thread::sleep(desk.settings.returns);
                desk.end_of_return();
            });
        }
        Ok(Service { sessions, desk })
    }

    /// Where it listens.
    pub fn at(&self) -> io::Result<SocketAddr> {
        self.sessions.address()
    }

    /// Serves, until the listener fails.
    pub fn run(self) -> io::Error {
        loop {
            match self.sessions.accept() {
                Ok(visitor) => {
                    let desk = self.desk.clone();
                    start("selvedge-session", move || desk.receive(visitor));
                }
                Err(error) => return error,
            }
        }
    }
}

/// Starts a thread. Without one there is nobody to serve whom it is for, whose session ends with what it holds.
fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        warn!("a thread cannot be started: {error}");
    }
}

impl State {
    fn new(settings: &Settings) -> Result<State, ServiceError> {
        let topology = Topology::crossbar(settings.hosts)?;
        let sites = Sites::Hosts((0..settings.hosts).map(NodeId).collect());
        let spec = TreeSpec { trees: 1, radix_max: settings.radix, depth_max: None, sites };
        let config = Config { spec, limits: settings.limits, share: settings.share };
        let wrong = |why: String| ServiceError::State { path: settings.state.clone().unwrap_or_default(), why };
        let stored = settings.state.as_deref().map_or(Ok(None), Stored::read).map_err(wrong)?;
        let Some(stored) = stored else {
            let manager = Manager::without_hosts(topology, &config, address_of)?;
            return Ok(State { manager, hosts: Vec::new(), jobs: BTreeMap::new() });
        };
        let manager = Manager::restore(stored.manager.as_bytes(), topology, &config, address_of)
            .map_err(|error: SavedError| wrong(error.to_string()))?;
        let host = |(place, name, link)| Host { place, name, link, node: None };
        let job = |(name, number, next)| (name, Job { number, processes: BTreeMap::new(), next });
        Ok(State {
            manager,
            hosts: stored.hosts.into_iter().map(host).collect(),
            jobs: stored.jobs.into_iter().map(job).collect(),
        })
    }

    /// A host without a node and a job whose place is none of `kept`.
    fn unused(&self, kept: &[HostPlace]) -> Option<u32> {
        let jobs = self.manager.jobs().filter_map(|(job, _)| self.manager.granted(job).ok());
        let used: BTreeSet<u32> = jobs.flat_map(|job| job.members).map(|member| member.node.0).collect();
        let is_free = |number: &u32| {
            let host = &self.hosts[*number as usize];
            host.node.is_none() && self.is_lost(*number) && !used.contains(number) && !kept.contains(&host.place)
        };
        (0..self.hosts.len() as u32).find(is_free)
    }

    /// Number and key of each job.
    fn keys(&self) -> impl Iterator<Item = (u32, u64)> {
        self.manager.jobs().filter_map(|(job, _)| Some((job, self.manager.granted(job).ok()?.key)))
    }

    /// Whether a node has yet to come back after a restart.
    fn awaits_nodes(&self) -> bool {
        (0..self.hosts.len() as u32).any(|number| self.hosts[number as usize].node.is_none() && !self.is_lost(number))
    }

    fn is_lost(&self, number: u32) -> bool {
        self.manager.lost_parts().contains(&Part::An(AnId(number)))
    }

    /// Where the nodes are that are there, or have yet to come back.
    fn links(&self) -> Vec<(u64, LinkBytes)> {
        let there = |(number, host): (u32, &Host)| {
            host.link.filter(|_| !self.is_lost(number)).map(|link| (address_of(AnId(number)), link))
        };
        (0..).zip(&self.hosts).filter_map(there).collect()
    }
}

fn address_of(an: AnId) -> u64 {
    NODES_AT | u64::from(an.0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse(session: &Session, why: &str) {
    warn!("{} is refused: {why}", session.peer_address());
    let _ = session.send(&to_bytes(&Answer::Refused { why: why.to_owned() }));
}

impl Desk {
    fn receive(&self, visitor: IncomingSession) {
        let session = match visitor.greet(&self.settings.secret, self.settings.silence) {
            Ok(session) => Arc::new(session),
            Err(error) => return warn!("a session did not begin: {error}"),
        };
        let Ok(first) = session.receive() else { return };
        match from_bytes(&first) {
            Ok(Say::Node { version: VERSION, place, host, link, jobs }) => {
                self.node(session, SaidNode { place, name: host, link, jobs });
            }
            Ok(Say::Share { version: VERSION, job, places }) => self.process(session, job, &places),
            Ok(Say::Show { version: VERSION }) => {
                let text = self.show();
                let _ = session.send(&to_bytes(&Answer::Shown { text }));
            }
            Ok(Say::Node { version, .. } | Say::Share { version, .. } | Say::Show { version }) => {
                let why = format!(
                    "it speaks version {version} with the manager, which speaks {VERSION}: install the same Selvedge on all hosts"
                );
                refuse(&session, &why);
            }
            Ok(Say::Done { .. }) => refuse(&session, "nothing was asked of it"),
            Err(why) => refuse(&session, &why),
        }
    }

    /// The session of a node.
    fn node(&self, session: Arc<Session>, said: SaidNode) {
        let done = Arc::new(Done { number: Mutex::new(Some(0)), ..Done::default() });
        let reader = {
            let (session, done) = (session.clone(), done.clone());
            std::thread::Builder::new().name("selvedge-node".to_owned()).spawn(move || done.follow(&session))
        };
        let Ok(reader) = reader else { return refuse(&session, "the manager has no thread for it") };
        match self.register(&session, &done, said) {
            Ok(()) => {
                let _ = reader.join();
            }
            Err(why) => {
                refuse(&session, &why);
                session.end();
                let _ = reader.join();
            }
        }
        // It may be there though its change was not stored.
        self.unregister(&session);
    }

    /// The number of a host, which is new if its place is: then the next one, or that of a host without a node and a job, but not of `kept`.
    fn number(&self, state: &mut State, place: HostPlace, kept: &[HostPlace]) -> Result<u32, String> {
        if let Some(known) = state.hosts.iter().position(|host| host.place == place) {
            return Ok(known as u32);
        }
        let new = |number: u32| Host { place, name: format!("host {number}"), link: None, node: None };
        let number = state.hosts.len() as u32;
        if number < self.settings.hosts {
            state.hosts.push(new(number));
            let actions = state.manager.host_back(NodeId(number));
            self.carry_out(state, actions)?;
            return Ok(number);
        }
        let number = state.unused(kept).ok_or_else(|| self.full())?;
        state.hosts[number as usize] = new(number);
        Ok(number)
    }

    fn register(&self, session: &Arc<Session>, done: &Arc<Done>, said: SaidNode) -> Result<(), String> {
        let SaidNode { place, name, link, jobs } = said;
        let mut state = lock(&self.state);
        let number = self.number(&mut state, place, &[])?;
        let an = AnId(number);
        let host = &mut state.hosts[number as usize];
        let is_same = host.link == Some(link);
        if let Some(before) = host.node.take() {
            before.session.end();
        }
        info!("aggregation node {number} is on {name}, at {}", session.peer_address());
        // One that was there before the manager has died has its tables.
        let has_state = is_same && !state.is_lost(number);
        if !has_state && !state.is_lost(number) {
            let actions = state.manager.node_lost(an);
            self.carry_out(&mut state, actions)?;
        }
        let host = &mut state.hosts[number as usize];
        (host.name, host.link) = (name, Some(link));
        host.node = Some(Node { session: session.clone(), done: done.clone(), sent: 0 });
        let welcome = Answer::Welcome { address: address_of(an), limits: said_limits(&self.settings.limits) };
        session.send(&to_bytes(&welcome)).map_err(|error| error.to_string())?;
        let actions = if has_state { state.manager.node_again(an) } else { state.manager.node_back(an) };
        // It may not have heard that jobs have ended, whatever the manager has tried: its session has ended, or the manager.
        let known: Vec<(u32, u64)> = state.keys().collect();
        let ended = jobs.into_iter().filter(|job| !known.contains(job));
        let forget = |(job, key)| Action::Node { an, address: address_of(an), step: Step::Forget { job, key } };
        let actions = ended.map(forget).chain(actions).collect();
        self.carry_out(&mut state, actions)?;
        self.returned.notify_all();
        Ok(())
    }

    fn unregister(&self, session: &Arc<Session>) {
        let mut state = lock(&self.state);
        let is_it = |host: &Host| host.node.as_ref().is_some_and(|node| Arc::ptr_eq(&node.session, session));
        let Some(number) = state.hosts.iter().position(is_it) else { return };
        let number = number as u32;
        let host = &mut state.hosts[number as usize];
        warn!("aggregation node {number} on {} has ended", host.name);
        host.node = None;
        let actions = state.manager.node_lost(AnId(number));
        self.carry_out_or_say(&mut state, actions);
    }

    /// The session of a process.
    fn process(&self, session: Arc<Session>, name: JobName, places: &[HostPlace]) {
        let number = match self.grant(&session, name, places) {
            Ok(number) => number,
            Err(why) => return refuse(&session, &why),
        };
        // Processes say no more. The session ends with the process.
        while session.receive().is_ok() {}
        let mut state = lock(&self.state);
        let Some(job) = state.jobs.get_mut(&name) else { return };
        job.processes.remove(&number);
        if job.processes.is_empty() {
            self.end_job(&mut state, name);
        }
    }

    fn end_job(&self, state: &mut State, name: JobName) {
        let Some(job) = state.jobs.remove(&name) else { return };
        let actions = state.manager.end_job(job.number).unwrap_or_default();
        self.carry_out_or_say(state, actions);
    }

    fn full(&self) -> String {
        format!("{} hosts are known: raise --hosts", self.settings.hosts)
    }

    /// Gives a process its job's share. Returns its number in the job. A refusal leaves no job that was not there before.
    fn grant(&self, session: &Arc<Session>, name: JobName, places: &[HostPlace]) -> Result<u32, String> {
        let mut state = lock(&self.state);
        // A node that is not back would not hear of a new job before its members join.
        while !state.jobs.contains_key(&name) && state.awaits_nodes() {
            let left =
                self.returns_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.returned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_known = state.jobs.contains_key(&name);
        let granted = self.share(&mut state, session, name, places);
        if granted.is_err() && !is_known {
            self.end_job(&mut state, name);
        }
        granted
    }

    fn share(
        &self,
        state: &mut State,
        session: &Arc<Session>,
        name: JobName,
        places: &[HostPlace],
    ) -> Result<u32, String> {
        let numbers: Vec<u32> =
            places.iter().map(|&place| self.number(state, place, places)).collect::<Result<_, _>>()?;
        let &own = numbers.first().ok_or("it has named no host")?;
        if !state.jobs.contains_key(&name) {
            self.begin_job(state, name, &numbers)?;
        }
        let job = state.jobs.get_mut(&name).ok_or("there is no such job")?;
        let revoked = state.manager.jobs().find(|&(number, _)| number == job.number).and_then(|(_, why)| why);
        if let Some(failure) = revoked {
            return Err(format!("its job has lost its resources: {failure}"));
        }
        let granted = state.manager.granted(job.number).map_err(|error| error.to_string())?;
        let is_member = |host: u32| granted.members.iter().any(|member| member.node.0 == host);
        if let Some(&other) = numbers.iter().find(|&&host| !is_member(host)) {
            return Err(format!("{} has come to its job after that began", state.hosts[other as usize].name));
        }
        let free = |number: &u32| !job.processes.contains_key(number);
        let number = (job.next..PROCESSES_MAX).chain(0..job.next).find(free).ok_or("its job has too many processes")?;
        job.next = (number + 1) % PROCESSES_MAX;
        self.store(state)?;
        if let Some(job) = state.jobs.get_mut(&name) {
            job.processes.insert(number, (own, session.clone()));
        }
        let hosts = granted.members.iter().map(|member| (state.hosts[member.node.0 as usize].place, member.node.0));
        let share = Share {
            grant: String::from_utf8(granted.save()).unwrap_or_default(),
            hosts: hosts.collect(),
            links: state.links(),
            process: number,
        };
        // If it has ended, its session says so.
        let _ = session.send(&to_bytes(&Answer::Granted(Box::new(share))));
        Ok(number)
    }

    /// A job on some hosts, and on all that have a node, since it may get there.
    fn begin_job(&self, state: &mut State, name: JobName, hosts: &[u32]) -> Result<(), String> {
        let there = (0..state.hosts.len() as u32).filter(|&host| state.hosts[host as usize].node.is_some());
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
        let begun = state.manager.begin_job(&request, u64::from_le_bytes(key));
        let (granted, actions) = begun.map_err(|error| error.to_string())?;
        state.jobs.insert(name, Job { number: granted.job, processes: BTreeMap::new(), next: 0 });
        self.carry_out(state, actions)
    }

    /// Stores the state, and carries out a change. The error is that the state cannot be stored: then nothing was carried out.
    fn carry_out(&self, state: &mut State, actions: Vec<Action>) -> Result<(), String> {
        self.store(state)?;
        self.perform(state, actions);
        Ok(())
    }

    fn perform(&self, state: &mut State, actions: Vec<Action>) {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            match action {
                Action::Tell { process, job, failure } => {
                    let processes =
                        state.jobs.values().filter(|it| it.number == job).flat_map(|it| it.processes.values());
                    for (_, session) in processes.filter(|(host, _)| u64::from(*host) == process) {
                        let _ = session.send(&to_bytes(&Answer::Lost { failure: failure as u8 }));
                    }
                }
                Action::Node { an, step, .. } => {
                    let mut steps = vec![step.into()];
                    while let Some(Action::Node { step, .. }) =
                        actions.next_if(|next| matches!(next, Action::Node { an: of, .. } if *of == an))
                    {
                        steps.push(step.into());
                    }
                    let links = state.links();
                    let Some(node) = state.hosts.get_mut(an.0 as usize).and_then(|host| host.node.as_mut()) else {
                        continue;
                    };
                    node.sent += 1;
                    let said = Answer::Steps { number: node.sent, steps, links };
                    let is_sent = node.session.send(&to_bytes(&said)).is_ok();
                    if !is_sent || !node.done.wait(node.sent, self.settings.silence) {
                        // Its own thread says that it is lost.
                        node.session.end();
                    }
                }
            }
        }
    }

    /// For what has ended or is lost. It is so even if it cannot be stored: a manager that restarts with the state before finds it out again.
    fn carry_out_or_say(&self, state: &mut State, actions: Vec<Action>) {
        if let Err(why) = self.store(state) {
            warn!("{why}");
        }
        self.perform(state, actions);
    }

    fn store(&self, state: &State) -> Result<(), String> {
        let Some(path) = &self.settings.state else { return Ok(()) };
        let hosts = state.hosts.iter().map(|host| (host.place, host.name.clone(), host.link)).collect();
        let jobs = state.jobs.iter().map(|(&name, job)| (name, job.number, job.next)).collect();
        let stored = Stored::new(hosts, jobs, state.manager.save());
        stored.write(path).map_err(|error| format!("the manager cannot store its state in {}: {error}", path.display()))
    }

    /// Who has not come back is lost.
    fn end_of_return(&self) {
        let mut state = lock(&self.state);
        for number in 0..state.hosts.len() as u32 {
            if state.hosts[number as usize].node.is_none() && !state.is_lost(number) {
                let actions = state.manager.node_lost(AnId(number));
                self.carry_out_or_say(&mut state, actions);
            }
        }
        let ended = state.jobs.iter().filter(|(_, job)| job.processes.is_empty()).map(|(&name, _)| name);
        for name in ended.collect::<Vec<_>>() {
            self.end_job(&mut state, name);
        }
        self.returned.notify_all();
    }
}

impl Done {
    /// Follows a node's session to its end.
    fn follow(&self, session: &Session) {
        while let Ok(message) = session.receive() {
            match from_bytes(&message) {
                Ok(Say::Done { number }) => *lock(&self.number) = Some(number),
                _ => break,
            }
            self.changed.notify_all();
        }
        *lock(&self.number) = None;
        self.changed.notify_all();
    }

    /// Waits until steps are carried out. False: they will not be, or the node is silent.
    fn wait(&self, number: u64, silence: Duration) -> bool {
        let until = Instant::now() + silence;
        let mut done = lock(&self.number);
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
            let waited = self.changed.wait_timeout(done, left).unwrap_or_else(PoisonError::into_inner);
            done = waited.0;
        }
    }
}
