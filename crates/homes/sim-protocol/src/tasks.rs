// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of this process. Reading them allocates nothing, because the caller holds the request lock: the allocator
//! of a sanitizer reads the clock, which may take that lock.

use std::ffi::{CStr, c_int};
use std::mem::offset_of;

/// The thread ids in `/proc/self/task`.
pub(crate) struct Tasks {
    directory: c_int,
    /// Entries as the kernel writes them, aligned as it wants.
    entries: [u64; 256],
    bytes: usize,
    at: usize,
}

/// Returns the number of threads of this process, or `None` if `/proc` does not say. The folder of threads has a link for
/// each, and two more.
pub(crate) fn count() -> Option<usize> {
    // SAFETY: all bits zero is a valid `stat`, and the call only fills it; the path is a C string constant.
    let links = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::stat(c"/proc/self/task".as_ptr(), &mut about) == 0).then_some(about.st_nlink)
    };
    usize::try_from(links?).ok()?.checked_sub(2)
}

impl Tasks {
    pub fn open() -> Option<Tasks> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string constant.
        let directory = unsafe { libc::open(c"/proc/self/task".as_ptr(), flags) };
        (directory >= 0).then_some(Tasks { directory, entries: [0; 256], bytes: 0, at: 0 })
    }
}

impl Iterator for Tasks {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if self.at >= self.bytes {
                let (room, bytes) = (self.entries.as_mut_ptr(), size_of_val(&self.entries));
                // SAFETY: the kernel writes at most `bytes` bytes to `entries`.
                let read = unsafe { libc::syscall(libc::SYS_getdents64, self.directory, room, bytes) };
                (self.bytes, self.at) = (usize::try_from(read).unwrap_or(0), 0);
                if self.bytes == 0 {
                    return None;
                }
            }
            // SAFETY: whole entries fill the first `bytes` bytes, and `at` is the start of one: its length lies at a fixed
            // offset, and its name is a C string.
            let (length, name) = unsafe {
                let entry = self.entries.as_ptr().cast::<u8>().add(self.at);
                let length = entry.add(offset_of!(libc::dirent64, d_reclen)).cast::<u16>().read();
                (length, CStr::from_ptr(entry.add(offset_of!(libc::dirent64, d_name)).cast()))
            };
            self.at += usize::from(length);
            if let Some(thread) = name.to_str().ok().and_then(|name| name.parse().ok()) {
                return Some(thread);
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours alone.
        unsafe { libc::close(self.directory) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_are_found() {
        let gate = std::sync::Barrier::new(101);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| gate.wait());
            }
            let mut found: Vec<u32> = Tasks::open().expect("/proc").collect();
            found.sort_unstable();
            found.dedup();
            assert!(found.len() > 100 && found.contains(&std::process::id()), "{found:?}");
            assert!(count() > Some(100));
            gate.wait();
        });
    }
}
