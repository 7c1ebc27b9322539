// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminals of the ranks that a user debugs: the launcher's for one rank, a window for each of several.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::runner::{Runner, RunnerError};
use super::terminal::LentTerminal;
use super::window::{self, Window};

#[derive(Default)]
pub(crate) struct Screens {
    windows: BTreeMap<usize, Window>,
    /// The rank that reads the launcher's standard input.
    at_input: Option<usize>,
    /// If that is a terminal.
    lent: Option<LentTerminal>,
}

/// The preparation of a rank that has a terminal, between fork and exec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// The foreground of the launcher's terminal.
    Foreground,
    /// A session of its own, on the terminal of its window.
    Session,
}

impl Screens {
    /// Opens what the debuggers of these ranks need. `folder`: for a socket; `mask`: the signal mask of other programs.
    pub(crate) fn open(
        runner: &Runner,
        ranks: &[usize],
        folder: &Path,
        mask: libc::sigset_t,
    ) -> Result<Screens, RunnerError> {
        let debugged: Vec<usize> = ranks.iter().copied().filter(|&rank| runner.is_interactive(rank)).collect();
        match debugged[..] {
            [] => Ok(Screens::default()),
            [rank] => Ok(Screens { at_input: Some(rank), lent: LentTerminal::lend(), ..Screens::default() }),
            _ => Ok(Screens { windows: window::open(&debugged, folder, mask)?, ..Screens::default() }),
        }
    }

    /// Whether a debugger has the launcher's standard input, so that rank 0 gets none.
    pub(crate) fn take_input(&self) -> bool {
        self.at_input.is_some()
    }

    /// Whether a rank's output goes to a terminal of its own.
    pub(crate) fn has(&self, rank: usize) -> bool {
        self.at_input == Some(rank) || self.windows.contains_key(&rank)
    }

    /// Connects a rank's streams.
    pub(crate) fn connect(&self, rank: usize, command: &mut Command) -> io::Result<Takes> {
        if let Some(window) = self.windows.get(&rank) {
            command.stdin(window.terminal()?).stdout(window.terminal()?).stderr(window.terminal()?);
            return Ok(Takes::Session);
        }
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        Ok(if self.lent.as_ref().is_some_and(LentTerminal::is_lent) { Takes::Foreground } else { Takes::Nothing })
    }

    /// Whether a rank that stops stops the job: the user has stopped its debugger at the launcher's terminal.
    pub(crate) fn stops_job(&self, rank: usize) -> bool {
        self.at_input == Some(rank) && self.lent.is_some()
    }

    pub(crate) fn stopped(&mut self) {
        self.lent.iter_mut().for_each(LentTerminal::take_back);
    }

    /// The job continues. `group`: the process group of the rank that has the terminal.
    pub(crate) fn continued(&mut self, rank: usize, group: u32) {
        if self.at_input == Some(rank) {
            self.lent.iter_mut().for_each(|terminal| terminal.lend_again(group));
        }
    }

    /// A rank has ended.
    pub(crate) fn close(&mut self, rank: usize) {
        self.windows.remove(&rank);
        if self.at_input == Some(rank) {
            self.lent = None;
        }
    }
}
