// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about the machine and this user: installation, cores, container, shared memory, cross-memory attach,
//! limits, remote shell.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use selvedge_launcher::environment::{library_folder, prefix, provider_directory};
use selvedge_launcher::program;
use selvedge_os::process::cores_allowed;
use selvedge_process::settings::Settings;
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::pairs::LIBRARY;
use super::trial::Trials;
use crate::info::bytes_text;

/// Less free space than this makes jobs fail soon: a few ranks with some symmetric memory.
const SPACE_SMALL: u64 = 64 << 20;
/// Fewer open files than this are too few for a rank or for the launcher of a few.
const FILES_FEW: u64 = 256;
/// RDMA devices want buffers that stay in memory.
const LOCKED_SMALL: u64 = 64 << 20;
const SHARED_MEMORY: &str = "/dev/shm";

/// The result of the child that tries cross-memory attach.
#[derive(Debug, Serialize, Deserialize)]
pub struct Attached {
    pub error: Option<String>,
}

/// The installed tree of this command.
pub fn selvedge() -> Finding {
    let (subject, version) = ("selvedge", env!("CARGO_PKG_VERSION"));
    let prefix = match prefix() {
        Ok(prefix) => prefix,
        Err(error) => return Finding::problem(subject, format!("{version}: {error}"), "set SELVEDGE_PREFIX"),
    };
    let folder = library_folder(&prefix);
    let has_libraries = folder.join(LIBRARY).is_file();
    let remedy = "install Selvedge's libraries beside this command, or set SELVEDGE_PREFIX to the folder that has them";
    match (has_libraries, provider_directory(&prefix)) {
        (true, Ok(_)) => Finding::ok(subject, format!("{version}, libraries in {}", folder.display())),
        (true, Err(error)) => Finding::problem(subject, format!("{version}, without the provider"), error.to_string()),
        (false, _) => Finding::problem(subject, format!("{version}, no libraries in {}", folder.display()), remedy),
    }
}

/// The cores of the machine, and those of this process.
pub fn cores() -> Finding {
    let (allowed, online) = (cores_allowed(), online_cores());
    let number = |count: usize| if count == 1 { "1 core".to_owned() } else { format!("{count} cores") };
    let found = match online {
        Some(online) if online > allowed => {
            format!("{allowed} of the machine's {}, by affinity or quota", number(online))
        }
        _ => number(allowed),
    };
    match allowed {
        1 => {
            Finding::note("cores", found, "two ranks share one core: messages take microseconds instead of nanoseconds")
        }
        _ => Finding::ok("cores", found),
    }
}

fn online_cores() -> Option<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    count_of(list.trim())
}

/// The number of members of a list such as `0-3,8`.
fn count_of(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |count, range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        Some(count + (to + 1).checked_sub(from)?)
    })
}

/// The container around this process, by the files and variables that its runtime leaves.
pub fn container() -> Finding {
    let groups = fs::read_to_string("/proc/1/cgroup").unwrap_or_default();
    let named = std::env::var("container").ok();
    let inside = container_named(|path| Path::new(path).exists(), named.as_deref(), &groups);
    Finding::ok("container", inside.map_or("no signs of one".to_owned(), |name| format!("inside {name}")))
}

fn container_named(exists: impl Fn(&str) -> bool, variable: Option<&str>, groups: &str) -> Option<String> {
    if let Some(name) = variable.filter(|name| !name.is_empty()) {
        return Some(name.to_owned());
    }
    let files = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/.singularity.d", "singularity")];
    let names = ["kubepods", "docker", "libpod", "lxc"];
    let by_file = files.into_iter().find(|(file, _)| exists(file)).map(|(_, name)| name);
    by_file.or_else(|| names.into_iter().find(|name| groups.contains(name))).map(str::to_owned)
}

