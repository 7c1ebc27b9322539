// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a network: links, switches, flow control, errors; and its checks.
//!
//! A packet is a header and a payload, cut into flits of one maximum size, each with its own CRC, as in EXTOLL (seed
//! 002, section 7.3). The last flit is padded to this size, or takes the time of its own bytes. A credit is room for
//! one full flit.

use thiserror::Error;

use selvedge_fabric::{Routing, Topology};

use super::RailChoice;
use super::speeds::Speed;
use crate::congestion::{CongestionConfig, Control};
use crate::time::Time;

/// All parameters of a network except topology and routing.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    pub link: LinkConfig,
    /// Links between nodes and their routers, in both directions. `None`: as `link`.
    pub node_link: Option<LinkSpeed>,
    /// Links between routers, by their class in the topology. Empty: all as `link`.
    pub class_links: Vec<LinkSpeed>,
    /// Nodes from this number on are inside their router: their links have no length.
    pub inside_from: u32,
    /// Room of each virtual channel that ends at a node. The node gives it back ([`super::Network::give_back`]).
    /// `None`: a node accepts every packet.
    pub node_buffer_flits: Option<u32>,
    pub switch: SwitchConfig,
    /// Of the links between routers.
    pub flow_control: FlowControl,
    /// Channels whose STOP and CONTINUE have the defect of ATOLL, and channels with its correction.
    pub control_defects: Vec<u32>,
    pub control_corrections: Vec<u32>,
    /// `None`: nodes send as fast as the fabric takes packets.
    pub congestion: Option<CongestionConfig>,
    /// `None`: a packet that a link loses stays lost, and a corrupted packet is dropped at its node.
    pub retransmission: Option<RetransmissionConfig>,
    pub errors: ErrorRates,
    /// Time after a link's failure at which the packets that wait for it are lost.
    pub link_down_limit: Time,
    pub deadlock: DeadlockPolicy,
    /// An adaptive routing prefers a minimal route as long as its queue exceeds that of a detour by no more than this.
    pub detour_bias_flits: u32,
    /// For nodes with several rails.
    pub rail_choice: RailChoice,
    pub seed: u64,
    /// Whether to record the time of each packet on each channel.
    pub trace: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    pub bandwidth_bytes_per_s: u64,
    /// From first byte in to first byte out.
    pub latency: Time,
    /// Size of a flit on the wire, with its CRC.
    pub flit_bytes: u32,
    /// CRC and framing of each flit; 0: not modelled.
    pub crc_bytes: u32,
    /// Header of each packet.
    pub header_bytes: u32,
    /// The last flit of a packet takes the time of a full one.
    pub pads: bool,
    /// Longest payload of a packet.
    pub packet_bytes: u32,
    pub virtual_channels: u8,
    /// Size of the buffer of each virtual channel.
    pub buffer_flits: u32,
}

/// The speed of a class of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpeed {
    pub bandwidth_bytes_per_s: u64,
    pub latency: Time,
}

impl LinkConfig {
    pub fn speed(&self) -> LinkSpeed {
        LinkSpeed { bandwidth_bytes_per_s: self.bandwidth_bytes_per_s, latency: self.latency }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Time from the arrival of a head to its departure, if it is not blocked.
    pub latency: Time,
    pub arbitration: Arbitration,
    pub switching: Switching,
    /// `None`: a packet goes from its input buffer straight to the link of its output.
    pub speed_up: Option<SpeedUp>,
}

/// A switch that is faster inside than its links (`speed_up.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedUp {
    /// Bandwidth from an input buffer to an output buffer, as a multiple of the link's.
    pub factor: u32,
    /// Size of the output buffer of each virtual channel.
    pub output_flits: u32,
}

/// The receiver's means against a full buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// The sender knows the free flits.
    Credits,
    /// The receiver asks for a STOP at `stop` flits, and for a CONTINUE at `resume` (`control.rs`).
    StopContinue { stop: u32, resume: u32 },
}

