// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bootstrap of a group: each rank listens at a socket and knows the handles of all; all connect to rank 0.
//!
//! ```text
//! rank 1 ── hello, words ──> ┌────────┐
//! rank 2 ── hello, words ──> │ rank 0 │ ── the words of all ──> ranks 1, 2, n
//! rank n ── hello, words ──> └────────┘
//! ```
//!
//! Invariants
//! 1. If ranks are on several hosts or in several network namespaces, all see that in the handles, and none connects.
//! 2. A rank that fails closes its connection, which the others notice. Rank 0 checks unconnected processes.
//! 3. A process without rank 0's secret, or of another user, is rejected.

use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, getuid, test_kill_process};
use selvedge_collectives::one_host::Bootstrap;
use selvedge_job::own_place;

use crate::interface::HANDLE_BYTES;

/// "selvedge", and the version of the protocol.
const MAGIC: u64 = u64::from_le_bytes(*b"selvedge");
const VERSION: u64 = 1;
/// Limit of the time between a process's connection and its greeting.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Interval of rank 0's checks whether the others live.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The address at which a rank listens, as the others get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    place: u64,
    network: u64,
    pid: u64,
    number: u64,
    secret: u64,
}

impl Handle {
    const WORDS: usize = 7;

    /// Writes it to a caller's memory of [`HANDLE_BYTES`].
    pub fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let words = [MAGIC, VERSION, self.place, self.network, self.pid, self.number, self.secret];
        let mut bytes = [0; HANDLE_BYTES];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// Decodes a handle. `None`: it is not one of this library.
    pub fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Option<Handle> {
        let words = words_of(bytes);
        let [MAGIC, VERSION, place, network, pid, number, secret] = *words.first_chunk::<{ Handle::WORDS }>()? else {
            return None;
        };
        Some(Handle { place, network, pid, number, secret })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!("selvedge-nccl-{}-{}", self.pid, self.number))
    }
}

/// The object that `listen` returns.
pub struct Listening {
    pub handle: Handle,
    socket: UnixListener,
}

impl Listening {
    pub fn new() -> io::Result<Listening> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut secret = [0; 8];
        fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let handle = Handle {
            place: own_place(),
            network: std::os::linux::fs::MetadataExt::st_ino(&fs::metadata("/proc/self/ns/net")?),
            pid: process::id().into(),
            number: NEXT.fetch_add(1, Relaxed),
            secret: u64::from_le_bytes(secret),
        };
        let socket = UnixListener::bind_addr(&handle.address()?)?;
        socket.set_nonblocking(true)?;
        Ok(Listening { handle, socket })
    }
}

/// The connections of a rank: rank 0's to all others, the others' to rank 0.
pub struct SocketBootstrap {
    /// Connections to ranks 1 to n, or the one to rank 0.
    streams: Vec<UnixStream>,
    rank: usize,
    size: usize,
}

impl SocketBootstrap {
    /// Collective. The error is the reason why there is no bootstrap. `handles` are of all ranks.
    pub fn new(listening: &Listening, handles: &[Handle], rank: usize) -> Result<SocketBootstrap, String> {
        let first = handles[0];
        if handles[rank] != listening.handle {
            return Err("this rank's handle is not that of its listening object".into());
        }
        if handles.iter().any(|handle| handle.place != first.place) {
            return Err("its ranks are on several hosts".into());
        }
        if handles.iter().any(|handle| handle.network != first.network) {
            return Err("its ranks are in several network namespaces".into());
        }
        let streams = match rank {
            0 => gather_ranks(listening, handles),
            _ => go_to_first(&first, rank, handles.len()).map(|stream| vec![stream]),
        };
        Ok(SocketBootstrap {
            streams: streams.map_err(|error| format!("rank {rank}: {error}"))?,
            rank,
            size: handles.len(),
        })
    }
}

fn hello(first: &Handle, rank: usize, size: usize) -> [u64; 3] {
    [first.secret, rank as u64, size as u64]
}

fn go_to_first(first: &Handle, rank: usize, size: usize) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect_addr(&first.address()?)?;
    stream.write_all(&bytes_of(&hello(first, rank, size)))?;
    Ok(stream)
}

