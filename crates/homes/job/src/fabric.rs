// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process at the daemon of its fabric (`selvedge daemon`), if one runs here: it registers its NICs, and takes
//! leases of routes.
//!
//! The process registers, and not its launcher: the kernel closes the connection when the process ends, however it
//! ends; all launchers' jobs are seen; and a lease's withdrawal reaches the process itself.
//!
//! # Invariants
//!
//! 1. A process without a daemon pays two system calls when it opens a NIC, and nothing later. A daemon that is stuck
//!    costs no more than a wait of [`PATIENCE`], once.
//! 2. Nothing here fails a job: what goes wrong is logged for debugging.
//! 3. A forked child holds no connection of its parent: the daemon sees that the parent has ended.
//! 4. A thread exists once a lease was asked for. It ends with the daemon.
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use selvedge_os::forked::ParentOnly;
use selvedge_os::sync::IgnorePoison;
use serde_json::{Value, json};

/// Socket of root's daemon.
pub const SYSTEM_SOCKET: &str = "/run/selvedge-daemon.sock";
/// The longest name of a job at the daemon.
pub const JOB_BYTES_MAX: usize = 128;
/// Time for an answer of the daemon.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest line that a daemon sends to a process.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// The number of this process's last connection with a daemon.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
/// Counts the withdrawals of this process's leases.
static WITHDRAWALS: AtomicU64 = AtomicU64::new(0);
/// The connection, and the process that has made it.
static CONNECTION: Mutex<Option<(u32, Arc<Daemon>)>> = Mutex::new(None);

/// The socket of a daemon that this user runs; for root, [`SYSTEM_SOCKET`].
pub fn own_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    match runtime.filter(|_| !rustix::process::geteuid().is_root()) {
        Some(folder) => Path::new(&folder).join("selvedge-daemon.sock"),
        None => PathBuf::from(SYSTEM_SOCKET),
    }
}

/// A route that was handed to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// A daemon that starts anew begins its numbers anew as well.
    connection: u64,
    number: u64,
}

/// The number of withdrawals so far: a caller with leases looks at [`Daemon::take_withdrawn`] when it has grown.
#[inline(always)]
pub fn withdrawals() -> u64 {
    WITHDRAWALS.load(Ordering::Acquire)
}

/// Registers a NIC of this process with the daemon of this host, if there is one.
pub fn register(kind: &str, segment: &Path) {
    let Some(segment) = named(segment) else { return };
    let Some(daemon) = Daemon::current_or_new() else { return };
    let (job, rank) = job_and_rank();
    let request = register_request(kind, job.as_deref(), rank, segment);
    daemon.send(&mut daemon.state.lock().ignore_poison(), &request, Wanted::Nothing);
}

/// Ends the registration of a NIC.
pub fn unregister(segment: &Path) {
    if let (Some(segment), Some(daemon)) = (named(segment), Daemon::current()) {
        let request = json!({ "ask": "unregister", "segment": segment });
        daemon.send(&mut daemon.state.lock().ignore_poison(), &request, Wanted::Nothing);
    }
}

/// The segment's path as a request can hold it.
fn named(segment: &Path) -> Option<&str> {
    let name = segment.to_str();
    if name.is_none() {
        log::debug!("the daemon of the fabric does not see {}: its path is no UTF-8", segment.display());
    }
    name
}

/// The request that registers a NIC.
pub fn register_request(kind: &str, job: Option<&str>, rank: Option<u32>, segment: &str) -> Value {
    json!({
        "ask": "register", "kind": kind, "job": job, "rank": rank, "segment": segment, "process": std::process::id()
    })
}

/// Name of the job, and rank, as a launcher has put them into the environment.
fn job_and_rank() -> (Option<String>, Option<u32>) {
    let text = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
    let rank = text(&["SELVEDGE_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"]);
    let job = text(&["SELVEDGE_JOB", "PMIX_NAMESPACE", "SLURM_JOB_ID"]);
    (job.as_deref().map(shown_job), rank.and_then(|rank| rank.parse().ok()))
}

/// The name of a job as the daemon takes it: control characters become `?`, and a name of more than [`JOB_BYTES_MAX`] is
/// its first and last bytes with `...` between them, because launchers number jobs at either end.
fn shown_job(job: &str) -> String {
    let job: String = job.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if job.len() <= JOB_BYTES_MAX {
        return job;
    }
    let part = (JOB_BYTES_MAX - 3) / 2;
    let (mut head, mut tail) = (part, job.len() - part);
    while !job.is_char_boundary(head) {
        head -= 1;
    }
    while !job.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}...{}", &job[..head], &job[tail..])
}

