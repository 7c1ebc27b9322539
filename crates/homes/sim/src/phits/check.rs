// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the first violation of the link protocol in a dump. O(records), and O(flits in flight) bytes.
//!
//! | rule | violated by |
//! |---|---|
//! | CRC | a wrong one, unless the flit is sent again |
//! | sequence | a flit that does not follow the one before it, or the flit asked for again |
//! | acknowledgement | none within the timeout, or one of a flit that was not sent |
//! | order of control | STOP after STOP, or CONTINUE without STOP |
//! | flow control | a flit (or a packet's head) after STOP; a flit without a credit |
//! | buffer | more flits at the receiver than it has room for |

use std::collections::{BTreeMap, VecDeque};

use super::{MAGIC, VERSION, crc};

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub link: String,
    /// Records up to the violation, and flits and control characters among them.
    pub records: u64,
    pub flits: u64,
    pub controls: u64,
    pub violation: Option<Violation>,
}

/// The first violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Line of the dump, from 1.
    pub line: u64,
    pub time_ps: u64,
    pub rule: &'static str,
    pub what: String,
}

/// Reason why a file is no dump. Names the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    #[error(
        "line {line}: this is no dump of a link, which begins with `{MAGIC} {VERSION}`: name a file of selvedge sim --dump-link"
    )]
    Magic { line: u64 },
    #[error("line 1: version {found} of dumps is not {VERSION}: make the dump again")]
    Version { found: String },
    #[error("line {line}: `{want}` is missing or has a wrong value: make the dump again")]
    Header { line: u64, want: &'static str },
    #[error("line {line}: `{text}` is no record: make the dump again")]
    Record { line: u64, text: String },
    #[error("line {line}: a record at {at} ps follows one at {before} ps: records are in the order of time")]
    Time { line: u64, at: u64, before: u64 },
    #[error("the dump has no end: the run was cut off; let it end")]
    NoEnd,
    #[error("the dump has no flit: nothing can be checked; dump a link that carries traffic")]
    Empty,
}

#[derive(Clone, Debug, Default)]
struct Header {
    link: String,
    flit_ps: u64,
    latency_ps: u64,
    buffer_flits: u64,
    has_stops: bool,
    whole_packets: bool,
    timeout_ps: Option<u64>,
}

/// One virtual channel.
#[derive(Clone, Debug, Default)]
struct Channel {
    is_stopped: bool,
    /// Flits that were sent, and credits that came back.
    sent: u64,
    credits: u64,
    /// Flits in the buffer of the receiver, and times at which others arrive.
    fill: i64,
    arriving: VecDeque<u64>,
}

struct Check {
    header: Header,
    channels: BTreeMap<u32, Channel>,
    next: u32,
    /// The number that the receiver waits for.
    expected: u32,
    /// The next flit must have this number, for it was asked for again.
    again: Option<u32>,
    /// A damaged or lost flit that was not sent again: number and time.
    bad: Option<(u32, u64)>,
    /// Last flits of packets without an acknowledgement, with their times.
    unacknowledged: VecDeque<(u32, u64)>,
}

