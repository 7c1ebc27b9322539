// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes, loads and NICs as text.

use std::io::{self, Write};

use selvedge_daemon::protocol::{HostName, LoadSeries, NicView, RouteView};
use selvedge_terminal::Table;

use super::show_table;

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
    show_table(out, &rows)
}
