// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of the commands, fitted to the terminal: tables ([`Table`]), paragraphs ([`paragraph`]), progress
//! ([`Progress`]), and printing ([`print()`]).
//!
//! All commands print by these rules.
//! 1. The width is COLUMNS if that is a number from 1; else that of the terminal; 80 where the terminal does not know.
//!    A pipe or a file has no width: there each row of a table is one line, for `grep` and `awk`.
//! 2. Colours and bold type are only for a terminal, and obey NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
//! 3. Progress is on standard error, only if that is a terminal, and leaves no trace.
//! 4. A reader that closes standard output early, such as `head`, is no error.

mod progress;
mod table;
mod width;

pub use progress::Progress;
pub use table::{Cell, Table, Tone, paragraph, paragraph_for};
pub use width::{WIDTH_UNKNOWN, width};

use std::io::{self, Write};

/// Whether standard output takes colours.
pub fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Text without control characters, since names come from files and from other programs.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Prints on standard output. A reader that has closed it is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
