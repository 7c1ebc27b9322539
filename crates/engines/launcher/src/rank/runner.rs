// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command that runs a rank's program: the program itself, a wrapper (`--wrapper`), or gdb (`--gdb`).
//!
//! A wrapper and gdb are the rank's process; the program is that process in the end, or its child. Both are found before
//! anything is started.
//!
//! gdb ends with the exit code of the program, or 128 + the signal's number, by a file of commands in the job's
//! directory. With commands of the user (`--gdb-command`) it asks for nothing, and the program runs on behind them;
//! without, it has a terminal: that of the launcher if it is one rank's, else a window for each ([`super::window`]).

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::options::JobOptions;
use crate::preload::LD_PRELOAD;
use crate::program::{self, ProgramError};

/// The ranks that run under gdb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gdb {
    pub ranks: RankList,
    /// gdb's commands. Empty: it reads them from a terminal.
    pub commands: Vec<String>,
}

/// Ranks as the user lists them: `all`, `0`, `0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankList {
    All,
    /// First and last rank of each part.
    Parts(Vec<(u32, u32)>),
}

impl FromStr for RankList {
    type Err = String;

    fn from_str(text: &str) -> Result<RankList, String> {
        if text == "all" {
            return Ok(RankList::All);
        }
        let part = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let parts: Option<Vec<(u32, u32)>> = text.split(',').map(part).collect();
        parts.map(RankList::Parts).ok_or_else(|| "write ranks as 0, 0,2-3 or all".to_owned())
    }
}

impl RankList {
    pub fn contains(&self, rank: usize) -> bool {
        match self {
            RankList::All => true,
            RankList::Parts(parts) => {
                parts.iter().any(|&(first, last)| (first as usize..=last as usize).contains(&rank))
            }
        }
    }

    /// The largest rank that is named.
    fn last(&self) -> Option<u32> {
        match self {
            RankList::All => None,
            RankList::Parts(parts) => parts.iter().map(|&(_, last)| last).max(),
        }
    }
}

/// Reasons why ranks cannot run under a wrapper or a debugger.
#[derive(Debug, PartialEq, Eq)]
pub enum RunnerError {
    Wrapper(ProgramError),
    NoGdb,
    NoSuchRank { rank: u32, size: u32 },
    OtherHosts,
    NoWindows { ranks: usize },
    Window { why: String },
}

impl RunnerError {
    /// 127 and 126 for a program that is not found or not executable, as shells; 2 for options that do not fit.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunnerError::Wrapper(error) => error.exit_code(),
            RunnerError::NoGdb => 127,
            RunnerError::Window { .. } => 1,
            RunnerError::NoSuchRank { .. } | RunnerError::OtherHosts | RunnerError::NoWindows { .. } => 2,
        }
    }
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunnerError::Wrapper(error) => write!(f, "--wrapper: {error}"),
            RunnerError::NoGdb => write!(
                f,
                "--gdb: gdb is not in PATH; install the package gdb, or name another debugger: --wrapper 'DEBUGGER OPTIONS'"
            ),
            RunnerError::NoSuchRank { rank, size } => {
                write!(f, "--gdb: there is no rank {rank}; the job has ranks 0 to {}", size.saturating_sub(1))
            }
            RunnerError::OtherHosts => write!(
                f,
                "--gdb: ranks of other hosts have no terminal here; give gdb's commands: --gdb-command run --gdb-command bt"
            ),
            RunnerError::NoWindows { ranks } => write!(
                f,
                "--gdb: {ranks} ranks need a window each, and there is neither tmux around this command nor a DISPLAY with a \
                 terminal; start tmux first, or name one rank, or give gdb's commands: --gdb-command run --gdb-command bt"
            ),
            RunnerError::Window { why } => write!(f, "--gdb: no window for a rank: {why}"),
        }
    }
}

impl std::error::Error for RunnerError {}

/// How the ranks' program is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Runner {
    #[default]
    Plain,
    Wrapper {
        file: PathBuf,
        words: Vec<String>,
    },
    Gdb {
        file: PathBuf,
        gdb: Gdb,
    },
}

/// The place in the words of a wrapper for the number of the rank.
const RANK: &str = "{rank}";

/// gdb ends as the program has ended. A user who quits while the program is there ends it, which gdb reports as 255.
const AT_QUIT: &str = "\
define hook-quit
  if $_isvoid($_exitsignal)
  else
    quit 128 + $_exitsignal
  end
end
";

/// The program runs on behind the user's commands. A signal that has stopped it is delivered.
const AT_END: &str = "\
set language c
while $_isvoid($_exitcode) && $_isvoid($_exitsignal)
  continue
end
if $_isvoid($_exitsignal)
  quit $_exitcode
end
quit 128 + $_exitsignal
";

impl Runner {
    /// Finds the wrapper or gdb in the ranks' `PATH`.
    pub(crate) fn find(options: &JobOptions) -> Result<Runner, RunnerError> {
        let path = options.search_path();
        if let Some(name) = options.wrapper.first() {
            let file = program::find(OsStr::new(name), &path).map_err(RunnerError::Wrapper)?;
            return Ok(Runner::Wrapper { file, words: options.wrapper.clone() });
        }
        let Some(gdb) = options.gdb.clone() else { return Ok(Runner::Plain) };
        if let Some(rank) = gdb.ranks.last().filter(|&rank| rank >= options.ranks) {
            return Err(RunnerError::NoSuchRank { rank, size: options.ranks });
        }
        let file = program::find(OsStr::new("gdb"), &path).map_err(|_| RunnerError::NoGdb)?;
        Ok(Runner::Gdb { file, gdb })
    }

