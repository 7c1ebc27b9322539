// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of a job over several hosts: the launcher's, except for variables of each host.

use std::ffi::{OsStr, OsString};

/// Whether a variable describes a host or the session on it. Ranks get those of their host, and the launcher's others.
fn is_of_host(name: &OsStr) -> bool {
    const NAMES: [&str; 14] = [
        "HOSTNAME",
        "HOST",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "MAIL",
        "XDG_RUNTIME_DIR",
        "XDG_SEAT",
        "XDG_VTNR",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "XAUTHORITY",
        "WINDOWID",
        "WAYLAND_DISPLAY",
    ];
    let name = name.to_string_lossy();
    NAMES.contains(&&*name) || ["SSH_", "XDG_SESSION_"].iter().any(|prefix| name.starts_with(prefix))
}

/// This process's environment without the variables of its host.
pub(super) fn environment_to_forward() -> Vec<(OsString, OsString)> {
    // Programs cannot set a name with `=` in it. It comes from a hand-made environment.
    let can_be_set = |name: &OsStr| !name.as_encoded_bytes().contains(&b'=');
    std::env::vars_os().filter(|(name, _)| !is_of_host(name) && can_be_set(name)).collect()
}

/// Replaces the environment, except for the variables of this host.
pub(super) fn take_environment(environment: Vec<(OsString, OsString)>) {
    let before: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    // SAFETY: this process has one thread, so nothing else reads the environment meanwhile.
    unsafe {
        for name in before.iter().filter(|name| !is_of_host(name)) {
            std::env::remove_var(name);
        }
        for (name, value) in environment.into_iter().filter(|(name, _)| !is_of_host(name)) {
            std::env::set_var(name, value);
        }
    }
}
