// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The graph of a machine whose file names units and paths: the derived graph, extended by the file's units, with the
//! file's paths instead of the derived ones.
//!
//! Invariants
//! 1. A name in a path is that of a unit of the file; any other is an error that lists the known names.
//! 2. A unit's interval is its latency unless the file says otherwise.
//! 3. With a host interface, an `issue` has passes on the processor only.

use super::description::{AtuTable, Description, PathTable, UnitTable};
use super::graph::{Class, Graph, Pass, Path, Stage, Translation, Unit, UnitId};
use super::interface::{self, Interface};
use super::names::{Names, Wrong, stage, unknown};
use super::{Host, TableLimits, derive};
use crate::time::Time;

/// Adds the units and paths of a description to a derived graph; returns the host interface, if the machine has one.
pub(super) fn graph(
    mut graph: Graph,
    description: &Description,
    host: &Host,
    limits: &TableLimits,
) -> Result<(Graph, Option<Interface>), Wrong> {
    let mut names = Names::new();
    for (name, table) in description.unit.iter().filter(|(_, table)| table.of.is_none()) {
        if derive::NAMES.contains(&name.as_str()) {
            let why = format!("the units {NAMES_WORDS} are made of the keys of [host] and [nic]: choose another name");
            return Err(("unit".to_owned(), name.clone(), why));
        }
        let (unit, pass) = unit(name, table, graph.units.len() as UnitId)?;
        graph.is_bounded |= unit.queue > 0;
        graph.units.push(unit);
        names.insert(name, pass);
    }
    let units: Vec<(&str, UnitId)> = names.iter().map(|(name, pass)| (*name, pass.unit)).collect();
    for (name, table) in &description.unit {
        let Some(of) = &table.of else { continue };
        let Some((_, id)) = units.iter().find(|(unit, _)| unit == of) else {
            return Err((format!("unit.{name}"), "of".to_owned(), unknown(&names, of)));
        };
        if table.queue.is_some() || table.on.is_some() {
            let why = format!("a unit with of = {of} takes queue and on from that unit: set them there");
            return Err((format!("unit.{name}"), "of".to_owned(), why));
        }
        names.insert(name, unit(name, table, *id)?.1);
    }
    for (name, table) in &description.path {
        let Some(class) = Class::ALL.into_iter().find(|class| class.name() == name) else {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
            let why = format!("unknown class of messages '{name}'; known: {}", known.join(", "));
            return Err(("path".to_owned(), name.clone(), why));
        };
        let reader = PathReader { section: format!("path.{name}"), units: &graph.units, names: &names };
        graph.paths[class as usize] = reader.path(table, graph.path(class))?;
    }
    if let Some(table) = &description.atu {
        graph.translation = Some(translation(table, &names, limits)?);
    }
    let Some(table) = &description.interface else { return Ok((graph, None)) };
    let made = interface::interface(&mut graph, &names, host, table)?;
    only_software(&mut graph, description)?;
    for path in &mut graph.paths {
        path.inline_bytes = path.inline_bytes.min(made.inline_bytes);
    }
    Ok((graph, Some(made)))
}

/// Limits issues to software. The interface brings commands to the NIC, so an issue is the program's own work; that of
/// a derived path is its library's.
fn only_software(graph: &mut Graph, description: &Description) -> Result<(), Wrong> {
    for class in Class::ALL {
        let is_processor = |pass: &Pass| graph.units[usize::from(pass.unit)].is_processor;
        let path = graph.path(class);
        if !description.path.contains_key(class.name()) {
            graph.paths[class as usize].issue = derive::software(path);
        } else if path.issue.iter().flatten().any(|pass| !is_processor(pass)) {
            let why =
                "with an [interface], which brings the command to the NIC, an issue names units of the processor only";
            return Err((format!("path.{}", class.name()), "issue".to_owned(), why.to_owned()));
        }
    }
    Ok(())
}

const NAMES_WORDS: &str = "software, processor, send-engine, receive-engine, bus-read and bus-write";

