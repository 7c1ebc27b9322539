// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the links of registered processes, read from the pages that the processes write
//! ([`selvedge_host::links`]). They are read when a client or a host asks.
//!
//! # Invariants
//!
//! 1. The daemon's loop opens no page: a path may lead to a file system that gives no answer. A thread for each user
//!    reads, for as long as a look lasts, and a look lasts at most [`LATE_NS`]. A thread that is stuck then keeps away
//!    the counters of its own user alone. There are at most [`USERS_MAX`] threads.
//! 2. A look begins at most each [`AGAIN_NS`], however many ask. It reads at most [`BYTES_OF_USER_MAX`] for a user, and
//!    keeps at most [`LINKS_OF_USER_MAX`] links of one, beside the sums.
//! 3. Who waits is answered when it is its turn, one after the other: an answer may have thousands of links.
//! 4. A page is believed as far as [`selvedge_host::links::read`] does: numbers are only shown, and texts are printable.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use selvedge_host::links::read::{LinkCounter, LinkCounters, PageError, ProcessLinks, inspect_page_within};
use selvedge_host::links::{LinkState, Way};
use selvedge_host::snapshot::printable;
use selvedge_os::mapping::MapError;

use crate::protocol::{LinkView, LinksView, WayTotal};

const MS: u64 = 1_000_000;
/// Time for which a look's counters are new enough.
const AGAIN_NS: u64 = 500 * MS;
/// Time after which those who ask get what has been read.
const LATE_NS: u64 = 1000 * MS;
/// Time for which counters are kept in memory.
const KEEP_NS: u64 = 10_000 * MS;
const BYTES_OF_USER_MAX: u64 = 32 << 20;
const LINKS_OF_USER_MAX: usize = 2048;

/// The page of a registered process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOf {
    pub client: u64,
    pub user: u32,
    pub process: u32,
    pub path: PathBuf,
}

/// The counters of a process, as a thread has read them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    address: String,
    totals: Vec<WayTotal>,
    links: Vec<LinkCounters>,
    left_out: u64,
}

/// The counters of a process, or the reason for which they are not seen.
type Seen = Result<Sample, String>;

enum Said {
    /// Of a client.
    Page(u64, Seen),
    /// A user's pages are read.
    Over(u32),
}

struct Look<A> {
    began_ns: u64,
    /// Users whose pages it waits for.
    users: BTreeSet<u32>,
    /// Those who wait for it.
    askers: Vec<A>,
}

/// The counters of all processes; `A` are those who ask for them.
pub struct Counters<A> {
    /// Readable when threads have said something.
    signal: UnixStream,
    wake: Arc<UnixStream>,
    sender: Sender<Said>,
    said: Receiver<Said>,
    /// Users whose pages a thread reads.
    under_way: BTreeSet<u32>,
    look: Option<Look<A>>,
    /// Those whose look is over.
    ready: VecDeque<A>,
    /// The beginning of the last look.
    looked_ns: Option<u64>,
    seen: BTreeMap<u64, Seen>,
}

