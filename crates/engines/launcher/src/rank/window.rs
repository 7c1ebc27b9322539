// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows for several ranks that a user debugs: panes of tmux, or windows of a terminal program on `DISPLAY`.
//!
//! The rank stays a child of the launcher, with its environment, its PMI socket and its exit status. The window runs a
//! *holder*, this command: it gives its terminal up as its own, names it to the launcher, and keeps the window open
//! until the rank has ended. The rank's debugger becomes the leader of a session on that terminal.
//!
//! Invariants
//! 1. All windows are open before the first rank is started.
//! 2. A window ends with its rank, and with the launcher: the holder reads the end of its connection.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::runner::RunnerError;
use crate::program;

/// Time for all windows to open.
const OPEN_LIMIT: Duration = Duration::from_secs(30);
/// Time between checks whether one has opened.
const CHECK: Duration = Duration::from_millis(10);
/// Longest line of a holder.
const LINE_BYTES_MAX: u64 = 512;

/// Terminal programs that take a command after this option.
const TERMINALS: [(&str, &str); 7] = [
    ("x-terminal-emulator", "-e"),
    ("xterm", "-e"),
    ("konsole", "-e"),
    ("alacritty", "-e"),
    ("urxvt", "-e"),
    ("kitty", "--"),
    ("gnome-terminal", "--"),
];

/// An open window.
pub(crate) struct Window {
    terminal: File,
    /// The holder ends when this is closed.
    _holder: UnixStream,
}

impl Window {
    /// The terminal for a stream of the rank.
    pub(crate) fn terminal(&self) -> io::Result<OwnedFd> {
        Ok(self.terminal.try_clone()?.into())
    }
}

/// The way to open windows.
#[derive(Debug, PartialEq, Eq)]
enum Opener {
    Tmux(PathBuf),
    Terminal(PathBuf, &'static str),
}

impl Opener {
    fn find(variable: impl Fn(&str) -> Option<OsString>) -> Option<Opener> {
        let path = variable("PATH").unwrap_or_default();
        let find = |name: &str| program::find(OsStr::new(name), &path).ok();
        let has = |name| variable(name).is_some_and(|value| !value.is_empty());
        if let Some(tmux) = has("TMUX").then(|| find("tmux")).flatten() {
            return Some(Opener::Tmux(tmux));
        }
        let on_screen = has("DISPLAY") || has("WAYLAND_DISPLAY");
        let found = |&(name, option): &(&str, &'static str)| Some(Opener::Terminal(find(name)?, option));
        TERMINALS.iter().filter(|_| on_screen).find_map(found)
    }

    /// Commands of which one opens a window that runs `holder`: the second if the first fails.
    fn commands(&self, holder: &[OsString]) -> Vec<Command> {
        let command = |program: &Path, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).args(holder);
            command
        };
        match self {
            // A window of tmux has room for few panes.
            Opener::Tmux(tmux) => {
                vec![command(tmux, &["split-window", "-d", "--"]), command(tmux, &["new-window", "-d", "--"])]
            }
            Opener::Terminal(program, option) => vec![command(program, &[option])],
        }
    }
}

/// Opens a window for each of these ranks. `folder`: for a socket; `mask`: the signal mask of other programs.
pub(crate) fn open(
    ranks: &[usize],
    folder: &Path,
    mask: libc::sigset_t,
) -> Result<BTreeMap<usize, Window>, RunnerError> {
    let opener = Opener::find(|name| std::env::var_os(name)).ok_or(RunnerError::NoWindows { ranks: ranks.len() })?;
    let cannot = |error: io::Error| RunnerError::Window { why: error.to_string() };
    let socket = folder.join("windows");
    let listener = UnixListener::bind(&socket).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let own = std::env::current_exe().map_err(cannot)?;
    let mut programs = Vec::new();
    let mut windows = BTreeMap::new();
    let until = Instant::now() + OPEN_LIMIT;
    for rank in ranks {
        let holder = [own.clone().into(), "window".into(), socket.clone().into(), rank.to_string().into()];
        start(&opener, &holder, mask, until, &mut programs)?;
        // One after another, so that they stand in the order of the ranks.
        while !windows.contains_key(rank) {
            if let Some((rank, window)) = accept(&listener).map_err(cannot)? {
                windows.insert(rank, window);
            } else if let Some(why) = failed(&mut programs) {
                return Err(RunnerError::Window { why });
            } else if Instant::now() >= until {
                let why = format!("none has opened within {} s", OPEN_LIMIT.as_secs());
                return Err(RunnerError::Window { why });
            } else {
                std::thread::sleep(CHECK);
            }
        }
        if let Opener::Tmux(tmux) = &opener {
            // A picture only.
            let mut layout = Command::new(tmux);
            layout.args(["select-layout", "tiled"]).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = layout.spawn().and_then(|mut layout| ended(&mut layout, until));
        }
    }
    programs.into_iter().for_each(|(_, program)| drain(program));
    Ok(windows)
}

