// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates failing links and nodes into channels and times, and checks dying ranks.

use std::collections::BTreeMap;

use selvedge_fabric::{NodeId, RouterId, Topology};
use selvedge_sim::node::{Death, Fault};
use selvedge_sim::rerouting::{RouterFault, channels_of};
use selvedge_sim::time::Time;

use super::arguments::{FailedLink, FailedNode, FailedRouter};
use super::usage::Usage;

/// The changes of channels, in order of time: both directions of all links of each pair of routers, of each node or rail,
/// and of all links and nodes of each router. A channel that fails for several reasons returns when the last one is over.
pub fn changes(
    topology: &Topology,
    links: &[FailedLink],
    nodes: &[FailedNode],
    routers: &[FailedRouter],
) -> Result<Vec<Fault>, Usage> {
    let mut outages: BTreeMap<u32, Vec<(Time, Time)>> = BTreeMap::new();
    let mut fail = |channels: Vec<u32>, at, until: Option<Time>| {
        for channel in channels {
            outages.entry(channel).or_default().push((at, until.unwrap_or(Time::MAX)));
        }
    };
    for link in links {
        fail(channels(topology, link)?, link.at, link.until);
    }
    for failed in nodes {
        for endpoint in endpoints(topology, "--fail-node", &failed.node)? {
            let (router, port) = topology.attachment(endpoint);
            fail(vec![topology.injection_channel(endpoint), topology.channel(router, port)], failed.at, failed.until);
        }
    }
    for failed in routers {
        let router = failed_router(topology, &failed.router)?;
        fail(channels_of(topology, router), failed.at, failed.until);
    }
    let mut changes = Vec::new();
    for (channel, outages) in outages {
        for (at, until) in joined(outages) {
            changes.push(Fault { at, channel, up: false });
            changes.extend((until != Time::MAX).then_some(Fault { at: until, channel, up: true }));
        }
    }
    changes.sort_unstable();
    Ok(changes)
}

/// The failures and returns of routers, in order of time.
pub fn routers(topology: &Topology, given: &[FailedRouter]) -> Result<Vec<RouterFault>, Usage> {
    let mut outages: BTreeMap<u32, Vec<(Time, Time)>> = BTreeMap::new();
    for failed in given {
        let router = failed_router(topology, &failed.router)?.0;
        outages.entry(router).or_default().push((failed.at, failed.until.unwrap_or(Time::MAX)));
    }
    let mut changes = Vec::new();
    for (router, outages) in outages {
        for (at, until) in joined(outages) {
            changes.push(RouterFault { at, router, up: false });
            changes.extend((until != Time::MAX).then_some(RouterFault { at: until, router, up: true }));
        }
    }
    changes.sort_unstable();
    Ok(changes)
}

/// Joins times that overlap.
fn joined(mut outages: Vec<(Time, Time)>) -> Vec<(Time, Time)> {
    outages.sort_unstable();
    let mut joined: Vec<(Time, Time)> = Vec::new();
    for (at, until) in outages {
        match joined.last_mut().filter(|last| at <= last.1) {
            Some(last) => last.1 = last.1.max(until),
            None => joined.push((at, until)),
        }
    }
    joined
}

fn failed_router(topology: &Topology, text: &str) -> Result<RouterId, Usage> {
    router(topology, text).ok_or_else(|| {
        let (last, example) = (topology.routers() - 1, topology.router_name(RouterId(0)));
        Usage(format!(
            "--fail-router: {text} is not a router of this machine: it has routers 0 to {last}, the first named {example}"
        ))
    })
}

fn channels(topology: &Topology, link: &FailedLink) -> Result<Vec<u32>, Usage> {
    let mut unknown = None;
    for (a, b) in &link.ends {
        let (Some(a), Some(b)) = (router(topology, a), router(topology, b)) else { continue };
        let between = |from: RouterId, to: RouterId| {
            let ports = topology.neighbours(from).filter(move |(_, router)| *router == to);
            ports.map(move |(port, _)| topology.channel(from, port))
        };
        let channels: Vec<u32> = between(a, b).chain(between(b, a)).collect();
        if !channels.is_empty() {
            return Ok(channels);
        }
        let names = topology.neighbours(a).map(|(_, router)| topology.router_name(router));
        let mut names: Vec<String> = names.take(8).collect();
        names.dedup();
        let (a, b) = (topology.router_name(a), topology.router_name(b));
        unknown = Some(format!("--fail-link: no link joins {a} and {b}; {a} has links to {}", names.join(", ")));
    }
    Err(Usage(unknown.unwrap_or_else(|| {
        let (a, b) = &link.ends[0];
        let example = topology.router_name(RouterId(0));
        format!(
            "--fail-link: {a} and {b} are not two routers of this machine: it has routers 0 to {}, the first named {example}",
            topology.routers() - 1
        )
    })))
}

