// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress of a run on a terminal.

use std::time::Duration;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `length` steps.
pub fn progress_bar(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    match ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} {elapsed}") {
        Ok(style) => bar.set_style(style),
        Err(error) => log::debug!("{:#}", anyhow!(error)),
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
