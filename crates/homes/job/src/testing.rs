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

/// Set in the process that [`without_descriptors`] starts.
const ALONE: &str = "SELVEDGE_TEST_ALONE";

/// Runs `test` in a process that has no free descriptor meanwhile: this program again, with the calling test alone. A
/// forked child would inherit locks that threads of other tests hold.
pub(crate) fn without_descriptors(test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        let before = limit_descriptors(0);
        test();
        limit_descriptors(before);
        return;
    }
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let own = std::env::current_exe().expect("it runs");
    let again = Command::new(own).args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&again.stderr));
}

/// Sets the soft limit of descriptors. Returns the former one.
fn limit_descriptors(most: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of this frame, which the first call fills.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = std::mem::replace(&mut limit.rlim_cur, most);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        before
    }
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