/// Resolves one direction of a link, `A-B`: the first channel from A to B. The error names `option`.
pub fn direction(topology: &Topology, option: &str, text: &str) -> Result<u32, Usage> {
    for (at, _) in text.char_indices().filter(|(at, c)| *c == '-' && *at > 0 && at + 1 < text.len()) {
        let (Some(a), Some(b)) = (router(topology, &text[..at]), router(topology, &text[at + 1..])) else { continue };
        if let Some((port, _)) = topology.neighbours(a).find(|(_, next)| *next == b) {
            return Ok(topology.channel(a, port));
        }
    }
    let example = topology.neighbours(RouterId(0)).next().map_or(String::new(), |(_, next)| {
        format!(", as in {}-{}", topology.router_name(RouterId(0)), topology.router_name(next))
    });
    Err(Usage(format!("{option}: no link of this machine is {text}; name two routers that a link joins{example}")))
}

/// Resolves a number below `count`, given as a number or as a name.
fn number_of(text: &str, count: u32, name: impl Fn(u32) -> String) -> Option<u32> {
    let number = text.parse().ok().filter(|number| *number < count);
    number.or_else(|| (0..count).find(|number| name(*number) == text))
}

fn router(topology: &Topology, text: &str) -> Option<RouterId> {
    number_of(text, topology.routers(), |router| topology.router_name(RouterId(router))).map(RouterId)
}

/// Resolves a node, given as a number or as a name, or one of its rails, given as a name: its endpoints, in the order of
/// its rails. The error names `option`.
pub fn endpoints(topology: &Topology, option: &str, text: &str) -> Result<Vec<NodeId>, Usage> {
    let rails = topology.rails();
    if let Some(node) = number_of(text, rails.nodes(), |node| topology.whole_node_name(node)) {
        return Ok(rails.of_node(node).collect());
    }
    let one = (0..topology.nodes()).map(NodeId).find(|&endpoint| topology.node_name(endpoint) == text);
    one.map(|endpoint| vec![endpoint]).ok_or_else(|| {
        let (last, rail) = (rails.nodes() - 1, topology.node_name(NodeId(0)));
        let rail = if rails.count() > 1 { format!(", and rails, the first named {rail}") } else { String::new() };
        Usage(format!("{option}: {text} is not a node of this machine: it has nodes 0 to {last}{rail}"))
    })
}

