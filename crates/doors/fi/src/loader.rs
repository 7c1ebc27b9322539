// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The libfabric that loaded this provider, and its log.
//!
//! It is the library of this process that exports `fi_version`. The provider reports that API version.

use std::sync::OnceLock;

use crate::ffi::{Library, fi_log_level};

/// The library, if it is found.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(Library::of_process).as_ref()
}

/// Writes a line to libfabric's log (`FI_LOG_LEVEL`) under the provider's name.
pub fn say(level: fi_log_level, what: std::fmt::Arguments<'_>) {
    let Some(Library { log_enabled: Some(enabled), log: Some(log), .. }) = library() else { return };
    let provider = crate::fi_prov_ini();
    // SAFETY: libfabric's own functions, with arguments as its header has them.
    unsafe {
        if enabled(provider, level, crate::ffi::FI_LOG_CORE) != 0 {
            let text = std::ffi::CString::new(format!("{what}\n")).unwrap_or_default();
            log(provider, level, crate::ffi::FI_LOG_CORE, c"selvedge".as_ptr(), 0, c"%s".as_ptr(), text.as_ptr());
        }
    }
}

/// The log of the layers below, which goes to libfabric's log.
struct Forward;

impl log::Log for Forward {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = if record.level() <= log::Level::Warn { crate::ffi::FI_LOG_WARN } else { crate::ffi::FI_LOG_INFO };
        say(level, *record.args());
    }

    fn flush(&self) {}
}

/// Sends the log of the layers below to libfabric's log.
pub fn forward_log() {
    if log::set_logger(&Forward).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
}

/// Logs a refusal or an error, with advice.
#[macro_export]
macro_rules! warn_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_WARN, format_args!($($part)*)) };
}

/// Logs an explanation of an answer.
#[macro_export]
macro_rules! info_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_INFO, format_args!($($part)*)) };
}
