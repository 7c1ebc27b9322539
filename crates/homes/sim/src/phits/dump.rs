// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the dump of a link.
//!
//! The network tells of whole packets, and of control characters at the end. So records are kept, and written in order
//! at the end of the run: about 64 bytes for each, up to [`RECORDS_MAX`].

use std::fmt;
use std::io::{self, Write};

use selvedge_fabric::Topology;
use selvedge_fabric::link::Control;

use super::{MAGIC, VERSION, crc};
use crate::network::{Attempt, FlowControl, NetworkConfig, Observe, Switching, Transmission};
use crate::report::channels::{channel_source_name, channel_target_name};
use crate::time::Time;

/// Most records of a dump. Later ones are left out, and the dump ends there.
pub const RECORDS_MAX: usize = 1 << 22;

/// Dumps one channel of a network.
pub struct Dump {
    channel: u32,
    flit_time: Time,
    latency: Time,
    has_retransmission: bool,
    header: String,
    /// Time, rank among records of one time, text; in order of their making.
    records: Vec<(Time, u8, Text)>,
    /// Records were left out from this time on.
    cut: Option<Time>,
    sequence: u32,
    /// Attempts of the packet that is sent next.
    attempts: Vec<Attempt>,
    out: Box<dyn Write + Send>,
}

