// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge fabric import`: tells each daemon the neighbours that its cables should lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use selvedge_daemon::protocol::{Answer, ExpectedPort, Request, Topology};
use selvedge_daemon::{ClientError, ask};

pub const AFTER_HELP: &str = "\
Print the file once, when the cables are right: `selvedge fabric topology --json > cabling`. It may be edited. GraphML, Graphviz and the files of \
simulated machines are not read. Each host of the file that is in the fabric is told the neighbours of its cables; those of other hosts need daemons with a key. \
A daemon compares them with the cables that it finds, now and later, and warns in its log: `selvedge fabric log --at HOST`. \
They are kept until the daemon ends.";

/// A host that was told its neighbours.
#[derive(serde::Serialize)]
pub struct Told {
    pub host: String,
    pub cables: usize,
}

/// Returns the hosts that were told.
pub fn main(socket: &Path, file: &Path) -> Result<Vec<Told>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let topology: Topology = serde_json::from_str(&text)
        .with_context(|| format!("{}: give what `selvedge fabric topology --json` prints", file.display()))?;
    let Answer::Topology(now) = ask(socket, &Request::Topology)? else {
        bail!("the daemon's answer is not its topology")
    };
    let here: BTreeSet<&str> = now.hosts.iter().map(|host| host.host.as_str()).collect();
    let (mut told, mut failed) = (Vec::new(), Vec::new());
    for (host, ports) in by_host(&topology) {
        let of_file = topology.hosts.iter().find(|known| known.host == host);
        let name = of_file.map_or(host, |known| known.name.as_str());
        if !here.contains(host) {
            failed.push(format!("{name} is not in the fabric"));
            continue;
        }
        let count = ports.len();
        match ask(socket, &Request::At { host: host.into(), request: Box::new(Request::Expect { ports }) }) {
            Ok(_) => told.push(Told { host: name.to_owned(), cables: count }),
            Err(error @ ClientError::Refused(_)) => failed.push(format!("{name}: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    let names: Vec<String> = told.iter().map(|told| format!("{}: {} cables", told.host, told.cables)).collect();
    match failed.is_empty() {
        true => Ok(told),
        false => bail!(
            "told: {}; not told: {}",
            if told.is_empty() { "none".into() } else { names.join(", ") },
            failed.join("; ")
        ),
    }
}

/// The neighbours of each host's ports.
fn by_host(topology: &Topology) -> BTreeMap<&str, Vec<ExpectedPort>> {
    let mut found: BTreeMap<&str, Vec<ExpectedPort>> = BTreeMap::new();
    for link in &topology.links {
        let [a, b] = &link.ends;
        for (own, other) in [(a, b), (b, a)] {
            let expected = ExpectedPort { port: own.port, host: other.host.clone(), neighbour_port: other.port };
            found.entry(&own.host).or_default().push(expected);
        }
    }
    found
}
