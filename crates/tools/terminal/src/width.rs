// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The width of standard output.

use std::io::{self, IsTerminal};

/// Columns of a terminal that does not tell its width.
pub const WIDTH_UNKNOWN: usize = 80;

/// Columns that a line of standard output may have; `None`: any number, because it is a pipe or a file.
pub fn width() -> Option<usize> {
    let out = io::stdout();
    let terminal = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).map_or(0, |size| size.ws_col));
    chosen(std::env::var("COLUMNS").ok().as_deref(), terminal)
}

/// The width by the value of COLUMNS and the columns of the terminal; 0: it does not know.
fn chosen(given: Option<&str>, terminal: Option<u16>) -> Option<usize> {
    let given = given.and_then(|text| text.trim().parse().ok()).filter(|&columns: &u16| columns > 0);
    match (given, terminal) {
        (Some(columns), _) => Some(columns.into()),
        (None, Some(0)) => Some(WIDTH_UNKNOWN),
        (None, terminal) => terminal.map(usize::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_the_users_then_the_terminals() {
        for (given, terminal, width) in [
            (None, None, None),
            (None, Some(132), Some(132)),
            (None, Some(0), Some(80)),
            (Some("40"), None, Some(40)),
            (Some("40"), Some(132), Some(40)),
            (Some("0"), Some(132), Some(132)),
            (Some("0"), Some(0), Some(80)),
            (Some("wide"), None, None),
            (Some(""), Some(80), Some(80)),
        ] {
            assert_eq!(chosen(given, terminal), width, "{given:?} {terminal:?}");
        }
    }
}
