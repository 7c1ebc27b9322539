// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process in its job: its rank, its ids, its arena, and the exchange that a program needs at start-up.
//!
//! Invariants
//! 1. There is one [`Process`] in a process, made at first use. Under `selvedge run` it is made from the environment
//!    alone. The connection to the launcher is used only for barriers and exchanges, so that a program that uses PMI
//!    itself has it to itself.
//! 2. All interfaces of a process share the arena; each publishes its address and committed size to peers.

use std::net::IpAddr;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use selvedge_host::arena::Arena;
use selvedge_host::home;
use selvedge_host::interface::{ArenaRange, open_interfaces};
use selvedge_host::wait::TICK;
use selvedge_host::{Config, Interface, Mode, OpenError, Path};
pub use selvedge_job::ClaimError;
use selvedge_job::{
    Claim, DirectoryError, Job, JobDirectory, JobError, JoinError, PORTALS_PID_MAX, id_of_rank, ranks_of_id,
};
use selvedge_net::Progress;
use selvedge_net::remote_hosts::RemoteHosts;
use selvedge_nic::Limits;
use selvedge_os::ranks;
use selvedge_os::shortage::{Need, Shortage};
use selvedge_os::sync::IgnorePoison;

use crate::hosts::{self, HostsError};
use crate::place::{job_spans_hosts, own_place};
use crate::regions;
use crate::settings::{HostSettings, Settings};

/// Reasons for which this process cannot join a job or open a NIC.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

/// The time that waits spin if every process has a core, and if not. Waking a sleeping core takes from 5 us to, in a
/// virtual machine, 200 us: as long as a put of some megabytes. The first constant is longer than that.
const SPIN_NS: u64 = 2_000_000;
const SPIN_NS_CROWDED: u64 = 2_000;

/// The first and the longest pause between looks at the interfaces, while a call to the launcher blocks.
const PROGRESS_PAUSES: Range<Duration> = Duration::from_micros(20)..Duration::from_millis(1);

/// The largest number of a host: one more is `PTL_NID_ANY`.
const NID_MAX: u32 = u32::MAX - 1;

/// The longest sleep of a wait that makes progress on links itself.
const CALLS_NAP: Duration = Duration::from_micros(100);

pub struct Process {
    pub settings: Settings,
    os_pid: u32,
    rank: u32,
    size: u32,
    place: Place,
    arena: OnceLock<Arena>,
    hosts: HostSettings,
    /// Links to other hosts, opened with the first NIC.
    links: OnceLock<Arc<RemoteHosts>>,
    opening: Mutex<()>,
}

enum Place {
    /// The environment; the connection to the launcher is made when it is needed.
    Environment {
        directory: JobDirectory,
        job: OnceLock<Job>,
        joining: Mutex<()>,
    },
    Joined(Job),
}

/// An open interface, and the claim to its process id.
pub struct Opened {
    pub interface: Arc<Interface>,
    claim: Claim,
}

impl Opened {
    /// Returns the Portals process id.
    pub fn pid(&self) -> u16 {
        self.claim.pid()
    }
}

/// Returns the id of a rank that has none of its own within [`id_of_rank`]'s. The nodes of a simulated machine share one
/// directory, so their ids count within the machine.
fn id_of_rank_in_machine(rank: u32) -> Option<u16> {
    u16::try_from(rank + 1).ok().filter(|&pid| pid > PORTALS_PID_MAX)
}

static PROCESS: Mutex<Option<Arc<Process>>> = Mutex::new(None);
static LOGGING: AtomicBool = AtomicBool::new(false);

impl Process {
    /// Returns the process. The first call joins its job.
    pub fn current() -> Result<Arc<Process>, ProcessError> {
        let mut current = PROCESS.lock().ignore_poison();
        if let Some(process) = current.as_ref() {
            return Ok(process.clone());
        }
        start_logging("warn");
        selvedge_settings::report();
        raise_file_limit();
        let settings = Settings::from_environment();
        let (rank, size, place) = match place_in_environment() {
            Some((name, rank, size)) => {
                let directory = JobDirectory::open(&name)?;
                (rank, size, Place::Environment { directory, job: OnceLock::new(), joining: Mutex::new(()) })
            }
            None => {
                let job = Job::join()?;
                (job.rank(), job.size(), Place::Joined(job))
            }
        };
        let process = Arc::new(Process {
            settings,
            os_pid: std::process::id(),
            rank,
            size,
            place,
            arena: OnceLock::new(),
            hosts: HostSettings::from_environment(),
            links: OnceLock::new(),
            opening: Mutex::new(()),
        });
        *current = Some(process.clone());
        regions::watch();
        Ok(process)
    }

