// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge agent`: the ranks of one host, for a launcher on another. `selvedge run` starts it through a remote shell.
//!
//! Standard input and output are the channel ([`super::channel`]). Whatever else this process or its ranks print goes elsewhere.
//!
//! Invariants
//! 1. When the channel ends, for any reason, or the launcher's host has vanished, the agent kills its ranks, removes the job's directory,
//!    and ends. When the agent is killed, the kernel kills the ranks, and the launcher has another agent end what they had started
//!    ([`end_job`]).
//! 2. No rank is started before every agent of the job is prepared.
//! 3. The agent takes the launcher's environment and working folder as its own, except for what is the host's own ([`is_of_host`]).
//!    From there on it does what `selvedge run` does on one host.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use selvedge_job::JobDirectory;
use selvedge_transport::process::start_logging;
use selvedge_transport::settings::HostSettings;
use serde::{Deserialize, Serialize};

use super::aggregation::{Service, start_node};
use super::channel::{Channel, Ended, Hello, Report, Request, greeting};
use super::presence::{Seen, Watch};
use super::ranks::{self, Ranks};
use super::supervise::time_until;
use super::{Args, make_directory};
use crate::rank::spawn::{Share, SpawnPlan};
use crate::report::say;
use crate::signals::{Signals, signal_rank};

/// The ranks' output waits in their pipes while the launcher has not taken so many bytes.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// How long the agent is silent at most, so that the remote shell's end here finds that the launcher's host has gone, too.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the agent tries to send its last messages.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Everything that an agent needs to know of the job.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) args: Args,
    pub(super) job: String,
    /// In ascending order.
    pub(super) ranks: Vec<usize>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
    /// Where this host can watch the launcher's ([`super::presence`]).
    pub(super) launcher: Option<SocketAddr>,
    /// With several hosts.
    pub(super) among: Option<Among>,
}

/// This host among several.
#[derive(Serialize, Deserialize)]
pub(super) struct Among {
    pub(super) host: usize,
    pub(super) hosts: usize,
    /// Where processes of other hosts reach those of this one.
    pub(super) address: IpAddr,
    /// In hexadecimal digits.
    pub(super) secret: String,
    /// Where the job's aggregation manager is, if it has one.
    pub(super) manager: Option<String>,
}

/// Serves a launcher (started by `selvedge run --hosts`).
#[derive(clap::Args)]
pub struct AgentArgs {
    /// End what an agent that was lost has left of this job
    #[arg(long, value_name = "JOB")]
    end: Option<String>,

    /// The parent of the job directories
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub fn main(args: AgentArgs) -> Result<ExitCode> {
    if let Some(job) = &args.end {
        end_job(job, &args.directory.unwrap_or_else(selvedge_job::parent));
        return Ok(ExitCode::SUCCESS);
    }
    let signals = Signals::block().context("cannot block and read signals")?;
    let channel = take_channel().context("cannot take standard input and output")?;
    let mut agent = Agent { channel, signals, ranks: None, node: None, watch: None, over: false, is_finished: false };
    agent.channel.send_text(&greeting(&Hello::own()));
    while !agent.over {
        agent.turn()?;
    }
    if let Some(mut ranks) = agent.ranks.take() {
        ranks.end_at_once();
        ranks.remove_directory();
        // Else the launcher hears that this host is lost, if it hears anything.
        if agent.is_finished {
            agent.channel.send(Report::Done);
        }
    }
    agent.send_last();
    Ok(ExitCode::SUCCESS)
}

/// Ends all processes of a job whose agent is dead: the kernel has killed its ranks, and not what they had started. Then its directory
/// is stale.
fn end_job(job: &str, parent: &Path) {
    let variable = format!("SELVEDGE_JOB={job}");
    for _ in 0..50 {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_of_job = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|word| word == variable.as_bytes())
        };
        let left: Vec<u32> = numbers.filter(is_of_job).collect();
        if left.is_empty() {
            break;
        }
        left.into_iter().for_each(|pid| signal_rank(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(10));
    }
    selvedge_job::sweep_stale(parent);
}

