// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --watch`: the page of a simulation that runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use selvedge_document::words;
use selvedge_page::{Shown, Watch};
use selvedge_sim::node::Progress;
use selvedge_sim::report::Heat;
use serde_json::{Value, json};

use super::output::Output;
use super::usage::Usage;

const INTERVAL: Duration = Duration::from_secs(1);

/// A page that is served, or none.
pub struct Watched {
    page: Option<(Watch, Value)>,
    sent: Option<Instant>,
}

impl Watched {
    /// Starts the page that `--watch` asks for, and prints its address.
    pub fn start(output: &Output, title: &str, heat: Option<&Heat>) -> Result<Watched> {
        let (Some(address), Some(heat)) = (output.watch, heat) else { return Ok(Watched { page: None, sent: None }) };
        let page = Watch::start(address, Shown::Simulation).map_err(|error| Usage(format!("--watch: {error}")))?;
        eprintln!("selvedge sim: {}", page.url());
        let structure = heat.structure(title);
        page.send("structure", &structure, &[("structure", &structure)]);
        Ok(Watched { page: Some((page, structure)), sent: None })
    }

    /// Sends what is new, once a second while somebody looks.
    pub fn show(&mut self, heat: Option<&Heat>, said: impl FnOnce() -> String) {
        let (Some((page, structure)), Some(heat)) = (&self.page, heat) else { return };
        if self.sent.is_some_and(|sent| sent.elapsed() < INTERVAL) || !page.is_watched() {
            return;
        }
        self.sent = Some(Instant::now());
        let frames = json!({ "progress": said(), "frames": heat.frames() });
        page.send("frames", &frames, &[("structure", structure), ("frames", &frames)]);
    }

    /// Sends the last frames.
    pub fn end(self, heat: Option<&Heat>, said: &str) {
        let (Some((page, structure)), Some(heat)) = (self.page, heat) else { return };
        let last = json!({ "progress": format!("ended: {said}"), "frames": heat.frames() });
        page.end("end", &last, &[("structure", &structure), ("end", &last)]);
    }
}

/// The progress of a program in words.
pub fn said(progress: &Progress) -> String {
    format!("{}, {} messages", words::time_ns(progress.time.as_ns_f64()), words::count(progress.messages))
}
