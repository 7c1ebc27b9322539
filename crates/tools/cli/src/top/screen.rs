// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The screen of `selvedge top` on a terminal: draws the rows, reads keys, and gives the terminal back as it was.
//!
//! Invariants: 1. the terminal is restored after a key, an error, a panic, SIGINT, SIGTERM and SIGHUP, and while the
//! command is suspended. 2. Nothing is drawn beyond the terminal, however small it is; one that does not know its size
//! is taken for [`UNKNOWN`]. 3. The command ends with its terminal.
//!
//! Cost: one snapshot each interval, and one drawing for it and for each key.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, size};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, Wrap};
use ratatui::{DefaultTerminal, Frame, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use selvedge_host::snapshot::{Rates, Snapshot, user_directory};
use selvedge_terminal::{Tone, has_colours};

use super::state::{Answer, KEYS, State};
use super::view::{Field, View};
use super::{Args, INTERVAL_MIN, show, view};

/// Time after which a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// The size of a terminal that does not know it.
const UNKNOWN: Rect = Rect { x: 0, y: 0, width: 80, height: 24 };
/// Lines of jobs above the rows, and of notes below them. The rows have the rest.
const JOBS_MAX: usize = 4;
const NOTES_MAX: usize = 4;

/// A screen that is to be drawn.
struct Screen<'a> {
    title: &'a str,
    heading: &'a [String],
    view: &'a View,
    notes: &'a [String],
    has_colours: bool,
}

/// Watches until a key, a signal or the end of the terminal ends it.
pub fn watch(args: &Args, parent: &Path, first: Snapshot) -> io::Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, is_over.clone())?;
    }
    let keys = Keys::open()?;
    let mut terminal = open()?;
    let watched = follow(args, parent, first, &mut terminal, &keys, &is_over);
    let restored = close(&mut terminal);
    // `close` has given the terminal back. `drop` would do it again, and would panic if standard error has gone, too.
    std::mem::forget(terminal);
    match watched {
        // The terminal may have gone, and with it the user.
        _ if is_over.load(Relaxed) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(ErrorKind::BrokenPipe.into()),
        Err(error) => Err(error),
        Ok(()) => restored,
    }
}

/// Takes the terminal. A hook restores it on a panic.
fn open() -> io::Result<DefaultTerminal> {
    let opened = match size() {
        Ok((0, _) | (_, 0)) => {
            let options = TerminalOptions { viewport: Viewport::Fixed(UNKNOWN) };
            ratatui::try_init_with_options(options)
                .and_then(|terminal| execute!(io::stdout(), EnterAlternateScreen).map(|()| terminal))
        }
        _ => ratatui::try_init(),
    };
    opened.inspect_err(|_| {
        // It may have been taken in part. The first error is the one to tell.
        let _ = ratatui::try_restore();
    })
}

/// Gives the terminal back.
fn close(terminal: &mut DefaultTerminal) -> io::Result<()> {
    let shown = terminal.show_cursor();
    ratatui::try_restore().and(shown)
}

/// The terminal that keys come from: standard input, or else this one.
struct Keys(Option<File>);

impl Keys {
    fn open() -> io::Result<Keys> {
        Ok(Keys(if io::stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) }))
    }

    /// Waits until keys can be read, for at most this time. Returns whether they can.
    ///
    /// A terminal that has gone is an error of kind `BrokenPipe`. crossterm does not notice it: it reads for ever.
    fn wait(&self, wait: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        let terminal = self.0.as_ref().map_or(stdin.as_fd(), File::as_fd);
        let mut polled = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
        // At most a few seconds.
        let time = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut polled, Some(&time)) {
            Err(Errno::INTR) => return Ok(false),
            polled => polled?,
        };
        let found = polled[0].revents();
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(found.contains(PollFlags::IN))
    }
}

