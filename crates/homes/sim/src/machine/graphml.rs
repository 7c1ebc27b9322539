// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A graph in GraphML (graphml.graphdrawing.org), translated to the text that `Topology::graph` reads.
//!
//! Each `node` is a router, unless its data `kind` (the `attr.name` of its key) says `host`: then it is a node of the
//! machine, and its one `edge` leads to its router. If no `node` is a host, each router gets as many as the machine's
//! file says. The data `weight` of an `edge` is its weight for shortest paths; its data `bandwidth_MBps` and `latency_ns`
//! give the link a speed of its own. An edge has both directions; in a
//! directed graph a second edge back is the same link.
//!
//! A statement stands on the line of its element where elements have lines of their own, so that errors name it.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};
use thiserror::Error;

/// Reason why a text is not such a graph. Each message names the remedy.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum GraphmlError {
    #[error("this is not XML: {0}")]
    Xml(String),
    #[error("there is no element <graph> in <graphml>: give one")]
    NoGraph,
    #[error("line {line}: <{element}> needs the attribute {attribute}")]
    Attribute { line: u32, element: String, attribute: &'static str },
    #[error("line {line}: the id '{id}' has a blank or a #: give ids without, or none at all to labels")]
    Name { line: u32, id: String },
    #[error("line {line}: host '{host}' has a second edge: a node is attached to one router; make it a router")]
    SecondEdge { line: u32, host: String },
    #[error("line {line}: hosts '{a}' and '{b}' are linked: link each to a router")]
    Hosts { line: u32, a: String, b: String },
    #[error("host '{host}' has no edge: link it to a router")]
    Alone { host: String },
}

/// The statements, with blank lines between.
#[derive(Default)]
struct Text {
    text: String,
    lines: u32,
}

impl Text {
    fn add(&mut self, line: u32, statement: &str) {
        while self.lines + 1 < line {
            self.text.push('\n');
            self.lines += 1;
        }
        self.text.push_str(statement);
        self.text.push('\n');
        self.lines += 1;
    }
}

/// Translates a graph. `nodes_per_router`: the nodes of each router, if the graph has no hosts.
pub(super) fn graph_text(graphml: &str, nodes_per_router: u32) -> Result<String, GraphmlError> {
    let document = Document::parse(graphml).map_err(|error| GraphmlError::Xml(error.to_string()))?;
    let root = document.root_element();
    let graph = root.children().find(|child| child.has_tag_name_any("graph")).ok_or(GraphmlError::NoGraph)?;
    let names: BTreeMap<&str, &str> = root
        .children()
        .filter(|child| child.has_tag_name_any("key"))
        .filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?)))
        .collect();
    let line = |of: &Node<'_, '_>| document.text_pos_at(of.range().start).row;
    let data = |of: &Node<'_, '_>, name: &str| {
        let is_it = |data: &Node<'_, '_>| {
            let key = data.attribute("key").unwrap_or_default();
            data.has_tag_name_any("data") && names.get(key).copied().unwrap_or(key) == name
        };
        of.children().find(is_it).and_then(|data| data.text()).map(|text| text.trim().to_owned())
    };
    let attribute = |of: &Node<'_, '_>, attribute: &'static str| {
        let id = of.attribute(attribute).ok_or_else(|| GraphmlError::Attribute {
            line: line(of),
            element: of.tag_name().name().to_owned(),
            attribute,
        })?;
        match id.is_empty() || id.contains(|c: char| c.is_whitespace() || c == '#') {
            true => Err(GraphmlError::Name { line: line(of), id: id.chars().take(60).collect() }),
            false => Ok(id.to_owned()),
        }
    };
    let speed = |edge: &Node<'_, '_>| -> String {
        let given = |key| data(edge, key).map(|number| format!(" {key}={number}")).unwrap_or_default();
        given("bandwidth_MBps") + &given("latency_ns")
    };
    // Hosts, and whether their edge was found.
    let mut hosts: BTreeMap<String, bool> = BTreeMap::new();
    for node in graph.children().filter(|child| child.has_tag_name_any("node")) {
        if data(&node, "kind").as_deref() == Some("host") {
            hosts.insert(attribute(&node, "id")?, false);
        }
    }
    let directed = graph.attribute("edgedefault") == Some("directed");
    let (mut text, mut routers, mut links) = (Text::default(), Vec::new(), BTreeSet::new());
    for element in graph.children().filter(Node::is_element) {
        let at = line(&element);
        if element.has_tag_name_any("node") {
            let id = attribute(&element, "id")?;
            if !hosts.contains_key(&id) {
                text.add(at, &format!("router {id}"));
                routers.push(id);
            }
        } else if element.has_tag_name_any("edge") {
            let (a, b) = (attribute(&element, "source")?, attribute(&element, "target")?);
            let (host, router) = match (hosts.contains_key(&a), hosts.contains_key(&b)) {
                (true, true) => return Err(GraphmlError::Hosts { line: at, a, b }),
                (true, false) => (a, b),
                (false, true) => (b, a),
                (false, false) => {
                    if !directed || !links.contains(&(b.clone(), a.clone())) {
                        let weight = data(&element, "weight").map(|weight| format!(" {weight}")).unwrap_or_default();
                        text.add(at, &format!("link {a} {b}{weight}{}", speed(&element)));
                        links.insert((a, b));
                    }
                    continue;
                }
            };
            let pair = (host.clone(), router.clone());
            if directed && links.contains(&pair) {
                continue;
            }
            if std::mem::replace(hosts.entry(host.clone()).or_default(), true) {
                return Err(GraphmlError::SecondEdge { line: at, host });
            }
            text.add(at, &format!("node {host} {router}{}", speed(&element)));
            links.insert(pair);
        }
    }
    if let Some((host, _)) = hosts.iter().find(|(_, found)| !**found) {
        return Err(GraphmlError::Alone { host: host.clone() });
    }
    if hosts.is_empty() {
        for router in &routers {
            (0..nodes_per_router).for_each(|node| text.add(0, &format!("node {router}.{node} {router}")));
        }
    }
    Ok(text.text)
}

