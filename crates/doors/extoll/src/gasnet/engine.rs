// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of active messages of this process, once it has started.

use std::sync::OnceLock;

use crate::gasnet::active_messages::ActiveMessages;

use super::codes::{Code, Outcome, refuse};

static ENGINE: OnceLock<ActiveMessages> = OnceLock::new();

/// The engine, for a call that needs it.
pub fn engine(function: &str) -> Outcome<&'static ActiveMessages> {
    ENGINE.get().ok_or_else(|| refuse(Code::NotInit, function, "call gasnet_init first"))
}

/// The engine, if it has started.
pub fn started() -> Option<&'static ActiveMessages> {
    ENGINE.get()
}

/// Stores the engine of a process that has started.
pub fn start(engine: ActiveMessages) {
    let _ = ENGINE.set(engine);
}