/// The file system that holds the files of jobs.
pub fn shared_memory() -> Finding {
    let (subject, parent) = (SHARED_MEMORY, selvedge_job::jobs_folder());
    let is_elsewhere = !parent.starts_with(SHARED_MEMORY);
    if is_elsewhere && selvedge_settings::nonempty("SELVEDGE_DIR").is_none() {
        let found = match fs::metadata(SHARED_MEMORY) {
            Ok(_) => format!("not writable; jobs use {}", parent.display()),
            Err(error) => format!("{error}; jobs use {}", parent.display()),
        };
        let remedy = "give this user /dev/shm (a tmpfs of mode 1777), or set SELVEDGE_DIR to a folder on a tmpfs";
        return Finding::note(subject, found, remedy);
    }
    let what = if is_elsewhere { format!("SELVEDGE_DIR={} instead, ", parent.display()) } else { String::new() };
    let space = match rustix::fs::statvfs(&parent) {
        Ok(space) => space,
        Err(error) => {
            return Finding::problem(subject, format!("{what}{error}"), "create the folder, or unset SELVEDGE_DIR")
                .that_stops();
        }
    };
    if rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        return Finding::problem(subject, format!("{what}not writable"), "set SELVEDGE_DIR to a folder that is")
            .that_stops();
    }
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let (free, all) = (bytes(space.f_bavail), bytes(space.f_blocks));
    let found = format!("{what}{} free of {}, writable", bytes_text(free), bytes_text(all));
    match free < SPACE_SMALL {
        true => Finding::note(subject, found, "make it larger: mount -o remount,size=..., or docker run --shm-size"),
        false => Finding::ok(subject, found),
    }
}

/// Cross-memory attach, tried between two processes.
pub fn attach(trials: &Trials) -> Finding {
    let mut command = trials.selvedge();
    command.args(["probe", "attach"]);
    let error = match trials.run::<Attached>(&mut command) {
        Ok(Attached { error: None }) => return Finding::ok("memory attach", "one process reads another's memory"),
        Ok(Attached { error: Some(error) }) | Err(error) => error,
    };
    let remedy = "long messages of memory that is not shared are copied twice; docker run --cap-add SYS_PTRACE \
                  allows it, and so does kernel.yama.ptrace_scope below 2";
    Finding::note("memory attach", error, remedy)
}

pub fn yama() -> Finding {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    yama_of(scope.as_deref().map(str::trim))
}

fn yama_of(scope: Option<&str>) -> Finding {
    let subject = "yama";
    match scope {
        None => Finding::ok(subject, "not in this kernel"),
        Some("0") => Finding::ok(subject, "ptrace_scope 0"),
        Some("1") => Finding::ok(subject, "ptrace_scope 1: ranks admit each other"),
        Some(scope) => Finding::note(
            subject,
            format!("ptrace_scope {scope}: only root attaches to other processes"),
            "sysctl kernel.yama.ptrace_scope=1",
        ),
    }
}

