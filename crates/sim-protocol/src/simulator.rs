// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator's end of the wire.
//!
//! [`SimEnd::give`] the turn; then [`SimEnd::has_asked`] until the rank has given it back, and sleep meanwhile, if at all, on what
//! [`SimEnd::bell`] polls, after [`SimEnd::begin_sleep`]: a rank may also die, or say something elsewhere.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::page::{
    COMMAND_BYTES, Costs, MAGIC, NIC_PATH_BYTES, NICS, PAYLOAD_AT, PAYLOAD_BYTES_MAX, PAYLOAD_INLINE, Page, VERSION,
    kind, turn,
};
use crate::rank::bell_path;
use crate::system::{Shared, errno, wake};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct ClockError {
    path: String,
    error: std::io::Error,
}

/// What a rank asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An operation of its NIC `ni`, which is `origin` (nid << 32 | pid). The command as the NIC has it in memory.
    Start {
        ni: u32,
        origin: u64,
        command: Box<[u8; COMMAND_BYTES]>,
        payload: Vec<u8>,
    },
    Wait {
        until_ps: u64,
    },
    Poll,
    Sleep {
        until_ps: u64,
    },
}

/// A request that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rubbish {
    #[error("a request of the unknown kind {0}")]
    Kind(u32),
    #[error("a payload of {bytes} bytes, which is more than {max}", max = PAYLOAD_BYTES_MAX)]
    Payload { bytes: u64 },
    #[error("a payload of {bytes} bytes in a file that is shorter")]
    Short { bytes: u64 },
    #[error("a clock that goes back, or leaps out of range ({now_ps} ps)")]
    Clock { now_ps: u64 },
}

/// A NIC that a rank says it has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    pub ni: u32,
    /// nid << 32 | pid.
    pub id: u64,
    pub path: PathBuf,
}

/// The simulator's end of a rank's wire. The files go with it.
#[derive(Debug)]
pub struct SimEnd {
    shared: Shared,
    path: PathBuf,
    bell: OwnedFd,
    bell_path: PathBuf,
    /// When the rank was last given the turn.
    given_ps: u64,
}

/// Beyond this no clock goes: half of what it could.
const TIME_PS_MAX: u64 = u64::MAX / 2;

