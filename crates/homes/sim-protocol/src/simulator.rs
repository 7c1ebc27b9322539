// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator's end of the protocol.
//!
//! Hand the turn to the rank with [`SimEnd::give`], then poll [`SimEnd::has_request`] until the rank has handed it
//! back. To sleep meanwhile, call [`SimEnd::begin_sleep`] and poll the descriptor [`SimEnd::wake_pipe`] together with
//! the rank's other descriptors, since the rank may also die or write to its launcher connection.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::page::{
    COMMAND_BYTES, Costs, MAGIC, NEVER, NIC_PATH_BYTES, NICS, NicSlot, PAYLOAD_AT, PAYLOAD_BYTES_MAX, PAYLOAD_INLINE,
    Page, Published, REFUSED, REGION_NAME_BYTES, VERSION, kind, turn, wake_pipe_path,
};
use crate::system::{Shared, errno, wake};

/// Failure to make a page.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {path}: {error}")]
pub struct CreateError {
    path: String,
    error: std::io::Error,
}

/// A rank's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Start an operation of NIC `ni`, whose id is `origin` (nid << 32 | pid). The command has its layout in the NIC's
    /// memory. If it `waits`, the rank continues when one of its NICs has changed after the start, otherwise when its
    /// host has started it. With `or_refuse` the simulator reports a refusal by the NIC ([`SimEnd::refuse`]).
    Start { ni: u32, origin: u64, command: Box<[u8; COMMAND_BYTES]>, payload: Vec<u8>, waits: bool, or_refuse: bool },
    /// Make a message visible in a ring of the NIC `target`, after its payload has been copied.
    Publish { ni: u32, target: u64, message: Published },
    /// Reply whether the rank and the NIC `target` share memory ([`SimEnd::reply`]).
    SharesMemory { ni: u32, target: u64 },
    /// Begin or end a region with this name. The rank continues at once.
    Region { name: String, begins: bool },
    /// Wait until a NIC of the rank changes, or until a time.
    Wait { until_ps: u64 },
    /// A poll has found nothing: continue after a pause, or at a time. `in_call`: the rank is in a call that returns only
    /// when its NICs have changed.
    Poll { until_ps: u64, in_call: bool },
    /// Wait until a time, with no earlier end.
    Sleep { until_ps: u64 },
}

/// A request that the simulator cannot carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("a request of unknown kind {0}")]
    Kind(u32),
    #[error("a payload of {bytes} bytes, longer than the limit of {max}", max = PAYLOAD_BYTES_MAX)]
    Payload { bytes: u64 },
    #[error("a payload of {bytes} bytes, longer than the page's file")]
    Short { bytes: u64 },
    #[error("a clock that goes back or is out of range ({now_ps} ps)")]
    Clock { now_ps: u64 },
}

/// A NIC that a rank has announced as open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    pub ni: u32,
    /// nid << 32 | pid.
    pub id: u64,
    pub path: PathBuf,
}

/// The simulator's end of a rank's page. Dropping it removes its files.
#[derive(Debug)]
pub struct SimEnd {
    shared: Shared,
    path: PathBuf,
    wake_pipe: OwnedFd,
    wake_pipe_path: PathBuf,
    /// Time at which the rank was last given the turn.
    given_ps: u64,
}

/// Latest valid time: half of the range, so that sums of two times do not overflow.
const TIME_PS_MAX: u64 = u64::MAX / 2;

