// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers that the tests of this crate share.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Identity, JobDirectory};

/// A parent of job directories for one test, removed at its end.
pub(crate) struct Parent(PathBuf);

impl Parent {
    pub(crate) fn new() -> Parent {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("selvedge-job-test-{}-{nth}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder for the test");
        Parent(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn user(&self) -> PathBuf {
        crate::folder::user_directory(&self.0)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The claims of a directory that can be read.
pub(crate) fn claimants(directory: &JobDirectory) -> Vec<(u16, Identity)> {
    directory.claimants().expect("the claims are read")
}

/// Runs `test` in a process that has no free descriptor from then on.
pub(crate) fn without_descriptors(test: impl FnOnce()) {
    selvedge_os::testing::in_child(|| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a structure of this frame; the limit is this child's alone.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        test();
    });
}

/// Another process, alive until [`Other::end`].
pub(crate) struct Other {
    child: Child,
    pub(crate) identity: Identity,
}

impl Other {
    pub(crate) fn start() -> Other {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let identity = Identity::of(child.id()).expect("it runs");
        Other { child, identity }
    }

    /// Ends the process. Its identity is that of a dead process from then on.
    pub(crate) fn end(mut self) -> Identity {
        let _ = self.child.stdin.take().map(|mut stdin| stdin.flush());
        self.child.wait().expect("ends when its input does");
        self.identity
    }
}