/// Limits of this user. One that is wide is no finding of its own.
pub fn limits() -> Vec<Finding> {
    let current = |resource| getrlimit(resource).current;
    let (files, most) = (getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
    let devices = fs::read_dir("/sys/class/infiniband").map_or(0, |devices| devices.count());
    let reserved = Settings::from_environment().heap_bytes;
    vec![
        open_files(files, most),
        address_space(current(Resource::As), reserved),
        file_size(current(Resource::Fsize)),
        locked_memory(current(Resource::Memlock), devices),
    ]
}

fn limit_text(limit: Option<u64>, text: impl Fn(u64) -> String) -> String {
    limit.map_or("unlimited".to_owned(), text)
}

fn open_files(limit: Option<u64>, most: Option<u64>) -> Finding {
    let text = |limit| limit_text(limit, |count| count.to_string());
    // Libraries and launcher raise the limit to the most.
    let raised = if limit == most { String::new() } else { format!(", raised to {}", text(most)) };
    let found = text(limit) + &raised;
    match most.is_some_and(|most| most < FILES_FEW) {
        true => Finding::note("open files", found, "a launcher needs some for each rank: ulimit -Hn, or limits.conf"),
        false => Finding::ok("open files", found),
    }
}

fn address_space(limit: Option<u64>, reserved: u64) -> Finding {
    let found = limit_text(limit, bytes_text);
    match limit.is_some_and(|limit| limit < 4 * reserved) {
        true => {
            let remedy = format!(
                "each rank reserves {} of addresses, and as much for each rank that it reaches: ulimit -v unlimited, \
                 or a smaller SELVEDGE_HEAP_BYTES",
                bytes_text(reserved)
            );
            Finding::note("address space", found, remedy)
        }
        false => Finding::ok("address space", found),
    }
}

fn file_size(limit: Option<u64>) -> Finding {
    match limit {
        None => Finding::ok("file size", "unlimited"),
        Some(limit) => Finding::note("file size", bytes_text(limit), "shared memory is files: ulimit -f unlimited"),
    }
}

fn locked_memory(limit: Option<u64>, devices: usize) -> Finding {
    let found = limit_text(limit, bytes_text);
    match (devices, limit.is_some_and(|limit| limit < LOCKED_SMALL)) {
        (0, _) => Finding::ok("locked memory", format!("{found}; no RDMA device needs it")),
        (_, true) => {
            Finding::note("locked memory", found, "the RDMA devices of this host need more: ulimit -l unlimited")
        }
        (_, false) => Finding::ok("locked memory", found),
    }
}

/// The program that reaches other hosts.
pub fn remote_shell() -> Finding {
    let given = selvedge_settings::text("SELVEDGE_RSH").filter(|given| !given.trim().is_empty());
    let name = given.as_deref().unwrap_or("ssh").split_ascii_whitespace().next().unwrap_or("ssh");
    let path = std::env::var_os("PATH").unwrap_or_default();
    match program::find(name.as_ref(), &path) {
        Ok(file) => {
            Finding::ok("ssh", format!("{}; not tried, hosts must accept it without a password", file.display()))
        }
        Err(error) => Finding::note(
            "ssh",
            error.to_string(),
            "only `selvedge run --hosts` needs one: install it, or set SELVEDGE_RSH",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn lists_of_cores_are_counted() {
        for (list, count) in
            [("0", Some(1)), ("0-3", Some(4)), ("0-3,8,10-11", Some(7)), ("", None), ("3-0", None), ("x", None)]
        {
            assert_eq!(count_of(list), count, "{list}");
        }
    }

    #[test]
    fn containers_leave_signs() {
        let none = |_: &str| false;
        assert_eq!(container_named(none, None, "0::/init.scope\n"), None);
        assert_eq!(container_named(none, Some("lxc"), ""), Some("lxc".into()));
        assert_eq!(container_named(|file| file == "/.dockerenv", Some(""), ""), Some("docker".into()));
        assert_eq!(container_named(none, None, "0::/kubepods/pod7\n"), Some("kubepods".into()));
    }

    #[test]
    fn limits_have_states() {
        let state = |finding: Finding| finding.state;
        assert_eq!(state(open_files(Some(32), Some(32))), State::Note);
        assert_eq!(state(open_files(Some(32), Some(4096))), State::Ok, "the libraries raise it");
        assert_eq!(state(open_files(None, None)), State::Ok);
        assert_eq!(state(address_space(None, 1 << 30)), State::Ok);
        assert_eq!(state(address_space(Some(2 << 30), 1 << 30)), State::Note);
        assert_eq!(state(file_size(Some(1 << 20))), State::Note);
        assert_eq!(state(locked_memory(Some(8 << 20), 0)), State::Ok);
        assert_eq!(state(locked_memory(Some(8 << 20), 1)), State::Note);
        assert_eq!(state(locked_memory(None, 1)), State::Ok);
        assert_eq!(
            [None, Some("1"), Some("2")].map(|scope| state(yama_of(scope))),
            [State::Ok, State::Ok, State::Note]
        );
    }
}