/// Moves standard input and output away, so that neither ranks nor messages of this process meet the channel.
fn take_channel() -> std::io::Result<Channel> {
    let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let input = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(stdout, 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(Channel::new(input, output))
}

impl Hello {
    fn own() -> Hello {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let link = |path: &str| std::fs::read_link(path).unwrap_or_default().display().to_string();
        let memory = std::fs::metadata("/dev/shm").map_or(0, |meta| meta.dev());
        let identity = [
            text("/proc/sys/kernel/random/boot_id"),
            link("/proc/self/ns/pid"),
            link("/proc/self/ns/ipc"),
            link("/proc/self/ns/net"),
            memory.to_string(),
        ];
        // "client address, client port, server address, server port"
        let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let reached = connection.split_ascii_whitespace().nth(2).and_then(|address| address.parse().ok());
        Hello { identity: identity.join(" "), reached }
    }
}

/// Why the ranks cannot be started here.
struct Refusal {
    /// The job's exit code.
    code: u8,
    why: String,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Refusal {
        Refusal { code: 1, why: why.into() }
    }
}

struct Agent {
    channel: Channel,
    signals: Signals,
    ranks: Option<Ranks>,
    /// The aggregation node of this host.
    node: Option<Service>,
    /// The launcher's host.
    watch: Option<Watch>,
    over: bool,
    /// The launcher needs nothing more.
    is_finished: bool,
}

#[derive(Clone, Copy)]
enum Source {
    Signals,
    Input,
    Output,
    Launcher,
    Ranks(ranks::Part),
}

impl Agent {
    /// Waits for an event, and handles it.
    fn turn(&mut self) -> Result<()> {
        let ready = self.wait()?;
        if ready.is_empty() && self.ranks.is_some() {
            self.channel.send(Report::Alive);
        }
        for (source, flags) in ready {
            match source {
                Source::Signals => self.take_signals(),
                Source::Input => self.read(),
                Source::Output if flags.intersects(PollFlags::ERR) => self.over = true,
                Source::Output => self.channel.flush(),
                Source::Launcher => self.check_launcher(),
                Source::Ranks(part) => self.with_ranks(|ranks, events| ranks.serve(part, flags, events)),
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<Vec<(Source, PollFlags)>> {
        let mut sources = Vec::new();
        let mut polled = Vec::new();
        let mut add = |source, fd, flags| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(fd, flags));
        };
        add(Source::Signals, self.signals.fd(), PollFlags::IN);
        add(Source::Input, self.channel.input(), PollFlags::IN);
        add(Source::Output, self.channel.output(), self.channel.interest());
        if let Some(watch) = &self.watch {
            add(Source::Launcher, watch.fd(), watch.interest());
        }
        if let Some(ranks) = &self.ranks {
            let with_output = self.channel.waiting() < WAITING_BYTES_MAX;
            ranks.poll_with(with_output, &mut |part, fd, flags| add(Source::Ranks(part), fd, flags));
        }
        match poll(&mut polled, Some(&time_until(Instant::now() + SILENCE))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(polled.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => self.with_ranks(Ranks::find_dead),
                // The launcher stops and continues ranks.
                libc::SIGTSTP | libc::SIGCONT => {}
                // Somebody ends the agent itself.
                _ => self.over = true,
            }
        }
    }

    /// Ends the agent if the launcher's host has vanished.
    fn check_launcher(&mut self) {
        match self.watch.as_mut().map(Watch::serve) {
            Some(Seen::Nothing) => self.watch = None,
            Some(Seen::Vanished) => {
                say("the launcher's host does not answer any more");
                self.over = true;
            }
            Some(Seen::There) | None => {}
        }
    }

    /// Handles what the launcher has sent.
    fn read(&mut self) {
        let filled = self.channel.fill();
        let ended = loop {
            match self.channel.next() {
                Ok(Some(request)) => self.serve(request),
                Ok(None) => break filled.err(),
                Err(ended) => break Some(ended),
            }
        };
        if let Some(ended) = ended {
            if !matches!(ended, Ended::Closed) {
                say(&ended.to_string());
            }
            self.over = true;
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Start(start) => match prepare(*start, &self.signals) {
                Ok(Prepared { ranks, node, watch }) => {
                    (self.ranks, self.node, self.watch) = (Some(ranks), node, watch);
                    self.channel.send(Report::Ready);
                }
                Err(Refusal { code, why }) => self.channel.send(Report::Refused { code, why }),
            },
            Request::Go => self.with_ranks(|ranks, events| ranks.start(events)),
            Request::Order(order) => self.with_ranks(|ranks, events| ranks.obey(order, events)),
            Request::Finish => (self.over, self.is_finished) = (true, true),
        }
    }

    /// Lets the ranks do something, and reports what happens.
    fn with_ranks(&mut self, act: impl FnOnce(&mut Ranks, &mut Vec<super::messages::Event>)) {
        let mut events = Vec::new();
        if let Some(ranks) = &mut self.ranks {
            act(ranks, &mut events);
        }
        for event in events {
            self.channel.send(Report::Event(event));
        }
    }

    /// Sends what waits, unless the launcher has gone or does not read.
    fn send_last(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        while self.channel.waiting() > 0 && Instant::now() < until {
            let mut polled = [PollFd::from_borrowed_fd(self.channel.output(), PollFlags::OUT)];
            let step = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let _ = poll(&mut polled, Some(&step));
            if polled[0].revents().intersects(PollFlags::ERR) {
                return;
            }
            self.channel.flush();
        }
    }
}

/// What an agent has when its host is ready.
struct Prepared {
    ranks: Ranks,
    node: Option<Service>,
    watch: Option<Watch>,
}

/// Takes over environment and folder, finds the program, and makes the job's directory.
fn prepare(start: Start, signals: &Signals) -> Result<Prepared, Refusal> {
    let Start { args, job, ranks, environment, folder, launcher, among } = start;
    take_environment(environment);
    start_logging("warn");
    std::env::set_current_dir(&folder).map_err(|error| {
        let folder = folder.display();
        Refusal::new(format!(
            "cannot enter the folder {folder}: {error}; start the job in a folder that every host has"
        ))
    })?;
    let executable = args.executable().map_err(|error| Refusal { code: error.exit_code(), why: error.to_string() })?;
    if let Some(among) = &among {
        check_address(among.address)?;
    }
    let failed = |error: anyhow::Error| Refusal::new(format!("{error:#}"));
    let (parent, directory) = make_directory(&args, Some(job)).map_err(failed)?;
    own_directory(&directory).map_err(|why| Refusal::new(format!("{} {why}", directory.path().display())))?;
    let node = among.as_ref().and_then(|among| {
        let at = among.manager.as_ref()?;
        Some(start_node(at, among.address, &among.secret))
    });
    let node = node.transpose().map_err(failed)?;
    let variables = among.map(|among| variables(among, ranks.len())).unwrap_or_default();
    let share = Share { ranks, variables, through_pipes: true };
    match SpawnPlan::new(&args, share, executable, &directory, &parent) {
        Ok(plan) => {
            let ranks = Ranks::new(directory, plan, signals.mask_before());
            Ok(Prepared { ranks, node, watch: launcher.and_then(watch) })
        }
        Err(error) => {
            let _ = directory.remove();
            Err(failed(error))
        }
    }
}

/// Watches the launcher's host.
fn watch(launcher: SocketAddr) -> Option<Watch> {
    let watch = Watch::start(launcher, HostSettings::from_environment().timeout);
    watch.inspect_err(|error| log::info!("the launcher's host {launcher} cannot be watched: {error}")).ok()
}

/// Makes sure that no other host of the job has the same directory. The error follows its path.
fn own_directory(directory: &JobDirectory) -> Result<(), String> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.path().join("host")) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err("is shared with another host; SELVEDGE_DIR must name a folder that each host has for itself".to_owned())
        }
        Err(error) => Err(format!("cannot hold files: {error}")),
    }
}