    /// Returns the process, if [`Process::current`] has been called.
    pub fn existing() -> Option<Arc<Process>> {
        PROCESS.lock().ignore_poison().clone()
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the job's directory.
    pub fn directory(&self) -> &JobDirectory {
        match &self.place {
            Place::Environment { directory, .. } => directory,
            Place::Joined(job) => job.directory(),
        }
    }

    /// Opens a NIC. Without `pid` it takes the id that the process has, else that of its rank ([`id_of_rank`]), else any
    /// free one above 0.
    pub fn open(&self, ni: u32, pid: Option<u16>, limits: &Limits) -> Result<Opened, ProcessError> {
        let claim = self.directory().claim(pid, id_of_rank(self.rank))?;
        self.open_claimed(ni, claim, limits, self.arena_range(), TICK)
    }

    /// Opens a NIC whose id the program does not see, that offers other memory than the arena to peers, and whose waits
    /// sleep no longer than `nap`.
    pub fn open_hidden(
        &self,
        ni: u32,
        limits: &Limits,
        memory: ArenaRange,
        nap: Duration,
    ) -> Result<Opened, ProcessError> {
        let claim = match id_of_rank_in_machine(self.rank) {
            Some(pid) if selvedge_host::simulated::is_simulated() => self.directory().claim_for_transport(pid)?,
            _ => self.directory().claim(None, id_of_rank(self.rank))?,
        };
        self.open_claimed(ni, claim, limits, memory, nap)
    }

    fn open_claimed(
        &self,
        ni: u32,
        claim: Claim,
        limits: &Limits,
        memory: ArenaRange,
        nap: Duration,
    ) -> Result<Opened, ProcessError> {
        let hosts = self.hosts()?;
        let nid = if hosts.is_some() { self.nid() } else { 0 };
        if let Some(hosts) = &hosts {
            let (name, address) = hosts.publication(u64::from(nid) << 32 | u64::from(claim.pid()));
            self.publish_once(&name, &address)?;
        }
        let ranks = ranks::here().unwrap_or(self.size);
        let spin_ns = if ranks as usize <= self.settings.cores { SPIN_NS } else { SPIN_NS_CROWDED };
        let config = Config {
            mode: self.settings.mode,
            path: self.settings.path,
            spin_ns: self.settings.spin_ns.unwrap_or(spin_ns),
            nap_ns: self.nap(nap, hosts.is_some()).as_nanos() as u64,
            directory: self.directory().path().to_path_buf(),
            nid,
            token: 0,
        };
        let home = hosts.map_or_else(home::of_process, |hosts| hosts.home());
        let interface = Interface::open(home, config, ni, claim.pid(), self.rank, limits, memory)?;
        Ok(Opened { interface, claim })
    }

    /// Whether this process stores directly to the memory of processes of its host. It is known before a NIC is open.
    pub fn maps_peers(&self) -> bool {
        self.settings.mode.maps_peers(self.settings.path) && !selvedge_host::simulated::is_simulated()
    }

    /// Whether NICs of this process will store directly to the memory of all peers. It is known before one is open.
    pub fn stores_in_place(&self) -> bool {
        self.maps_peers() && !selvedge_host::record::is_wanted() && !self.spans_hosts()
    }

    fn spans_hosts(&self) -> bool {
        self.size != 1 && job_spans_hosts() == Some(true) && !selvedge_host::simulated::is_simulated()
    }

    /// Returns the links to other hosts; None for a job on one host. Without a launcher, Slurm may have started this
    /// process as one of many jobs.
    fn hosts(&self) -> Result<Option<Arc<RemoteHosts>>, ProcessError> {
        if !self.spans_hosts() {
            return Ok(None);
        }
        let _opening = self.opening.lock().ignore_poison();
        if let Some(hosts) = self.links.get() {
            return Ok(Some(hosts.clone()));
        }
        let job = self.job()?;
        let look_up = move |name: &str, pid| {
            let of = |rank| {
                job.look_up(name, rank).unwrap_or_else(|error| {
                    log::error!("a process of another host cannot be looked up: {error}");
                    None
                })
            };
            ranks_of_id(pid, job.size()).take(if job.finds_by_name() { 1 } else { usize::MAX }).find_map(of)
        };
        let opened = hosts::of_job(&self.hosts, self.nid(), Box::new(look_up))?;
        Ok(Some(self.links.get_or_init(|| opened).clone()))
    }

    /// Returns the number of this host in a job of several. If the launcher gives none, it is made from the host's
    /// identity, because not all ranks open NICs together and could agree.
    fn nid(&self) -> u32 {
        self.hosts.host.unwrap_or_else(|| (own_place() as u32 | 1).min(NID_MAX))
    }

    fn publish_once(&self, name: &str, bytes: &[u8]) -> Result<(), ProcessError> {
        static PUBLISHED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let mut published = PUBLISHED.lock().ignore_poison();
        if !published.iter().any(|known| known == name) {
            self.job()?.publish(name, bytes)?;
            published.push(name.to_owned());
        }
        Ok(())
    }

    /// Publishes the id of this process's NIC to the others of a job of several hosts, for [`Process::id_of`].
    pub fn publish_id(&self, id: u64) -> Result<(), ProcessError> {
        self.publish_once(&format!("id-{}", self.rank), &id.to_le_bytes())
    }

    /// Returns the id that the process of a rank has published. None if none is visible to this process.
    pub fn id_of(&self, rank: u32) -> Option<u64> {
        let found = self.job().ok()?.look_up(&format!("id-{rank}"), rank);
        let bytes = found.inspect_err(|error| log::error!("rank {rank} cannot be looked up: {error}")).ok()??;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns the address of the host of the process with this id, if it is another host and known.
    pub fn host_address_of(&self, id: u64) -> Option<IpAddr> {
        let links = self.links.get().filter(|_| (id >> 32) as u32 != self.nid())?;
        links.host_address_of(id)
    }

    /// Returns the longest sleep of a wait. If no progress thread serves the links, a wait must make progress on them.
    fn nap(&self, nap: Duration, has_hosts: bool) -> Duration {
        match has_hosts && self.hosts.progress == Progress::Calls {
            true => nap.min(CALLS_NAP),
            false => nap,
        }
    }

    fn arena_range(&self) -> ArenaRange {
        match self.arena.get() {
            Some(arena) => ArenaRange {
                number: 0,
                base: arena.base(),
                reserved: arena.reserved_bytes(),
                bytes: arena.committed_bytes(),
            },
            None => ArenaRange::default(),
        }
    }

    /// Allocates memory that peers map.
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        let arena = self.arena_or_make()?;
        let before = arena.committed_bytes();
        let memory = arena.alloc(bytes)?;
        if arena.committed_bytes() != before || before != 0 {
            let range = self.arena_range();
            for interface in open_interfaces() {
                interface.publish_arena(range);
            }
        }
        Some(memory)
    }

    /// Returns the arena, which the first call makes. A failure is reported and not kept: the next call tries again.
    fn arena_or_make(&self) -> Option<&Arena> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = MAKING.lock().ignore_poison();
        if self.arena.get().is_none() {
            let path = self.directory().arena(std::process::id());
            let _ = std::fs::remove_file(&path);
            let made = Arena::create(&path, self.settings.heap_bytes);
            let made = made.inspect_err(|error| log::error!("cannot make the shared arena: {error}")).ok()?;
            let _ = self.arena.set(made);
        }
        self.arena.get()
    }

