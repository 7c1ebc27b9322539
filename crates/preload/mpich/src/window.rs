// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows of shared memory.
//!
//! Rank 0 of the communicator makes a sealed memory file, and all ranks map it. A rank's part begins at the end of the
//! previous rank's, or at a page if the program does not need contiguous parts (`alloc_shared_noncontig`). MPICH makes
//! its window over the rank's own part.
//!
//! Costs: three small allgathers and MPICH's own making of a window; memory for the pages that are touched.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

use selvedge_os::mapping::{Mapping, sealed_inode};
use selvedge_os::shared::sealed;
use selvedge_os::sync::IgnorePoison;

use crate::host;
use crate::mpich::{ERR_DISP, ERR_NO_MEM, ERR_RANK, ERR_RMA_SHARED, ERR_SIZE, Mpich, PROC_NULL, SUCCESS};

const PAGE: u64 = 4096;

/// One rank's part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: *mut u8,
    pub bytes: isize,
    pub unit: c_int,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: u64,
    bytes: isize,
    unit: c_int,
}

struct Window {
    /// Number of the window, unique in the process.
    number: u64,
    memory: Mapping,
    places: Vec<Place>,
}

static WINDOWS: LazyLock<Mutex<HashMap<i32, Window>>> = LazyLock::new(Mutex::default);

fn windows() -> MutexGuard<'static, HashMap<i32, Window>> {
    WINDOWS.lock().ignore_poison()
}

pub fn is_shared(win: i32) -> bool {
    windows().contains_key(&win)
}

/// A window of shared memory, until it is freed. MPICH may reuse the handle afterwards.
pub struct SharedWindow {
    win: i32,
    number: u64,
}

pub fn find(win: i32) -> Option<SharedWindow> {
    windows().get(&win).map(|window| SharedWindow { win, number: window.number })
}

/// Unmaps the memory of a window that MPICH has freed.
pub fn free(SharedWindow { win, number }: SharedWindow) {
    let mut windows = windows();
    if windows.get(&win).is_some_and(|window| window.number == number) {
        windows.remove(&win);
    }
}

/// A rank's part of a window; for `MPI_PROC_NULL` the first part that has memory. `None`: the window is not ours.
pub fn query(mpich: &Mpich, win: i32, rank: c_int) -> Option<Result<Part, c_int>> {
    let part = windows().get(&win)?.part(rank);
    // The table is not locked here, because an error handler is the program's code.
    Some(part.ok_or_else(|| mpich.fail_window(win, ERR_RANK)))
}

impl Window {
    fn part(&self, rank: c_int) -> Option<Part> {
        let index = match rank {
            PROC_NULL => self.places.iter().position(|place| place.bytes > 0).unwrap_or(0),
            rank => usize::try_from(rank).ok()?,
        };
        let &Place { offset, bytes, unit } = self.places.get(index)?;
        // As in MPICH, an empty part has no address.
        let start = if bytes == 0 { ptr::null_mut() } else { self.memory.base().wrapping_add(offset as usize) };
        Some(Part { start, bytes, unit })
    }
}

/// `MPI_Win_allocate_shared`.
///
/// # Safety
/// `base` and `win` are places for the results.
pub unsafe fn allocate(
    mpich: &Mpich,
    size: isize,
    unit: c_int,
    info: i32,
    comm: i32,
    base: *mut *mut u8,
    win: *mut i32,
) -> c_int {
    let outcome = make(mpich, size, unit, info, comm).and_then(|(window, rank)| {
        let part = window.part(rank as c_int).ok_or(ERR_RANK)?;
        // SAFETY: the part stays mapped until `forget`, which the freeing of the window calls.
        let made = unsafe { mpich.window(part.start, part.bytes, part.unit, info, comm) }?;
        // SAFETY: this function requires places for the results.
        unsafe {
            base.write(part.start);
            win.write(made);
        }
        windows().insert(made, window);
        Ok(())
    });
    outcome.err().unwrap_or(SUCCESS)
}

