// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings, and their printing: as columns that fit the terminal, or as one JSON object.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

/// Widths of the first two columns.
const STATE_WIDTH: usize = 9;
const SUBJECT_WIDTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// Something is missing or slow, and other things work without it.
    Note,
    /// Something does not work.
    Problem,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "problem",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub state: State,
    pub subject: String,
    pub found: String,
    /// `None`: nothing is to be done.
    pub remedy: Option<String>,
    /// Whether it keeps two processes of this machine from communicating over Selvedge.
    pub stops: bool,
}

impl Finding {
    fn new(state: State, subject: &str, found: String, remedy: Option<String>) -> Finding {
        // Names of files and messages of programs may hold anything.
        let one_line =
            |text: String| text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        Finding {
            state,
            subject: subject.to_owned(),
            found: one_line(found),
            remedy: remedy.map(one_line),
            stops: false,
        }
    }

    pub fn ok(subject: &str, found: impl Into<String>) -> Finding {
        Finding::new(State::Ok, subject, found.into(), None)
    }

    pub fn note(subject: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(State::Note, subject, found.into(), Some(remedy.into()))
    }

    pub fn problem(subject: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(State::Problem, subject, found.into(), Some(remedy.into()))
    }

    /// Marks a problem that stops the main job.
    pub fn that_stops(self) -> Finding {
        Finding { stops: true, ..self }
    }

    /// A problem that may have the cause of another one, which has stopped the main job.
    pub fn after(self, stopper: &Finding) -> Finding {
        match (self.state, stopper.stops) {
            (State::Problem, true) => Finding { remedy: Some(format!("mend `{}` first", stopper.subject)), ..self },
            _ => self,
        }
    }

    /// The finding as whole lines of at most `width` columns.
    fn text(&self, width: usize) -> String {
        let indent = STATE_WIDTH + SUBJECT_WIDTH;
        let mut head = format!("{:<STATE_WIDTH$}{:<SUBJECT_WIDTH$}", self.state.name(), self.subject);
        if !head.ends_with(' ') {
            head.push(' ');
        }
        let mut out = wrapped(&head, indent, &self.found, width);
        if let Some(remedy) = &self.remedy {
            out += &wrapped(&format!("{:indent$}-> ", ""), indent + 3, remedy, width);
        }
        out
    }
}

/// Text in whole lines of at most `width` characters, unless a word is longer. The first begins with `head`.
fn wrapped(head: &str, indent: usize, text: &str, width: usize) -> String {
    let (mut out, mut line) = (String::new(), head.to_owned());
    let mut is_empty = true;
    for word in text.split_ascii_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            out += line.trim_end();
            out.push('\n');
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    out + line.trim_end() + "\n"
}

/// The findings so far.
pub struct Report {
    json: bool,
    findings: Vec<Finding>,
    is_closed: bool,
}

impl Report {
    pub fn new(json: bool) -> Report {
        Report { json, findings: Vec::new(), is_closed: false }
    }

    /// Adds a finding, and prints it unless the report is JSON.
    pub fn add(&mut self, finding: Finding) {
        if !self.json {
            self.print(&finding.text(selvedge_terminal::width().unwrap_or(usize::MAX)));
        }
        self.findings.push(finding);
    }

    pub fn end(mut self) -> Result<ExitCode> {
        let works = !self.findings.iter().any(|finding| finding.stops);
        if self.json {
            let all = serde_json::json!({"works": works, "findings": self.findings});
            self.print(&format!("{all:#}\n"));
        } else if !works {
            self.print("\nprocesses of this machine cannot communicate over Selvedge: see above\n");
        }
        Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// A reader that closed the stream does not change the exit code.
    fn print(&mut self, text: &str) {
        if self.is_closed {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            self.is_closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                eprintln!("selvedge: cannot write the findings: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_columns_that_fit() {
        const WIDTH: usize = 80;
        assert_eq!(Finding::ok("cores", "2").text(WIDTH), "ok       cores           2\n");
        let long = Finding::note("shared memory", "word ".repeat(40), "make it larger: ".repeat(8)).text(WIDTH);
        assert!(long.lines().all(|line| line.chars().count() <= WIDTH), "{long}");
        assert!(long.lines().nth(1).unwrap().starts_with(&" ".repeat(STATE_WIDTH + SUBJECT_WIDTH)), "{long}");
        assert!(long.contains("\n                         -> make it"), "{long}");
        let pipe = Finding::note("shared memory", "word ".repeat(40), "remedy").text(usize::MAX);
        assert_eq!(pipe.lines().count(), 2, "{pipe}");
        let word = Finding::problem("a", "x".repeat(100), "y").text(WIDTH);
        assert_eq!(word.lines().count(), 2, "a long word is not cut: {word}");
        assert!(Finding::ok("a subject of many letters", "found").text(WIDTH).contains("letters found"));
    }

    #[test]
    fn a_problem_after_another_has_its_remedy() {
        let (problem, stopper) = (Finding::problem("b", "bad", "x"), Finding::problem("a", "bad", "y").that_stops());
        assert_eq!(problem.clone().after(&stopper).remedy.as_deref(), Some("mend `a` first"));
        assert_eq!(problem.clone().after(&Finding::ok("a", "good")), problem);
        assert_eq!(Finding::note("b", "slow", "x").after(&stopper).remedy.as_deref(), Some("x"));
    }

    #[test]
    fn a_finding_is_one_line_of_its_program() {
        assert_eq!(Finding::ok("a", "x\n\ty\u{1b}[0m\n").found, "x y [0m");
    }
}