type Found = Result<(), (&'static str, String)>;

fn violated(rule: &'static str, what: String) -> Found {
    Err((rule, what))
}

/// Checks a dump.
pub fn check(text: &str) -> Result<Checked, DumpError> {
    let mut lines = (1..).zip(text.lines());
    let header = Header::parse(&mut lines)?;
    let mut checked = Checked { link: header.link.clone(), records: 0, flits: 0, controls: 0, violation: None };
    let mut state = Check {
        header,
        channels: BTreeMap::new(),
        next: 0,
        expected: 0,
        again: None,
        bad: None,
        unacknowledged: VecDeque::new(),
    };
    let (mut before, mut has_ended) = (0, false);
    for (line, text) in lines {
        let wrong = || DumpError::Record { line, text: text.chars().take(60).collect() };
        let words: Vec<&str> = text.split(' ').collect();
        let at: u64 = words[0].parse().map_err(|_| wrong())?;
        if has_ended {
            return Err(wrong());
        }
        if at < before {
            return Err(DumpError::Time { line, at, before });
        }
        before = at;
        checked.records += 1;
        let found = state.late(at).and_then(|()| state.record(at, &words[1..], &mut checked, &mut has_ended));
        let found = match found {
            Ok(Some(())) => Ok(()),
            Ok(None) => return Err(wrong()),
            Err(violation) => Err(violation),
        };
        if let Err((rule, what)) = found {
            checked.violation = Some(Violation { line, time_ps: at, rule, what });
            return Ok(checked);
        }
    }
    match (has_ended, checked.flits) {
        (false, _) => Err(DumpError::NoEnd),
        (true, 0) => Err(DumpError::Empty),
        _ => Ok(checked),
    }
}

impl Header {
    fn parse<'a>(lines: &mut impl Iterator<Item = (u64, &'a str)>) -> Result<Header, DumpError> {
        let (_, first) = lines.next().ok_or(DumpError::Magic { line: 1 })?;
        match first.split_once(' ') {
            Some((MAGIC, version)) if version == VERSION.to_string() => {}
            Some((MAGIC, version)) => return Err(DumpError::Version { found: version.chars().take(20).collect() }),
            _ => return Err(DumpError::Magic { line: 1 }),
        }
        let mut value = |want: &'static str| {
            let (line, text) = lines.next().ok_or(DumpError::Header { line: 0, want })?;
            let value = text.strip_prefix(want).and_then(|rest| rest.strip_prefix(' '));
            value.map(|value| (line, value)).ok_or(DumpError::Header { line, want })
        };
        let number = |want, (line, text): (u64, &str)| text.parse().map_err(|_| DumpError::Header { line, want });
        let choice = |want, (line, text): (u64, &str), choices: [&str; 2]| match text {
            text if text == choices[0] => Ok(false),
            text if text == choices[1] => Ok(true),
            _ => Err(DumpError::Header { line, want }),
        };
        let link = value("link")?.1.replacen(' ', " -> ", 1);
        let flit_ps = number("flit_ps", value("flit_ps")?)?;
        let latency_ps = number("latency_ps", value("latency_ps")?)?;
        let buffer_flits = number("buffer_flits", value("buffer_flits")?)?;
        let has_stops = choice("flow", value("flow")?, ["credits", "stop-continue"])?;
        let whole_packets = choice("unit", value("unit")?, ["flit", "packet"])?;
        let timeout_ps = match value("timeout_ps")? {
            (_, "none") => None,
            given => Some(number("timeout_ps", given)?),
        };
        Ok(Header { link, flit_ps, latency_ps, buffer_flits, has_stops, whole_packets, timeout_ps })
    }
}

