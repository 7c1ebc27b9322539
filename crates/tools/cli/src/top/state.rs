// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the screen of `selvedge top`: order, filter, place, pause; and the keys that change it. No terminal is
//! needed here.
//!
//! Invariant: a key never fails; one that has no meaning here is ignored.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::view::{Field, View};

/// Intervals that `+` and `-` choose.
const INTERVALS_MS: [u64; 8] = [100, 250, 500, 1000, 2000, 5000, 10_000, 60_000];
/// Letters of a filter.
const FILTER_MAX: usize = 64;

/// The keys, and their meaning.
pub const KEYS: [(&str, &str); 13] = [
    ("q, Ctrl-C", "quit"),
    ("h, ?", "this help"),
    ("<, >", "sort by the column to the left or to the right"),
    ("r", "reverse the order"),
    ("0", "the order of ranks again"),
    ("/", "show only rows that contain a text; Enter keeps it, Esc removes it"),
    ("Space, p", "pause, and go on"),
    ("l", "links in place of NICs, and back"),
    ("+, -", "a longer or a shorter time between two looks"),
    ("Up, Down, Page Up, Page Down", "move through the rows"),
    ("Home, End", "the first row, the last row"),
    ("Left, Right", "move through the columns"),
    ("Ctrl-Z", "suspend"),
];

/// The answer to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Continue,
    Quit,
    Suspend,
}

#[derive(Clone, Debug)]
pub struct State {
    pub links: bool,
    pub is_paused: bool,
    pub shows_help: bool,
    pub interval: Duration,
    /// The column by which rows are sorted; `None`: the order of the snapshot, by job and rank.
    pub sorted_by: Option<usize>,
    pub is_descending: bool,
    pub filter: String,
    /// The user types the filter.
    pub is_typing: bool,
    /// The first row and the first column that is shown, beside the first one.
    pub row: usize,
    pub column: usize,
    /// Rows of the last drawing: all, and those that fitted.
    pub rows: usize,
    pub rows_shown: usize,
    /// Columns of the last drawing.
    pub columns: usize,
}

impl State {
    pub fn new(links: bool, interval: Duration) -> State {
        State {
            links,
            is_paused: false,
            shows_help: false,
            interval,
            sorted_by: None,
            is_descending: false,
            filter: String::new(),
            is_typing: false,
            row: 0,
            column: 0,
            rows: 0,
            rows_shown: 1,
            columns: 0,
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Answer {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return Answer::Quit,
            KeyCode::Char('z') if with_control => return Answer::Suspend,
            _ if self.is_typing => self.type_filter(key.code),
            KeyCode::Char('q') => return Answer::Quit,
            _ if self.shows_help => self.shows_help = false,
            code => self.command(code),
        }
        Answer::Continue
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(letter) if !letter.is_control() && self.filter.chars().count() < FILTER_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
        self.row = 0;
    }

    fn command(&mut self, code: KeyCode) {
        let page = self.rows_shown.max(1);
        match code {
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char('>' | '.') => self.sort(1),
            KeyCode::Char('<' | ',') => self.sort(-1),
            KeyCode::Char('r') => self.is_descending = !self.is_descending,
            KeyCode::Char('0') => (self.sorted_by, self.is_descending) = (None, false),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('l') => {
                let fresh = State::new(!self.links, self.interval);
                *self = State { is_paused: self.is_paused, filter: std::mem::take(&mut self.filter), ..fresh };
            }
            KeyCode::Char('+') => self.interval = self.other_interval(true),
            KeyCode::Char('-') => self.interval = self.other_interval(false),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.row += 1,
            KeyCode::PageUp => self.row = self.row.saturating_sub(page),
            KeyCode::PageDown => self.row += page,
            KeyCode::Home => self.row = 0,
            KeyCode::End => self.row = usize::MAX,
            KeyCode::Left => self.column = self.column.saturating_sub(1),
            KeyCode::Right => self.column += 1,
            _ => {}
        }
        self.stay_inside();
    }

    /// Sorts by the next column in a direction, round and round.
    fn sort(&mut self, step: isize) {
        let columns = self.columns.max(1);
        let next = match self.sorted_by {
            None if step > 0 => 0,
            None => columns - 1,
            Some(at) => (at + columns).saturating_add_signed(step) % columns,
        };
        self.sorted_by = Some(next);
    }

    /// The next longer or shorter interval; this one at the end.
    fn other_interval(&self, longer: bool) -> Duration {
        let mut intervals = INTERVALS_MS.map(Duration::from_millis).into_iter();
        let found = match longer {
            true => intervals.find(|other| *other > self.interval),
            false => intervals.rfind(|other| *other < self.interval),
        };
        found.unwrap_or(self.interval)
    }

    /// Keeps the place within rows and columns.
    pub fn stay_inside(&mut self) {
        self.row = self.row.min(self.rows.saturating_sub(self.rows_shown.max(1)));
        self.column = self.column.min(self.columns.saturating_sub(2));
    }

    /// The rows that the filter lets through, in their order.
    pub fn chosen(&self, view: &View) -> Vec<Vec<Field>> {
        let wanted = self.filter.to_lowercase();
        let contains = |row: &&Vec<Field>| row.iter().any(|field| field.text.to_lowercase().contains(&wanted));
        let mut rows: Vec<Vec<Field>> = view.rows.iter().filter(contains).cloned().collect();
        match self.sorted_by.filter(|&at| at < view.heads.len()) {
            // Equal rows stay in the order of ranks, reversed or not.
            Some(at) if self.is_descending => rows.sort_by(|a, b| b[at].order(&a[at])),
            Some(at) => rows.sort_by(|a, b| a[at].order(&b[at])),
            None if self.is_descending => rows.reverse(),
            None => {}
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let row = |rank, state: &str, rate| {
            vec![Field::whole(rank), Field::state(state), Field::rate(rate), Field::text(&format!("job {}", rank % 2))]
        };
        let rows = vec![
            row(0, "ready", Some(9_994.0)),
            row(1, "dead", None),
            row(2, "ready", Some(12_000.0)),
            row(10, "closed", Some(3.0)),
        ];
        View { heads: &[">rank", "state", ">recv/s", "job"], rows, notes: Vec::new() }
    }

    fn state() -> State {
        State { columns: 4, rows: 4, rows_shown: 2, ..State::new(false, Duration::from_secs(1)) }
    }

    fn press(state: &mut State, keys: &str) {
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                letter => KeyCode::Char(letter),
            };
            assert_eq!(state.key(code.into()), Answer::Continue, "{letter:?}");
        }
    }

