// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts of a job as the user names them, and the placement of ranks.
//!
//! `--hosts a,b:2,c`, or a file with a host on each line: `name`, `name:2` or `name slots=2`; `#` begins a comment.
//!
//! Ranks are placed in blocks: host by host, as many as the host has slots, in rounds if there are more ranks than
//! slots. If no host has slots, the ranks are divided evenly. A host that is named several times has the slots of all
//! its entries. An entry without slots counts as one.

use std::fmt;
use std::path::{Path, PathBuf};

use selvedge_job::PORTALS_PID_MAX;

use crate::options::JobOptions;

const SLOTS_MAX: u32 = 1 << 20;
/// The most hosts of a job. 0xffff, the next number, stands for any node in EXTOLL's interfaces.
const HOSTS_MAX: usize = 0xffff;
/// The longest value that PMI-1 returns.
const MAPPING_CHARS_MAX: usize = 1024;

/// A host as the user has named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostEntry {
    /// A name or address, perhaps with `user@`, as the remote shell takes it.
    pub(super) name: String,
    /// `None`: not given.
    pub(super) slots: Option<u32>,
}

/// Reasons why a list of hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error("--hosts: {what}")]
    List { what: EntryError },
    #[error("{}, line {line}: {what}", .file.display())]
    Line { file: PathBuf, line: usize, what: EntryError },
    #[error("cannot read the hosts from {}: {source}", .file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    #[error("{what} names no host")]
    Empty { what: String },
    #[error("{what} names {hosts} hosts, and a job has at most {HOSTS_MAX}")]
    Many { what: String, hosts: usize },
    #[error(
        "{ranks} ranks of a job are too many for {name}: a host has at most {PORTALS_PID_MAX}; name more hosts (--hosts)"
    )]
    Crowded { ranks: usize, name: String },
}

/// Mistakes in one entry.
#[derive(Debug, PartialEq, Eq)]
pub enum EntryError {
    NoName,
    Name(String),
    Slots(String),
    Unknown(String),
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::NoName => write!(f, "a host's name is missing"),
            EntryError::Name(name) => write!(f, "`{name}` is not the name of a host"),
            EntryError::Slots(slots) => {
                write!(f, "`{slots}` is not a number of slots; give one from 1 to {SLOTS_MAX}")
            }
            EntryError::Unknown(word) => {
                write!(f, "`{word}` is not understood; write `name`, `name:2` or `name slots=2`")
            }
        }
    }
}

/// The hosts that the user has named. Empty: this host.
pub(super) fn of_job(options: &JobOptions) -> Result<Vec<HostEntry>, HostsError> {
    match (&options.hosts, &options.hostfile) {
        (Some(list), _) => from_list(list),
        (None, Some(file)) => from_file(file),
        (None, None) => Ok(Vec::new()),
    }
}

/// Reads `a,b:2,c`.
fn from_list(list: &str) -> Result<Vec<HostEntry>, HostsError> {
    let entries: Result<Vec<HostEntry>, EntryError> = list.split(',').map(|word| entry(word.trim())).collect();
    merge(entries.map_err(|what| HostsError::List { what })?, "--hosts")
}

/// Reads a file with a host on each line.
fn from_file(file: &Path) -> Result<Vec<HostEntry>, HostsError> {
    let text =
        std::fs::read_to_string(file).map_err(|source| HostsError::Unreadable { file: file.to_owned(), source })?;
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let found = of_line(line).map_err(|what| HostsError::Line { file: file.to_owned(), line: at + 1, what })?;
        entries.push(found);
    }
    merge(entries, &file.display().to_string())
}

/// `name`, `name:2`, `name slots=2`, `name slots = 2`.
fn of_line(line: &str) -> Result<HostEntry, EntryError> {
    let line = line.replace('=', " = ");
    let mut words = line.split_ascii_whitespace();
    let mut found = entry(words.next().unwrap_or_default())?;
    match (words.next(), words.next(), words.next(), words.next()) {
        (None, ..) => {}
        (Some("slots"), Some("="), Some(slots), None) if found.slots.is_none() => found.slots = Some(slots_of(slots)?),
        _ => {
            let rest = line.split_once(' ').map_or(line.as_str(), |(_, rest)| rest);
            return Err(EntryError::Unknown(rest.trim().replace(" = ", "=")));
        }
    }
    Ok(found)
}

