// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of the launcher, and the words and exit codes for the end of a process.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use selvedge_os::shortage::{Need, Shortage};

/// The exit code of a job that has reached its time limit.
pub(crate) const EXIT_TIMEOUT: u8 = 124;

/// Prints one line on standard error. Ignores failures, because the stream may be closed.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "selvedge run: {text}");
}

/// Describes the end of a process, in words that follow its name.
pub(crate) fn describe_end(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) if status.core_dumped() => format!("was killed by {} (core dumped)", signal_name(signal)),
        (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The exit code for the end of a process, as shells define it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = match status.signal() {
        Some(signal) => 128 + signal,
        None => status.code().unwrap_or(1),
    };
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// The exit code for a program that could not be started, as shells define it.
pub(crate) fn start_code(error: &std::io::Error) -> u8 {
    match error.raw_os_error() {
        Some(libc::ENOENT) => 127,
        Some(libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::ELIBBAD | libc::ETXTBSY) => 126,
        _ => 1,
    }
}

/// The reason why a program could not be started, in words.
pub(crate) fn why_not_started(error: &std::io::Error) -> String {
    match start_code(error) {
        // The program's file is the reason.
        126 | 127 => error.to_string(),
        _ => Shortage::explain(error, Need::Object("its process")),
    }
}

/// A signal's name, or `signal 42` if it has none.
pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 28] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGCHLD, "SIGCHLD"),
        (libc::SIGCONT, "SIGCONT"),
        (libc::SIGSTOP, "SIGSTOP"),
        (libc::SIGTSTP, "SIGTSTP"),
        (libc::SIGTTIN, "SIGTTIN"),
        (libc::SIGTTOU, "SIGTTOU"),
        (libc::SIGURG, "SIGURG"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGVTALRM, "SIGVTALRM"),
        (libc::SIGPROF, "SIGPROF"),
        (libc::SIGIO, "SIGIO"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let name = NAMES.iter().find(|&&(number, _)| number == signal);
    name.map_or_else(|| format!("signal {signal}"), |&(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_in_words_and_codes() {
        for (raw, words, code) in [
            (0, "exited with status 0", 0),
            (3 << 8, "exited with status 3", 3),
            (255 << 8, "exited with status 255", 255),
            (libc::SIGSEGV, "was killed by SIGSEGV", 139),
            (libc::SIGSEGV | 0x80, "was killed by SIGSEGV (core dumped)", 139),
            (libc::SIGKILL, "was killed by SIGKILL", 137),
            (40, "was killed by signal 40", 168),
        ] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!(describe_end(status), words);
            assert_eq!(exit_code(status), code, "{words}");
        }
    }

    #[test]
    fn programs_that_cannot_be_started_get_the_codes_of_shells() {
        let code = |error| start_code(&std::io::Error::from_raw_os_error(error));
        assert_eq!([libc::ENOENT, libc::EACCES, libc::ENOEXEC, libc::ENOMEM].map(code), [127, 126, 126, 1]);
        assert_eq!(start_code(&std::io::Error::other("of our own")), 1);
    }
}