    fn ranks(state: &State) -> Vec<String> {
        state.chosen(&view()).iter().map(|row| row[0].text.clone()).collect()
    }

    #[test]
    fn rows_are_sorted_by_value_and_reversed() {
        let mut state = state();
        assert_eq!(ranks(&state), ["0", "1", "2", "10"]);
        press(&mut state, ">>>");
        assert_eq!((state.sorted_by, ranks(&state)), (Some(2), ["1", "10", "0", "2"].map(String::from).to_vec()));
        press(&mut state, "r");
        assert_eq!(ranks(&state), ["2", "0", "10", "1"]);
        press(&mut state, "<");
        assert_eq!(ranks(&state), ["0", "2", "1", "10"], "states by letters, reversed; equal ones by rank");
        press(&mut state, ">>>");
        assert_eq!(state.sorted_by, Some(0), "after the last column comes the first");
        press(&mut state, "0");
        assert_eq!((state.sorted_by, ranks(&state)), (None, ["0", "1", "2", "10"].map(String::from).to_vec()));
        press(&mut state, "<");
        assert_eq!(state.sorted_by, Some(3));
    }

    #[test]
    fn a_filter_is_typed_kept_and_removed() {
        let mut state = state();
        press(&mut state, "/READq");
        assert!(state.is_typing && ranks(&state).is_empty(), "q is a letter of the filter");
        assert_eq!(state.key(KeyCode::Backspace.into()), Answer::Continue);
        press(&mut state, "\n");
        assert_eq!((state.is_typing, ranks(&state)), (false, ["0", "2"].map(String::from).to_vec()));
        assert_eq!(state.key(KeyCode::Esc.into()), Answer::Continue);
        assert_eq!(ranks(&state).len(), 4);
        press(&mut state, &format!("/{}", "x".repeat(1000)));
        assert_eq!(state.filter.len(), FILTER_MAX);
    }

    #[test]
    fn keys_stay_within_rows_and_columns() {
        let mut state = state();
        for _ in 0..9 {
            state.key(KeyCode::Down.into());
            state.key(KeyCode::Right.into());
        }
        assert_eq!((state.row, state.column), (2, 2));
        for code in [KeyCode::PageUp, KeyCode::Home, KeyCode::Left, KeyCode::Left, KeyCode::Left] {
            state.key(code.into());
        }
        assert_eq!((state.row, state.column), (0, 0));
        state.key(KeyCode::End.into());
        assert_eq!(state.row, 2);
        let mut empty = State::new(true, Duration::from_secs(1));
        for code in [KeyCode::End, KeyCode::PageDown, KeyCode::Right, KeyCode::Char('>'), KeyCode::Char('<')] {
            empty.key(code.into());
        }
        assert_eq!((empty.row, empty.column), (0, 0));
    }

    #[test]
    fn pause_help_links_interval_and_quit() {
        let mut state = state();
        press(&mut state, "p?");
        assert!(state.is_paused && state.shows_help);
        press(&mut state, "x");
        assert!(!state.shows_help, "any key ends the help");
        press(&mut state, ">l");
        assert!(state.links && state.is_paused && state.sorted_by.is_none(), "the columns are others");
        press(&mut state, "-");
        assert_eq!(state.interval, Duration::from_millis(500));
        press(&mut state, "----");
        assert_eq!(state.interval, Duration::from_millis(100));
        press(&mut state, "+++++++++");
        assert_eq!(state.interval, Duration::from_secs(60));
        for key in ["q", "?q"] {
            let mut state = self::state();
            let answers: Vec<Answer> = key.chars().map(|letter| state.key(KeyCode::Char(letter).into())).collect();
            assert_eq!(answers.last(), Some(&Answer::Quit), "{key}");
        }
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        press(&mut state, "/");
        assert_eq!((state.key(control('c')), state.key(control('z'))), (Answer::Quit, Answer::Suspend));
    }
}