impl Check {
    /// One record without its time. `None`: it is malformed.
    fn record(
        &mut self,
        at: u64,
        words: &[&str],
        checked: &mut Checked,
        has_ended: &mut bool,
    ) -> Result<Option<()>, (&'static str, String)> {
        let number = |word: &str| word.parse::<u32>().ok();
        match words {
            ["end"] => {
                *has_ended = true;
                self.end(at)?;
            }
            ["down"] => {}
            ["up"] => {
                // Whatever was on the wire is sent again.
                (self.bad, self.again) = (None, None);
                self.unacknowledged.clear();
            }
            ["timeout", sequence] => {
                let Some(sequence) = number(sequence) else { return Ok(None) };
                self.repeat(sequence);
            }
            ["take", vc, flits] => {
                let (Some(vc), Some(flits)) = (number(vc), number(flits)) else { return Ok(None) };
                self.settle(vc, at)?;
                self.channels.entry(vc).or_default().fill -= i64::from(flits);
            }
            ["data", vc, sequence, kind @ ("head" | "body" | "tail" | "only"), message, given, rest @ ..] => {
                let (Some(vc), Some(sequence)) = (number(vc), number(sequence)) else { return Ok(None) };
                let (Ok(message), Ok(given)) = (message.parse::<u64>(), u32::from_str_radix(given, 16)) else {
                    return Ok(None);
                };
                let is_lost = match rest {
                    [] => false,
                    ["lost"] => true,
                    _ => return Ok(None),
                };
                checked.flits += 1;
                let is_sound = crc(&words[..5].join(" ")) == given;
                self.data(at, vc, sequence, (kind, message), (is_sound, is_lost))?;
            }
            [word, rest @ .., given] => {
                let Ok(given) = u32::from_str_radix(given, 16) else { return Ok(None) };
                let Some(numbers) = rest.iter().map(|word| number(word)).collect::<Option<Vec<u32>>>() else {
                    return Ok(None);
                };
                if crc(&words[..words.len() - 1].join(" ")) != given {
                    return violated("CRC", format!("the CRC of a {word} is wrong")).map(Some);
                }
                checked.controls += 1;
                match (*word, &numbers[..]) {
                    ("credit", &[vc, flits]) => self.channels.entry(vc).or_default().credits += u64::from(flits),
                    ("stop", &[vc]) => self.control(vc, true)?,
                    ("continue", &[vc]) => self.control(vc, false)?,
                    ("ack", &[sequence]) => self.acknowledge(sequence)?,
                    ("retry", &[sequence]) => self.repeat(sequence),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    fn data(
        &mut self,
        at: u64,
        vc: u32,
        sequence: u32,
        (kind, message): (&str, u64),
        (is_sound, is_lost): (bool, bool),
    ) -> Found {
        let is_new = self.again.is_none();
        match self.again.take() {
            Some(again) if again != sequence => {
                let what = format!("flit {again} was to be sent again, and flit {sequence} was sent");
                return violated("sequence", what);
            }
            None if sequence != self.next => {
                return violated("sequence", format!("flit {sequence} follows where flit {} is due", self.next));
            }
            _ => {}
        }
        self.next = sequence.wrapping_add(1);
        let Header { has_stops, whole_packets, buffer_flits, flit_ps, latency_ps, timeout_ps, .. } = self.header;
        let channel = self.channels.entry(vc).or_default();
        let begins = !whole_packets || matches!(kind, "head" | "only");
        if has_stops && channel.is_stopped && is_new && begins {
            let what = format!("flit {sequence} of message {message} follows a STOP of virtual channel {vc}");
            return violated("flow control", what);
        }
        channel.sent += u64::from(is_new);
        if !has_stops && channel.sent > channel.credits.saturating_add(buffer_flits) {
            let what =
                format!("flit {sequence} of message {message} was sent without a credit of virtual channel {vc}");
            return violated("flow control", what);
        }
        // With retransmission the receiver drops what does not come in order, and what has come before.
        let is_taken = timeout_ps.is_none() || sequence == self.expected;
        if is_sound && !is_lost && is_taken {
            self.expected = sequence.wrapping_add(1);
            channel.arriving.push_back(at.saturating_add(flit_ps).saturating_add(latency_ps));
        }
        if !is_sound && timeout_ps.is_none() {
            return violated("CRC", format!("the CRC of flit {sequence} is wrong, and the link repeats nothing"));
        }
        if (!is_sound || is_lost) && timeout_ps.is_some() && self.bad.is_none() {
            self.bad = Some((sequence, at));
        }
        if matches!(kind, "tail" | "only") && timeout_ps.is_some() {
            self.unacknowledged.push_back((sequence, at));
        }
        self.settle(vc, at)
    }

    fn control(&mut self, vc: u32, stops: bool) -> Found {
        let channel = self.channels.entry(vc).or_default();
        if channel.is_stopped == stops {
            let what = match stops {
                true => {
                    format!("STOP follows STOP on virtual channel {vc}, without CONTINUE: their order was exchanged")
                }
                false => format!("CONTINUE without STOP on virtual channel {vc}"),
            };
            return violated("order of control", what);
        }
        channel.is_stopped = stops;
        Ok(())
    }

    fn acknowledge(&mut self, sequence: u32) -> Found {
        // Numbers wrap around: the difference tells which is later.
        if self.next.wrapping_sub(sequence).wrapping_sub(1) > u32::MAX / 2 {
            return violated("acknowledgement", format!("flit {sequence} is acknowledged, and was not sent"));
        }
        while self.unacknowledged.front().is_some_and(|(sent, _)| sequence.wrapping_sub(*sent) <= u32::MAX / 2) {
            self.unacknowledged.pop_front();
        }
        Ok(())
    }

    fn repeat(&mut self, sequence: u32) {
        self.again = Some(sequence);
        self.bad = None;
        self.unacknowledged.retain(|(sent, _)| sequence.wrapping_sub(*sent).wrapping_sub(1) <= u32::MAX / 2);
    }

    /// Time of the last sign of life that is in time.
    fn patience(&self) -> Option<u64> {
        let Header { flit_ps, latency_ps, timeout_ps, .. } = self.header;
        Some(flit_ps.saturating_add(timeout_ps?.max(latency_ps.saturating_mul(2))))
    }

    /// Finds what has not happened by `at`.
    fn late(&mut self, at: u64) -> Found {
        let Some(patience) = self.patience() else { return Ok(()) };
        if let Some((sequence, _)) = self.bad.filter(|(_, sent)| at > sent.saturating_add(patience)) {
            return violated(
                "acknowledgement",
                format!("flit {sequence} did not arrive whole, and was not sent again in time"),
            );
        }
        match self.unacknowledged.front() {
            Some((sequence, sent)) if at > sent.saturating_add(patience) => {
                violated("acknowledgement", format!("flit {sequence} was not acknowledged in time"))
            }
            _ => Ok(()),
        }
    }

    /// Fills the buffer of a virtual channel with what has arrived before `at`.
    fn settle(&mut self, vc: u32, at: u64) -> Found {
        let channel = self.channels.entry(vc).or_default();
        while channel.arriving.front().is_some_and(|arrives| *arrives < at) {
            channel.arriving.pop_front();
            channel.fill += 1;
            if u64::try_from(channel.fill).is_ok_and(|fill| fill > self.header.buffer_flits) {
                let room = self.header.buffer_flits;
                let what =
                    format!("{} flits are in the buffer of virtual channel {vc}, which holds {room}", channel.fill);
                return violated("buffer", what);
            }
        }
        Ok(())
    }

    fn end(&mut self, at: u64) -> Found {
        let channels: Vec<u32> = self.channels.keys().copied().collect();
        channels.into_iter().try_for_each(|vc| self.settle(vc, at))
    }
}