/// Names of elements whatever their namespace: many writers leave it out.
trait AnyNamespace {
    fn has_tag_name_any(&self, name: &str) -> bool;
}

impl AnyNamespace for Node<'_, '_> {
    fn has_tag_name_any(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_fabric::{NodeId, Topology};

    const RING: &str = r##"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="edge" attr.name="weight" attr.type="int"/>
  <key id="d1" for="node" attr.name="kind" attr.type="string"/>
  <graph id="G" edgedefault="undirected">
    <node id="a"/>
    <node id="b"/>
    <node id="c"/>
    <node id="h0"><data key="d1">host</data></node>
    <node id="h1"><data key="d1">host</data></node>
    <edge source="a" target="b"><data key="d0">3</data></edge>
    <edge source="b" target="c"/>
    <edge source="c" target="a"/>
    <edge source="h0" target="a"/>
    <edge source="c" target="h1"/>
  </graph>
</graphml>"##;

    #[test]
    fn a_graph_with_hosts_and_weights_is_read() {
        let topology = Topology::graph(&graph_text(RING, 7).unwrap()).unwrap();
        assert_eq!((topology.routers(), topology.nodes()), (3, 2));
        assert_eq!(topology.node_name(NodeId(1)), "h1");
        assert!(topology.is_weighted());
        assert_eq!(topology.hops_min(NodeId(0), NodeId(1)), 2);
    }

    #[test]
    fn routers_without_hosts_get_nodes_of_their_own() {
        let directed = RING.replace("undirected", "directed").replace("<data key=\"d1\">host</data>", "");
        let both = directed.replace(
            "<edge source=\"b\" target=\"c\"/>",
            "<edge source=\"b\" target=\"c\"/><edge source=\"c\" target=\"b\"/>",
        );
        for text in [directed, both] {
            let topology = Topology::graph(&graph_text(&text, 2).unwrap()).unwrap();
            assert_eq!((topology.routers(), topology.nodes()), (5, 10));
            let links: usize = (0..5).map(|r| topology.neighbours(selvedge_fabric::RouterId(r)).count()).sum();
            assert_eq!(links, 2 * 5);
            assert_eq!(topology.node_name(NodeId(3)), "b.1");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |from: &str, to: &str| graph_text(&RING.replace(from, to), 1).unwrap_err().to_string();
        assert!(error("</graph>", "").contains("not XML"));
        assert!(error("graph id", "diagram id").contains("not XML"));
        assert_eq!(error("id=\"a\"", "name=\"a\""), "line 6: <node> needs the attribute id");
        assert!(error("id=\"a\"", "id=\"a b\"").starts_with("line 6: the id 'a b' has a blank"));
        assert!(error("target=\"h1\"", "target=\"h0\"").starts_with("line 15: host 'h0' has a second edge"));
        assert!(
            error("target=\"a\"/>\n    <edge source=\"c\"", "target=\"h1\"/>\n    <edge source=\"c\"")
                .contains("linked")
        );
        assert!(error("<edge source=\"h0\" target=\"a\"/>", "").contains("host 'h0' has no edge"));
        // An edge that `Topology::graph` refuses is named by the line of its element.
        let text = graph_text(&RING.replace("source=\"b\" target=\"c\"", "source=\"b\" target=\"z\""), 1).unwrap();
        let refused = Topology::graph(&text).unwrap_err().to_string();
        assert!(refused.contains("line 12") && refused.contains('z'), "{refused}");
    }
}