/// Makes and maps the memory of a window. Returns this process's rank, too. Collective: all ranks succeed, or none.
fn make(mpich: &Mpich, size: isize, unit: c_int, info: i32, comm: i32) -> Result<(Window, usize), c_int> {
    let rank = mpich.rank(comm)?;
    let apart = mpich.is_set(info, c"alloc_shared_noncontig")?;
    let asked = mpich.allgather(comm, [size as u64, unit as u64, host::number(), apart.into()])?;
    // A rank that does not request separate parts relies on contiguous ones.
    let apart = asked.iter().all(|asked| asked[3] == 1);
    let refused = asked.iter().find_map(|&[size, unit, host, _]| match (size as isize, unit as c_int) {
        (..0, _) => Some(ERR_SIZE),
        (_, ..1) => Some(ERR_DISP),
        _ => (host != asked[0][2]).then_some(ERR_RMA_SHARED),
    });
    let laid_out = lay_out(&asked, apart).ok_or(ERR_NO_MEM);
    let (places, bytes) = refused.map_or(laid_out, Err).map_err(|error| mpich.fail(comm, error))?;
    // The file stays open until all ranks have mapped it.
    let file = if rank == 0 { sealed(c"selvedge-window", bytes).ok() } else { None };
    let descriptor = file.as_ref().map_or(0, AsRawFd::as_raw_fd);
    let inode = file.as_ref().and_then(|_| sealed_inode(descriptor).ok()).unwrap_or(0);
    let [pid, descriptor, inode] = mpich.allgather(comm, [std::process::id().into(), descriptor as u64, inode])?[0];
    let memory = Mapping::open_sealed(pid as u32, descriptor as u32, inode, bytes).ok();
    let everywhere = mpich.allgather(comm, [memory.is_some().into()])?.into_iter().all(|[mapped]| mapped == 1);
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    match memory.filter(|_| everywhere) {
        Some(memory) => Ok((Window { number: NUMBERS.fetch_add(1, Relaxed), memory, places }, rank)),
        None => Err(mpich.fail(comm, ERR_NO_MEM)),
    }
}

/// The parts of all ranks, from their sizes and units, and the length of the file. `None`: it is too long.
fn lay_out(asked: &[[u64; 4]], apart: bool) -> Option<(Vec<Place>, u64)> {
    let mut end = 0u64;
    let mut places = Vec::with_capacity(asked.len());
    for &[size, unit, ..] in asked {
        let offset = if apart { end.checked_next_multiple_of(PAGE)? } else { end };
        end = offset.checked_add(size)?;
        places.push(Place { offset, bytes: size as isize, unit: unit as c_int });
    }
    // If no rank requests memory, the file has one page, so that there is an address.
    Some((places, end.max(1).checked_next_multiple_of(PAGE).filter(|bytes| *bytes <= isize::MAX as u64)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let (places, bytes) = lay_out(&[[10, 1, 0, 0], [0, 4, 0, 0], [5000, 8, 0, 0]], false).unwrap();
        let expected = [(0, 10, 1), (10, 0, 4), (10, 5000, 8)];
        assert_eq!(places, expected.map(|(offset, bytes, unit)| Place { offset, bytes, unit }));
        assert_eq!(bytes, 2 * PAGE);
    }

    #[test]
    fn parts_that_are_apart_begin_at_pages() {
        let (places, bytes) = lay_out(&[[10, 1, 0, 0], [0, 4, 0, 0], [5000, 8, 0, 0], [1, 1, 0, 0]], true).unwrap();
        let starts: Vec<_> = places.iter().map(|place| place.offset / PAGE).collect();
        assert_eq!((starts, bytes), (vec![0, 1, 1, 3], 4 * PAGE));
    }

    #[test]
    fn nothing_has_an_address_and_too_much_is_refused() {
        assert_eq!(lay_out(&[[0, 1, 0, 0]], false).unwrap().1, PAGE);
        assert!(lay_out(&[[u64::MAX / 2, 1, 0, 0], [u64::MAX / 2, 1, 0, 0], [2, 1, 0, 0]], false).is_none());
        assert!(lay_out(&[[isize::MAX as u64, 1, 0, 0]], false).is_none());
    }
}
