// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge agent`: the ranks of one host, for a launcher on another. `selvedge run` starts it through a remote shell, or
//! another agent does. Then it is one of the [agents below](super::below) that one, which forwards its messages.
//!
//! Standard input and output are the channel ([`super::channel`]). All other output goes elsewhere.
//!
//! Invariants
//! 1. When the channel ends, for any reason, or the parent's host has vanished, the agent closes the channels of its
//!    children, kills its ranks, removes the job's directory, and ends. When the agent is killed, the kernel kills the
//!    ranks, and the launcher starts another agent to end the processes that the ranks had started ([`end_job`]).
//! 2. No rank is started before every agent of the job is prepared.
//! 3. The agent takes the launcher's environment and working folder as its own, except for variables of the host
//!    ([`super::job_environment`]). From then on it does the same as `selvedge run` on one host.
//! 4. While the parent has not taken [`WAITING_BYTES_MAX`], the output of ranks and the messages of children stay in
//!    their pipes. Messages to children never wait for each other.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use selvedge_job::JobDirectory;
use selvedge_process::process::start_logging;
use selvedge_process::settings::HostSettings;

use super::aggregation::{Service, start_node};
use super::below::{self, Below};
use super::channel::{Channel, ChannelError, Frame};
use super::job_environment::take_environment;
use super::link::LinkEvent;
use super::messages::Event;
use super::poll_set::PollSet;
use super::presence::{Watch, WatchEvent};
use super::ranks::{self, Ranks};
use super::tree::parts;
use super::wire::{Hello, HostPlace, Report, Request, Start, Subtree, greeting};
use crate::environment::of_links;
use crate::error::{LauncherError, with_causes};
use crate::job_directory;
use crate::rank::runner::Runner;
use crate::rank::spawn::{Share, SpawnPlan};
use crate::report::say;
use crate::signals::{Signals, signal_rank};

/// Number of bytes waiting for the parent above which the ranks' output and the children's messages stay in their pipes.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Longest silence of the agent. By its messages the remote shell here notices that the parent's host is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Time for the agent to send its last messages.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves a launcher until the channel ends or the launcher needs nothing more.
pub fn serve() -> Result<(), LauncherError> {
    let signals = Signals::block().map_err(LauncherError::Signals)?;
    let channel = take_channel().map_err(LauncherError::StandardStreams)?;
    let mut agent = Agent {
        channel,
        signals,
        ranks: None,
        node: None,
        below: None,
        to_watch: None,
        watch: None,
        has_environment: false,
        over: false,
        is_finished: false,
    };
    agent.channel.send_text(&greeting(&Hello::own()));
    while !agent.over {
        agent.turn()?;
    }
    // The agents below end at the same time as this one.
    agent.below.iter_mut().for_each(Below::close);
    if let Some(mut ranks) = agent.ranks.take() {
        ranks.end_at_once();
        ranks.remove_directory();
    }
    agent.below.iter_mut().for_each(Below::end);
    // Otherwise the launcher finds this host lost, if it is still alive.
    if agent.is_finished {
        agent.channel.send(Report::Done);
    }
    agent.send_last();
    Ok(())
}