/// Starts the program that opens a window. tmux ends when it has, before `until`; a terminal program stays.
fn start(
    opener: &Opener,
    holder: &[OsString],
    mask: libc::sigset_t,
    until: Instant,
    programs: &mut Vec<(String, Child)>,
) -> Result<(), RunnerError> {
    let mut why = String::new();
    for mut command in opener.commands(holder) {
        let name = Path::new(command.get_program()).display().to_string();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        // SAFETY: sigprocmask may run between fork and exec; it reads `mask`, which the closure owns.
        unsafe {
            command.pre_exec(move || {
                libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
        let cannot = |error: io::Error| RunnerError::Window { why: format!("{name}: {error}") };
        let mut started = command.spawn().map_err(cannot)?;
        if let Opener::Terminal(..) = opener {
            programs.push((name, started));
            return Ok(());
        }
        let Some(status) = ended(&mut started, until).map_err(cannot)? else {
            return Err(RunnerError::Window { why: format!("{name} does not answer") });
        };
        if status.success() {
            return Ok(());
        }
        why = format!("{name}: {}", said(&mut started));
    }
    Err(RunnerError::Window { why })
}

/// Waits for a program's end, and kills it if that does not come in time. Signals that interrupt the launcher are
/// blocked, so it may not wait for ever.
fn ended(program: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            program.kill()?;
            program.wait()?;
            return Ok(None);
        }
        std::thread::sleep(CHECK);
    }
}

/// The words of a program that has ended.
fn said(program: &mut Child) -> String {
    let mut said = Vec::new();
    let _ = program.stderr.take().map(|pipe| pipe.take(4096).read_to_end(&mut said));
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// Takes what a terminal program writes, as long as it runs: a closed pipe would kill it, and its window.
fn drain(mut program: Child) {
    let taker = std::thread::Builder::new().name("terminal program".into());
    // Without a thread the pipe is closed.
    let _ = taker.spawn(move || {
        let _ = program.stderr.take().map(|mut pipe| io::copy(&mut pipe, &mut io::sink()));
        let _ = program.wait();
    });
}

/// A terminal program that has failed, and its words.
fn failed(programs: &mut [(String, Child)]) -> Option<String> {
    programs.iter_mut().find_map(|(name, program)| {
        let status = program.try_wait().ok().flatten().filter(|status| !status.success())?;
        Some(format!("{name} ended with {status}: {}", said(program)))
    })
}

/// Takes the next holder's terminal.
fn accept(listener: &UnixListener) -> io::Result<Option<(usize, Window)>> {
    let mut holder = match listener.accept() {
        Ok((holder, _)) => holder,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    holder.set_nonblocking(false)?;
    holder.set_read_timeout(Some(OPEN_LIMIT))?;
    let mut line = Vec::new();
    BufReader::new((&mut holder).take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    let wrong = || io::Error::other(format!("a window has sent {line:?}"));
    let (rank, terminal) = line.split_once(' ').ok_or_else(wrong)?;
    let rank = rank.parse().map_err(|_| wrong())?;
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(terminal)?;
    Ok(Some((rank, Window { terminal, _holder: holder })))
}

/// Becomes the leader of a session on the terminal of standard input. Makes system calls only.
pub(crate) fn lead_session() -> io::Result<()> {
    rustix::process::setsid()?;
    // Where a program in the window keeps the terminal, Ctrl-C goes to that, and the debugger works nevertheless.
    // SAFETY: TIOCSCTTY takes a number.
    unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
    Ok(())
}

/// Holds a window for a rank: gives the terminal up, names it to the launcher, and waits for the rank's end.
pub fn hold(socket: &Path, rank: u32) -> io::Result<()> {
    let terminal = rustix::termios::ttyname(rustix::stdio::stdin(), Vec::new())?;
    let mut launcher = UnixStream::connect(socket)?;
    let own = File::open("/dev/tty")?;
    // SAFETY: `signal` and TIOCNOTTY take numbers; the descriptor is open. The kernel sends SIGHUP to the foreground of a
    // session that loses its terminal, which is this process.
    unsafe {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::ioctl(own.as_raw_fd(), libc::TIOCNOTTY);
    }
    launcher.write_all(format!("{rank} {}\n", terminal.to_string_lossy()).as_bytes())?;
    let _ = launcher.read(&mut [0]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let shell = |script: &str| Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().expect("sh");
        let mut quick = shell("echo words >&2; exit 3");
        let status = ended(&mut quick, Instant::now() + OPEN_LIMIT).expect("waited").expect("ended");
        assert_eq!((status.code(), said(&mut quick).as_str()), (Some(3), "words"));
        let mut stuck = shell("exec sleep 1000");
        assert_eq!(ended(&mut stuck, Instant::now()).expect("waited"), None);
        assert!(stuck.try_wait().expect("known").is_some());
    }

    #[test]
    fn tmux_comes_before_terminal_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["tmux", "xterm", "kitty"] {
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(folder.path().join(name));
            file.expect("made");
        }
        let found = |set: &[&str]| {
            Opener::find(|name| match name {
                "PATH" => Some(folder.path().into()),
                name => set.contains(&name).then(|| "x".into()),
            })
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["DISPLAY"]), Some(Opener::Terminal(folder.path().join("xterm"), "-e")));
        assert_eq!(found(&["DISPLAY", "TMUX"]), Some(Opener::Tmux(folder.path().join("tmux"))));
        std::fs::remove_file(folder.path().join("xterm")).expect("removed");
        assert_eq!(found(&["WAYLAND_DISPLAY"]), Some(Opener::Terminal(folder.path().join("kitty"), "--")));
    }
}
