// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a job, as words on a command line or as a table of a TOML file.
//!
//! ```text
//! solver: program=halo ranks=64 nodes=0-63 cells=32
//! noise: traffic=uniform load=0.3 start=10us
//! ```
//!
//! ```toml
//! [[job]]
//! name = "solver"
//! program = "halo"
//! ranks = 64
//! nodes = "0-63"
//! cells = 32
//! ```
//!
//! Both forms have the keys of [`KEYS`], those of traffic ([`TRAFFIC_KEYS`]), and the parameters of the program. A dash
//! in a key may be written as an underscore.

use std::str::FromStr;

use selvedge_settings::{nearest, units};

use super::error::{JobError, JobProblem};
use super::nodes::NodeSet;
use super::placing::Placement;
use super::traffic::TrafficJob;
use crate::program::ready;
use crate::random::Random;
use crate::time::Time;

/// A job: its work, its ranks, and their places.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDescription {
    pub name: String,
    pub work: Work,
    /// Number of ranks; by default those for which its nodes have room.
    pub ranks: Option<u32>,
    pub ranks_per_node: u32,
    /// Its nodes; by default those that no job names.
    pub nodes: Option<NodeSet>,
    pub placement: Placement,
    /// Time at which its ranks begin.
    pub start: Time,
    /// Its seed; by default one that follows from the seed of the run and the job's name.
    pub seed: Option<u64>,
    /// The run does not wait for its end.
    pub background: bool,
}

/// The work of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A built-in program with its parameters; a trace is the program `replay`.
    Program {
        name: String,
        parameters: Vec<(String, String)>,
    },
    Traffic(TrafficJob),
    /// An executable with its arguments, whose processes are the ranks; only the first job of a run.
    Command(Vec<String>),
}

/// Keys of every job.
pub const KEYS: [&str; 10] =
    ["program", "trace", "traffic", "ranks", "ranks-per-node", "nodes", "placement", "start", "seed", "background"];

/// Further keys of traffic.
pub const TRAFFIC_KEYS: [&str; 3] = ["load", "message-bytes", "messages"];

const NAME_MAX: usize = 60;
/// Built-in programs take seeds up to 2^30.
const SEED_BITS: u32 = 30;

/// The keys and values of a job, before they are checked.
struct Reader {
    job: String,
    given: Vec<(String, String)>,
}

impl JobDescription {
    /// Makes a job with defaults for all but its name and work.
    pub fn new(name: &str, work: Work) -> JobDescription {
        let background = matches!(&work, Work::Traffic(traffic) if traffic.messages.is_none());
        JobDescription {
            name: name.to_owned(),
            work,
            ranks: None,
            ranks_per_node: 1,
            nodes: None,
            placement: Placement::Block,
            start: Time::ZERO,
            seed: None,
            background,
        }
    }

    /// Reads a job from `NAME: KEY=VALUE ...`.
    pub fn from_words(text: &str) -> Result<JobDescription, JobError> {
        let error =
            |job: &str, problem| JobError { at: String::new(), job: job.to_owned(), problem: Box::new(problem) };
        let Some((name, rest)) = text.split_once(':') else { return Err(error(text, JobProblem::Form)) };
        let mut given = Vec::new();
        for word in rest.split_whitespace() {
            let wrong = || error(name.trim(), JobProblem::Word { given: word.to_owned() });
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            given.push((key.to_owned(), value.to_owned()));
        }
        JobDescription::from_pairs(name.trim(), given)
    }