/// `name`, `name:2`, an IPv6 address, or one in brackets with `:2` behind it.
fn entry(word: &str) -> Result<HostEntry, EntryError> {
    let is_address = word.parse::<std::net::Ipv6Addr>().is_ok();
    let (name, slots) = match word.rsplit_once(':') {
        Some((name, slots)) if !is_address && !slots.contains(']') => (name, Some(slots_of(slots)?)),
        _ => (word, None),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if bare.is_empty() {
        return Err(EntryError::NoName);
    }
    // The remote shell would take a name that begins with `-` for an option.
    let is_plain = |c: char| c.is_alphanumeric() || "._-@:%".contains(c);
    if bare.starts_with('-') || bare.ends_with('@') || !bare.chars().all(is_plain) {
        return Err(EntryError::Name(name.to_owned()));
    }
    Ok(HostEntry { name: bare.to_owned(), slots })
}

fn slots_of(text: &str) -> Result<u32, EntryError> {
    let slots = text.parse().ok().filter(|slots| (1..=SLOTS_MAX).contains(slots));
    slots.ok_or_else(|| EntryError::Slots(text.to_owned()))
}

/// Joins the entries of a host that is named several times.
fn merge(entries: Vec<HostEntry>, what: &str) -> Result<Vec<HostEntry>, HostsError> {
    if entries.is_empty() {
        return Err(HostsError::Empty { what: what.to_owned() });
    }
    let mut merged: Vec<HostEntry> = Vec::new();
    for entry in entries {
        match merged.iter_mut().find(|known| known.name == entry.name) {
            Some(known) => {
                let both = known.slots.unwrap_or(1).saturating_add(entry.slots.unwrap_or(1));
                known.slots = Some(both.min(SLOTS_MAX));
            }
            None => merged.push(entry),
        }
    }
    match merged.len() {
        hosts if hosts > HOSTS_MAX => Err(HostsError::Many { what: what.to_owned(), hosts }),
        _ => Ok(merged),
    }
}

/// Checks that so many ranks have room on a host.
pub(super) fn check_room(ranks: usize, name: &str) -> Result<(), HostsError> {
    match ranks > PORTALS_PID_MAX.into() {
        true => Err(HostsError::Crowded { ranks, name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Returns the host of each rank.
///
/// # Errors
/// A host gets more ranks than it can have.
pub(super) fn place(ranks: usize, hosts: &[HostEntry]) -> Result<Vec<usize>, HostsError> {
    // Before there is an entry for each of them.
    if ranks > hosts.len() * usize::from(PORTALS_PID_MAX) {
        return Err(HostsError::Crowded { ranks, name: format!("{} hosts", hosts.len()) });
    }
    let host_of = place_anywhere(ranks, hosts);
    let mut counts = vec![0; hosts.len()];
    host_of.iter().for_each(|&host| counts[host] += 1);
    for (host, &count) in hosts.iter().zip(&counts) {
        check_room(count, &host.name)?;
    }
    Ok(host_of)
}

fn place_anywhere(ranks: usize, hosts: &[HostEntry]) -> Vec<usize> {
    if hosts.iter().all(|host| host.slots.is_none()) {
        let (each, more) = (ranks / hosts.len(), ranks % hosts.len());
        let blocks = (0..hosts.len()).map(|host| (host, each + usize::from(host < more)));
        return blocks.flat_map(|(host, count)| std::iter::repeat_n(host, count)).collect();
    }
    let slots = |host: &HostEntry| host.slots.unwrap_or(1) as usize;
    let round = hosts.iter().enumerate().flat_map(|(number, host)| std::iter::repeat_n(number, slots(host)));
    round.cycle().take(ranks).collect()
}

/// `PMI_process_mapping`: `(vector,(first host, hosts, ranks on each),...)`. `None`: it is too long for PMI-1, and
/// programs find out without it.
pub(super) fn process_mapping(host_of: &[usize]) -> Option<String> {
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for run in host_of.chunk_by(|a, b| a == b) {
        let host = run[0];
        match blocks.last_mut() {
            Some((first, hosts, each)) if *each == run.len() && *first + *hosts == host => *hosts += 1,
            _ => blocks.push((host, 1, run.len())),
        }
    }
    let blocks: Vec<String> =
        blocks.into_iter().map(|(first, hosts, each)| format!(",({first},{hosts},{each})")).collect();
    Some(format!("(vector{})", blocks.concat())).filter(|mapping| mapping.len() <= MAPPING_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: Option<u32>) -> HostEntry {
        HostEntry { name: name.to_owned(), slots }
    }

    #[test]
    fn lists() {
        let list = |text: &str| from_list(text).map_err(|error| error.to_string());
        assert_eq!(list("a,b:2, c"), Ok(vec![host("a", None), host("b", Some(2)), host("c", None)]));
        assert_eq!(list("a,b,a"), Ok(vec![host("a", Some(2)), host("b", None)]));
        assert_eq!(
            list("me@a:3,fe80::1,[fe80::2]:4"),
            Ok(vec![host("me@a", Some(3)), host("fe80::1", None), host("fe80::2", Some(4)),])
        );
        for (wrong, said) in [
            ("", "--hosts: a host's name is missing"),
            ("a,,b", "--hosts: a host's name is missing"),
            ("a:0", "--hosts: `0` is not a number of slots"),
            ("a:b", "--hosts: `b` is not a number of slots"),
            ("-oProxyCommand=x", "--hosts: `-oProxyCommand=x` is not the name of a host"),
            ("a;b", "--hosts: `a;b` is not the name of a host"),
            ("me@", "--hosts: `me@` is not the name of a host"),
        ] {
            let error = list(wrong).expect_err(wrong);
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn files() {
        let file = std::env::temp_dir().join(format!("selvedge-hostfile-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).expect("written");
            from_file(&file).map_err(|error| error.to_string())
        };
        let good = "# all\n\na\n  b:2   # two\nc slots=3\nd slots = 4\n\ta\n";
        let hosts = vec![host("a", Some(2)), host("b", Some(2)), host("c", Some(3)), host("d", Some(4))];
        assert_eq!(read(good), Ok(hosts));
        for (text, said) in [
            ("a\nb slots=x\n", "line 2: `x` is not a number of slots"),
            ("a max_slots=2\n", "line 1: `max_slots=2` is not understood"),
            ("a:2 slots=2\n", "line 1: `slots=2` is not understood"),
            ("\n\na b\n", "line 3: `b` is not understood"),
            ("# none\n", "names no host"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
            assert!(error.contains(&file.display().to_string()), "{error}");
        }
        std::fs::remove_file(&file).expect("removed");
        assert!(read_missing(&file).contains("cannot read the hosts from"));
    }

    fn read_missing(file: &Path) -> String {
        from_file(file).expect_err("there is none").to_string()
    }

    #[test]
    fn placement() {
        let even = [host("a", None), host("b", None), host("c", None)];
        let place = |ranks, hosts: &[HostEntry]| place(ranks, hosts).map_err(|error| error.to_string());
        assert_eq!(place(7, &even), Ok(vec![0, 0, 0, 1, 1, 2, 2]));
        assert_eq!(place(2, &even), Ok(vec![0, 1]));
        let slots = [host("a", None), host("b", Some(2)), host("c", None)];
        assert_eq!(place(3, &slots), Ok(vec![0, 1, 1]));
        assert_eq!(place(7, &slots), Ok(vec![0, 1, 1, 2, 0, 1, 1]));
        assert_eq!(place(3072, &even).map(|host_of| host_of.len()), Ok(3072));
        let crowded = |ranks, name| {
            Err(format!(
                "{ranks} ranks of a job are too many for {name}: a host has at most 1024; name more hosts (--hosts)"
            ))
        };
        assert_eq!(place(3073, &even), crowded(3073, "3 hosts"));
        assert_eq!(place(usize::MAX, &even), crowded(usize::MAX, "3 hosts"));
        // Two of three ranks are the second host's.
        assert_eq!(place(2100, &[host("a", Some(1)), host("b", Some(2)), host("c", Some(0))]), crowded(1400, "b"));
    }

    #[test]
    fn mappings() {
        let mapping = |host_of: &[usize]| process_mapping(host_of).expect("short");
        assert_eq!(mapping(&[0, 0, 0]), "(vector,(0,1,3))");
        assert_eq!(mapping(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        assert_eq!(mapping(&[0, 1, 1, 2]), "(vector,(0,1,1),(1,1,2),(2,1,1))");
        assert_eq!(mapping(&[0, 1, 0, 1, 0]), "(vector,(0,2,1),(0,2,1),(0,1,1))");
        let long: Vec<usize> = (0..1000).map(|rank| rank % 2).collect();
        assert_eq!(process_mapping(&long), None);
    }
}
