// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rank's end of the named pipe that wakes a sleeping simulator.
//!
//! The pipe stays open, because opening a path takes longer than all else in a turn. A program may close descriptors that
//! are not its own, and get the same number for a file: so the descriptor is checked before each byte.

use std::ffi::CString;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// The least number of the descriptor, beyond those that programs name themselves.
const LEAST: i32 = 500;
const CLOSED: i32 = -1;

#[derive(Debug)]
pub(crate) struct WakePipe {
    path: CString,
    fd: AtomicI32,
    inode: AtomicU64,
}

impl WakePipe {
    pub fn new(path: CString) -> WakePipe {
        WakePipe { path, fd: AtomicI32::new(CLOSED), inode: AtomicU64::new(0) }
    }

    /// Writes a byte to the pipe, if the simulator has it open. The caller holds the request lock.
    pub fn wake(&self) {
        let fd = match self.fd.load(Relaxed) {
            fd if fd != CLOSED && inode_of_pipe(fd) == Some(self.inode.load(Relaxed)) => fd,
            _ => self.open(),
        };
        if fd != CLOSED {
            // SAFETY: `write` reads one byte of an array of one. The descriptor was checked to be the pipe.
            unsafe { libc::write(fd, [1u8].as_ptr().cast(), 1) };
        }
    }

    fn open(&self) -> i32 {
        // SAFETY: the path is a C string. `fcntl` and `close` take the descriptor that `open` returned, which is ours.
        let fd = unsafe {
            let low = libc::open(self.path.as_ptr(), libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC);
            match low {
                CLOSED => CLOSED,
                low => match libc::fcntl(low, libc::F_DUPFD_CLOEXEC, LEAST) {
                    CLOSED => low,
                    high => {
                        libc::close(low);
                        high
                    }
                },
            }
        };
        self.inode.store(inode_of_pipe(fd).unwrap_or(0), Relaxed);
        self.fd.store(fd, Relaxed);
        fd
    }
}

/// The inode of a named pipe. `None`: the descriptor is closed, or another kind of file.
fn inode_of_pipe(fd: i32) -> Option<u64> {
    // SAFETY: all bits zero is a valid `stat`, and `fstat` only fills it.
    let about = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut about) == 0).then_some(about)
    };
    about.filter(|about| about.st_mode & libc::S_IFMT == libc::S_IFIFO).map(|about| about.st_ino)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_file_of_the_program_in_its_place_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (at, other) = (folder.path().join("wake"), folder.path().join("other"));
        let path = CString::new(at.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path is a C string; the descriptors are of this test.
        let reader = unsafe {
            assert_eq!(libc::mkfifo(path.as_ptr(), 0o600), 0);
            libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK)
        };
        let came = || {
            let mut byte = [0u8; 4];
            // SAFETY: `read` writes at most four bytes to an array of four.
            unsafe { libc::read(reader, byte.as_mut_ptr().cast(), 4) }
        };
        let pipe = WakePipe::new(path.clone());
        pipe.wake();
        pipe.wake();
        assert_eq!(came(), 2);
        let first = pipe.fd.load(Relaxed);
        let file = std::fs::File::create(&other).expect("a file");
        // SAFETY: the file takes the place of the pipe's descriptor, as in a program that closes all.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), first) }, first);
        pipe.wake();
        assert_eq!((came(), std::fs::metadata(&other).expect("it").len()), (1, 0));
        // SAFETY: the descriptors are of this test.
        [reader, first, pipe.fd.load(Relaxed)].into_iter().for_each(|fd| assert_eq!(unsafe { libc::close(fd) }, 0));
    }
}
