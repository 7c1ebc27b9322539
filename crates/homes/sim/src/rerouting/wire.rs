// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Management frames on the links of a simulated fabric.
//!
//! Frames have a class of their own on each link, before all data: they wait for each other and not for data, and data
//! does not wait for them. They take less than a hundredth of a link but for the moments of a flood.

use selvedge_fabric::{Port, Topology};

use crate::network::{NetworkConfig, Speed};
use crate::time::Time;

#[derive(Clone, Copy, Debug)]
struct Line {
    is_up: bool,
    /// Falls since the start: a frame that was on its way during one is lost.
    falls: u32,
    free_at: Time,
    speed: Speed,
}

#[derive(Debug)]
struct Frame {
    channel: u32,
    falls: u32,
    to: (u32, Port),
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Wire {
    lines: Vec<Line>,
    /// Of the links between routers.
    speeds: Vec<Speed>,
    frames: Vec<Option<Frame>>,
    free: Vec<u32>,
    config: NetworkConfig,
}

impl Wire {
    pub fn new(topology: &Topology, config: &NetworkConfig) -> Wire {
        let line = |channel| {
            let speed = config.speed_of(topology, channel);
            Line { is_up: true, falls: 0, free_at: Time::ZERO, speed }
        };
        let lines = (0..topology.channels()).map(line).collect();
        let speeds = config.speeds(topology, false);
        Wire { lines, speeds, frames: Vec::new(), free: Vec::new(), config: config.clone() }
    }

    pub fn is_up(&self, channel: u32) -> bool {
        self.lines[channel as usize].is_up
    }

    pub fn set_up(&mut self, channel: u32, is_up: bool) {
        let line = &mut self.lines[channel as usize];
        line.falls += u32::from(line.is_up && !is_up);
        line.is_up = is_up;
    }

    /// Returns the longest time of a frame from its first byte sent to its arrival, on an idle link.
    pub fn time(&self, bytes: u32) -> Time {
        let time = |&speed: &Speed| self.occupies(speed, bytes) + self.through(speed);
        self.speeds.iter().map(time).max().unwrap_or_default()
    }

    /// Sends a frame at `now`. Returns its arrival, and the slot in which it waits for it. `None`: the link is down.
    pub fn send(&mut self, now: Time, channel: u32, to: (u32, Port), bytes: Vec<u8>) -> Option<(Time, u32)> {
        let speed = self.lines[channel as usize].speed;
        let (busy, through) = (self.occupies(speed, bytes.len() as u32), self.through(speed));
        let line = &mut self.lines[channel as usize];
        if !line.is_up {
            return None;
        }
        line.free_at = line.free_at.max(now) + busy;
        let at = line.free_at + through;
        let frame = Some(Frame { channel, falls: line.falls, to, bytes });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.frames.push(None);
                self.frames.len() as u32 - 1
            }
        };
        self.frames[slot as usize] = frame;
        Some((at, slot))
    }

    /// Takes a frame that arrives: router, port and bytes. `None`: it is lost.
    pub fn take(&mut self, slot: u32) -> Option<(u32, Port, Vec<u8>)> {
        self.free.push(slot);
        let frame = self.frames[slot as usize].take()?;
        let line = &self.lines[frame.channel as usize];
        (line.is_up && line.falls == frame.falls).then_some((frame.to.0, frame.to.1, frame.bytes))
    }

    /// A frame longer than a packet goes in several.
    fn occupies(&self, speed: Speed, bytes: u32) -> Time {
        let most = self.config.link.packet_bytes.max(1);
        let flit_time = speed.flit_time;
        let whole = self.config.packet_time(flit_time, most) * u64::from(bytes / most);
        whole + if bytes % most > 0 { self.config.packet_time(flit_time, bytes % most) } else { Time::ZERO }
    }

    fn through(&self, speed: Speed) -> Time {
        speed.latency + self.config.switch.latency
    }
}