/// Ends all processes of a job on this host whose agent is dead: the kernel has killed its ranks, but not the processes
/// that they had started. Then its directory is stale.
pub fn end_job(job: &str, parent: &Path) {
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

/// Moves standard input and output to other descriptors, out of reach of ranks and log messages.
fn take_channel() -> io::Result<Channel> {
    let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let input = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(stdout, 3)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(Channel::new(input, output))
}

/// The reason why ranks cannot be started here.
struct Refusal {
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
    node: Option<Service>,
    /// The agents below this one, if it has some.
    below: Option<Below>,
    /// The port at which it will watch the parent's host, and the words for that host.
    to_watch: Option<(SocketAddr, String)>,
    /// Watches the parent's host.
    watch: Option<(Watch, String)>,
    /// It has the launcher's environment.
    has_environment: bool,
    over: bool,
    /// The launcher needs nothing more.
    is_finished: bool,
}

#[derive(Clone, Copy)]
enum Source {
    Signals,
    Input,
    Output,
    Parent,
    Below(below::Part),
    Ranks(ranks::Part),
}

impl Agent {
    fn turn(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        if ready.is_empty() && (self.ranks.is_some() || self.has_below()) {
            self.channel.send(Report::Alive);
        }
        for (source, flags) in ready {
            match source {
                Source::Signals => self.take_signals(),
                Source::Input => self.read(),
                Source::Output if flags.intersects(PollFlags::ERR) => self.over = true,
                Source::Output => self.channel.flush(),
                Source::Parent => self.check_parent(),
                Source::Below(part) => self.with_below(|below, events| below.serve(part, flags, events)),
                Source::Ranks(part) => self.with_ranks(|ranks, events| ranks.serve(part, flags, events)),
            }
        }
        self.over |= self.is_finished && !self.has_below();
        Ok(())
    }

    fn has_below(&self) -> bool {
        self.below.as_ref().is_some_and(Below::is_open)
    }

    fn wait(&self) -> io::Result<Vec<(Source, PollFlags)>> {
        let mut polled = PollSet::default();
        polled.add(Source::Signals, self.signals.fd(), PollFlags::IN);
        polled.add(Source::Input, self.channel.input(), PollFlags::IN);
        polled.add(Source::Output, self.channel.output(), self.channel.interest());
        if let Some((watch, _)) = &self.watch {
            polled.add(Source::Parent, watch.fd(), watch.interest());
        }
        let with_output = self.channel.waiting() < WAITING_BYTES_MAX;
        if let Some(below) = &self.below {
            below.poll_with(with_output, &mut |part, fd, flags| polled.add(Source::Below(part), fd, flags));
        }
        if let Some(ranks) = &self.ranks {
            ranks.poll_with(with_output, &mut |part, fd, flags| polled.add(Source::Ranks(part), fd, flags));
        }
        polled.wait(Some(Instant::now() + SILENCE))
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => {
                    self.with_ranks(Ranks::find_dead);
                    self.with_below(Below::child_ended);
                }
                // The launcher stops and continues ranks.
                libc::SIGTSTP | libc::SIGCONT => {}
                // Another process ends the agent.
                _ => self.over = true,
            }
        }
    }

    /// Ends the agent if the parent's host has vanished.
    fn check_parent(&mut self) {
        let Some((watch, host)) = &mut self.watch else { return };
        match watch.serve() {
            WatchEvent::Ended => self.watch = None,
            WatchEvent::Vanished => {
                say(&format!("{host} no longer answers"));
                self.over = true;
            }
            WatchEvent::Connected => {}
        }
    }

    fn read(&mut self) {
        let filled = self.channel.fill();
        let ended = loop {
            match self.channel.next() {
                Ok(Some(frame)) if frame.host == 0 => match frame.message() {
                    Ok(request) => self.serve(request),
                    Err(ended) => break Some(ended),
                },
                Ok(Some(frame)) => self.send_below(frame),
                Ok(None) => break filled.err(),
                Err(ended) => break Some(ended),
            }
        };
        if let Some(ended) = ended {
            if !matches!(ended, ChannelError::Closed) {
                say(&ended.to_string());
            }
            self.over = true;
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Subtree(order) => self.start_below(*order),
            Request::Watch { at, host } => {
                self.to_watch = Some((at, host));
                self.watch_parent();
            }
            Request::Start(start) => {
                let prepared = prepare(*start, &self.signals);
                self.has_environment = true;
                self.watch_parent();
                match prepared {
                    Ok((ranks, node)) => {
                        (self.ranks, self.node) = (Some(ranks), node);
                        self.channel.send(Report::Ready);
                    }
                    Err(Refusal { code, why }) => self.channel.send(Report::Refused { code, why }),
                }
            }
            Request::Go => self.with_ranks(|ranks, events| ranks.start(events)),
            Request::Order(order) => self.with_ranks(|ranks, events| ranks.execute(order, events)),
            Request::Finish => self.is_finished = true,
        }
    }

    /// Starts the agents of its children, with the environment and in the folder in which the launcher would start them.
    fn start_below(&mut self, order: Subtree) {
        take_environment(order.environment.clone());
        self.has_environment = true;
        self.watch_parent();
        // A missing folder is reported when the host is prepared.
        let _ = std::env::set_current_dir(&order.folder);
        let parts = parts(1..order.hosts.len() + 1, order.fanout);
        let mut below = match Below::new(order, 1, self.signals.mask_before()) {
            Ok(below) => below,
            Err(error) => {
                say(&format!("the hosts below this one cannot be started: {error}"));
                self.over = true;
                return;
            }
        };
        for part in parts {
            let host = part.start;
            if let Err(why) = below.start(part) {
                self.channel.forward(Frame::new(host, Report::Lost(why.to_string())));
            }
        }
        self.below = Some(below);
    }

    /// Begins to watch the parent's host, once its address and the limit of its silence are known.
    fn watch_parent(&mut self) {
        if let Some((at, host)) = self.to_watch.take_if(|_| self.has_environment) {
            match Watch::start(at, HostSettings::from_environment().timeout) {
                Ok(watch) => self.watch = Some((watch, host)),
                Err(error) => log::info!("{host} ({at}) cannot be watched: {error}"),
            }
        }
    }

    fn send_below(&mut self, frame: Frame) {
        if let Some(below) = &mut self.below {
            below.send(frame);
        }
    }

    /// Runs an action on the agents below, and forwards their messages.
    fn with_below(&mut self, act: impl FnOnce(&mut Below, &mut Vec<(usize, LinkEvent)>)) {
        let mut events = Vec::new();
        if let Some(below) = &mut self.below {
            act(below, &mut events);
        }
        for (host, event) in events {
            self.channel.forward(match event {
                LinkEvent::Frame(frame) => frame,
                LinkEvent::Hello(hello) => Frame::new(host, Report::Hello(hello)),
                LinkEvent::Lost(why) => Frame::new(host, Report::Lost(why)),
            });
        }
    }

    /// Runs an action on the ranks, and reports its events.
    fn with_ranks(&mut self, act: impl FnOnce(&mut Ranks, &mut Vec<Event>)) {
        let mut events = Vec::new();
        if let Some(ranks) = &mut self.ranks {
            act(ranks, &mut events);
        }
        for event in events {
            self.channel.send(Report::Event(event));
        }
    }

    /// Sends waiting messages, unless the launcher has gone or does not read.
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

