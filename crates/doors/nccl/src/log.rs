// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NCCL's logger, which it passes when it initializes the network.

use std::ffi::{CString, c_char, c_int, c_ulong};
use std::sync::Mutex;

use selvedge_os::sync::IgnorePoison;

/// `ncclDebugLogger_t`.
pub type Logger =
    unsafe extern "C" fn(level: c_int, flags: c_ulong, file: *const c_char, line: c_int, format: *const c_char, ...);

static LOGGER: Mutex<Option<Logger>> = Mutex::new(None);

const WARN: c_int = 2;
const INFO: c_int = 3;
/// Subsystems of messages: initialization and network; all.
const INIT_AND_NET: c_ulong = 1 | 16;
const ALL: c_ulong = !0;

pub fn set(logger: Option<Logger>) {
    *LOGGER.lock().ignore_poison() = logger;
}

pub fn warn(text: &str) {
    say(WARN, ALL, text);
}

pub fn info(text: &str) {
    say(INFO, INIT_AND_NET, text);
}

fn say(level: c_int, flags: c_ulong, text: &str) {
    let logger = *LOGGER.lock().ignore_poison();
    if let (Some(logger), Ok(text)) = (logger, CString::new(format!("Selvedge: {text}"))) {
        // SAFETY: the logger is NCCL's; all arguments are strings that end with 0.
        unsafe { logger(level, flags, c"selvedge".as_ptr(), 0, c"%s".as_ptr(), text.as_ptr()) };
    }
}