/// Other hosts are told this address, and ports are bound to it: it must be one of this host's.
fn check_address(address: IpAddr) -> Result<(), Refusal> {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(format!(
            "{address}, by which other hosts are to reach it, is no address of its own ({error}); name the host by one"
        ))),
    }
}

fn variables(among: Among, ranks_here: usize) -> Vec<(&'static str, OsString)> {
    let manager = among.manager.map(|at| [("SELVEDGE_MANAGER", at), ("SELVEDGE_MANAGER_SECRET", among.secret.clone())]);
    let manager = manager.into_iter().flatten().map(|(name, value)| (name, value.into()));
    let own = [
        ("SELVEDGE_HOST", among.host.to_string().into()),
        ("SELVEDGE_HOSTS", among.hosts.to_string().into()),
        ("SELVEDGE_NET_ADDRESS", among.address.to_string().into()),
        ("SELVEDGE_SECRET", among.secret.into()),
        // As of MPICH's launcher.
        ("MPI_LOCALNRANKS", ranks_here.to_string().into()),
    ];
    own.into_iter().chain(manager).collect()
}

/// Replaces the environment, except for what is of this host.
fn take_environment(environment: Vec<(OsString, OsString)>) {
    let before: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    // SAFETY: this process has one thread, so nothing else reads the environment meanwhile.
    unsafe {
        for name in before.iter().filter(|name| !is_of_host(name)) {
            std::env::remove_var(name);
        }
        for (name, value) in environment.into_iter().filter(|(name, _)| !is_of_host(name)) {
            std::env::set_var(name, value);
        }
    }
}

/// Whether a variable says something of a host or of the session on it. Ranks find those of their own host; all others are those of
/// the launcher.
pub(super) fn is_of_host(name: &OsStr) -> bool {
    const NAMES: [&str; 14] = [
        "HOSTNAME",
        "HOST",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "MAIL",
        "XDG_RUNTIME_DIR",
        "XDG_SEAT",
        "XDG_VTNR",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "XAUTHORITY",
        "WINDOWID",
        "WAYLAND_DISPLAY",
    ];
    let name = name.to_string_lossy();
    NAMES.contains(&&*name) || ["SSH_", "XDG_SESSION_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The launcher's environment without what is of its host.
pub(super) fn environment_to_forward() -> Vec<(OsString, OsString)> {
    // A name with `=` in it cannot be set by a program, and comes from a hand-made environment.
    let can_be_set = |name: &OsStr| !name.as_encoded_bytes().contains(&b'=');
    std::env::vars_os().filter(|(name, _)| !is_of_host(name) && can_be_set(name)).collect()
}