/// Choice among waiting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// The packet of the next input after the last one served.
    RoundRobin,
    /// The packet that has waited longest.
    Fifo,
}

/// The unit that moves as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switching {
    /// A packet. It starts when the next buffer has room for all of it; its head may leave before its tail arrives.
    CutThrough,
    /// A flit. A blocked packet occupies all the buffers that it extends over.
    Wormhole,
}

/// Go-back-N on each link: a lost or corrupted flit is sent again with all flits after it.
#[derive(Clone, Debug, PartialEq)]
pub struct RetransmissionConfig {
    /// A flit without an acknowledgement for this time counts as lost.
    pub timeout: Time,
    /// Flits that may be unacknowledged.
    pub window_flits: u32,
}

/// Probabilities of errors, for each packet on each channel that it crosses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorRates {
    pub loss: f64,
    pub corruption: f64,
}

impl ErrorRates {
    pub const NONE: ErrorRates = ErrorRates { loss: 0.0, corruption: 0.0 };

    pub(super) fn check(self) -> Result<ErrorRates, NetworkError> {
        let sane = |rate: f64| (0.0..=RATE_MAX).contains(&rate);
        if sane(self.loss) && sane(self.corruption) {
            Ok(self)
        } else {
            Err(NetworkError::ErrorRate { loss: self.loss, corruption: self.corruption })
        }
    }
}

/// Highest rate; with a higher one packets hardly cross a link.
const RATE_MAX: f64 = 0.99;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlockPolicy {
    /// Report it ([`super::Network::deadlock`]), and leave it.
    Detect,
    /// Take one packet of the cycle out of the network. It arrives this much later than if it were sent again through
    /// an empty network. Software on a neighbouring node that forwards it has this effect (seed 002, 2.7 and 2.9).
    Resolve { delay: Time },
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            link: LinkConfig {
                bandwidth_bytes_per_s: 1_000_000_000,
                latency: Time::from_ns(10),
                flit_bytes: 32,
                crc_bytes: 2,
                header_bytes: 16,
                pads: true,
                packet_bytes: 1024,
                virtual_channels: 2,
                buffer_flits: 128,
            },
            node_link: None,
            class_links: Vec::new(),
            inside_from: u32::MAX,
            node_buffer_flits: None,
            switch: SwitchConfig {
                latency: Time::from_ns(20),
                arbitration: Arbitration::RoundRobin,
                switching: Switching::CutThrough,
                speed_up: None,
            },
            flow_control: FlowControl::Credits,
            control_defects: Vec::new(),
            control_corrections: Vec::new(),
            congestion: None,
            retransmission: None,
            errors: ErrorRates::NONE,
            link_down_limit: Time::from_ns(1_000_000),
            deadlock: DeadlockPolicy::Resolve { delay: Time::from_ns(10_000) },
            detour_bias_flits: 0,
            rail_choice: RailChoice::Hash,
            seed: 1,
            trace: false,
        }
    }
}

impl NetworkConfig {
    /// The highest fill at which a STOP still keeps every buffer from overflowing: room for a round trip, for the flit
    /// that the STOP waits for, and for the flit or packet that the sender has begun. `None`: buffers are too small.
    pub fn stop_flits_max(&self, topology: &Topology) -> Option<u32> {
        let begun = match self.switch.switching {
            Switching::CutThrough => self.flits(self.link.packet_bytes),
            Switching::Wormhole => 1,
        };
        let round_trip = |speed: Speed| (speed.latency * 2).0.div_ceil(speed.flit_time.0.max(1));
        let longest = self.speeds(topology, false).into_iter().map(round_trip).max()?;
        let needed = u64::from(begun) + longest + 2;
        let most = u64::from(self.link.buffer_flits).checked_sub(needed)?;
        u32::try_from(most).ok().filter(|most| *most >= 2)
    }

