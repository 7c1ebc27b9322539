// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pseudo-terminal for tests: a command runs on it, and the test reads its screen and types.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Bytes after which a screen that never shows what is awaited fails the test.
const SCREEN_MAX: usize = 4 << 20;

const WAIT_MS: libc::c_int = 120_000;

pub struct Terminal {
    screen: RefCell<File>,
    terminal: OwnedFd,
}

impl Terminal {
    /// A terminal of this size; 0 columns: it does not know its size.
    pub fn new(rows: u16, columns: u16) -> Terminal {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut screen, mut terminal) = (-1, -1);
        // SAFETY: openpty fills the two descriptors, which nothing else owns. Null pointers for the name and the settings are
        // allowed. fcntl takes numbers.
        unsafe {
            let made = libc::openpty(&mut screen, &mut terminal, std::ptr::null_mut(), std::ptr::null(), &size);
            assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
            // Commands of other tests do not keep it open.
            for fd in [screen, terminal] {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            Terminal { screen: RefCell::new(File::from_raw_fd(screen)), terminal: OwnedFd::from_raw_fd(terminal) }
        }
    }

    /// Starts a command whose streams, and whose controlling terminal, are this terminal.
    pub fn start(&self, command: &mut Command) -> Child {
        let end = || self.terminal.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm").env_remove("COLUMNS");
        // SAFETY: both are system calls, which are allowed between fork and exec. Descriptor 0 is the terminal there.
        unsafe {
            command.pre_exec(|| match libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                true => Err(std::io::Error::last_os_error()),
                false => Ok(()),
            });
        }
        command.spawn().expect("the command starts")
    }

    /// Types.
    pub fn write(&self, keys: &str) {
        self.screen.borrow_mut().write_all(keys.as_bytes()).expect("the terminal takes it");
    }

    /// Reads until the text has what is awaited. Returns it.
    pub fn read_until(&self, is_enough: impl Fn(&str) -> bool) -> String {
        let (mut seen, mut chunk) = (Vec::new(), [0u8; 4096]);
        while seen.len() < SCREEN_MAX {
            self.await_output(&seen);
            let count = self.screen.borrow_mut().read(&mut chunk).expect("the command goes on writing");
            seen.extend_from_slice(&chunk[..count]);
            let text = String::from_utf8_lossy(&seen);
            if is_enough(&text) {
                return text.into_owned();
            }
        }
        panic!("never seen: {}", String::from_utf8_lossy(&seen));
    }

    /// Waits for output. The limit only keeps a failing test from hanging.
    fn await_output(&self, seen: &[u8]) {
        let mut ready = libc::pollfd { fd: self.screen.borrow().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry that lives across the call.
        let count = unsafe { libc::poll(&mut ready, 1, WAIT_MS) };
        assert!(count > 0, "nothing more is written after {}", String::from_utf8_lossy(seen));
    }

    /// The output of a command that ends by itself.
    pub fn output(self, command: &mut Command) -> String {
        let mut child = self.start(command);
        let (Terminal { screen, terminal }, mut all) = (self, Vec::new());
        // The last end of the terminal is then the command's; its end ends the reading, by an error.
        drop(terminal);
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let _ = screen.into_inner().read_to_end(&mut all);
        assert!(child.wait().expect("it ends").success(), "{}", String::from_utf8_lossy(&all));
        String::from_utf8(all).expect("text").replace("\r\n", "\n")
    }

    /// The modes of the terminal that programs change: local, input and output flags.
    pub fn modes(&self) -> [libc::tcflag_t; 3] {
        // SAFETY: all fields may be zero; the call fills them.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.terminal.as_raw_fd(), &mut modes), 0);
            [modes.c_lflag, modes.c_iflag, modes.c_oflag]
        }
    }
}