impl SimEnd {
    /// Makes a rank's page. The rank has the turn, at time 0.
    pub fn create(path: &Path, costs: &Costs) -> Result<SimEnd, CreateError> {
        let failed = |error: i32| CreateError {
            path: path.display().to_string(),
            error: std::io::Error::from_raw_os_error(error),
        };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed(libc::EINVAL))?;
        let wake_pipe_name = wake_pipe_path(&name);
        let size = PAYLOAD_AT + PAYLOAD_INLINE;
        let shared = Shared::open(&name, Some(size), size as usize).map_err(failed)?;
        // SAFETY: `wake_pipe_name` is a C string that lives across both calls. `open` returns a new descriptor, which nothing else
        // owns.
        let wake_pipe = unsafe {
            if libc::mkfifo(wake_pipe_name.as_ptr(), 0o600) != 0 {
                return Err(failed(errno()));
            }
            let fd = libc::open(wake_pipe_name.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(failed(errno()));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let wake_pipe_path = PathBuf::from(OsString::from_vec(wake_pipe_name.into_bytes()));
        let end = SimEnd { shared, path: path.to_owned(), wake_pipe, wake_pipe_path, given_ps: 0 };
        let page = end.page();
        let Costs { call_ps, poll_ps, clock_ps, compute_ppm, copy_ps_per_kib, units, memory_ps, .. } = *costs;
        let Costs { tlb_entries, tlb_ways, lock_waiters, .. } = *costs;
        let prices = [
            call_ps,
            poll_ps,
            clock_ps,
            compute_ppm,
            copy_ps_per_kib,
            tlb_entries,
            tlb_ways,
            units,
            memory_ps,
            lock_waiters,
        ];
        page.costs.iter().zip(prices).for_each(|(word, price)| word.store(price, Relaxed));
        page.time.alarm_ps.store(NEVER, Relaxed);
        page.version.store(VERSION, Relaxed);
        page.turn_line.turn.store(turn::RANK, Relaxed);
        page.magic.store(MAGIC, SeqCst);
        Ok(end)
    }

    fn page(&self) -> &Page {
        // SAFETY: `create` made the file and its mapping longer than a `Page`, and the mapping is page-aligned. All words are atomics,
        // so whatever the rank writes is a valid value.
        unsafe { &*self.shared.base.cast::<Page>() }
    }

    /// Returns the page's file, for the rank's environment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reserves the page for one process.
    pub fn reserve_for(&self, pid: u32) {
        self.page().owner_pid.store(pid, SeqCst);
    }

    /// Hands the turn to the rank, at this time.
    pub fn give(&mut self, now_ps: u64) {
        self.given_ps = now_ps;
        let page = self.page();
        page.time.now_ps.store(now_ps, Relaxed);
        // Store, then load: the rank sets `rank_sleeps` and then loads `turn`. Sequential consistency makes one side see the other's
        // store, so no wake-up is lost.
        page.turn_line.turn.store(turn::RANK, SeqCst);
        if page.turn_line.rank_sleeps.load(SeqCst) != 0 {
            wake(&page.turn_line.turn, 1);
        }
    }

    /// Sets the time of a rank that has the turn but is blocked outside of this protocol.
    pub fn set_time(&mut self, now_ps: u64) {
        self.given_ps = now_ps;
        self.page().time.now_ps.store(now_ps, SeqCst);
    }

    /// Whether the rank has handed the turn back.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.page().turn_line.turn.load(Acquire) == turn::SIMULATOR
    }

    /// Returns the rank's time. `Err`: the rank has written an impossible one.
    pub fn now_ps(&self) -> Result<u64, InvalidRequest> {
        let now_ps = self.page().time.now_ps.load(Acquire);
        let sane = (self.given_ps..TIME_PS_MAX).contains(&now_ps);
        if sane { Ok(now_ps) } else { Err(InvalidRequest::Clock { now_ps }) }
    }

    /// Returns the time that the rank did not wait.
    pub fn busy_ps(&self) -> u64 {
        let time = &self.page().time;
        time.now_ps.load(Relaxed).saturating_sub(time.idle_ps.load(Relaxed))
    }

    /// Returns the time at which the rank's next timer expires; [`NEVER`]: none is armed.
    pub fn alarm_ps(&self) -> u64 {
        self.page().time.alarm_ps.load(Relaxed)
    }

    /// Returns the signal that tells the rank that a timer is due. `None`: it has none, or not a real-time signal.
    pub fn alarm_signal(&self) -> Option<i32> {
        let signal = self.page().time.alarm_signal.load(Relaxed);
        i32::try_from(signal).ok().filter(|signal| (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(signal))
    }

    /// Returns the rank's request, once it has handed the turn back.
    pub fn request(&self) -> Result<Request, InvalidRequest> {
        let request = &self.page().request;
        let until_ps = request.until_ps.load(Relaxed);
        match request.kind.load(Relaxed) {
            kind::START => self.start(false, false),
            kind::START_AND_WAIT => self.start(true, false),
            kind::START_OR_REFUSE => self.start(false, true),
            kind::WAIT => Ok(Request::Wait { until_ps }),
            kind::POLL => Ok(Request::Poll { until_ps, in_call: false }),
            kind::POLL_IN_CALL => Ok(Request::Poll { until_ps, in_call: true }),
            kind::SLEEP => Ok(Request::Sleep { until_ps }),
            kind::PUBLISH => self.publication(),
            kind::SHARES_MEMORY => {
                let (ni, target) = (request.ni.load(Relaxed), request.command[0].load(Relaxed));
                Ok(Request::SharesMemory { ni, target })
            }
            kind::REGION => self.region(),
            other => Err(InvalidRequest::Kind(other)),
        }
    }

    /// Replies to a question, or reports when an operation was started, before the rank gets the turn back.
    pub fn reply(&self, value: u64) {
        self.page().request.reply.store(value, Relaxed);
    }

    /// Reports that the NIC has refused the rank's operation, before the rank gets the turn back.
    pub fn refuse(&self) {
        self.reply(REFUSED);
    }

    fn publication(&self) -> Result<Request, InvalidRequest> {
        let request = &self.page().request;
        let [target, ring, number, header, bytes] = [0, 1, 2, 3, 4].map(|at| request.command[at].load(Relaxed));
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(InvalidRequest::Payload { bytes });
        }
        let message = Published { ring: u32::try_from(ring).unwrap_or(u32::MAX), number, header, bytes };
        Ok(Request::Publish { ni: request.ni.load(Relaxed), target, message })
    }