    /// Returns the flits of a packet with `bytes` of payload: at least one, for the header.
    pub fn flits(&self, bytes: u32) -> u32 {
        let room = self.link.flit_bytes.saturating_sub(self.link.crc_bytes).max(1);
        let whole = u64::from(self.link.header_bytes) + u64::from(bytes);
        u32::try_from(whole.div_ceil(u64::from(room))).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the bytes by which the last flit of such a packet is shorter than a full one.
    pub fn missing(&self, bytes: u32) -> u32 {
        if self.link.pads {
            return 0;
        }
        let room = self.link.flit_bytes.saturating_sub(self.link.crc_bytes).max(1);
        let whole = u64::from(self.link.header_bytes) + u64::from(bytes);
        (u64::from(self.flits(bytes)) * u64::from(room) - whole).min(u64::from(room) - 1) as u32
    }

    /// Returns the time of `bytes` as a part of a full flit's time.
    #[inline]
    pub(super) fn part(&self, flit_time: Time, bytes: u64) -> Time {
        if bytes == 0 { Time::ZERO } else { flit_time * bytes / u64::from(self.link.flit_bytes) }
    }

    /// Returns the time for which a packet occupies a channel, given the time of a full flit.
    pub(crate) fn packet_time(&self, flit_time: Time, bytes: u32) -> Time {
        let full = flit_time * u64::from(self.flits(bytes));
        full.saturating_sub(self.part(flit_time, self.missing(bytes).into()))
    }

    /// Returns the time for which a message of `bytes`, with its frame, occupies its node's channel, unless a graph
    /// gives this node's link another speed.
    pub fn message_time(&self, bytes: u64) -> Time {
        self.message_time_at(self.node_flit_time(), bytes)
    }

    /// Returns the time for which a message of `bytes`, with its frame, occupies a channel, given the time of a full
    /// flit.
    pub(crate) fn message_time_at(&self, flit_time: Time, bytes: u64) -> Time {
        let most = u64::from(self.link.packet_bytes).max(1);
        let (full, last) = if bytes <= most { (0, bytes) } else { ((bytes - 1) / most, (bytes - 1) % most + 1) };
        self.packet_time(flit_time, self.link.packet_bytes) * full + self.packet_time(flit_time, last as u32)
    }

    /// Returns the bytes of a message, with its frame, that leave by the rail with most of them, of a node's `rails`.
    pub(crate) fn longest_share(&self, bytes: u64, rails: u32) -> u64 {
        let most = u64::from(self.link.packet_bytes).max(1);
        let packets = bytes.div_ceil(most).div_ceil(self.rail_choice.width(rails).into());
        bytes.min(packets * most)
    }

    /// Returns the time of a full flit on a link without a speed of its own.
    pub(crate) fn flit_time(&self) -> Time {
        Time::of_bytes(u64::from(self.link.flit_bytes), self.link.bandwidth_bytes_per_s)
    }

    pub(crate) fn node_flit_time(&self) -> Time {
        let bandwidth =
            self.node_link.as_ref().map_or(self.link.bandwidth_bytes_per_s, |link| link.bandwidth_bytes_per_s);
        Time::of_bytes(u64::from(self.link.flit_bytes), bandwidth)
    }

    /// Whether the retransmission window can stop a link. The most unacknowledged flits are those of the packets that
    /// ended within a round trip, of one packet that began before, and of the next packet.
    pub(super) fn window_limits(&self, topology: &Topology) -> bool {
        let Some(retransmission) = &self.retransmission else { return false };
        let round_trip = |speed: Speed| (speed.latency * 2).0 / speed.flit_time.0.max(1);
        let longest = self.speeds(topology, true).into_iter().map(round_trip).max().unwrap_or_default();
        let most = longest + 2 * u64::from(self.flits(self.link.packet_bytes)) + 1;
        u64::from(retransmission.window_flits) < most
    }

    /// Refuses every configuration that cannot be simulated, so that later code need not check.
    pub(super) fn check(&self, topology: &Topology, routing: &Routing) -> Result<(), NetworkError> {
        let link = &self.link;
        let bases = || self.node_link.iter().chain(&self.class_links);
        if link.bandwidth_bytes_per_s == 0 || bases().any(|speed| speed.bandwidth_bytes_per_s == 0) {
            return Err(NetworkError::Bandwidth);
        }
        let (given, classes) = (self.class_links.len(), topology.link_classes().count() as usize);
        if given != 0 && given != classes {
            return Err(NetworkError::LinkClasses { given, classes });
        }
        if link.flit_bytes <= link.crc_bytes {
            return Err(NetworkError::Flit { flit: link.flit_bytes, crc: link.crc_bytes });
        }
        if link.packet_bytes == 0 {
            return Err(NetworkError::Packet);
        }
        if link.virtual_channels == 0 {
            return Err(NetworkError::NoVirtualChannel);
        }
        if link.buffer_flits == 0 {
            return Err(NetworkError::NoBuffer);
        }
        let flits = self.flits(link.packet_bytes);
        let speeds = self.speeds(topology, true);
        if speeds.iter().any(|speed| speed.flit_time > FLIT_TIME_MAX) || flits > FLITS_MAX {
            return Err(NetworkError::TooSlow { flits });
        }
        let latency = speeds.iter().fold(self.switch.latency, |latency, speed| latency.max(speed.latency));
        if latency > LATENCY_MAX {
            return Err(NetworkError::Latency { latency });
        }
        if self.switch.switching == Switching::CutThrough && link.buffer_flits < flits {
            return Err(NetworkError::BufferBelowPacket { buffer: link.buffer_flits, packet: flits });
        }
        if let Some(speed_up) = self.switch.speed_up {
            let least = if self.switch.switching == Switching::CutThrough { flits } else { 1 };
            if speed_up.factor == 0 {
                return Err(NetworkError::SpeedUp);
            }
            if speed_up.output_flits < least {
                return Err(NetworkError::OutputBuffer { buffer: speed_up.output_flits, needed: least });
            }
        }
        if self.switch.switching == Switching::Wormhole && !link.pads {
            return Err(NetworkError::ShortFlits);
        }
        if let Some(buffer) = self.node_buffer_flits.filter(|buffer| *buffer < flits) {
            return Err(NetworkError::BufferBelowPacket { buffer, packet: flits });
        }
        if let Some(retransmission) = &self.retransmission {
            let needed = if self.switch.switching == Switching::CutThrough { flits } else { 1 };
            if retransmission.window_flits < needed {
                return Err(NetworkError::Window { window: retransmission.window_flits, needed });
            }
            if retransmission.timeout > LATENCY_MAX {
                return Err(NetworkError::Latency { latency: retransmission.timeout });
            }
        }
        self.check_congestion()?;
        self.check_flow_control(topology, routing)?;
        let (needed, have) = (routing.virtual_channels_needed(), link.virtual_channels);
        self.errors.check()?;
        if needed > have { Err(NetworkError::VirtualChannels { needed, have }) } else { Ok(()) }
    }
}

impl NetworkConfig {
    fn check_congestion(&self) -> Result<(), NetworkError> {
        let Some(congestion) = &self.congestion else { return Ok(()) };
        if congestion.timeout > LATENCY_MAX {
            return Err(NetworkError::Latency { latency: congestion.timeout });
        }
        if congestion.control_bytes > self.link.packet_bytes {
            return Err(NetworkError::ControlPacket { bytes: congestion.control_bytes, most: self.link.packet_bytes });
        }
        match &congestion.control {
            Control::Ecn(ecn) if !(ecn.gain > 0.0 && ecn.gain <= 1.0) => Err(NetworkError::Gain { gain: ecn.gain }),
            _ => Ok(()),
        }
    }