impl SimEnd {
    /// Makes a rank's page. The rank has the turn, at time 0.
    pub fn create(path: &Path, costs: &Costs) -> Result<SimEnd, ClockError> {
        let failed = |error: i32| ClockError {
            path: path.display().to_string(),
            error: std::io::Error::from_raw_os_error(error),
        };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed(libc::EINVAL))?;
        let bell_name = bell_path(&name);
        let size = PAYLOAD_AT + PAYLOAD_INLINE;
        let shared = Shared::open(&name, Some(size), size as usize).map_err(failed)?;
        // SAFETY: plain system calls on strings of this frame; the descriptor is new.
        let bell = unsafe {
            if libc::mkfifo(bell_name.as_ptr(), 0o600) != 0 {
                return Err(failed(errno()));
            }
            let fd = libc::open(bell_name.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(failed(errno()));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let bell_path = PathBuf::from(OsString::from_vec(bell_name.into_bytes()));
        let end = SimEnd { shared, path: path.to_owned(), bell, bell_path, given_ps: 0 };
        let page = end.page();
        let prices = [costs.call_ps, costs.look_ps, costs.clock_ps, costs.compute_ppm];
        page.costs.iter().zip(prices).for_each(|(word, price)| word.store(price, Relaxed));
        page.version.store(VERSION, Relaxed);
        page.line.turn.store(turn::RANK, Relaxed);
        page.magic.store(MAGIC, SeqCst);
        Ok(end)
    }

    fn page(&self) -> &Page {
        // SAFETY: the file was made this long; all words are atomics.
        unsafe { &*self.shared.base.cast::<Page>() }
    }

    /// The page's file, for the rank's environment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Only this process may use the page.
    pub fn reserve_for(&self, pid: u32) {
        self.page().owner_pid.store(pid, SeqCst);
    }

    /// Gives the rank the turn.
    pub fn give(&mut self, now_ps: u64) {
        self.given_ps = now_ps;
        let page = self.page();
        page.time.now_ps.store(now_ps, Relaxed);
        // Pairs with the rank's announcement that it sleeps, then a look at the turn.
        page.line.turn.store(turn::RANK, SeqCst);
        if page.line.rank_sleeps.load(SeqCst) != 0 {
            wake(&page.line.turn, 1);
        }
    }

    /// Sets the time of a rank that has the turn, but is held up elsewhere.
    pub fn set_time(&mut self, now_ps: u64) {
        self.given_ps = now_ps;
        self.page().time.now_ps.store(now_ps, SeqCst);
    }

    /// Whether the rank has given the turn back.
    #[inline]
    pub fn has_asked(&self) -> bool {
        self.page().line.turn.load(Acquire) == turn::SIMULATOR
    }

    /// The rank's time. `Err`: it cannot be right.
    pub fn now_ps(&self) -> Result<u64, Rubbish> {
        let now_ps = self.page().time.now_ps.load(Acquire);
        let sane = (self.given_ps..TIME_PS_MAX).contains(&now_ps);
        if sane { Ok(now_ps) } else { Err(Rubbish::Clock { now_ps }) }
    }

    /// What of its time the rank did not wait.
    pub fn busy_ps(&self) -> u64 {
        let time = &self.page().time;
        time.now_ps.load(Relaxed).saturating_sub(time.idle_ps.load(Relaxed))
    }

    /// What the rank asks for, when it has given the turn back.
    pub fn request(&self) -> Result<Asked, Rubbish> {
        let request = &self.page().request;
        let until_ps = request.until_ps.load(Relaxed);
        match request.kind.load(Relaxed) {
            kind::START => self.start(),
            kind::WAIT => Ok(Asked::Wait { until_ps }),
            kind::POLL => Ok(Asked::Poll),
            kind::SLEEP => Ok(Asked::Sleep { until_ps }),
            other => Err(Rubbish::Kind(other)),
        }
    }

    fn start(&self) -> Result<Asked, Rubbish> {
        let request = &self.page().request;
        let bytes = request.payload_bytes.load(Relaxed);
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Rubbish::Payload { bytes });
        }
        let mut command = Box::new([0; COMMAND_BYTES]);
        for (eight, word) in command.chunks_exact_mut(8).zip(&request.command) {
            eight.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let mut payload = vec![0; bytes as usize];
        if bytes <= PAYLOAD_INLINE {
            // SAFETY: within what is mapped. The rank, which has not the turn, is not to write there; if it does, what is read is
            // any bytes, as it might have sent.
            unsafe {
                let from = self.shared.base.add(PAYLOAD_AT as usize);
                std::ptr::copy_nonoverlapping(from, payload.as_mut_ptr(), payload.len());
            }
        } else if !self.shared.read(PAYLOAD_AT, &mut payload) {
            return Err(Rubbish::Short { bytes });
        }
        let (ni, origin) = (request.ni.load(Relaxed), request.origin.load(Relaxed));
        Ok(Asked::Start { ni, origin, command, payload })
    }

    /// Requests so far, and children forked.
    pub fn counts(&self) -> (u64, u32) {
        let page = self.page();
        (page.time.requests.load(Relaxed), page.line.forks.load(Relaxed))
    }

    /// Announces that the simulator is about to sleep on [`SimEnd::bell`]. False: the rank has asked meanwhile.
    pub fn begin_sleep(&self) -> bool {
        self.page().line.simulator_sleeps.store(1, SeqCst);
        self.page().line.turn.load(SeqCst) == turn::RANK
    }

    /// The simulator sleeps no longer.
    pub fn end_sleep(&self) {
        self.page().line.simulator_sleeps.store(0, SeqCst);
        let mut bytes = [0u8; 16];
        // SAFETY: fills an array of this frame; the pipe does not block.
        unsafe {
            while libc::read(std::os::fd::AsRawFd::as_raw_fd(&self.bell), bytes.as_mut_ptr().cast(), bytes.len()) > 0 {}
        }
    }

    /// Readable when the rank has given the turn back to a simulator that sleeps.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The NICs that the rank says it has open, in the order of their slots.
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
        let _ = std::fs::remove_file(&self.bell_path);
    }
}
