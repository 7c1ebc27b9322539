// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities of this machine, found by trying where possible.
//!
//! Cost: two short-lived forked children. `info` has one thread, so a forked child may do anything.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use selvedge_os::asymmetric;
use selvedge_os::cma::{self, CmaError};
use selvedge_os::process::cores_allowed;
use serde_json::{Value, json};

use super::{bytes_text, columns, plain};

pub fn value() -> Value {
    let files = getrlimit(Resource::Nofile);
    let attach = attach_between_siblings();
    let parent = std::path::absolute(selvedge_job::jobs_folder()).unwrap_or_else(|_| selvedge_job::jobs_folder());
    json!({
        "kernel": read_line("/proc/sys/kernel/osrelease"),
        "cores_allowed": cores_allowed(),
        "cma_between_siblings": attach.is_ok(),
        "cma_error": attach.err(),
        "yama_ptrace_scope": read_line("/proc/sys/kernel/yama/ptrace_scope").and_then(|scope| scope.parse::<u32>().ok()),
        "membarrier_global_expedited": asymmetric::register() && asymmetric::heavy(),
        "madv_populate": populates(),
        "open_files": files.current,
        "open_files_max": files.maximum,
        "job_directory": selvedge_host::snapshot::user_directory(&parent).display().to_string(),
        "job_directory_parent": space(&parent),
        "shared_memory": space(Path::new("/dev/shm")),
    })
}

pub fn text(value: &Value) -> String {
    let yes = |field: &str, otherwise: &str| match value[field] {
        Value::Bool(true) => "yes".to_owned(),
        _ => format!("no: {otherwise}"),
    };
    let cma = match &value["cma_error"] {
        Value::Null => "yes".to_owned(),
        error => format!("no ({}): memory that is not shared is copied by its owner", plain(error)),
    };
    let yama = match &value["yama_ptrace_scope"] {
        Value::Null => "not there".to_owned(),
        scope => plain(scope),
    };
    let unlimited = |field: &str| value[field].as_u64().map_or("unlimited".to_owned(), |limit| limit.to_string());
    let space = |field: &str| match &value[field] {
        Value::Null => "not there".to_owned(),
        space => {
            let bytes = |of: &str| bytes_text(space[of].as_u64().unwrap_or(0));
            format!("{}: {} free of {}", plain(&space["path"]), bytes("free_bytes"), bytes("bytes"))
        }
    };
    let rows = [
        ("kernel", plain(&value["kernel"])),
        ("cores allowed", plain(&value["cores_allowed"])),
        ("cross-memory attach", cma),
        ("Yama ptrace scope", yama),
        ("membarrier, global", yes("membarrier_global_expedited", "sleeping threads poll every millisecond")),
        ("MADV_POPULATE", yes("madv_populate", "addresses are checked by slower methods")),
        ("open files", format!("{}, at most {}", unlimited("open_files"), unlimited("open_files_max"))),
        ("shared memory", space("shared_memory")),
        ("parent of jobs", space("job_directory_parent")),
        ("this user's jobs", plain(&value["job_directory"])),
    ];
    columns(rows.map(|(name, text)| [name.to_owned(), text]))
}

fn read_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn space(path: &Path) -> Option<Value> {
    let status = rustix::fs::statvfs(path).ok()?;
    let path: PathBuf = path.into();
    Some(json!({
        "path": path.display().to_string(),
        "bytes": status.f_blocks.saturating_mul(status.f_frsize),
        "free_bytes": status.f_bavail.saturating_mul(status.f_frsize),
    }))
}

/// A byte at an address that is the same in forked children.
static KNOWN: u8 = 0x5e;

/// Whether the kernel supports MADV_POPULATE_READ (Linux 5.14).
fn populates() -> bool {
    const POPULATE_READ: libc::c_int = 22;
    let page_bytes = rustix::param::page_size();
    let page = (&raw const KNOWN) as usize & !(page_bytes - 1);
    // SAFETY: the page is mapped, because it holds a static of this program. Populating it for reading changes no byte.
    unsafe { libc::madvise(page as *mut libc::c_void, page_bytes, POPULATE_READ) == 0 }
}

/// Whether one child of this process can read another's memory, as ranks of a job do. `Err`: the reason.
pub fn attach_between_siblings() -> Result<(), String> {
    let (ready, notify) = rustix::pipe::pipe().map_err(|error| error.to_string())?;
    let target = Child::fork(|| {
        cma::admit_peers();
        let byte = [1u8];
        let _ = rustix::io::write(&notify, &byte);
        loop {
            // SAFETY: `pause` takes no arguments and has no preconditions.
            unsafe { libc::pause() };
        }
    })?;
    drop(notify);
    if fs::File::from(ready).read_exact(&mut [0u8]).is_err() {
        return Err("the child whose memory is to be read has ended".into());
    }
    let reader = Child::fork(|| {
        let mut byte = 0u8;
        // SAFETY: `byte` is one byte that lives across the call, and one byte is read.
        match unsafe { cma::read(target.pid as u32, (&raw const KNOWN) as u64, &mut byte, 1) } {
            Ok(()) if byte == KNOWN => 0,
            Err(CmaError::NotPermitted) => 1,
            Err(CmaError::Unsupported) => 2,
            _ => 3,
        }
    })?;
    match reader.wait() {
        Some(0) => Ok(()),
        Some(1) => Err(CmaError::NotPermitted.to_string()),
        Some(2) => Err(CmaError::Unsupported.to_string()),
        other => Err(format!("the child that reads it ended with {other:?}")),
    }
}

/// A forked child. It is killed and reaped when dropped, and killed if this process ends first.
struct Child {
    pid: libc::pid_t,
}

impl Child {
    fn fork(body: impl FnOnce() -> i32) -> Result<Child, String> {
        // SAFETY: this process has one thread, so no lock is held by a thread that does not exist in the child.
        match unsafe { libc::fork() } {
            // SAFETY: both calls take integers. `_exit` skips destructors and buffers, so nothing of the parent is flushed twice.
            0 => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                libc::_exit(body())
            },
            pid if pid > 0 => Ok(Child { pid }),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }

    /// The exit code; `None` if a signal ended it.
    fn wait(self) -> Option<i32> {
        let status = self.reap();
        std::mem::forget(self);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }

    fn reap(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the child is ours and not reaped; `status` lives across the call. An interrupted call is repeated.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: `kill` takes numbers. The child is ours and not reaped, so the pid is its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap();
    }
}