/// Waits, at rank 0, until all ranks have connected.
fn gather_ranks(listening: &Listening, handles: &[Handle]) -> io::Result<Vec<UnixStream>> {
    let size = handles.len();
    let mut streams: Vec<Option<UnixStream>> = (1..size).map(|_| None).collect();
    while let Some(missing) = streams.iter().position(Option::is_none) {
        match listening.socket.accept() {
            Ok((stream, _)) => {
                if let Some((rank, stream)) = accept_rank(stream, &listening.handle, size) {
                    streams[rank - 1] = Some(stream);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if streams.iter().zip(&handles[1..]).any(|(stream, handle)| stream.is_none() && !lives(handle)) {
                    return Err(io::Error::other("a rank has died"));
                }
                // A rank that has connected and then failed has closed its connection.
                if streams.iter().flatten().any(is_closed) {
                    return Err(io::Error::other(format!("a rank has ended before rank {} connected", missing + 1)));
                }
                let wait = Timespec::try_from(LOOK_EVERY).ok();
                let _ = poll(&mut [PollFd::new(&listening.socket, PollFlags::IN)], wait.as_ref());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

/// Accepts a connection, if it is from a rank of this communicator.
fn accept_rank(mut stream: UnixStream, own: &Handle, size: usize) -> Option<(usize, UnixStream)> {
    if socket_peercred(&stream).ok()?.uid != getuid() {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(HELLO_WITHIN)).ok()?;
    let mut bytes = [0; 24];
    stream.read_exact(&mut bytes).ok()?;
    stream.set_read_timeout(None).ok()?;
    let words = words_of(&bytes);
    let rank = usize::try_from(words[1]).ok().filter(|rank| (1..size).contains(rank))?;
    (words == hello(own, rank, size)).then_some((rank, stream))
}

fn lives(handle: &Handle) -> bool {
    let pid = i32::try_from(handle.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn is_closed(stream: &UnixStream) -> bool {
    let mut of = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec::default();
    poll(&mut of, Some(&now)).is_ok_and(|_| of[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP))
}

impl Bootstrap for SocketBootstrap {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        let said = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "a rank has left".to_owned(),
            _ => format!("rank {}: {error}", self.rank),
        };
        let each = size_of_val(own);
        if self.rank == 0 {
            let mut all = bytes_of(own);
            all.resize(each * (self.streams.len() + 1), 0);
            for (stream, place) in self.streams.iter_mut().zip(all[each..].chunks_exact_mut(each)) {
                stream.read_exact(place).map_err(said)?;
            }
            self.streams.iter_mut().try_for_each(|stream| stream.write_all(&all)).map_err(said)?;
            return Ok(words_of(&all));
        }
        let stream = self.streams.first_mut().ok_or("there is no connection to rank 0")?;
        stream.write_all(&bytes_of(own)).map_err(said)?;
        let mut all = vec![0; each * self.size];
        stream.read_exact(&mut all).map_err(said)?;
        Ok(words_of(&all))
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_goes_through_memory_of_the_caller() {
        let made = Listening::new().expect("a socket can be made");
        let bytes = made.handle.to_bytes();
        assert_eq!(Handle::from_bytes(&bytes), Some(made.handle));
        for changed in 0..16 {
            let mut wrong = bytes;
            wrong[changed] ^= 1;
            assert_eq!(Handle::from_bytes(&wrong), None, "the magic number and the version count");
        }
    }

    #[test]
    fn handles_of_other_places_are_refused_before_anybody_waits() {
        let made = Listening::new().expect("a socket can be made");
        let elsewhere = Handle { place: made.handle.place ^ 1, ..made.handle };
        let fenced = Handle { network: made.handle.network ^ 1, ..made.handle };
        for other in [elsewhere, fenced] {
            assert!(SocketBootstrap::new(&made, &[made.handle, other], 0).is_err());
        }
        assert!(SocketBootstrap::new(&made, &[made.handle, elsewhere], 1).is_err(), "the handle is not its own");
    }

    #[test]
    fn strangers_are_sent_away_and_the_dead_are_missed() {
        let made = Listening::new().expect("a socket can be made");
        let mut stranger = UnixStream::connect_addr(&made.handle.address().expect("a name")).expect("connects");
        let wrong = Handle { secret: !made.handle.secret, ..made.handle };
        stranger.write_all(&bytes_of(&hello(&wrong, 1, 2))).expect("is sent");
        let dead = Handle { pid: i32::MAX as u64, ..made.handle };
        assert!(SocketBootstrap::new(&made, &[made.handle, dead], 0).is_err());
        assert_eq!(stranger.read(&mut [0]).ok(), Some(0), "its connection is closed");
    }
}