/// The dying ranks, in order of time. Each must be a rank of the job and die once.
pub fn deaths(ranks: u32, given: &[Death]) -> Result<Vec<Death>, Usage> {
    let mut deaths = given.to_vec();
    deaths.sort_unstable();
    for (number, death) in deaths.iter().enumerate() {
        let Death { at, rank } = death;
        if *rank >= ranks {
            let last = ranks.saturating_sub(1);
            return Err(Usage(format!("--kill: there is no rank {rank}; this job has ranks 0 to {last}")));
        }
        if let Some(before) = deaths[..number].iter().find(|before| before.rank == *rank) {
            return Err(Usage(format!(
                "--kill: rank {rank} cannot die at {} and at {at}; leave one of them out",
                before.at
            )));
        }
    }
    Ok(deaths)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::RailLayout;

    use super::*;
    use crate::sim::arguments::{death, failed_link, failed_node};

    #[test]
    fn a_link_has_two_directions_and_comes_back() {
        let mesh = Topology::mesh(&[3, 3], 1).unwrap();
        let by_number = changes(&mesh, &[failed_link("0-1@2us-3us").unwrap()], &[], &[]).unwrap();
        assert_eq!(by_number.len(), 4);
        assert_eq!(by_number.iter().filter(|change| !change.up && change.at == Time::from_ns(2000)).count(), 2);
        assert!(by_number.is_sorted());
        let name = |router| mesh.router_name(RouterId(router));
        let text = format!("{}-{}@2us-3us", name(0), name(1));
        assert_eq!(changes(&mesh, &[failed_link(&text).unwrap()], &[], &[]).unwrap(), by_number);
    }

    #[test]
    fn a_node_is_all_its_rails_and_a_rail_has_a_name() {
        let mesh = Topology::mesh(&[3, 3], 1).unwrap().with_rails(2, RailLayout::Planes).unwrap();
        let of = |text: &str| endpoints(&mesh, "--fail-node", text);
        assert_eq!(of("4").unwrap(), mesh.rails().of_node(4).collect::<Vec<_>>());
        assert_eq!(of("node 4").unwrap(), of("4").unwrap());
        assert_eq!(of("node 4 rail 1").unwrap(), [mesh.rails().endpoint(4, 1)]);
        let refused = of("9").unwrap_err().0;
        assert!(refused.contains("nodes 0 to 8, and rails, the first named node 0 rail 0"), "{refused}");
        let down = changes(&mesh, &[], &[failed_node("4@1us").unwrap()], &[]).unwrap();
        assert_eq!(down.len(), 4, "two directions of two rails");
    }

    #[test]
    fn a_direction_of_a_link_is_one_channel() {
        let mesh = Topology::mesh(&[3, 3], 1).unwrap();
        let there = direction(&mesh, "--dump-link", "0-1").unwrap();
        let back = direction(&mesh, "--dump-link", "(1,0)-(0,0)").unwrap();
        assert_ne!(there, back);
        assert_eq!(mesh.channel_source(there).map(|(router, _)| router), Some(RouterId(0)));
        let error = direction(&mesh, "--dump-link", "0-8").unwrap_err().0;
        assert!(error.contains("no link of this machine is 0-8") && error.contains("(0,0)-(1,0)"), "{error}");
    }

    #[test]
    fn a_node_has_two_channels_and_comes_back() {
        let mesh = Topology::mesh(&[3, 3], 2).unwrap();
        let all = |text: &str| changes(&mesh, &[], &[failed_node(text).unwrap()], &[]).map_err(|error| error.0);
        let faults = all("17@2us-3us").unwrap();
        let down: Vec<u32> = faults.iter().filter(|fault| !fault.up).map(|fault| fault.channel).collect();
        let (router, port) = mesh.attachment(NodeId(17));
        assert_eq!(down, [mesh.channel(router, port), mesh.injection_channel(NodeId(17))]);
        assert_eq!(faults.len(), 4);
        assert_eq!(all(&format!("{}@2us-3us", mesh.node_name(NodeId(17)))).unwrap(), faults);
        assert_eq!(all("18@1us").unwrap_err(), "--fail-node: 18 is not a node of this machine: it has nodes 0 to 17");
    }

    #[test]
    fn a_router_fails_with_its_links_and_nodes_and_overlapping_failures_are_one() {
        let mesh = Topology::mesh(&[3, 3], 2).unwrap();
        let router = |text: &str| crate::sim::arguments::failed_router(text).unwrap();
        let all = |links: &[FailedLink], routers: &[FailedRouter]| changes(&mesh, links, &[], routers).unwrap();
        // The middle one has four links and two nodes.
        let faults = all(&[], &[router("4@2us-4us")]);
        assert_eq!((faults.len(), faults.iter().filter(|fault| fault.up).count()), (24, 12));
        assert_eq!(all(&[], &[router("(1,1)@2us-4us")]), faults);
        // A link of it that fails meanwhile returns with it; one that fails for longer returns later.
        assert_eq!(all(&[failed_link("4-5@3us-4us").unwrap()], &[router("4@2us-4us")]), faults);
        let longer = all(&[failed_link("4-5@3us-6us").unwrap()], &[router("4@2us-4us")]);
        assert_eq!(longer.len(), 24);
        assert_eq!(longer.iter().filter(|fault| fault.at == Time::from_ns(6000)).count(), 2);
        let routers = |given: &[FailedRouter]| routers(&mesh, given);
        let whole = routers(&[router("4@3us-5us"), router("4@1us-3us"), router("0")]).unwrap();
        let times: Vec<_> = whole.iter().map(|fault| (fault.at.as_ns(), fault.router, fault.up)).collect();
        assert_eq!(times, [(0, 0, false), (1000, 4, false), (5000, 4, true)]);
        let unknown = routers(&[router("9")]).unwrap_err().0;
        assert!(unknown.contains("routers 0 to 8, the first named (0,0)"), "{unknown}");
    }

    #[test]
    fn a_rank_dies_once_and_must_be_there() {
        let all = |words: &[&str]| {
            let given: Vec<Death> = words.iter().map(|word| death(word).unwrap()).collect();
            deaths(4, &given).map_err(|error| error.0)
        };
        let sorted = all(&["3@2us", "0@1us"]).unwrap();
        assert_eq!(sorted.iter().map(|death| death.rank).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(all(&["4@1us"]).unwrap_err(), "--kill: there is no rank 4; this job has ranks 0 to 3");
        let twice = all(&["1@2us", "1@1us"]).unwrap_err();
        assert_eq!(twice, "--kill: rank 1 cannot die at 1.000 us and at 2.000 us; leave one of them out");
        assert!(all(&["1@1us", "1@1us"]).is_err());
    }

    #[test]
    fn an_unknown_link_is_refused() {
        let mesh = Topology::mesh(&[3, 3], 1).unwrap();
        let error = |text: &str| changes(&mesh, &[failed_link(text).unwrap()], &[], &[]).unwrap_err().0;
        assert!(error("0-8@1us").contains("no link joins"), "{}", error("0-8@1us"));
        assert!(error("0-99@1us").contains("routers 0 to 8"), "{}", error("0-99@1us"));
    }
}