/// The connection with the daemon.
#[derive(Debug)]
pub struct Daemon {
    stream: ParentOnly<UnixStream>,
    number: u64,
    state: Mutex<State>,
    /// Signalled at each change of the state.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Of each request without an answer yet, in order.
    wanted: VecDeque<Wanted>,
    /// Answers of requests for leases, by ticket.
    leased: BTreeMap<u64, Result<Lease, String>>,
    tickets: u64,
    /// Withdrawn leases that their holders have not taken.
    withdrawn: Vec<(Lease, Cause)>,
    has_thread: bool,
    /// The daemon has ended, or is stuck.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Lease { ticket: u64 },
}

/// Causes of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host is gone, or no path leads to it.
    Unreachable,
    /// The path has changed.
    Rerouted,
}

impl Daemon {
    fn new(stream: UnixStream) -> Daemon {
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Daemon { stream: ParentOnly::new(stream), number, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The connection of this process, if there is one.
    pub fn current() -> Option<Arc<Daemon>> {
        let connection = CONNECTION.lock().ignore_poison();
        let (process, daemon) = connection.as_ref()?;
        // A forked child has no stream.
        (*process == std::process::id() && !daemon.state.lock().ignore_poison().is_over).then(|| daemon.clone())
    }

    fn current_or_new() -> Option<Arc<Daemon>> {
        if let Some(daemon) = Daemon::current() {
            return Some(daemon);
        }
        let own = own_socket();
        let system = Some(Path::new(SYSTEM_SOCKET)).filter(|&system| system != own);
        let stream = std::iter::once(own.as_path()).chain(system).find_map(|path| {
            connect(path).inspect_err(|error| log::debug!("no daemon of a fabric: {}: {error}", path.display())).ok()
        })?;
        let daemon = Arc::new(Daemon::new(stream));
        *CONNECTION.lock().ignore_poison() = Some((std::process::id(), daemon.clone()));
        Some(daemon)
    }

    /// Sends a request without waiting. A daemon that does not take it is given up.
    fn send(&self, state: &mut MutexGuard<'_, State>, request: &Value, wanted: Wanted) {
        if !state.has_thread {
            self.pass_answers_by(state);
        }
        let line = format!("{request}\n");
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(&*self.stream, line.as_bytes(), flags) {
            Ok(bytes) if bytes == line.len() => state.wanted.push_back(wanted),
            sent => {
                log::debug!("the daemon of the fabric takes no requests: {sent:?}");
                state.is_over = true;
            }
        }
    }

    /// Takes the answers that have arrived and that no call waits for: the daemon reads no process that leaves them.
    fn pass_answers_by(&self, state: &mut State) {
        let mut buffer = [0; 4096];
        let mut take = |bytes: usize, flags: RecvFlags| {
            let read = rustix::net::recv(&*self.stream, &mut buffer[..bytes], flags | RecvFlags::DONTWAIT);
            let read = &buffer[..read.map_or(0, |(_, bytes)| bytes.min(4096))];
            let lines = read.iter().filter(|&&byte| byte == b'\n').count();
            (lines, read.iter().rposition(|&byte| byte == b'\n'))
        };
        // The rest of a line stays for the next call, or for the thread.
        while let (lines, Some(end)) = take(4096, RecvFlags::PEEK) {
            take(end + 1, RecvFlags::empty());
            state.wanted.drain(..lines.min(state.wanted.len()));
        }
    }

    /// Takes a lease of the route to a host, by its address in the fabric. `Err`: the daemon's reason.
    pub fn lease(self: &Arc<Daemon>, to: IpAddr) -> Result<Lease, String> {
        let mut state = self.state.lock().ignore_poison();
        if !state.has_thread {
            let daemon = self.clone();
            selvedge_os::thread::spawn("selvedge-leases", move || daemon.read()).map_err(|error| error.to_string())?;
            state.has_thread = true;
        }
        state.tickets += 1;
        let ticket = state.tickets;
        self.send(&mut state, &json!({ "ask": "lease", "to": to }), Wanted::Lease { ticket });
        let waits = |state: &mut State| !state.is_over && !state.leased.contains_key(&ticket);
        let (mut state, _) = self.changed.wait_timeout_while(state, PATIENCE, waits).ignore_poison();
        state.leased.remove(&ticket).unwrap_or_else(|| {
            state.is_over = true;
            Err("the daemon gives no answer".into())
        })
    }

    /// Returns a lease. One of an earlier connection has ended with it.
    pub fn release(&self, lease: Lease) {
        let mut state = self.state.lock().ignore_poison();
        state.withdrawn.retain(|(withdrawn, _)| *withdrawn != lease);
        if !state.is_over && lease.connection == self.number {
            self.send(&mut state, &json!({ "ask": "release", "lease": lease.number }), Wanted::Nothing);
        }
    }

    /// Takes those of these leases that were withdrawn.
    pub fn take_withdrawn(&self, is_mine: impl Fn(Lease) -> bool) -> Vec<(Lease, Cause)> {
        let mut state = self.state.lock().ignore_poison();
        let (mine, others) = state.withdrawn.drain(..).partition(|(lease, _)| is_mine(*lease));
        state.withdrawn = others;
        mine
    }

    /// Reads what the daemon says, until it ends.
    fn read(&self) {
        let mut reader = BufReader::new(&*self.stream);
        loop {
            let mut line = String::new();
            let read = reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let said = read.is_ok_and(|bytes| bytes > 0).then(|| serde_json::from_str::<Value>(&line).ok()).flatten();
            let mut state = self.state.lock().ignore_poison();
            match said {
                Some(said) => hear(self.number, &mut state, &said),
                None => state.is_over = true,
            }
            self.changed.notify_all();
            if state.is_over {
                return;
            }
        }
    }
}

/// Takes a line of the daemon of a connection.
fn hear(connection: u64, state: &mut State, said: &Value) {
    if let Some(withdrawn) = said.get("withdrawn") {
        let Some(lease) = withdrawn.get("lease").and_then(Value::as_u64) else { return };
        let is_unreachable = withdrawn.get("cause").and_then(Value::as_str) == Some("unreachable");
        let lease = Lease { connection, number: lease };
        state.withdrawn.push((lease, if is_unreachable { Cause::Unreachable } else { Cause::Rerouted }));
        WITHDRAWALS.fetch_add(1, Ordering::Release);
        return;
    }
    if let Some(Wanted::Lease { ticket }) = state.wanted.pop_front() {
        let lease = said.get("lease").and_then(|lease| lease.get("id")).and_then(Value::as_u64);
        let reason = || said.get("refused").and_then(Value::as_str).unwrap_or("no answer of this release").to_owned();
        state.leased.insert(ticket, lease.map(|number| Lease { connection, number }).ok_or_else(reason));
    }
}

/// Connects without waiting.
fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_os::testing::Child;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    /// A process's end, and the daemon's.
    fn pair() -> (Arc<Daemon>, BufReader<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (Arc::new(Daemon::new(ours)), BufReader::new(theirs))
    }

    fn request(daemon: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        daemon.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn say(daemon: &mut BufReader<UnixStream>, line: &str) {
        daemon.get_mut().write_all(format!("{line}\n").as_bytes()).expect("written");
    }

    const TO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    #[test]
    fn leases_are_taken_withdrawn_and_released() {
        let (process, mut daemon) = pair();
        let nic = register_request("extoll", Some("job"), Some(3), "/a");
        process.send(&mut process.state.lock().unwrap(), &nic, Wanted::Nothing);
        let answers = std::thread::spawn(move || {
            assert_eq!(request(&mut daemon)["ask"], "register");
            assert_eq!(request(&mut daemon), json!({ "ask": "lease", "to": "10.1.2.3" }));
            say(&mut daemon, r#"{"registered":{"nic":1}}"#);
            say(&mut daemon, r#"{"lease":{"id":7}}"#);
            request(&mut daemon);
            say(&mut daemon, r#"{"refused":"it is gone"}"#);
            daemon
        });
        let before = withdrawals();
        let lease = process.lease(TO).expect("a lease");
        assert_eq!(process.lease(TO), Err("it is gone".into()));
        let mut daemon = answers.join().unwrap();
        say(&mut daemon, r#"{"withdrawn":{"lease":7,"cause":"rerouted"}}"#);
        say(&mut daemon, r#"{"withdrawn":{"lease":8,"cause":"unreachable"}}"#);
        while withdrawals() < before + 2 {
            std::thread::yield_now();
        }
        assert_eq!(process.take_withdrawn(|mine| mine == lease), [(lease, Cause::Rerouted)]);
        assert_eq!(process.take_withdrawn(|_| true), [(Lease { number: 8, ..lease }, Cause::Unreachable)]);
        process.release(lease);
        assert_eq!(request(&mut daemon), json!({ "ask": "release", "lease": 7 }));
    }

    #[test]
    fn answers_that_nobody_waits_for_are_taken() {
        let (process, mut daemon) = pair();
        let mut state = process.state.lock().unwrap();
        for _ in 0..3 {
            process.send(&mut state, &json!({}), Wanted::Nothing);
        }
        say(&mut daemon, "{}");
        daemon.get_mut().write_all(b"{}\n{").expect("written");
        process.pass_answers_by(&mut state);
        assert_eq!(state.wanted.len(), 1);
        say(&mut daemon, "}");
        process.send(&mut state, &json!({}), Wanted::Nothing);
        assert_eq!((state.wanted.len(), state.is_over), (1, false));
    }

    #[test]
    fn a_lease_ends_with_its_connection() {
        let ((_, _), (process, mut daemon)) = (pair(), pair());
        let (old, own) = (Lease { connection: process.number - 1, number: 1 }, process.number);
        hear(own, &mut process.state.lock().unwrap(), &json!({ "withdrawn": { "lease": 1, "cause": "rerouted" } }));
        assert!(process.take_withdrawn(|lease| lease == old).is_empty());
        process.release(old);
        let new = Lease { connection: own, number: 1 };
        assert_eq!(process.take_withdrawn(|lease| lease == new), [(new, Cause::Rerouted)]);
        process.release(Lease { number: 2, ..new });
        assert_eq!(request(&mut daemon), json!({ "ask": "release", "lease": 2 }));
    }

    #[test]
    fn a_forked_child_does_not_keep_the_connection() {
        let (process, mut daemon) = pair();
        let child = Child::fork(|| {
            // It lives until it is killed.
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        daemon.get_mut().set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        drop(process);
        assert_eq!(daemon.read_line(&mut String::new()).expect("an end"), 0);
        child.kill();
    }

    #[test]
    fn long_names_of_jobs_keep_their_ends() {
        let most = "x".repeat(JOB_BYTES_MAX);
        assert_eq!((shown_job(&most), shown_job("a\nb")), (most.clone(), "a?b".into()));
        let long = shown_job(&format!("first{most}last"));
        assert!(long.starts_with("firstxxx") && long.contains("x...x") && long.ends_with("xxxlast"), "{long}");
        assert!((JOB_BYTES_MAX - 1..=JOB_BYTES_MAX).contains(&long.len()), "{}", long.len());
        // Characters are not cut.
        for at in 0..4 {
            let long = shown_job(&format!("{}{}", "x".repeat(at), "\u{1f980}".repeat(60)));
            assert!(long.len() <= JOB_BYTES_MAX && long.ends_with('\u{1f980}'), "{long}");
        }
    }

    #[test]
    fn a_segment_whose_path_is_no_text_is_left_out() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
        assert_eq!((named(path), named(Path::new("/a"))), (None, Some("/a")));
        register("extoll", path);
        unregister(path);
    }

    #[test]
    fn a_daemon_that_ends_ends_no_process() {
        let (process, daemon) = pair();
        drop(daemon);
        assert!(process.lease(TO).is_err());
        process.release(Lease { connection: process.number, number: 1 });
        assert!(process.take_withdrawn(|_| true).is_empty());
    }

    #[test]
    fn hostile_lines_are_ignored() {
        let mut state = State::default();
        for line in [r#"{"withdrawn":{}}"#, r#"{"withdrawn":{"lease":-1}}"#, "[]", "7", r#"{"lease":{"id":7}}"#] {
            hear(1, &mut state, &serde_json::from_str(line).unwrap());
        }
        assert!(state.withdrawn.is_empty() && state.leased.is_empty());
        state.wanted.push_back(Wanted::Lease { ticket: 1 });
        hear(1, &mut state, &json!({ "lease": { "id": "x" } }));
        assert!(state.leased[&1].is_err());
    }
}