    fn region(&self) -> Result<Request, InvalidRequest> {
        let request = &self.page().request;
        let bytes = request.payload_bytes.load(Relaxed);
        if bytes > REGION_NAME_BYTES as u64 {
            return Err(InvalidRequest::Payload { bytes });
        }
        let name = self.payload(bytes)?;
        Ok(Request::Region {
            name: String::from_utf8_lossy(&name).into_owned(),
            begins: request.command[0].load(Relaxed) != 0,
        })
    }

    fn start(&self, waits: bool, or_refuse: bool) -> Result<Request, InvalidRequest> {
        let request = &self.page().request;
        let bytes = request.payload_bytes.load(Relaxed);
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(InvalidRequest::Payload { bytes });
        }
        let mut command = Box::new([0; COMMAND_BYTES]);
        for (eight, word) in command.chunks_exact_mut(8).zip(&request.command) {
            eight.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let payload = self.payload(bytes)?;
        let (ni, origin) = (request.ni.load(Relaxed), request.origin.load(Relaxed));
        Ok(Request::Start { ni, origin, command, payload, waits, or_refuse })
    }

    /// Returns a payload of at most [`PAYLOAD_BYTES_MAX`].
    fn payload(&self, bytes: u64) -> Result<Vec<u8>, InvalidRequest> {
        let mut payload = vec![0; bytes as usize];
        if bytes <= PAYLOAD_INLINE {
            // SAFETY: `bytes` is at most PAYLOAD_INLINE, and the mapping holds that many bytes from PAYLOAD_AT on. The rank does not
            // have the turn, so it does not write here; if a broken rank does, the copied bytes are merely wrong, as if it had sent them.
            unsafe {
                let from = self.shared.base.add(PAYLOAD_AT as usize);
                std::ptr::copy_nonoverlapping(from, payload.as_mut_ptr(), payload.len());
            }
        } else if !self.shared.read(PAYLOAD_AT, &mut payload) {
            return Err(InvalidRequest::Short { bytes });
        }
        Ok(payload)
    }

    /// Returns the number of requests, and of forked children.
    pub fn counts(&self) -> (u64, u32) {
        let page = self.page();
        (page.time.requests.load(Relaxed), page.turn_line.forks.load(Relaxed))
    }

    /// Announces that the simulator is about to sleep on [`SimEnd::wake_pipe`]. False: it has handed the turn back.
    pub fn begin_sleep(&self) -> bool {
        self.page().turn_line.simulator_sleeps.store(1, SeqCst);
        self.page().turn_line.turn.load(SeqCst) == turn::RANK
    }

    /// Announces that the simulator is awake, and empties the pipe if that was readable.
    pub fn end_sleep(&self, is_readable: bool) {
        self.page().turn_line.simulator_sleeps.store(0, SeqCst);
        if !is_readable {
            return;
        }
        let mut bytes = [0u8; 16];
        // SAFETY: `read` writes at most `bytes.len()` bytes into `bytes`, on a descriptor that `self` owns. What is left of more
        // bytes ends the next sleep early.
        unsafe { libc::read(std::os::fd::AsRawFd::as_raw_fd(&self.wake_pipe), bytes.as_mut_ptr().cast(), bytes.len()) };
    }

    /// Returns a pipe that becomes readable when the rank hands the turn back to a sleeping simulator.
    pub fn wake_pipe(&self) -> BorrowedFd<'_> {
        self.wake_pipe.as_fd()
    }

    /// Whether the rank has announced a NIC.
    pub fn has_nic(&self) -> bool {
        self.page().nics.iter().any(|slot| slot.live.load(Acquire) != 0)
    }

    /// Whether the rank has announced the NIC with this id and this number.
    pub fn has_announced(&self, id: u64, ni: u32) -> bool {
        let is_it = |slot: &NicSlot| slot.id.load(Relaxed) == id && slot.ni.load(Relaxed) == ni;
        self.page().nics.iter().any(|slot| slot.live.load(Acquire) != 0 && is_it(slot))
    }

    /// Returns the NICs that the rank has announced, in the order of their slots.
    pub fn nics(&self) -> Vec<Nic> {
        (0..NICS).filter_map(|at| self.nic(at)).collect()
    }

    fn nic(&self, at: usize) -> Option<Nic> {
        let slot = &self.page().nics[at];
        if slot.live.load(Acquire) == 0 {
            return None;
        }
        let length = (slot.path_bytes.load(Relaxed) as usize).min(NIC_PATH_BYTES);
        let bytes = slot.path[..length].iter().map(|byte| byte.load(Relaxed)).collect();
        let path = PathBuf::from(OsString::from_vec(bytes));
        Some(Nic { ni: slot.ni.load(Relaxed), id: slot.id.load(Relaxed), path })
    }
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.wake_pipe_path);
    }
}