impl<A: PartialEq> Counters<A> {
    pub fn new() -> io::Result<Counters<A>> {
        let (signal, wake) = UnixStream::pair()?;
        signal.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let (sender, said) = channel();
        let (under_way, look, ready) = (BTreeSet::new(), None, VecDeque::new());
        let (looked_ns, seen) = (None, BTreeMap::new());
        Ok(Counters { signal, wake: Arc::new(wake), sender, said, under_way, look, ready, looked_ns, seen })
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Makes [`Counters::descriptor`] readable until the next [`Counters::tick`], by a byte that is written.
    pub fn waker(&self) -> Arc<UnixStream> {
        self.wake.clone()
    }

    /// The time of the next [`Counters::tick`].
    pub fn due_ns(&self) -> u64 {
        if !self.ready.is_empty() {
            return 0;
        }
        self.look.as_ref().map_or(u64::MAX, |look| if look.users.is_empty() { 0 } else { look.began_ns + LATE_NS })
    }

    /// Whether this one waits.
    pub fn has(&self, asker: &A) -> bool {
        self.ready.contains(asker) || self.look.as_ref().is_some_and(|look| look.askers.contains(asker))
    }

    /// Takes one that asks: returns it if there are counters for it already, and otherwise keeps it until
    /// [`Counters::take_ready`] returns it. `pages`: those of all processes now.
    pub fn ask(&mut self, now_ns: u64, asker: A, pages: impl FnOnce() -> Vec<PageOf>) -> Option<A> {
        if let Some(look) = &mut self.look {
            look.askers.push(asker);
            return None;
        }
        if self.looked_ns.is_some_and(|looked_ns| now_ns < looked_ns + AGAIN_NS) {
            return Some(asker);
        }
        let users = self.begin(pages());
        self.looked_ns = Some(now_ns);
        self.look = Some(Look { began_ns: now_ns, users, askers: vec![asker] });
        None
    }

    /// Begins to read pages. Returns the users whose pages are read.
    fn begin(&mut self, pages: Vec<PageOf>) -> BTreeSet<u32> {
        self.seen.clear();
        let mut users = BTreeSet::new();
        let mut of_users: BTreeMap<u32, Vec<PageOf>> = BTreeMap::new();
        pages.into_iter().for_each(|page| of_users.entry(page.user).or_default().push(page));
        for (user, pages) in of_users {
            let clients: Vec<u64> = pages.iter().map(|page| page.client).collect();
            match self.read_of(user, pages) {
                Ok(()) => _ = users.insert(user),
                Err(reason) => self.seen.extend(clients.into_iter().map(|client| (client, Err(reason.clone())))),
            }
        }
        users
    }

    /// Lets a thread read the pages of a user.
    fn read_of(&mut self, user: u32, pages: Vec<PageOf>) -> Result<(), String> {
        if self.under_way.contains(&user) {
            return Err(format!("a file system of user {user} gives no answer: see {}", pages[0].path.display()));
        }
        if self.under_way.len() >= USERS_MAX {
            return Err(format!("the counters of {USERS_MAX} users are being read; ask again"));
        }
        let sender = self.sender.clone();
        let reader = read_beside("link counters", self.wake.clone(), move || {
            read_pages(&pages, |client, seen| {
                let _ = sender.send(Said::Page(client, seen));
            });
            let _ = sender.send(Said::Over(user));
        });
        reader.map_err(|error| format!("no thread for the counters: {error}"))?;
        self.under_way.insert(user);
        Ok(())
    }

    /// Returns the next one whose look is over.
    pub fn take_ready(&mut self) -> Option<A> {
        self.ready.pop_front()
    }

    /// Takes what threads have said, and ends a look that is over or late.
    pub fn tick(&mut self, now_ns: u64) {
        // A thread's last word may have come before its wake, which then is drained here the next time.
        let mut buffer = [0; 64];
        while (&self.signal).read(&mut buffer).is_ok_and(|bytes| bytes == buffer.len()) {}
        for said in self.said.try_iter() {
            match said {
                Said::Page(client, seen) => _ = self.seen.insert(client, seen),
                Said::Over(user) => {
                    self.under_way.remove(&user);
                    self.look.iter_mut().for_each(|look| _ = look.users.remove(&user));
                }
            }
        }
        if self.look.is_none() && self.looked_ns.is_some_and(|looked_ns| looked_ns + KEEP_NS < now_ns) {
            (self.looked_ns, self.seen) = (None, BTreeMap::new());
        }
        let is_over = |look: &mut Look<A>| look.users.is_empty() || look.began_ns + LATE_NS <= now_ns;
        self.ready.extend(self.look.take_if(is_over).into_iter().flat_map(|look| look.askers));
    }

    /// The counters of a client. `links_max`: of links, and is reduced by those that are returned. `is_open`: whether a
    /// process of this host has the NIC of this number and interface.
    pub fn view(&self, client: u64, links_max: &mut usize, is_open: impl Fn(u32, u32) -> bool) -> LinksView {
        let sample = match self.seen.get(&client) {
            Some(Ok(sample)) => sample,
            Some(Err(reason)) => return LinksView::unseen(reason),
            None => return LinksView::unseen("they were not read in time: ask again"),
        };
        let listed = sample.links.len().min(*links_max);
        *links_max -= listed;
        LinksView {
            address: sample.address.clone(),
            totals: sample.totals.clone(),
            links: sample.links[..listed].iter().map(|link| view_of(link, &is_open)).collect(),
            left_out: sample.left_out + (sample.links.len() - listed) as u64,
            unseen: None,
        }
    }
}

/// The most threads that read one kind of users' files: one for each user.
pub const USERS_MAX: usize = 16;

/// Starts a thread that reads files of a user, whose file system may give no answer. It wakes the loop at its end, by a
/// byte.
pub fn read_beside(name: &str, wake: Arc<UnixStream>, read: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let reader = std::thread::Builder::new().name(name.into()).spawn(move || {
        // The usual priority, below that of the loop.
        let _ = rustix::process::setpriority_process(None, 0);
        read();
        // A full pipe has woken the loop already.
        let _ = (&*wake).write(&[0]);
    });
    reader.map(drop)
}

/// Reads the pages of one user.
fn read_pages(pages: &[PageOf], each: impl Fn(u64, Seen)) {
    let (mut bytes, mut links) = (BYTES_OF_USER_MAX, LINKS_OF_USER_MAX);
    for page in pages {
        let read = inspect_page_within(&page.path, page.user, &mut bytes);
        let seen = match read {
            Ok(seen) if seen.owner.pid == page.process => Ok(sample_of(seen, &mut links)),
            Ok(seen) => Err(format!("its page names process {}", seen.owner.pid)),
            Err(error) => Err(refusal(page, &error)),
        };
        each(page.client, seen);
    }
}

fn refusal(page: &PageOf, error: &PageError) -> String {
    let denied = || {
        let user = rustix::process::geteuid().as_raw();
        format!(
            "the daemon runs as user {user} and may not read files of user {}: start it as root, or with \
             CAP_DAC_READ_SEARCH",
            page.user
        )
    };
    match error {
        PageError::File(MapError::Io { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => denied(),
        PageError::File(MapError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            format!("no file {}: the process is closing, or sees other folders than the daemon", page.path.display())
        }
        PageError::Budget { .. } => {
            format!("the pages of user {} have more than {} MB", page.user, BYTES_OF_USER_MAX >> 20)
        }
        error => error.to_string(),
    }
}

/// Adds the links up, and keeps those on which something has happened.
fn sample_of(mut seen: ProcessLinks, links_max: &mut usize) -> Sample {
    let is_shown = |link: &LinkCounters| link.is_used() || link.way == Some(Way::Network);
    seen.links.retain(is_shown);
    let mut totals: BTreeMap<Way, WayTotal> = BTreeMap::new();
    for link in &seen.links {
        let Some(way) = link.way else { continue };
        let total = totals.entry(way).or_insert_with(|| WayTotal { way: way.name().into(), ..WayTotal::default() });
        total.links += 1;
        total.operations = total.operations.wrapping_add(link.operations());
        if way == Way::Network {
            *total.states.entry(link.state.map_or("corrupt", LinkState::name).into()).or_default() += 1;
        }
        for &counter in LinkCounter::ALL {
            let (sum, value) = (total.counters.entry(counter.name().into()).or_default(), link.get(counter));
            *sum = if counter == LinkCounter::RoundTrip { value.max(*sum) } else { sum.wrapping_add(value) };
        }
    }
    let kept = seen.links.len().min(*links_max);
    *links_max -= kept;
    let left_out = (seen.links.len() - kept) as u64;
    seen.links.truncate(kept);
    seen.links.shrink_to_fit();
    Sample { address: printable(&seen.address), totals: totals.into_values().collect(), links: seen.links, left_out }
}

fn view_of(link: &LinkCounters, is_open: impl Fn(u32, u32) -> bool) -> LinkView {
    let peer_pid = link.peer as u32;
    let state = match link.way {
        Some(Way::Memory) if link.ni.is_some_and(|ni| is_open(peer_pid, ni)) => LinkState::Open.name(),
        Some(Way::Memory) => LinkState::Closed.name(),
        _ => link.state.map_or("corrupt", LinkState::name),
    };
    LinkView {
        way: link.way.map_or("corrupt", Way::name).into(),
        ni: link.ni,
        peer_rank: link.peer_rank,
        peer_nid: (link.peer >> 32) as u32,
        peer_pid,
        address: printable(&link.address),
        state: state.into(),
        why: printable(&link.why),
        operations: link.operations(),
        counters: LinkCounter::ALL.iter().map(|&counter| (counter.name().into(), link.get(counter))).collect(),
    }
}

#[cfg(test)]
#[path = "counters/tests.rs"]
mod tests;
