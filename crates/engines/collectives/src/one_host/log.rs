// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of front doors of groups on standard error, filtered by `SELVEDGE_LOG`. Processes may have no logger.

use std::io::Write;
use std::sync::OnceLock;

/// Whether [`info`] prints, for messages that need state to be printed only once.
pub fn has_info() -> bool {
    level() >= 3
}

/// Prints with `SELVEDGE_LOG=info`, `debug` or `trace`.
pub fn info(text: impl FnOnce() -> String) {
    if has_info() {
        say(&text());
    }
}

/// Prints unless `SELVEDGE_LOG` is `off` or `error`.
pub fn warn(text: impl FnOnce() -> String) {
    if level() >= 2 {
        say(&text());
    }
}

/// Prints unless `SELVEDGE_LOG` is `off`.
pub fn error(text: impl FnOnce() -> String) {
    if level() >= 1 {
        say(&text());
    }
}

/// Writes a line at once, so that lines of several processes do not mix. Ignores failures: the stream may be closed.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("selvedge: {text}\n").as_bytes());
}

fn level() -> u8 {
    static LEVEL: OnceLock<u8> = OnceLock::new();
    *LEVEL.get_or_init(|| match selvedge_settings::text("SELVEDGE_LOG").as_deref() {
        Some("info" | "debug" | "trace") => 3,
        Some("error") => 1,
        Some("off") => 0,
        _ => 2,
    })
}
