// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of libraries that the loader loads before a program's own (`LD_PRELOAD`):
//!
//! 1. the runtime of a sanitizer, which must come first: the program's, or one that the user names (for a script)
//! 2. virtual clocks, which runtimes and the user's libraries call
//! 3. the user's own libraries, which see the calls of the program first
//! 4. ours, which replace functions of the MPI and of the C library
//!
//! Where a runtime cannot come first (`selvedge env` does not know the program), an option keeps AddressSanitizer from
//! refusing that order ([`options`]). Our `malloc` then calls that of the runtime.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use selvedge_os::sanitizer::is_runtime;

use crate::executable::{Executable, Loading};

pub const LD_PRELOAD: &str = "LD_PRELOAD";

/// Our libraries, by their places in the order.
#[derive(Clone, Debug, Default)]
pub struct Preloads {
    pub clocks: Vec<PathBuf>,
    pub ours: Vec<PathBuf>,
}

impl Preloads {
    /// The value for a program, with the libraries that the user preloads. musl's loader gets the user's only.
    pub fn value(&self, users: &OsStr, program: &Executable) -> OsString {
        if program.loading == Loading::Musl {
            return users.to_owned();
        }
        let users = users.to_string_lossy();
        let users = users.split([':', ' ']).filter(|file| !file.is_empty()).map(Path::new);
        let users = users.filter(|file| self.clocks.iter().chain(&self.ours).all(|our| our != file));
        let (runtimes, others): (Vec<&Path>, Vec<&Path>) =
            users.partition(|file| is_runtime(file.as_os_str().as_encoded_bytes()));
        let own = program.runtime().map(Path::new);
        let own = own.filter(|own| runtimes.iter().all(|file| file.file_name() != own.file_name()));
        let clocks = self.clocks.iter().map(PathBuf::as_path);
        let ours = self.ours.iter().map(PathBuf::as_path);
        let all = own.into_iter().chain(runtimes).chain(clocks).chain(others).chain(ours);
        let all: Vec<&OsStr> = all.map(Path::as_os_str).collect();
        all.join(OsStr::new(":"))
    }
}

/// Variables for programs with the runtime of a sanitizer; others do not read them. What the user has set stays.
///
/// AddressSanitizer starts behind other libraries. ThreadSanitizer ignores the accesses of libraries that it does not know,
/// such as MPI and ours: it would report their locks as races.
pub fn options(users: impl Fn(&str) -> OsString) -> [(&'static str, OsString); 2] {
    let with = |name: &'static str, option: &str| {
        let users = users(name);
        let key = option.split('=').next().unwrap_or(option);
        let value = match users.to_string_lossy().contains(key) {
            true => users,
            false if users.is_empty() => option.into(),
            false => [&users, OsStr::new(option)].join(OsStr::new(":")),
        };
        (name, value)
    };
    [with("ASAN_OPTIONS", "verify_asan_link_order=0"), with("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")]
}

/// For ThreadSanitizer under Open MPI, whose hook for unmapped memory takes locks in threads that have ended.
pub const OPENMPI_HOOKS: (&str, &str) = ("OMPI_MCA_memory", "^patcher");

/// A line for the user: what a program does without, if the loader loads no libraries of ours into it.
pub fn lack(program: &Path, loading: Loading, without: &str) -> Option<String> {
    let why = match loading {
        Loading::Preloads => return None,
        Loading::Static => "is statically linked",
        Loading::Musl => "is linked to musl, and Selvedge's libraries need glibc",
        Loading::Privileged => "starts with other rights, and the loader ignores LD_PRELOAD and LD_LIBRARY_PATH",
    };
    Some(format!("{} {why}: {without}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(users: &str, libraries: &[&str], loading: Loading) -> String {
        let preloads = Preloads { clocks: vec!["/o/clocks.so".into()], ours: vec!["/o/m.so".into(), "/o/n.so".into()] };
        let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        let program = Executable { loading, libraries, own_runtime: None };
        preloads.value(OsStr::new(users), &program).into_string().unwrap()
    }

    #[test]
    fn the_order_is_runtime_clocks_users_ours() {
        let plain = |users: &str| value(users, &["libc.so.6"], Loading::Preloads);
        assert_eq!(plain(""), "/o/clocks.so:/o/m.so:/o/n.so");
        assert_eq!(plain("/a.so /b.so:/o/n.so"), "/o/clocks.so:/a.so:/b.so:/o/m.so:/o/n.so");
        assert_eq!(plain("/a.so:/lib/libasan.so.8"), "/lib/libasan.so.8:/o/clocks.so:/a.so:/o/m.so:/o/n.so");
        let sanitized = |users: &str| value(users, &["libasan.so.8", "libc.so.6"], Loading::Preloads);
        assert_eq!(sanitized("/a.so"), "libasan.so.8:/o/clocks.so:/a.so:/o/m.so:/o/n.so");
        assert_eq!(sanitized("/lib/libasan.so.8"), "/lib/libasan.so.8:/o/clocks.so:/o/m.so:/o/n.so", "once");
        assert_eq!(plain(&plain("/a.so")), plain("/a.so"));
    }

    #[test]
    fn musl_gets_the_users_libraries_only() {
        assert_eq!(value("/a.so", &["libc.so"], Loading::Musl), "/a.so");
        assert_eq!(value("/a.so", &[], Loading::Privileged), "/o/clocks.so:/a.so:/o/m.so:/o/n.so");
    }

    #[test]
    fn the_users_options_of_sanitizers_stay() {
        let options = |users: &str| options(|_| users.into()).map(|(_, value)| value.into_string().unwrap());
        let (order, modules) = ("verify_asan_link_order=0", "ignore_noninstrumented_modules=1");
        assert_eq!(options(""), [order, modules]);
        assert_eq!(options("halt_on_error=1"), [order, modules].map(|option| format!("halt_on_error=1:{option}")));
        assert_eq!(options("verify_asan_link_order=1")[0], "verify_asan_link_order=1");
        assert_eq!(options(modules)[1], modules);
    }

    #[test]
    fn a_program_that_lacks_our_libraries_is_named() {
        let lack = |loading| lack(Path::new("/a.out"), loading, "its clocks are real");
        assert_eq!(lack(Loading::Preloads), None);
        assert_eq!(lack(Loading::Static), Some("/a.out is statically linked: its clocks are real".to_owned()));
        assert!(lack(Loading::Musl).is_some_and(|line| line.contains("musl")));
        assert!(lack(Loading::Privileged).is_some_and(|line| line.contains("LD_PRELOAD")));
    }
}