/// Takes over environment and folder, finds the program, and makes the job's directory.
fn prepare(start: Start, signals: &Signals) -> Result<(Ranks, Option<Service>), Refusal> {
    let Start { options, job, ranks, environment, folder, place } = start;
    take_environment(environment);
    start_logging("warn");
    std::env::set_current_dir(&folder).map_err(|error| {
        let folder = folder.display();
        Refusal::new(format!(
            "cannot enter the folder {folder}: {error}; start the job in a folder that every host has"
        ))
    })?;
    let executable =
        options.executable().map_err(|error| Refusal { code: error.exit_code(), why: error.to_string() })?;
    let runner = Runner::find(&options).map_err(|error| Refusal { code: error.exit_code(), why: error.to_string() })?;
    if let Some(place) = &place {
        check_address(place.address)?;
    }
    let (parent, directory) =
        job_directory::make(&options, Some(job)).map_err(|error| Refusal::new(with_causes(&error)))?;
    own_directory(&directory)?;
    let node = place.as_ref().and_then(|place| {
        let at = place.manager.as_ref()?;
        Some(start_node(at, place.address, &place.secret))
    });
    let node = node.transpose().map_err(|error| Refusal::new(with_causes(&error)))?;
    let variables = place.map(|place| variables(place, ranks.len())).unwrap_or_default();
    let share = Share { ranks, variables, through_pipes: true };
    match SpawnPlan::new(&options, share, (executable, runner), &directory, &parent) {
        Ok(plan) => Ok((Ranks::new(directory, plan, signals.mask_before()), node)),
        Err(error) => {
            let _ = directory.remove();
            Err(Refusal::new(error.to_string()))
        }
    }
}

/// Checks that no other host of the job has the same directory.
fn own_directory(directory: &JobDirectory) -> Result<(), Refusal> {
    let path = directory.path();
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join("host")) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Refusal::new(format!(
            "{} is shared with another host; SELVEDGE_DIR must name a folder that each host has for itself",
            path.display()
        ))),
        Err(error) => Err(Refusal::new(format!("{} cannot hold files: {error}", path.display()))),
    }
}

/// Checks that this host has the address. Other hosts get the address, and ports are bound to it.
fn check_address(address: IpAddr) -> Result<(), Refusal> {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(format!(
            "{address}, at which other hosts must reach it, is not one of its addresses ({error}); name the host by one"
        ))),
    }
}

fn variables(place: HostPlace, ranks_here: usize) -> Vec<(&'static str, OsString)> {
    let manager = place.manager.map(|at| [("SELVEDGE_MANAGER", at), ("SELVEDGE_MANAGER_SECRET", place.secret.clone())]);
    let manager = manager.into_iter().flatten().map(|(name, value)| (name, value.into()));
    let own = [
        ("SELVEDGE_HOST", place.host.to_string().into()),
        ("SELVEDGE_HOSTS", place.hosts.to_string().into()),
        ("SELVEDGE_NET_ADDRESS", place.address.to_string().into()),
        ("SELVEDGE_SECRET", place.secret.into()),
        // MPICH's launcher sets it, too.
        ("MPI_LOCALNRANKS", ranks_here.to_string().into()),
    ];
    let of_links = of_links();
    own.into_iter().chain(manager).chain([(of_links.name, of_links.value)]).collect()
}
