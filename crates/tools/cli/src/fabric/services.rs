// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes, loads and NICs as text.

use std::io::{self, Write};

use selvedge_daemon::protocol::{HostName, LinkView, LoadSeries, NicView, RouteView};
use selvedge_terminal::Table;

use super::show_table;

pub const AFTER_HELP_NICS: &str = "\
Links are those between processes of a job, within this host and to others, as each process counts them. One row is one direction: `from` \
sends. Root and the daemon's own user see those of all users, others their own. `selvedge top --links` shows the own jobs of a host as they \
change, and explains the counters.";

fn names(hosts: &[HostName]) -> String {
    hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(" - ")
}

pub fn show_route(out: &mut impl Write, route: &RouteView) -> io::Result<()> {
    writeln!(out, "{} links, mtu {}: {}", route.links.len(), route.mtu, names(&route.hosts))?;
    let mut rows = Table::new(&["from", "to", ">mtu", ">B/s", ">round trip us"]);
    for link in &route.links {
        let [near, far] = &link.ends;
        rows.row([
            format!("{}:{}", near.name, near.port),
            format!("{}:{}{}", far.name, far.port, if link.is_drained { " (drained)" } else { "" }),
            link.mtu.to_string(),
            near.sent_bytes_s.map_or(String::new(), |bytes| bytes.to_string()),
            near.round_trip_us.map_or(String::new(), |us| format!("{us:.0}")),
        ]);
    }
    show_table(out, &rows)?;
    if let Some(kernel) = &route.kernel {
        writeln!(out, "kernel: {kernel}")?;
    }
    if let Some(source) = &route.source {
        let ports = source.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        writeln!(out, "source route, {}: ports {ports}: {}", source.algorithm, names(&source.hosts))?;
    }
    Ok(())
}

pub fn show_load(out: &mut impl Write, series: &[LoadSeries]) -> io::Result<()> {
    let mut rows = Table::new(&["host", ">port", ">seconds", "", ">mean", ">greatest", ">last"]);
    let mut add = |of: &LoadSeries, unit: &str, values: &[f64]| {
        let Some(last) = values.last() else { return };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let greatest = values.iter().copied().fold(0.0, f64::max);
        rows.row([
            of.name.clone(),
            of.port.map_or(String::new(), |port| port.to_string()),
            values.len().to_string(),
            unit.to_owned(),
            format!("{mean:.0}"),
            format!("{greatest:.0}"),
            format!("{last:.0}"),
        ]);
    };
    let plain = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
    for of in series {
        add(of, "cpu %", &plain(&of.processor_percent));
        add(of, "B/s", &of.sent_bytes_s.iter().map(|&bytes| bytes as f64).collect::<Vec<f64>>());
        add(of, "load %", &plain(&of.load_percent));
    }
    show_table(out, &rows)
}

pub fn show_nics(out: &mut impl Write, nics: &[NicView]) -> io::Result<()> {
    let mut rows = Table::new(&[">nic", "job", ">rank", "kind", ">process", ">user", "host", "routes to"]);
    for nic in nics {
        let leases: Vec<&str> = nic.leases.iter().map(|lease| lease.to.name.as_str()).collect();
        rows.row([
            nic.id.to_string(),
            nic.job.clone().unwrap_or_default(),
            nic.rank.map_or(String::new(), |rank| rank.to_string()),
            nic.kind.clone(),
            nic.process.to_string(),
            nic.user.to_string(),
            nic.host.clone(),
            leases.join(" "),
        ]);
    }
    show_table(out, &rows)?;
    if nics.iter().any(|nic| nic.links.is_some()) {
        writeln!(out)?;
        show_nic_links(out, nics)?;
    }
    Ok(())
}