    /// Frees memory of [`Process::alloc`].
    pub fn free(&self, memory: NonNull<u8>) {
        let freed = match self.arena.get() {
            Some(arena) => arena.free(memory).map_err(|error| error.to_string()),
            None => Err("there is no arena".into()),
        };
        if let Err(why) = freed {
            log::error!("selvedge_free({memory:p}): {why}");
        }
    }

    fn job(&self) -> Result<Job, ProcessError> {
        match &self.place {
            Place::Joined(job) => Ok(job.clone()),
            Place::Environment { job, joining, .. } => {
                let _joining = joining.lock().ignore_poison();
                if let Some(job) = job.get() {
                    return Ok(job.clone());
                }
                let joined = Job::join()?;
                Ok(job.get_or_init(|| joined).clone())
            }
        }
    }

    /// Connects to the launcher, unless it is connected.
    pub fn join(&self) -> Result<(), ProcessError> {
        self.job().map(|_| ())
    }

    /// Waits until every living rank has called it. Meanwhile the process's interfaces make progress.
    pub fn barrier(&self) -> Result<(), ProcessError> {
        let job = self.job()?;
        self.with_progress(move || job.barrier()).map_err(ProcessError::from)
    }

    /// Gathers the bytes of every rank at every rank, in rank order.
    pub fn exchange(&self, mine: &[u8]) -> Result<Vec<u8>, ProcessError> {
        let job = self.job()?;
        let mine = mine.to_vec();
        self.with_progress(move || job.exchange(&mine)).map_err(ProcessError::from)
    }