/// A record without its time.
#[derive(Clone, Copy, Debug)]
enum Text {
    Data { vc: u8, sequence: u32, kind: &'static str, message: u64, fate: Fate },
    Credit { vc: u8, flits: u32 },
    Control { vc: u8, control: Control },
    Sequence { word: &'static str, sequence: u32, has_crc: bool },
    Take { vc: u8, flits: u32 },
    Link { is_up: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Damaged,
}

impl fmt::Debug for Dump {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dump").field("channel", &self.channel).field("records", &self.records.len()).finish()
    }
}

/// Ranks of records of one time.
const CONTROL: u8 = 0;
const TAKE: u8 = 1;
const DATA: u8 = 2;

impl Dump {
    /// Dumps a channel between two routers.
    pub fn new(topology: &Topology, config: &NetworkConfig, channel: u32, out: Box<dyn Write + Send>) -> Dump {
        let name = |name: String| name.replace(char::is_whitespace, "_");
        let speed = config.speed_of(topology, channel);
        let timeout = config.retransmission.as_ref().map(|retransmission| retransmission.timeout);
        let header = [
            format!("{MAGIC} {VERSION}"),
            format!(
                "link {} {}",
                name(channel_source_name(topology, channel)),
                name(channel_target_name(topology, channel))
            ),
            format!("flit_ps {}", speed.flit_time.0),
            format!("latency_ps {}", speed.latency.0),
            format!("buffer_flits {}", config.link.buffer_flits),
            format!("flow {}", if config.flow_control == FlowControl::Credits { "credits" } else { "stop-continue" }),
            format!("unit {}", if config.switch.switching == Switching::CutThrough { "packet" } else { "flit" }),
            format!("timeout_ps {}", timeout.map_or("none".to_owned(), |timeout| timeout.0.to_string())),
        ];
        Dump {
            channel,
            flit_time: speed.flit_time,
            latency: speed.latency,
            has_retransmission: timeout.is_some(),
            header: header.join("\n"),
            records: Vec::new(),
            cut: None,
            sequence: 0,
            attempts: Vec::new(),
            out,
        }
    }

    fn add(&mut self, at: Time, rank: u8, text: Text) {
        if self.records.len() < RECORDS_MAX {
            self.records.push((at, rank, text));
        } else {
            self.cut = Some(self.cut.unwrap_or(Time::MAX).min(at));
        }
    }

    /// Adds flits `from..to` of a packet, the first beginning at `start`.
    fn data(&mut self, sent: &Transmission<'_>, (from, to): (u32, u32), start: Time, fate: Fate) {
        for flit in from..to {
            let (first, last) = (sent.head && flit == 0, sent.tail && flit + 1 == sent.flits);
            let kind = match (first, last) {
                (true, true) => "only",
                (true, false) => "head",
                (false, true) => "tail",
                (false, false) => "body",
            };
            let (vc, sequence, message) = (sent.vc, self.sequence.wrapping_add(flit), sent.packet.message);
            let at = start + self.flit_time * u64::from(flit - from);
            self.add(at, DATA, Text::Data { vc, sequence, kind, message, fate });
        }
    }

    fn control(&mut self, at: Time, word: &'static str, sequence: u32, has_crc: bool) {
        self.add(at, CONTROL, Text::Sequence { word, sequence, has_crc });
    }
}

impl Observe for Dump {
    fn failed(&mut self, attempt: &Attempt) {
        if attempt.channel == self.channel {
            self.attempts.push(*attempt);
        }
    }

    fn sent(&mut self, sent: &Transmission<'_>) {
        if sent.channel != self.channel {
            return;
        }
        let (mut across, mut start) = (0, sent.start);
        let mut failed = None;
        for attempt in std::mem::take(&mut self.attempts) {
            let fate = if attempt.lost { Fate::Lost } else { Fate::Damaged };
            let Some(again) = attempt.repeated_at else {
                failed = Some(fate);
                break;
            };
            let bad = attempt.across + attempt.good;
            self.data(sent, (attempt.across, bad), attempt.start, Fate::Arrives);
            let at = attempt.start + self.flit_time * u64::from(attempt.good);
            self.data(sent, (bad, bad + 1), at, fate);
            let word = if attempt.lost { "timeout" } else { "retry" };
            self.control(again, word, self.sequence.wrapping_add(bad), !attempt.lost);
            (across, start) = (bad, again);
        }
        match failed {
            // The whole packet is lost with its flit, or its first flit is damaged.
            Some(Fate::Lost) => self.data(sent, (across, sent.flits), start, Fate::Lost),
            Some(fate) => {
                self.data(sent, (across, across + 1), start, fate);
                self.data(sent, (across + 1, sent.flits), start + self.flit_time, Fate::Arrives);
            }
            None if sent.lost => self.data(sent, (across, sent.flits), start, Fate::Lost),
            None => {
                let last = sent.flits - 1;
                self.data(sent, (across, last), start, Fate::Arrives);
                // A tail that an earlier channel has repeated comes late.
                let in_time = start + self.flit_time * u64::from(last - across);
                let at = in_time.max(sent.end.saturating_sub(self.flit_time));
                self.data(sent, (last, sent.flits), at, Fate::Arrives);
            }
        }
        self.sequence = self.sequence.wrapping_add(sent.flits);
        if self.has_retransmission && sent.tail && !sent.lost {
            self.control(sent.end + self.latency * 2, "ack", self.sequence.wrapping_sub(1), true);
        }
    }

    fn returned(&mut self, at: Time, channel: u32, vc: u8, flits: u32) {
        if channel == self.channel {
            self.add(at, CONTROL, Text::Credit { vc, flits });
        }
    }

    fn taken(&mut self, at: Time, channel: u32, vc: u8, flits: u32) {
        if channel == self.channel {
            for later in (0..flits).rev() {
                let at = at.saturating_sub(self.flit_time * u64::from(later));
                self.add(at, TAKE, Text::Take { vc, flits: 1 });
            }
        }
    }

    fn link(&mut self, now: Time, channel: u32, is_up: bool) {
        if channel == self.channel {
            self.add(now, CONTROL, Text::Link { is_up });
        }
    }

    fn wants_controls(&self, channel: u32) -> bool {
        channel == self.channel
    }

    fn controls(&mut self, channel: u32, vc: u8, seen: &[(Time, Control)]) {
        if channel == self.channel {
            // They come at the end of the run, and belong into the dump up to where it was cut.
            let kept = seen.iter().filter(|(at, _)| self.cut.is_none_or(|cut| *at < cut));
            self.records.extend(kept.map(|&(at, control)| (at, CONTROL, Text::Control { vc, control })));
        }
    }

    fn end(&mut self, now: Time) -> io::Result<()> {
        // A stable sort: records of one time and rank keep the order in which they were made.
        self.records.sort_by_key(|(at, rank, _)| (*at, *rank));
        writeln!(self.out, "{}", self.header)?;
        let end = self.cut.map_or(now, |cut| cut.min(now));
        let is_shown = |at: Time| at <= now && self.cut.is_none_or(|cut| at < cut);
        for (at, _, text) in self.records.iter().filter(|(at, ..)| is_shown(*at)) {
            text.write(*at, &mut self.out)?;
        }
        writeln!(self.out, "{} end", end.0)?;
        self.out.flush()
    }
}

impl Text {
    fn write(self, at: Time, out: &mut dyn Write) -> io::Result<()> {
        let at = at.0;
        let (words, wrong, mark) = match self {
            Text::Data { vc, sequence, kind, message, fate } => {
                let mark = if fate == Fate::Lost { " lost" } else { "" };
                (format!("data {vc} {sequence} {kind} {message}"), fate == Fate::Damaged, mark)
            }
            Text::Credit { vc, flits } => (format!("credit {vc} {flits}"), false, ""),
            Text::Control { vc, control: Control::Stop } => (format!("stop {vc}"), false, ""),
            Text::Control { vc, control: Control::Continue } => (format!("continue {vc}"), false, ""),
            Text::Sequence { word, sequence, has_crc: true } => (format!("{word} {sequence}"), false, ""),
            Text::Sequence { word, sequence, has_crc: false } => return writeln!(out, "{at} {word} {sequence}"),
            Text::Take { vc, flits } => return writeln!(out, "{at} take {vc} {flits}"),
            Text::Link { is_up } => return writeln!(out, "{at} {}", if is_up { "up" } else { "down" }),
        };
        let crc = crc(&words) ^ if wrong { u32::MAX } else { 0 };
        writeln!(out, "{at} {words} {crc:08x}{mark}")
    }
}
