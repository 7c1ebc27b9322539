// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --routes A B`: the route of a packet between two nodes, hop by hop, and its routing string;
//! `--routes-from FILE`: routes from a file.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use selvedge_document::{Document, Section, Table};
use selvedge_fabric::{self as fabric, NodeId, Peer, Rails, Topology, Vc};
use selvedge_sim::machine::Machine;
use serde_json::{Value, json};

use super::faults;
use super::output::Output;
use super::usage::Usage;

/// Name and version of the JSON's schema.
const SCHEMA: &str = "selvedge.sim.routes/1";

/// The most bytes of a file of routes.
const FILE_MAX: u64 = 64 << 20;

/// Gives the machine the routes of a file, for the pairs of nodes that it names.
pub fn take_from(machine: &mut Machine, file: &Path) -> Result<(), Usage> {
    let wrong = |why: String| Usage(format!("--routes-from {}: {why}", file.display()));
    let opened = std::fs::File::open(file).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    opened.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(wrong(format!("more than {FILE_MAX} bytes; name a file of routes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text; name a file of routes".to_owned()))?;
    let made = machine.routing.clone().with_routes(&machine.topology, &text);
    machine.routing = made.map_err(|error| wrong(error.to_string()))?;
    Ok(())
}

/// One router of a route.
struct Step {
    router: String,
    port: u16,
    vc: u8,
    /// The router or node at the end of the port's link.
    to: String,
    /// Other ports that an adaptive routing allows here.
    others: Vec<u16>,
}

struct Route {
    from: String,
    to: String,
    steps: Vec<Step>,
    path: fabric::Path,
}

/// Prints the routes from A to B and back, by each rail that both have. `entropy` picks Valiant's intermediate group.
pub fn routes(machine: &Machine, pair: &[String], entropy: u64, output: &Output) -> Result<u8> {
    let [a, b] = pair else { return Err(Usage("--routes needs two nodes".to_owned()).into()) };
    let rails = machine.topology.rails();
    let endpoints = |text: &str| faults::endpoints(&machine.topology, "--routes", text);
    let mut both = Vec::new();
    for (a, b) in on_one_rail(rails, &endpoints(a)?, &endpoints(b)?) {
        both.extend([route(machine, a, b, entropy)?, route(machine, b, a, entropy)?]);
    }
    if both.is_empty() {
        return Err(
            Usage(format!("--routes: no packet goes from {a} to {b}: name two nodes, or one rail of both")).into()
        );
    }
    output.write(&document(machine, &both), || json_of(machine, &both))?;
    Ok(0)
}

/// The pairs of endpoints of two nodes that are on one rail.
fn on_one_rail(rails: &Rails, a: &[NodeId], b: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let rail = |endpoint: &NodeId| rails.place(*endpoint).1;
    let with = |a: NodeId| b.iter().copied().filter(move |b| rail(b) == rail(&a)).map(move |b| (a, b));
    a.iter().copied().flat_map(with).collect()
}

fn route(machine: &Machine, from: NodeId, to: NodeId, entropy: u64) -> Result<Route, Usage> {
    let (topology, routing) = (&*machine.topology, &machine.routing);
    let path = routing.path(topology, from, to, entropy).map_err(|error| Usage(format!("--routes: {error}")))?;
    let mut state = routing.start(topology, from, to, entropy);
    let (mut at, port) = topology.attachment(from);
    let mut arrived = Some((port, Vc(0)));
    let mut steps = Vec::new();
    for hop in path.iter() {
        let choices = routing.next(topology, at, arrived, to, &mut state);
        let others = choices.iter().filter(|other| **other != hop).map(|other| other.port.0).collect();
        let peer = topology.peer(at, hop.port);
        let router = topology.router_name(at);
        steps.push(Step { router, port: hop.port.0, vc: hop.vc.0, to: name(topology, peer), others });
        if let Peer::Router { router, port } = peer {
            (at, arrived) = (router, Some((port, hop.vc)));
        }
    }
    Ok(Route { from: topology.node_name(from), to: topology.node_name(to), steps, path })
}

fn name(topology: &Topology, peer: Peer) -> String {
    match peer {
        Peer::Router { router, .. } => topology.router_name(router),
        Peer::Node(node) => topology.node_name(node),
        Peer::Unconnected => "nothing".to_owned(),
    }
}

impl Route {
    /// The output ports, separated by blanks.
    fn ports(&self) -> String {
        let ports: Vec<String> = self.steps.iter().map(|step| step.port.to_string()).collect();
        ports.join(" ")
    }

    /// The routing characters (seed 002, section 7.3), in hexadecimal.
    fn characters(&self) -> Vec<String> {
        self.path.characters().map(|character| format!("{character:04x}")).collect()
    }

    fn section(&self) -> Section {
        let string = format!("routing string {}, ports {}", self.characters().join(" "), self.ports());
        let mut hops = Table::with_heads(&["router", ">port", ">virtual channel", "to", "also allowed"]);
        for step in &self.steps {
            let others: Vec<String> = step.others.iter().map(|port| format!("port {port}")).collect();
            let numbers = (step.port.to_string(), step.vc.to_string());
            hops.row([step.router.clone(), numbers.0, numbers.1, step.to.clone(), others.join(", ")]);
        }
        Section::new(&format!("From {} to {}", self.from, self.to)).in_summary().text(&string).table(hops)
    }

    fn json(&self) -> Value {
        let hops = self.steps.iter().map(|step| {
            json!({
                "router": step.router,
                "port": step.port,
                "virtual_channel": step.vc,
                "to": step.to,
                "other_ports": step.others,
            })
        });
        json!({
            "from": self.from,
            "to": self.to,
            "hops": hops.collect::<Vec<_>>(),
            "routing_string": self.characters(),
        })
    }
}

fn document(machine: &Machine, routes: &[Route]) -> Document {
    Document {
        title: format!("Routes of {}", machine.name),
        about: format!("routing {}{}", machine.routing.algorithm(), explicit(machine)),
        sections: routes.iter().map(Route::section).collect(),
    }
}

fn explicit(machine: &Machine) -> String {
    match machine.routing.explicit_pairs() {
        0 => String::new(),
        pairs => format!(", and {pairs} pairs with routes from a file"),
    }
}

fn json_of(machine: &Machine, routes: &[Route]) -> Value {
    json!({
        "schema": SCHEMA,
        "machine": machine.name,
        "routing": machine.routing.algorithm().to_string(),
        "routes": routes.iter().map(Route::json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_fabric::{Algorithm, Routing};
    use selvedge_sim::machine::load;

    use super::*;

    fn machine(topology: Topology, algorithm: Algorithm, channels: u8) -> Machine {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../machines/torus16.toml");
        let mut machine = load::load_with(Path::new(path), &[]).unwrap();
        machine.routing = Routing::new(&topology, algorithm, channels).unwrap();
        machine.topology = Arc::new(topology);
        machine
    }

    #[test]
    fn a_route_names_the_port_at_each_hop() {
        let mesh = machine(Topology::mesh(&[3, 3], 1).unwrap(), Algorithm::DimensionOrder, 1);
        let route = route(&mesh, NodeId(0), NodeId(8), 0).unwrap();
        let names: Vec<&str> = route.steps.iter().map(|step| &step.to[..]).collect();
        assert_eq!(names, ["(1,0)", "(2,0)", "(2,1)", "(2,2)", "node 8"]);
        let ends: Vec<String> = route.steps.iter().map(|step| step.port.to_string()).collect();
        assert_eq!(route.ports(), ends.join(" "));
        assert!(route.steps.iter().all(|step| step.others.is_empty()));
        let bytes: Vec<u8> = route.path.encode();
        assert_eq!(fabric::Path::decode(&bytes).unwrap().leads_to(&mesh.topology, NodeId(0)), Some(NodeId(8)));
    }

    #[test]
    fn an_adaptive_routing_shows_its_other_ports() {
        let mesh = machine(Topology::mesh(&[3, 3], 1).unwrap(), Algorithm::WestFirst, 1);
        let route = route(&mesh, NodeId(0), NodeId(8), 0).unwrap();
        assert_eq!(route.steps.len(), 5);
        assert_eq!(route.steps[0].others.len(), 1);
    }

    #[test]
    fn every_fitting_algorithm_gives_a_string() {
        for topology in [Topology::torus(&[4, 4], &[true, true], 1).unwrap(), Topology::graph(GRAPH).unwrap()] {
            for algorithm in Algorithm::fitting(&topology) {
                let machine = machine(topology.clone(), algorithm, 4);
                let route = route(&machine, NodeId(1), NodeId(2), 7).unwrap();
                assert!(!route.characters().is_empty(), "{algorithm}");
            }
        }
    }

    const GRAPH: &str = "router a\nrouter b\nrouter c\nlink a b\nlink b c\nlink c a\nnode x a\nnode y b\nnode z c\n";

    #[test]
    fn a_node_has_no_route_to_itself() {
        let mesh = machine(Topology::mesh(&[3, 3], 1).unwrap(), Algorithm::DimensionOrder, 1);
        assert!(route(&mesh, NodeId(1), NodeId(1), 0).err().unwrap().0.contains("does not enter the network"));
    }
}