    fn check_flow_control(&self, topology: &Topology, routing: &Routing) -> Result<(), NetworkError> {
        let FlowControl::StopContinue { stop, resume } = self.flow_control else {
            let has_defects = !self.control_defects.is_empty() || !self.control_corrections.is_empty();
            return if has_defects { Err(NetworkError::NoStops) } else { Ok(()) };
        };
        let Some(most) = self.stop_flits_max(topology) else {
            return Err(NetworkError::BufferBelowStop { buffer: self.link.buffer_flits });
        };
        if resume >= stop || stop > most {
            return Err(NetworkError::Stop { stop, resume, most });
        }
        if routing.deadlock_free() { Ok(()) } else { Err(NetworkError::StopDeadlock) }
    }
}

/// Longest time of a flit: an event carries it in 32 bits of picoseconds.
const FLIT_TIME_MAX: Time = Time::from_ns(4_000_000);
const FLITS_MAX: u32 = 1 << 24;
const LATENCY_MAX: Time = Time::from_ns(10_000_000_000);

/// Reason why a network cannot be made. Each message names the remedy.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum NetworkError {
    #[error("a link has no bandwidth; set more than 0 bytes a second")]
    Bandwidth,
    #[error("{given} speeds for {classes} classes of links; give one for each class, or none")]
    LinkClasses { given: usize, classes: usize },
    #[error("a flit of {flit} bytes has no room beside its {crc} bytes of CRC; make flits longer")]
    Flit { flit: u32, crc: u32 },
    #[error("packets have no payload; set packet_bytes to 1 or more")]
    Packet,
    #[error("a link has no virtual channel; set 1 or more")]
    NoVirtualChannel,
    #[error("the routing needs {needed} virtual channels, but links have {have}; set {needed}, or use another routing")]
    VirtualChannels { needed: u8, have: u8 },
    #[error("a switch with a speed-up of 0 passes nothing; set speed_up to 1 or more")]
    SpeedUp,
    #[error("an output buffer of {buffer} flits holds less than {needed}; set output_flits to {needed} or more")]
    OutputBuffer { buffer: u32, needed: u32 },
    #[error("buffers have no room for a flit; set buffer_flits to 1 or more")]
    NoBuffer,
    #[error(
        "a buffer of {buffer} flits cannot hold a packet of {packet}, as cut-through needs; \
         give buffer_flits of {packet} or more, smaller packets, or wormhole switching"
    )]
    BufferBelowPacket { buffer: u32, packet: u32 },
    #[error(
        "a flit takes more than 4 ms, or a packet has {flits} flits, more than 16,777,216; \
             give links more bandwidth, or change the sizes of flits and packets"
    )]
    TooSlow { flits: u32 },
    #[error("a wormhole network moves flits of one size; pad the last flit, or switch whole packets")]
    ShortFlits,
    #[error("a latency or timeout of {latency} is longer than 10 s; check its unit")]
    Latency { latency: Time },
    #[error("a retransmission window of {window} flits stops every packet; set {needed} or more")]
    Window { window: u32, needed: u32 },
    #[error("error rates of {loss} and {corruption} for each packet and hop; each must lie between 0 and {RATE_MAX}")]
    ErrorRate { loss: f64, corruption: f64 },
    #[error(
        "a link without STOP and CONTINUE has neither their defect nor its correction; set link.flow_control=stop-continue, or leave \
         --link-fault and --link-correction out"
    )]
    NoStops,
    #[error(
        "a buffer of {buffer} flits has no room for what arrives after a STOP (a packet and a round trip); set more buffer_flits"
    )]
    BufferBelowStop { buffer: u32 },
    #[error(
        "STOP at {stop} flits and CONTINUE at {resume} do not keep a buffer from overflowing; set link.stop_flits to {most} or less, and link.continue_flits below it"
    )]
    Stop { stop: u32, resume: u32, most: u32 },
    #[error(
        "a control packet has {bytes} bytes, but packets have at most {most}; set congestion.control_bytes to {most} or less"
    )]
    ControlPacket { bytes: u32, most: u32 },
    #[error("a gain of {gain} is not a weight; set congestion.gain above 0 and at most 1")]
    Gain { gain: f64 },
    #[error("a deadlock is not found with STOP and CONTINUE; use a deadlock-free routing (routing.algorithm)")]
    StopDeadlock,
    #[error(
        "the network has {channels} channels with {virtual_channels} virtual channels each, too many to simulate; make it smaller"
    )]
    TooLarge { channels: u32, virtual_channels: u8 },
}
