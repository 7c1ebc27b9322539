// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and checks the description of a machine.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use selvedge_nic::aggregation::message::Distribution;
use selvedge_nic::aggregation::records;
use selvedge_nic::limits::LOCK_WAITERS_MAX;

use selvedge_fabric::{Algorithm, Routing, RoutingError, Topology};

use super::base;
use super::description::{AggregationTable, Description, LinkTable};
use super::error::MachineError;
use super::figure::Figure;
use super::{AggregationModel, FullMailbox, Host, Machine, Matching, Mode, NicModel, SameNode, TableLimits};
use crate::network::{
    Arbitration, DeadlockPolicy, ErrorRates, FlowControl, LinkConfig, NetworkConfig, RetransmissionConfig, SpeedUp,
    SwitchConfig, Switching,
};
use crate::time::Time;

/// Defaults of the nodes in switches: those of Switch-IB 2 (seed 001, III.F and V).
const TREES: u32 = 64;
const CREDITS: u32 = 16;
const PAYLOAD_BYTES: u32 = 256;

/// Reads a machine.
pub fn load(path: &Path) -> Result<Machine, MachineError> {
    load_with(path, &[])
}

/// Reads a machine and overrides some of its keys: `section.key`, and the value as in the file.
pub fn load_with(path: &Path, overrides: &[(String, String)]) -> Result<Machine, MachineError> {
    let text = std::fs::read_to_string(path).map_err(|error| MachineError::Read { path: path.into(), error })?;
    from_text(path, &text, overrides)
}

/// Reads a machine from the text of its file. `path` is for errors, and for relative paths in the text.
pub fn from_text(path: &Path, text: &str, overrides: &[(String, String)]) -> Result<Machine, MachineError> {
    from_text_and(path, text, overrides, &|path| std::fs::read_to_string(path))
}