    /// Ends the whole job as failed.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        match self.job() {
            Ok(job) => job.abort(code, why),
            Err(error) => {
                eprintln!("selvedge: {why} (and the launcher cannot be notified: {error})");
                std::process::exit(code)
            }
        }
    }

    /// Ends the whole job as finished, with this exit code.
    pub fn end_all(&self, code: i32) -> ! {
        match self.job() {
            Ok(job) => job.end_all(code),
            Err(error) => {
                eprintln!("selvedge: cannot notify the launcher that the job ends: {error}");
                std::process::exit(code)
            }
        }
    }

    /// Whether this is a forked child of the process that found its job.
    pub fn is_forked_child(&self) -> bool {
        std::process::id() != self.os_pid
    }

    /// Runs a call that blocks. Meanwhile, interfaces that need calls of this program make progress.
    fn with_progress<T: Send + 'static>(&self, blocking: impl FnOnce() -> T + Send + 'static) -> T {
        let interfaces = open_interfaces();
        let depends = |interface: &Arc<Interface>| {
            interface.config.mode == Mode::Host || interface.config.path == Path::Bounce || interface.gets_packets()
        };
        // Links have a thread, but this process must execute triggered operations for other hosts that a process of
        // this host has fired.
        let has_links = self.links.get().is_some();
        if !has_links && !interfaces.iter().any(depends) {
            return blocking();
        }
        // A worker that panics drops its end, which also ends the wait.
        let (done, ended) = mpsc::sync_channel(1);
        let work = move || {
            let value = blocking();
            let _ = done.send(());
            value
        };
        let worker = std::thread::Builder::new().spawn(work).unwrap_or_else(|error| {
            match Shortage::of_io(&error, Need::Object("a thread")) {
                Some(shortage) => shortage.end_process(),
                None => panic!("a thread was refused: {error}"),
            }
        });
        let mut pause = PROGRESS_PAUSES.start;
        while ended.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
            for interface in &interfaces {
                interface.progress();
            }
            pause = (2 * pause).min(PROGRESS_PAUSES.end);
        }
        match worker.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Leaves the job and removes the arena's file; peers that have mapped it keep the memory.
    pub fn finalize(&self) {
        self.leave(Job::finalize);
    }

    /// As [`Process::finalize`], for a process that ends with NICs open.
    pub fn finalize_at_exit(&self) {
        self.leave(Job::finalize_at_exit);
    }

    /// As [`Process::finalize_at_exit`], for a program that has not finalized. `selvedge run` then records its rank as
    /// lost. Other launchers would end the job, so the process leaves it in order.
    pub fn end_unfinalized(&self) {
        self.leave(|job| if job.under_selvedge_run() { Ok(()) } else { job.finalize_at_exit() });
    }

    fn leave(&self, finalize: impl FnOnce(&Job) -> Result<(), JobError>) {
        let _ = std::fs::remove_file(self.directory().arena(std::process::id()));
        if let Some(hosts) = self.links.get() {
            hosts.close();
        }
        let job = match &self.place {
            Place::Joined(job) => Some(job),
            Place::Environment { job, .. } => job.get(),
        };
        if let Some(Err(error)) = job.map(finalize) {
            log::warn!("leaving the job: {error}");
        }
    }
}

/// Returns job, rank and size that `selvedge run` put into the environment. None if another launcher, started under it,
/// has set its own since.
fn place_in_environment() -> Option<(String, u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let same = |ours: &str, theirs: &str| number(theirs).is_none_or(|theirs| Some(theirs) == number(ours));
    let ours = std::env::var_os("PMIX_NAMESPACE").is_none()
        && same("SELVEDGE_RANK", "PMI_RANK")
        && same("SELVEDGE_SIZE", "PMI_SIZE");
    if !ours {
        return None;
    }
    Some((std::env::var("SELVEDGE_JOB").ok()?, number("SELVEDGE_RANK")?, number("SELVEDGE_SIZE")?))
}

/// Prints log lines on standard error: those that `SELVEDGE_LOG` selects, else those of a level and above.
pub fn start_logging(level: &str) {
    if !LOGGING.swap(true, SeqCst) {
        let filter = selvedge_settings::text("SELVEDGE_LOG").unwrap_or_else(|| level.into());
        let _ = env_logger::Builder::new().parse_filters(&filter).format_target(false).try_init();
    }
}

/// Raises the limit of open files to the hard limit, because the libraries below may need many.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives across both calls; getrlimit fills it and setrlimit reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Returns the effective user id of this process.
pub fn own_uid() -> u32 {
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}