    /// Whether a rank has a debugger that reads from a terminal, or from standard input in its stead.
    pub(crate) fn is_interactive(&self, rank: usize) -> bool {
        matches!(self, Runner::Gdb { gdb, .. } if gdb.commands.is_empty() && gdb.ranks.contains(rank))
    }

    /// The file of commands that gdb needs.
    pub(crate) fn script(&self) -> Option<&'static str> {
        match self {
            Runner::Gdb { gdb, .. } if gdb.commands.is_empty() => Some(AT_QUIT),
            Runner::Gdb { .. } => Some(AT_END),
            Runner::Plain | Runner::Wrapper { .. } => None,
        }
    }

    /// The command of a rank. `preloads`: libraries that the program loads first, and gdb must not.
    pub(crate) fn command(
        &self,
        rank: usize,
        (executable, name): (&Path, &OsStr),
        script: &Path,
        preloads: &OsStr,
    ) -> Command {
        match self {
            Runner::Wrapper { file, words } => {
                let mut command = Command::new(file);
                let number = rank.to_string();
                command.args(words.iter().skip(1).map(|word| word.replace(RANK, &number))).arg(executable);
                command
            }
            Runner::Gdb { file, gdb } if gdb.ranks.contains(rank) => {
                let mut command = Command::new(file);
                command.arg("--quiet");
                if !preloads.is_empty() {
                    let set = format!("set environment {LD_PRELOAD} ");
                    command.arg("-iex").arg([OsStr::new(&set), preloads].join(OsStr::new("")));
                }
                if gdb.commands.is_empty() {
                    command.arg("--return-child-result").arg("-x").arg(script);
                } else {
                    command.arg("--batch");
                    command.args(gdb.commands.iter().flat_map(|line| ["-ex", line]));
                    command.arg("-x").arg(script);
                }
                command.arg("--args").arg(executable);
                command
            }
            Runner::Plain | Runner::Gdb { .. } => {
                let mut command = Command::new(executable);
                command.arg0(name);
                command
            }
        }
    }

    /// Whether gdb runs a rank. It must not load the libraries that are preloaded into the program.
    pub(crate) fn is_debugger(&self, rank: usize) -> bool {
        matches!(self, Runner::Gdb { gdb, .. } if gdb.ranks.contains(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed() {
        let list = |text: &str| text.parse::<RankList>();
        assert_eq!(list("all"), Ok(RankList::All));
        assert_eq!(list("0,2-3"), Ok(RankList::Parts(vec![(0, 0), (2, 3)])));
        let ranks = list("0,2-3").expect("a list");
        assert_eq!((0..5).filter(|&rank| ranks.contains(rank)).collect::<Vec<_>>(), [0, 2, 3]);
        for wrong in ["", "a", "3-2", "1,", "-1", "1-", "All"] {
            assert!(list(wrong).is_err(), "{wrong:?}");
        }
    }

    fn words(runner: &Runner, rank: usize) -> String {
        let command = runner.command(
            rank,
            (Path::new("/bin/prog"), OsStr::new("prog")),
            Path::new("/job/gdb"),
            OsStr::new("/a.so"),
        );
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn commands_of_ranks() {
        assert_eq!(words(&Runner::Plain, 3), "/bin/prog");
        let words_of = |text: &str| text.split(' ').map(str::to_owned).collect();
        let wrapper = Runner::Wrapper { file: "/bin/perf".into(), words: words_of("perf record -o p.{rank}") };
        assert_eq!(words(&wrapper, 3), "/bin/perf record -o p.3 /bin/prog");
        let gdb = |commands| Runner::Gdb {
            file: "/bin/gdb".into(),
            gdb: Gdb { ranks: RankList::Parts(vec![(1, 1)]), commands },
        };
        assert_eq!(words(&gdb(vec![]), 0), "/bin/prog");
        let own = "/bin/gdb --quiet -iex set environment LD_PRELOAD /a.so";
        assert_eq!(words(&gdb(vec![]), 1), format!("{own} --return-child-result -x /job/gdb --args /bin/prog"));
        let batch = gdb(vec!["run".to_owned(), "bt".to_owned()]);
        assert_eq!(words(&batch, 1), format!("{own} --batch -ex run -ex bt -x /job/gdb --args /bin/prog"));
        assert!(gdb(vec![]).is_interactive(1) && !gdb(vec![]).is_interactive(0) && !batch.is_interactive(1));
    }

    #[test]
    fn runners_that_cannot_be_are_refused() {
        let gdb = |ranks: &str| Some(Gdb { ranks: ranks.parse().expect("a list"), commands: vec![] });
        let options = |wrapper: &str, gdb| JobOptions {
            ranks: 4,
            wrapper: wrapper.split_ascii_whitespace().map(str::to_owned).collect(),
            gdb,
            ..JobOptions::default()
        };
        let missing = Runner::find(&options("no-such-program -q", None)).expect_err("missing");
        assert_eq!((missing.exit_code(), missing.to_string().contains("no-such-program is not in PATH")), (127, true));
        assert_eq!(Runner::find(&options("", gdb("1,4"))), Err(RunnerError::NoSuchRank { rank: 4, size: 4 }));
        let nowhere =
            JobOptions { env: vec![("PATH".to_owned(), "/nonexistent".to_owned())], ..options("", gdb("all")) };
        assert_eq!(Runner::find(&nowhere), Err(RunnerError::NoGdb));
    }
}