/// A row for each link, and a line for each process whose links are not all seen.
fn show_nic_links(out: &mut impl Write, nics: &[NicView]) -> io::Result<()> {
    let mut rows = Table::new(&[
        "job",
        "from",
        "to",
        "way",
        "state",
        ">ops",
        ">B out",
        ">B in",
        ">frames out",
        ">frames in",
        ">repeats",
        ">damaged",
        ">round trip us",
        ">queue B",
    ]);
    let mut notes = String::new();
    for nic in nics {
        let Some(links) = &nic.links else { continue };
        let process = format!("NIC {}, process {}", nic.id, nic.process);
        if let Some(reason) = &links.unseen {
            notes += &format!("{process}: the counters of its links are not seen: {reason}\n");
        }
        if links.left_out > 0 {
            notes += &format!("{process}: {} more links are not listed\n", links.left_out);
        }
        for link in &links.links {
            let count = |name: &str| link.counters.get(name).copied().unwrap_or(0);
            let between = |name: &str| if link.way == "memory" { String::new() } else { count(name).to_string() };
            rows.row([
                nic.job.clone().unwrap_or_default(),
                nic.rank.map_or(process.clone(), |rank| rank.to_string()),
                peer(nics, nic, link),
                link.way.clone(),
                link.state.clone(),
                link.operations.to_string(),
                count("bytes_out").to_string(),
                count("bytes_in").to_string(),
                between("frames_out"),
                between("frames_in"),
                between("repeats"),
                between("damaged"),
                match count("round_trip_ns") {
                    0 => String::new(),
                    ns => format!("{:.0}", ns as f64 / 1000.0),
                },
                between("queue_bytes"),
            ]);
            if !link.why.is_empty() {
                let other = peer(nics, nic, link);
                notes += &format!("{process}: the link to {other} is {}: {}\n", link.state, link.why);
            }
        }
    }
    show_table(out, &rows)?;
    write!(out, "{notes}")
}

/// The rank at the other end of a link; else its address; else its host and process id.
fn peer(nics: &[NicView], from: &NicView, link: &LinkView) -> String {
    let has_address =
        |nic: &&NicView| nic.job == from.job && nic.links.as_ref().is_some_and(|links| links.address == link.address);
    let by_address = || nics.iter().find(has_address).and_then(|nic| nic.rank).filter(|_| !link.address.is_empty());
    match link.peer_rank.or_else(by_address) {
        Some(rank) => rank.to_string(),
        None if !link.address.is_empty() => link.address.clone(),
        None if link.way == "others" => "others".to_owned(),
        None => format!("host {} pid {}", link.peer_nid, link.peer_pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_daemon::protocol::LinksView;

    #[test]
    fn links_have_a_row_each_and_reasons_a_line() {
        let link = |way: &str, rank: Option<u32>, address: &str, why: &str| LinkView {
            way: way.into(),
            peer_rank: rank,
            peer_pid: 4,
            address: address.into(),
            state: "lost".into(),
            why: why.into(),
            operations: 3,
            counters: [("frames_out", 7), ("round_trip_ns", 12_345)].map(|(name, value)| (name.into(), value)).into(),
            ..LinkView::default()
        };
        let links = |address: &str, links: Vec<LinkView>| LinksView {
            address: address.into(),
            links,
            left_out: 2,
            ..LinksView::default()
        };
        let nic = |rank: u32, links: LinksView| NicView {
            id: rank.into(),
            job: Some("job".into()),
            rank: Some(rank),
            links: Some(links),
            ..NicView::default()
        };
        let of_first = vec![
            link("memory", Some(1), "", ""),
            link("network", None, "b:1", "cut"),
            link("network", None, "c:1", ""),
            link("memory", None, "", ""),
        ];
        let nics = [nic(0, links("a:1", of_first)), nic(5, links("b:1", Vec::new())), nic(6, LinksView::unseen("no"))];
        let mut out = Vec::new();
        show_nics(&mut out, &nics).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = |words: &str| text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words);
        assert!(row("job 0 1 memory lost 3 0 0 12"), "{text}");
        assert!(
            row("job 0 5 network lost 3 0 0 7 0 0 0 12 0") && row("job 0 c:1 network lost 3 0 0 7 0 0 0 12 0"),
            "{text}"
        );
        assert!(row("job 0 host 0 pid 4 memory lost 3 0 0 12"), "{text}");
        assert!(text.contains("NIC 0, process 0: 2 more links are not listed\n"), "{text}");
        assert!(text.contains("NIC 0, process 0: the link to 5 is lost: cut\n"), "{text}");
        assert!(text.contains("NIC 6, process 0: the counters of its links are not seen: no\n"), "{text}");
    }
}
