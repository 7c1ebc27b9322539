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

/// This process's environment without the variables of its host, and the settings of its configuration file, so that
/// ranks on all hosts have the same.
pub(super) fn environment_to_forward() -> Vec<(OsString, OsString)> {
    // Programs cannot set a name with `=` in it. It comes from a hand-made environment.
    let can_be_set = |name: &OsStr| !name.as_encoded_bytes().contains(&b'=');
    let own = std::env::vars_os().filter(|(name, _)| !is_of_host(name) && can_be_set(name));
    let in_file = selvedge_settings::files().entries.iter().filter(|entry| std::env::var_os(entry.variable).is_none());
    own.chain(in_file.map(|entry| (entry.variable.into(), entry.value.clone().into()))).collect()
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
