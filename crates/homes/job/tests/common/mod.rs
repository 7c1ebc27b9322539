// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers that the integration tests share.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns an example of this crate, which Cargo builds together with the tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a file");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

/// A parent of job directories of its own, removed at the end.
pub struct Parent(PathBuf);

impl Parent {
    pub fn new(name: &str) -> Parent {
        let path = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder for the test");
        Parent(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the job directories that exist.
    #[allow(dead_code, reason = "not every test uses it")]
    pub fn jobs(&self) -> Vec<String> {
        let users = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let jobs = users.flat_map(|user| fs::read_dir(user.path()).into_iter().flatten().flatten());
        jobs.map(|job| job.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