fn follow(
    args: &Args,
    parent: &Path,
    first: Snapshot,
    terminal: &mut DefaultTerminal,
    keys: &Keys,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let mut state = State::new(args.links, args.interval.max(INTERVAL_MIN));
    let (mut earlier, mut now): (Option<Snapshot>, Snapshot) = (None, first);
    let mut looked = Instant::now();
    let directory = user_directory(parent).display().to_string();
    while !is_over.load(Relaxed) {
        let view = view(state.links, &now, &Rates::between(earlier.as_ref(), &now));
        let notes: Vec<String> = view.notes.iter().cloned().chain(show::notes(&now)).collect();
        let title = title(&directory, &state);
        let heading = show::heading(&now);
        let screen =
            Screen { title: &title, heading: &heading, view: &view, notes: &notes, has_colours: has_colours() };
        terminal.draw(|frame| draw(frame, &screen, &mut state))?;
        // Sleeps until a key, until the next look, or until a signal may have come.
        let left = state.interval.saturating_sub(looked.elapsed());
        let wait = if state.is_paused { LOOK } else { left.min(LOOK) };
        // crossterm keeps all keys of one read, so all are taken from it.
        let has_keys = keys.wait(wait)?;
        while has_keys && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match state.key(key) {
                    Answer::Continue => {}
                    Answer::Quit => return Ok(()),
                    Answer::Suspend => suspend(terminal)?,
                },
                _ => {}
            }
        }
        if !state.is_paused && looked.elapsed() >= state.interval {
            looked = Instant::now();
            earlier = Some(std::mem::replace(&mut now, Snapshot::new(parent, args.job.as_deref())));
        }
    }
    Ok(())
}

/// Whether keys can be read: from standard input, or from the terminal of this session.
pub fn has_keys() -> bool {
    Keys::open().is_ok()
}

/// Stops this process as Ctrl-Z does, with the terminal as it was before.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    close(terminal)?;
    // The kernel discards this signal, unlike SIGSTOP, where no shell could continue the process: in an orphaned group.
    signal_hook::low_level::raise(signal_hook::consts::SIGTSTP)?;
    std::mem::forget(std::mem::replace(terminal, open()?));
    terminal.clear()
}

fn title(directory: &str, state: &State) -> String {
    let mut title = format!("{directory}, every {} s", state.interval.as_secs_f64());
    if state.is_paused {
        title += ", paused";
    }
    if !state.filter.is_empty() && !state.is_typing {
        title += &format!(", only rows with \"{}\"", state.filter);
    }
    title
}

fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>, state: &mut State) {
    let jobs = screen.heading.len().min(1 + JOBS_MAX);
    let notes = screen.notes.len().min(NOTES_MAX);
    let [top, middle, bottom, keys] = Layout::vertical([
        Constraint::Length(1 + jobs as u16),
        Constraint::Min(0),
        Constraint::Length(notes as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let mut lines = vec![Line::styled(screen.title, Modifier::BOLD)];
    lines.extend(cut(screen.heading, jobs));
    frame.render_widget(Paragraph::new(lines), top);
    draw_rows(frame, middle, screen, state);
    frame.render_widget(Paragraph::new(cut(screen.notes, notes)), bottom);
    frame.render_widget(Paragraph::new(footer(state, screen.view)), keys);
    if state.shows_help {
        draw_help(frame);
    }
}

/// The first `most` of these lines; the last one says how many are missing.
fn cut(lines: &[String], most: usize) -> Vec<Line<'_>> {
    let mut shown: Vec<Line> = lines.iter().take(most).map(|line| Line::raw(line.as_str())).collect();
    if let Some(last) = shown.last_mut().filter(|_| lines.len() > most) {
        *last = Line::raw(format!("  ... {} more", lines.len() - most + 1));
    }
    shown
}

fn draw_rows(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>, state: &mut State) {
    let rows = state.chosen(screen.view);
    state.rows = rows.len();
    state.columns = screen.view.heads.len();
    state.rows_shown = usize::from(area.height.saturating_sub(1)).max(1);
    state.stay_inside();
    let columns = columns_that_fit(screen.view, &rows, state.column, area.width);
    let head = |&(at, _): &(usize, u16)| {
        let (head, alignment) = head(screen.view.heads[at]);
        let mark = match state.sorted_by {
            Some(sorted) if sorted == at => Modifier::BOLD | Modifier::REVERSED,
            _ => Modifier::BOLD,
        };
        Cell::from(Line::styled(head, mark).alignment(alignment))
    };
    let row = |row: &Vec<Field>| {
        let cell = |&(at, _): &(usize, u16)| {
            let line = Line::styled(row[at].text.clone(), style(row[at].tone, screen.has_colours));
            Cell::from(line.alignment(head_alignment(screen.view.heads[at])))
        };
        Row::new(columns.iter().map(cell).collect::<Vec<_>>())
    };
    let shown = rows.iter().skip(state.row).take(state.rows_shown).map(row);
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    let header = Row::new(columns.iter().map(head).collect::<Vec<_>>());
    frame.render_widget(Table::new(shown, widths).header(header).column_spacing(1), area);
}

fn head(head: &'static str) -> (&'static str, Alignment) {
    match head.strip_prefix('>') {
        Some(head) => (head, Alignment::Right),
        None => (head, Alignment::Left),
    }
}

fn head_alignment(text: &'static str) -> Alignment {
    head(text).1
}

/// Numbers and widths of the columns that fit: the first one, which tells the rank, then those from `from` on. The
/// widths are those of all rows, so that they stay while the user moves.
fn columns_that_fit(view: &View, rows: &[Vec<Field>], from: usize, width: u16) -> Vec<(usize, u16)> {
    let widest = |at: usize| {
        let cells = rows.iter().map(|row| Line::raw(row[at].text.as_str()).width());
        cells.chain([head(view.heads[at]).0.len()]).max().unwrap_or(0) as u16
    };
    let mut left = width;
    let mut shown = Vec::new();
    for at in (0..view.heads.len()).filter(|&at| at == 0 || at > from) {
        let wanted = widest(at);
        // The last column may be cut by the edge; at least a part of the second one is shown.
        if wanted > left && shown.len() > 1 {
            break;
        }
        shown.push((at, wanted.min(left)));
        left = left.saturating_sub(wanted + 1);
    }
    shown
}

fn style(tone: Option<Tone>, has_colours: bool) -> Style {
    match tone {
        Some(Tone::Bad) if has_colours => Style::new().fg(Color::Red),
        Some(Tone::Doubtful) if has_colours => Style::new().fg(Color::Yellow),
        Some(Tone::Good) if has_colours => Style::new().fg(Color::Green),
        // Without colours it must differ, too.
        Some(Tone::Bad) => Style::new().add_modifier(Modifier::BOLD),
        _ => Style::new(),
    }
}

/// The filter while it is typed; else the place, and the most important keys.
fn footer(state: &State, view: &View) -> Line<'static> {
    if state.is_typing {
        return Line::from(vec![Span::raw(format!("/{}", state.filter)), Span::styled(" ", Modifier::REVERSED)]);
    }
    let order = match state.sorted_by.and_then(|at| view.heads.get(at)) {
        Some(text) => format!(", by {}{}", head(text).0, if state.is_descending { ", reversed" } else { "" }),
        None if state.is_descending => ", reversed".to_owned(),
        None => String::new(),
    };
    let rows = match state.rows {
        0 => "no row".to_owned(),
        rows => format!("row {} of {rows}", state.row + 1),
    };
    let keys = "q quit  h help  < > sort  r reverse  / filter  p pause  l links";
    Line::styled(format!("{rows}{order}    {keys}"), Modifier::DIM)
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let widest = KEYS.iter().map(|(keys, _)| keys.len()).max().unwrap_or(0);
    let mut lines = vec![Line::styled("selvedge top", Modifier::BOLD), Line::raw("")];
    lines.extend(KEYS.iter().map(|(keys, meaning)| Line::raw(format!("{keys:widest$}  {meaning}"))));
    lines.push(Line::raw(""));
    lines.push(Line::raw("`selvedge top --help` explains the columns. Any key closes this."));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn sample() -> View {
        let row = |rank: u64, state: &str| {
            vec![Field::whole(rank), Field::state(state), Field::short(rank as f64 * 1e6), Field::text("job")]
        };
        let rows = (0..20).map(|rank| row(rank, if rank == 3 { "dead" } else { "ready" })).collect();
        View { heads: &[">rank", "state", ">recv/s", "job"], rows, notes: Vec::new() }
    }

    fn drawn(columns: u16, rows: u16, state: &mut State) -> Vec<String> {
        let view = sample();
        let heading = vec!["1 job, 20 NICs".to_owned(), "  job: 20 x program, launcher 7".to_owned()];
        let notes = vec!["a note".to_owned()];
        let title = title("/tmp/selvedge-0", state);
        let screen = Screen { title: &title, heading: &heading, view: &view, notes: &notes, has_colours: false };
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, &screen, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..rows).map(line).collect()
    }

    fn state() -> State {
        State::new(false, Duration::from_secs(1))
    }

    #[test]
    fn a_screen_has_title_jobs_rows_notes_and_keys() {
        let lines = drawn(100, 12, &mut state());
        assert_eq!(lines[0], "/tmp/selvedge-0, every 1 s");
        assert_eq!(lines[1], "1 job, 20 NICs");
        assert_eq!(lines[3], "rank state recv/s job");
        assert_eq!(lines[4], "   0 ready      0 job");
        assert_eq!(lines[7], "   3 dead   3.00M job");
        assert_eq!(lines[10], "a note");
        assert!(lines[11].starts_with("row 1 of 20    q quit") && lines[11].ends_with("l links"), "{lines:?}");
    }

    #[test]
    fn order_filter_and_place_are_seen() {
        let mut state = state();
        drawn(80, 12, &mut state);
        for letter in ">>>r".chars() {
            state.key(event::KeyCode::Char(letter).into());
        }
        let lines = drawn(100, 12, &mut state);
        assert_eq!(lines[4], "  19 ready  19.0M job");
        assert!(lines[11].starts_with("row 1 of 20, by recv/s, reversed  "), "{lines:?}");
        state.key(event::KeyCode::End.into());
        assert_eq!(drawn(100, 12, &mut state)[9], "   0 ready      0 job");
        for letter in "/dead".chars() {
            state.key(event::KeyCode::Char(letter).into());
        }
        let lines = drawn(100, 12, &mut state);
        assert_eq!((lines[4].as_str(), lines[5].as_str(), lines[11].as_str()), ("   3 dead   3.00M job", "", "/dead"));
        state.key(event::KeyCode::Enter.into());
        assert!(drawn(100, 12, &mut state)[0].ends_with("only rows with \"dead\""));
    }

    #[test]
    fn columns_that_do_not_fit_are_reached_by_keys() {
        let mut state = state();
        let lines = drawn(18, 12, &mut state);
        assert_eq!(lines[3], "rank state recv/s");
        state.key(event::KeyCode::Right.into());
        let lines = drawn(18, 12, &mut state);
        assert_eq!(lines[3], "rank recv/s job");
    }

    #[test]
    fn every_size_is_drawn() {
        for columns in [1, 2, 7, 20, 40, 80, 300] {
            for rows in [1, 2, 3, 5, 24] {
                let mut state = state();
                drawn(columns, rows, &mut state);
                state.shows_help = true;
                drawn(columns, rows, &mut state);
            }
        }
        let mut state = state();
        state.shows_help = true;
        let lines = drawn(80, 24, &mut state);
        for (keys, _) in KEYS {
            assert!(lines.iter().any(|line| line.starts_with(keys)), "{keys}: {lines:?}");
        }
    }
}