/// Like [`from_text`]; `read` returns the text of the base of a file.
pub fn from_text_and(
    path: &Path,
    text: &str,
    overrides: &[(String, String)],
    read: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Machine, MachineError> {
    let parse = |error: toml::de::Error| MachineError::Parse { path: path.into(), error: Box::new(error) };
    let table: toml::Table = toml::from_str(text).map_err(parse)?;
    // A file without base is read from its text, so that errors show the line.
    let description: Description = if overrides.is_empty() && !table.contains_key(base::KEY) {
        toml::from_str(text).map_err(parse)?
    } else {
        let mut table = base::on_base(path, table, read)?;
        for (key, value) in overrides {
            set(&mut table, key, value)?;
        }
        Description::deserialize(table).map_err(parse)?
    };
    Reader { path, text }.machine(description)
}

/// Sets `section.key` in the tables of a description.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), MachineError> {
    let wrong = || MachineError::Override(format!("{key}={value}"));
    let value = format!("value = {value}")
        .parse::<toml::Table>()
        .or_else(|_| format!("value = {value:?}").parse::<toml::Table>())
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .ok_or_else(wrong)?;
    let (sections, last) = key.rsplit_once('.').ok_or_else(wrong)?;
    let mut at = table;
    for section in sections.split('.') {
        let entry = at.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = entry.as_table_mut().ok_or_else(wrong)?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Makes a machine from a description; keeps the file's text for the line numbers of errors.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn machine(&self, description: Description) -> Result<Machine, MachineError> {
        let topology = self.rails(self.topology(&description.topology)?, &description.topology)?;
        let channels = self.whole("link", "virtual_channels", &description.link.virtual_channels, 1, 64)? as u8;
        let algorithm: Algorithm = description.routing.algorithm.parse().map_err(|error| self.routing_error(error))?;
        let routing = Routing::new(&topology, algorithm, channels).map_err(|error| self.routing_error(error))?;
        let network = self.network(&description, &topology, channels)?;
        let host = self.host(&description)?;
        let nic = self.nic(&description)?;
        let limits = self.limits(&description)?;
        self.mailboxes(&description, &host, &nic)?;
        let derived = super::derive::graph(&host, &nic);
        let (mut graph, interface) = super::assemble::graph(derived, &description, &host, &limits)
            .map_err(|(section, key, why)| self.wrong(&section, &key, why))?;
        let frame = self.whole("link", "frame_bytes", &description.link.frame_bytes, 0, 1 << 30)?;
        for path in &mut graph.paths {
            path.frame_bytes += frame;
        }
        Ok(Machine {
            name: description.name.clone(),
            about: description.about.clone(),
            aggregation: self.aggregation(&description, &topology)?,
            topology: Arc::new(topology),
            routing,
            network,
            host,
            nic,
            graph,
            interface,
            limits,
            description: Arc::new(description),
        })
    }

    // ---- The fabric ----------------------------------------------------------------------------------------------

    fn network(
        &self,
        description: &Description,
        topology: &Topology,
        channels: u8,
    ) -> Result<NetworkConfig, MachineError> {
        let (link, switch) = (&description.link, &description.switch);
        let bytes = |key: &str, figure: &Figure, least: u64| self.whole("link", key, figure, least, 1 << 30);
        let probability = |key: &str, figure: &Figure| match figure.value {
            value if value <= 1.0 => Ok(value),
            value => Err(self.wrong("link", key, format!("{value} is not a probability; use 0 to 1"))),
        };
        let retransmission = match &link.retransmission {
            None => None,
            Some(table) => Some(RetransmissionConfig {
                timeout: time(&table.timeout_ns),
                window_flits: self.whole("link.retransmission", "window_flits", &table.window_flits, 1, 1 << 24)?
                    as u32,
            }),
        };
        let node_buffer_flits = match &description.nic.receive_flits {
            None => None,
            Some(figure) => Some(self.whole("nic", "receive_flits", figure, 1, 1 << 30)? as u32),
        };
        let overhead = link.flit_overhead_bytes.clone().unwrap_or_default();
        let pads = match link.last_flit.as_deref() {
            None | Some("full") => true,
            Some("short") => false,
            Some(other) => return Err(self.wrong("link", "last_flit", choice(other, &["full", "short"]))),
        };
        let arbitration = match switch.arbitration.as_deref() {
            None | Some("round-robin") => Arbitration::RoundRobin,
            Some("fifo") => Arbitration::Fifo,
            Some(other) => return Err(self.wrong("switch", "arbitration", choice(other, &["round-robin", "fifo"]))),
        };
        let switching = match switch.switching.as_deref() {
            None | Some("cut-through") => Switching::CutThrough,
            Some("wormhole") => Switching::Wormhole,
            Some(other) => return Err(self.wrong("switch", "switching", choice(other, &["cut-through", "wormhole"]))),
        };
        let speed_up = self.speed_up(description)?;
        let mut network = NetworkConfig {
            link: LinkConfig {
                bandwidth_bytes_per_s: self.rate("link", "bandwidth_MBps", &link.bandwidth_MBps)?,
                latency: time(&link.latency_ns),
                flit_bytes: bytes("flit_bytes", &link.flit_bytes, 1)? as u32,
                crc_bytes: bytes("flit_overhead_bytes", &overhead, 0)? as u32,
                pads,
                header_bytes: bytes("header_bytes", &link.header_bytes, 0)? as u32,
                packet_bytes: bytes("packet_bytes", &link.packet_bytes, 1)? as u32,
                virtual_channels: channels,
                buffer_flits: bytes("buffer_flits", &link.buffer_flits, 1)? as u32,
            },
            node_buffer_flits,
            switch: SwitchConfig { latency: time(&switch.latency_ns), arbitration, switching, speed_up },
            retransmission,
            errors: ErrorRates {
                loss: probability("loss", &link.loss)?,
                corruption: probability("corruption", &link.corruption)?,
            },
            deadlock: DeadlockPolicy::Resolve { delay: Time::from_ns(100_000) },
            ..NetworkConfig::default()
        };
        (network.node_link, network.class_links) = self.speeds(link, &network.link, topology)?;
        network.flow_control = self.flow_control(link, &network, topology)?;
        network.congestion = match &description.congestion {
            Some(table) => {
                super::congestion::config(table, &network).map_err(|(key, why)| self.wrong("congestion", key, why))?
            }
            None => None,
        };
        network.rail_choice = self.rail_choice(description, topology)?;
        network.detour_bias_flits = match &description.routing.bias_flits {
            Some(figure) => self.whole("routing", "bias_flits", figure, 0, 1 << 30)? as u32,
            None => network.flits(network.link.packet_bytes),
        };
        Ok(network)
    }

    fn speed_up(&self, description: &Description) -> Result<Option<SpeedUp>, MachineError> {
        let switch = &description.switch;
        let Some(factor) = &switch.speed_up else {
            return match &switch.output_flits {
                Some(_) => Err(self.wrong("switch", "output_flits", "is of use only with speed_up: add it".into())),
                None => Ok(None),
            };
        };
        let factor = self.whole("switch", "speed_up", factor, 1, 64)? as u32;
        let output_flits = switch.output_flits.as_ref().unwrap_or(&description.link.buffer_flits);
        let output_flits = self.whole("switch", "output_flits", output_flits, 1, 1 << 30)? as u32;
        Ok(Some(SpeedUp { factor, output_flits }))
    }

    fn flow_control(
        &self,
        link: &LinkTable,
        network: &NetworkConfig,
        topology: &Topology,
    ) -> Result<FlowControl, MachineError> {
        let flits = |key: &str, figure: &Option<Figure>, default: u32| match figure {
            Some(figure) => Ok(self.whole("link", key, figure, 1, 1 << 30)? as u32),
            None => Ok(default),
        };
        match link.flow_control.as_deref() {
            None | Some("credits") => Ok(FlowControl::Credits),
            Some("stop-continue") => {
                let stop = flits("stop_flits", &link.stop_flits, network.stop_flits_max(topology).unwrap_or(2))?;
                let resume = flits("continue_flits", &link.continue_flits, stop / 2)?;
                Ok(FlowControl::StopContinue { stop, resume })
            }
            Some(other) => Err(self.wrong("link", "flow_control", choice(other, &["credits", "stop-continue"]))),
        }
    }

    // ---- The node ------------------------------------------------------------------------------------------------

    fn host(&self, description: &Description) -> Result<Host, MachineError> {
        let table = &description.host;
        let optional_rate = |figure: &Figure| (figure.value * 1e6).round() as u64;
        let mut caches = Vec::new();
        for cache in &table.caches {
            let bytes = self.whole("host", "caches", &cache.bytes, 1, 1 << 40)?;
            if caches.last().is_some_and(|(smaller, _)| *smaller >= bytes) {
                return Err(self.wrong("host", "caches", "must be in order, smallest first".into()));
            }
            caches.push((bytes, time(&cache.access_ns)));
        }
        Ok(Host {
            software_send: time(&table.software_send_ns),
            software_receive: time(&table.software_receive_ns),
            doorbell: time(&table.doorbell_ns),
            round_trip: time(&table.round_trip_ns),
            pio_write: time(&table.pio_write_ns),
            pio_bytes_per_s: optional_rate(&table.pio_MBps),
            pio_bytes_max: self.whole("host", "pio_bytes_max", &table.pio_bytes_max, 0, 1 << 30)?,
            dma_read: time(&table.dma_read_ns),
            dma_write: time(&table.dma_write_ns),
            dma_bytes_per_s: self.rate("host", "dma_MBps", &table.dma_MBps)?,
            interrupt: time(&table.interrupt_ns),
            system_call: time(&table.system_call_ns),
            memory_access: time(&table.memory_access_ns),
            copy_bytes_per_s: self.rate("host", "copy_MBps", &table.copy_MBps)?,
            caches,
            poll: time(&table.poll_ns).max(Time::from_ps(1)),
            clock_read: time(&table.clock_read_ns).max(Time::from_ps(1)),
            same_node: match table.same_node.as_str() {
                "nic" => SameNode::Nic,
                "memory" => SameNode::Memory,
                other => return Err(self.wrong("host", "same_node", choice(other, &["nic", "memory"]))),
            },
        })
    }

    fn nic(&self, description: &Description) -> Result<NicModel, MachineError> {
        let table = &description.nic;
        let mode = match table.mode.as_str() {
            "nic" => Mode::Nic,
            "host" => Mode::Host,
            other => return Err(self.wrong("nic", "mode", choice(other, &["nic", "host"]))),
        };
        let matching = match table.matching.as_str() {
            "hash" => Matching::Hash,
            "list" => Matching::List,
            other => return Err(self.wrong("nic", "matching", choice(other, &["hash", "list"]))),
        };
        Ok(NicModel {
            mode,
            matching,
            processors: self.whole("nic", "processors", &table.processors, 1, 2)? as u32,
            command: time(&table.command_ns),
            header: time(&table.header_ns),
            entry_search: time(&table.entry_search_ns),
            table_access: time(&table.table_access_ns),
            transfer: time(&table.transfer_ns),
            event: time(&table.event_ns),
            counter: time(&table.counter_ns),
            polling_loop: time(&table.polling_loop_ns),
            entry_bytes: self.whole("nic", "entry_bytes", &table.entry_bytes, 1, 1 << 20)?,
            streams_max: self.whole("nic", "streams_max", &table.streams_max, 0, 1 << 20)? as u32,
            retry: time(&table.retry_ns),
            full_mailbox: match table.full_mailbox.as_deref() {
                None | Some("drop") => FullMailbox::Drop,
                Some("block") => FullMailbox::Block,
                Some("credits") => FullMailbox::Credits,
                Some(other) => {
                    return Err(self.wrong("nic", "full_mailbox", choice(other, &["drop", "block", "credits"])));
                }
            },
        })
    }

    /// Checks that the machine supports its treatment of full mailboxes.
    fn mailboxes(&self, description: &Description, host: &Host, nic: &NicModel) -> Result<(), MachineError> {
        let wrong = |why: &str| Err(self.wrong("nic", "full_mailbox", why.to_owned()));
        match nic.full_mailbox {
            FullMailbox::Drop => Ok(()),
            _ if host.same_node == SameNode::Memory => {
                wrong("a NIC that blocks, or has credits, must carry all messages: set host.same_node to nic")
            }
            FullMailbox::Block if description.nic.receive_flits.is_none() => {
                wrong("a NIC that blocks leaves packets in its buffer: set nic.receive_flits")
            }
            FullMailbox::Credits if description.interface.is_none() => {
                wrong("commands take their credits at a host interface: set [interface], as in interface.way=cfcq-data")
            }
            FullMailbox::Block if description.congestion.as_ref().is_some_and(|table| table.control != "none") => {
                wrong("a NIC that blocks keeps its peers' echoes and credits back, too: set congestion.control to none")
            }
            _ => Ok(()),
        }
    }

    fn limits(&self, description: &Description) -> Result<TableLimits, MachineError> {
        let table = &description.limits;
        let limit = |key: &str, figure: &Option<Figure>| match figure {
            None => Ok(None),
            Some(figure) => {
                let value = self.whole("limits", key, figure, 0, 1 << 20)? as u32;
                Ok((value > 0).then_some(value))
            }
        };
        Ok(TableLimits {
            entries: limit("entries", &table.entries)?,
            headers: limit("headers", &table.headers)?,
            descriptors: limit("descriptors", &table.descriptors)?,
            counters: limit("counters", &table.counters)?,
            queues: limit("queues", &table.queues)?,
            portals: limit("portals", &table.portals)?,
            triggered: limit("triggered", &table.triggered)?,
            velo_bytes: limit("velo_bytes", &table.velo_bytes)?,
            mailbox_slots: limit("mailbox_slots", &table.mailbox_slots)?,
            tlb_entries: limit("tlb_entries", &table.tlb_entries)?,
            tlb_ways: limit("tlb_ways", &table.tlb_ways)?,
            lock_waiters: self.lock_waiters(&table.lock_waiters)?,
        })
    }

    fn aggregation(
        &self,
        description: &Description,
        topology: &Topology,
    ) -> Result<Option<AggregationModel>, MachineError> {
        let Some(table) = &description.aggregation else { return Ok(None) };
        let AggregationTable { trees, children, credits, payload_bytes, ports, distribution } = table;
        let whole = |key: &str, figure: &Figure, least: u64, most: u32| {
            self.whole("aggregation", key, figure, least, most.into()).map(|value| value as u32)
        };
        let or = |key: &str, figure: &Option<Figure>, default: u32, least: u64, most: u32| match figure {
            Some(figure) => whole(key, figure, least, most),
            None => Ok(default),
        };
        let widest = u32::from(topology.ports_max()).clamp(2, records::CHILDREN_MAX);
        Ok(Some(AggregationModel {
            trees: or("trees", trees, TREES, 1, records::TREES_MAX)?,
            children: or("children", children, widest, 2, records::CHILDREN_MAX)?,
            credits: or("credits", credits, CREDITS, 1, records::CREDITS_MAX)?,
            payload_bytes: or("payload_bytes", payload_bytes, PAYLOAD_BYTES, 8, 1 << 24)?,
            ports: whole("ports", ports, 1, 1 << 10)?,
            distribution: match distribution.as_deref() {
                None | Some("tree") => None,
                Some("multicast") => Some(Distribution::Multicast),
                Some("both") => Some(Distribution::Both),
                Some(other) => {
                    let why = choice(other, &["tree", "multicast", "both"]);
                    return Err(self.wrong("aggregation", "distribution", why));
                }
            },
        }))
    }

    fn lock_waiters(&self, figure: &Option<Figure>) -> Result<Option<u32>, MachineError> {
        let Some(figure) = figure else { return Ok(None) };
        self.whole("limits", "lock_waiters", figure, 0, LOCK_WAITERS_MAX.into()).map(|count| Some(count as u32))
    }

    // ---- Values --------------------------------------------------------------------------------------------------

    pub(super) fn whole(
        &self,
        section: &str,
        key: &str,
        figure: &Figure,
        least: u64,
        most: u64,
    ) -> Result<u64, MachineError> {
        figure.whole(least, most).map_err(|why| self.wrong(section, key, why))
    }

    /// Returns a bandwidth in bytes a second, from one in MB/s.
    pub(super) fn rate(&self, section: &str, key: &str, figure: &Figure) -> Result<u64, MachineError> {
        let rate = (figure.value * 1e6).round() as u64;
        if rate == 0 {
            return Err(self.wrong(section, key, "0 MB/s moves no bytes: set a bandwidth".into()));
        }
        Ok(rate)
    }

    pub(super) fn wrong(&self, section: &str, key: &str, why: String) -> MachineError {
        let line = self.line(section, key).or_else(|| self.line(section, ""));
        MachineError::Value { path: self.path.into(), line, section: section.into(), key: key.into(), why }
    }

    fn routing_error(&self, error: RoutingError) -> MachineError {
        MachineError::Routing { path: self.path.into(), line: self.line("routing", "algorithm"), error }
    }

    /// Returns the line of a key in its section; with an empty key, the line of the section.
    pub(super) fn line(&self, section: &str, key: &str) -> Option<usize> {
        let mut inside = false;
        for (number, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[') {
                inside = name.split(']').next().map(str::trim) == Some(section);
                if inside && key.is_empty() {
                    return Some(number + 1);
                }
            } else if inside && !key.is_empty() {
                let name = line.split('=').next().unwrap_or("").trim();
                if name == key {
                    return Some(number + 1);
                }
            }
        }
        None
    }
}

pub(super) fn time(ns: &Figure) -> Time {
    Time::from_ns_f64(ns.value)
}

pub(super) fn choice(given: &str, choices: &[&str]) -> String {
    format!("'{given}' must be one of {}", choices.join(", "))
}