/// Returns a unit of the file, and the default cost of a pass through it.
fn unit(name: &str, table: &UnitTable, id: UnitId) -> Result<(Unit, Pass), Wrong> {
    let UnitTable { latency_ns, interval_ns, MBps, queue, on, of: _, interrupt, until_sent, carries_data } = table;
    let wrong = |key: &str, why: String| (format!("unit.{name}"), key.to_owned(), why);
    let is_processor = match on.as_deref() {
        None => false,
        Some("processor") => true,
        Some(other) => return Err(wrong("on", format!("'{other}' must be processor"))),
    };
    let queue = queue.as_ref().map_or(Ok(0), |figure| figure.whole(0, 1 << 20)).map_err(|why| wrong("queue", why))?;
    if is_processor && (queue > 0 || interval_ns.is_some()) {
        return Err(wrong(
            "on",
            "the program's processor has no queue and no interval: the program itself waits".into(),
        ));
    }
    let latency = Time::from_ns_f64(latency_ns.value);
    let interval = interval_ns.as_ref().map_or(latency, |figure| Time::from_ns_f64(figure.value));
    let bytes_per_s = MBps.as_ref().map_or(0, |figure| (figure.value * 1e6).round() as u64);
    let unit = Unit { name: name.to_owned(), queue: queue as u32, is_processor };
    let (interrupts, until_sent, carries_data) = (*interrupt, *until_sent, *carries_data);
    Ok((unit, Pass { interval, bytes_per_s, interrupts, until_sent, carries_data, ..Pass::delay(id, latency) }))
}

struct PathReader<'a> {
    section: String,
    units: &'a [Unit],
    names: &'a Names<'a>,
}

impl PathReader<'_> {
    fn path(&self, table: &PathTable, derived: &Path) -> Result<Path, Wrong> {
        let PathTable {
            inline_bytes,
            frame_bytes,
            slot_bytes,
            issue,
            command,
            read,
            header,
            packet,
            write,
            notify,
            receive,
        } = table;
        let whole = |key: &str, figure: &Option<super::figure::Figure>| match figure {
            None => Ok(0),
            Some(figure) if figure.value.fract() == 0.0 && figure.value <= 1e9 => Ok(figure.value as u64),
            Some(figure) => Err(self.wrong(key, format!("{} must be a whole number of bytes", figure.value))),
        };
        let stage = |key: &str, steps: &[String]| self.stage(key, steps);
        let (issue, command) = (stage("issue", issue)?, stage("command", command)?);
        let header = stage("header", header)?;
        let receive = stage("receive", receive)?;
        if let Some(pass) = receive.iter().find(|pass| !self.units[usize::from(pass.unit)].is_processor) {
            let name = &self.units[usize::from(pass.unit)].name;
            return Err(self.wrong("receive", format!("{name} is not on the processor: name a unit that is")));
        }
        let holder = header.last().map_or(derived.holder, |pass| pass.unit);
        Ok(Path {
            inline_bytes: whole("inline_bytes", inline_bytes)?,
            frame_bytes: whole("frame_bytes", frame_bytes)?,
            issue: [issue.clone(), issue],
            software: Time::ZERO,
            fire: Stage::default(),
            command: [command.clone(), command],
            read: stage("read", read)?,
            trailing: trailing(&header),
            header,
            packet: stage("packet", packet)?,
            kept_bytes: None,
            write: stage("write", write)?,
            slot_bytes: whole("slot_bytes", slot_bytes)?,
            notify: stage("notify", notify)?,
            writes_records: true,
            record: Time::ZERO,
            receive: receive.iter().map(|pass| pass.latency).sum(),
            holder,
        })
    }

    fn stage(&self, key: &str, steps: &[String]) -> Result<Stage, Wrong> {
        stage(self.names, steps).map_err(|why| self.wrong(key, why))
    }

    fn wrong(&self, key: &str, why: String) -> Wrong {
        (self.section.clone(), key.to_owned(), why)
    }
}

/// Returns the time by which a message's last byte leaves a stage after its arrival. A unit behind one that carries
/// data works on that unit's output, so it begins as late.
fn trailing(stage: &[Pass]) -> Time {
    stage.iter().skip_while(|pass| !pass.carries_data).map(|pass| pass.latency).sum()
}

fn translation(table: &AtuTable, names: &Names<'_>, limits: &TableLimits) -> Result<Translation, Wrong> {
    let AtuTable { unit, hit_ns, hit_interval_ns, miss_ns, miss_interval_ns } = table;
    let Some(id) = names.get(unit.as_str()).map(|pass| pass.unit) else {
        return Err(("atu".to_owned(), "unit".to_owned(), unknown(names, unit)));
    };
    let pass = |latency: f64, interval: f64| Pass {
        interval: Time::from_ns_f64(interval),
        ..Pass::delay(id, Time::from_ns_f64(latency))
    };
    Ok(Translation {
        hit: pass(hit_ns.value, hit_interval_ns.value),
        miss: pass(miss_ns.value, miss_interval_ns.value),
        tlb_entries: limits.tlb_entries.unwrap_or(0),
        tlb_ways: limits.tlb_ways.unwrap_or(1),
    })
}