    /// Reads a job from a table of TOML, which has its name under `name`.
    pub fn from_table(table: &toml::Table) -> Result<JobDescription, JobError> {
        let name = table.get("name").and_then(toml::Value::as_str).unwrap_or_default();
        let mut given = Vec::new();
        for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
            let problem = Box::new(JobProblem::Kind { key: key.clone() });
            let error = JobError { at: String::new(), job: name.to_owned(), problem };
            given.push((key.clone(), text_of(value).ok_or(error)?));
        }
        JobDescription::from_pairs(name, given)
    }

    /// Reads background traffic from `PATTERN:LOAD`, as in `uniform:0.3`.
    pub fn background(name: &str, text: &str) -> Result<JobDescription, JobError> {
        let (pattern, load) = text.rsplit_once(':').unwrap_or((text, ""));
        let given = [("traffic", pattern), ("load", load)];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        JobDescription::from_pairs(name, given.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    fn from_pairs(name: &str, given: Vec<(String, String)>) -> Result<JobDescription, JobError> {
        let reader = Reader {
            job: name.to_owned(),
            given: given.into_iter().map(|(key, value)| (key.replace('_', "-"), value)).collect(),
        };
        reader.read().map_err(|problem| JobError {
            at: String::new(),
            job: name.to_owned(),
            problem: Box::new(problem),
        })
    }

    pub fn error(&self, problem: JobProblem) -> JobError {
        JobError { at: String::new(), job: self.name.clone(), problem: Box::new(problem) }
    }

    pub fn is_traffic(&self) -> bool {
        matches!(self.work, Work::Traffic(_))
    }

    /// Returns the job's seed in a run with this seed. It does not depend on other jobs.
    pub fn seed(&self, run: u64) -> u64 {
        self.seed.unwrap_or_else(|| {
            // FNV-1a.
            let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            let name = self.name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
            Random::new(run, name).next_u64() >> (u64::BITS - SEED_BITS)
        })
    }
}

/// Returns a number, a text or a list of them as a user would write it on a command line.
fn text_of(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        toml::Value::Array(values) => {
            let texts = values.iter().map(|value| if value.is_array() { None } else { text_of(value) });
            Some(texts.collect::<Option<Vec<_>>>()?.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

impl Reader {
    fn read(mut self) -> Result<JobDescription, JobProblem> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.job.is_empty() || self.job.len() > NAME_MAX || !self.job.chars().all(is_letter) {
            return Err(JobProblem::Name);
        }
        for (at, (key, _)) in self.given.iter().enumerate() {
            if self.given[..at].iter().any(|(other, _)| other == key) {
                return Err(JobProblem::Twice { key: key.clone() });
            }
        }
        let (program, trace, traffic) = (self.take("program"), self.take("trace"), self.take("traffic"));
        let work = match (program, trace, traffic) {
            (Some(name), None, None) => Work::Program { name, parameters: Vec::new() },
            (None, Some(file), None) => {
                Work::Program { name: "replay".to_owned(), parameters: vec![("trace".to_owned(), file)] }
            }
            (None, None, Some(pattern)) => Work::Traffic(self.traffic(&pattern)?),
            _ => return Err(JobProblem::Work),
        };
        let mut job = JobDescription::new(&self.job, work);
        job.ranks = self.whole("ranks")?;
        job.ranks_per_node = self.whole("ranks-per-node")?.unwrap_or(1);
        job.nodes = match self.take("nodes") {
            Some(text) => Some(text.parse().map_err(JobProblem::Nodes)?),
            None => None,
        };
        job.placement = self.value("placement", placement)?.unwrap_or_default();
        job.start = self.value("start", time)?.unwrap_or(Time::ZERO);
        job.seed = self.value("seed", |text| {
            let fits = text.parse().ok().filter(|seed: &u64| *seed <= 1 << SEED_BITS);
            fits.ok_or_else(|| format!("a whole number from 0 to {}", 1u64 << SEED_BITS))
        })?;
        let background = self.value("background", |text| match text {
            "true" | "yes" => Ok(true),
            "false" | "no" => Ok(false),
            _ => Err("true or false".to_owned()),
        })?;
        match (&job.work, background) {
            (Work::Traffic(TrafficJob { messages: None, .. }), Some(false)) => return Err(JobProblem::Endless),
            (_, Some(background)) => job.background = background,
            (_, None) => {}
        }
        self.rest(&mut job)?;
        Ok(job)
    }

    /// Gives the keys that are left to the program.
    fn rest(self, job: &mut JobDescription) -> Result<(), JobProblem> {
        let mut known: Vec<&str> = KEYS.to_vec();
        let given = match &mut job.work {
            Work::Traffic(_) | Work::Command(_) => {
                known.extend(TRAFFIC_KEYS);
                None
            }
            Work::Program { name, parameters } => {
                known.extend(ready::find(name)?.parameters.iter().map(|parameter| parameter.name));
                Some(parameters)
            }
        };
        if let Some((key, _)) = self.given.iter().find(|(key, _)| given.is_none() || !known.contains(&key.as_str())) {
            let near = nearest(key, known.iter().map(|name| (*name).to_owned()));
            let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            return Err(JobProblem::Key { key: key.clone(), hint, known: known.join(", ") });
        }
        if let Some(parameters) = given {
            parameters.extend(self.given);
        }
        Ok(())
    }

    fn traffic(&mut self, pattern: &str) -> Result<TrafficJob, JobProblem> {
        let mut traffic = TrafficJob::new(pattern.parse()?);
        if let Some(load) = self.value("load", |text| {
            let load = text.parse().ok().filter(|load| *load > 0.0 && *load <= 1.0);
            load.ok_or_else(|| "a load is a share of the injection bandwidth, above 0 and at most 1".to_owned())
        })? {
            traffic.load = load;
        }
        if let Some(bytes) = self.value("message-bytes", |text| {
            let bytes = units::bytes(text).map_err(|error| error.to_string())?;
            let most = TrafficJob::MESSAGE_BYTES_MAX;
            u32::try_from(bytes)
                .ok()
                .filter(|bytes| (1..=most).contains(bytes))
                .ok_or_else(|| format!("1 to {most} bytes"))
        })? {
            traffic.message_bytes = bytes;
        }
        traffic.messages = self.whole("messages")?;
        Ok(traffic)
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.given.iter().position(|(given, _)| given == key)?;
        Some(self.given.remove(at).1)
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, JobProblem> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match parse(&value) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(expected) => Err(JobProblem::Value { key, value, expected }),
        }
    }

    /// Takes a whole number from 1 on.
    fn whole<T: FromStr + PartialOrd + From<u8>>(&mut self, key: &'static str) -> Result<Option<T>, JobProblem> {
        let parse = |text: &str| text.parse().ok().filter(|number| *number >= T::from(1));
        self.value(key, |text| parse(text).ok_or_else(|| "a whole number from 1 on".to_owned()))
    }
}

fn placement(text: &str) -> Result<Placement, String> {
    let found = Placement::ALL.iter().find(|(name, _)| *name == text);
    let names = || Placement::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, placement)| *placement).ok_or_else(|| format!("one of {}", names()))
}

fn time(text: &str) -> Result<Time, String> {
    let ns = units::nanoseconds_with_unit(text).map_err(|error| error.to_string())?;
    Ok(Time::from_ns_f64(ns))
}
