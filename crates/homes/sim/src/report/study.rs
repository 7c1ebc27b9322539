// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The study of seed 002, figures 2-20 to 2-22, as a document and as JSON: blocking rate on the mesh, deadlock
//! probability and length of cycles on mesh and torus, each over the locality of the traffic.

use selvedge_document::plot::{Axis, Line, Shape};
use selvedge_document::{Document, Plot, Section, Table, words};
use serde_json::{Value, json};

use super::Wall;
use crate::traffic::study::{StudyConfig, StudyPoint};

/// Name and version of the JSON's schema.
pub const SCHEMA: &str = "selvedge.sim.study/1";

/// The results of a study.
#[derive(Clone, Debug)]
pub struct Study {
    pub config: StudyConfig,
    pub points: Vec<StudyPoint>,
    /// Points missing because the study was interrupted.
    pub missing: usize,
    pub wall: Option<Wall>,
}

type Value64 = fn(&StudyPoint) -> f64;

impl Study {
    pub fn document(&self) -> Document {
        let size = self.config.size;
        let mut what = Table::of_values();
        what.value("networks", format!("mesh and torus of {size} x {size} routers, one node each"));
        what.value("load", format!("{} of the injection channels' time", words::percent(self.config.load)));
        what.value("messages", words::bytes(f64::from(self.config.message_bytes)));
        what.value("measured", format!("{} runs of {} each", self.config.runs, self.config.measured));
        what.value("seed", self.config.seed);
        if self.missing > 0 {
            what.value("interrupted", format!("{} points are missing", self.missing));
        }
        let figures: [(&str, &str, &str, Axis, Value64); 6] = [
            ("figure-2-20", "mesh", "Blocking rate in a mesh (as figure 2-20)", SHARE, |p| p.blocking_rate),
            ("figure-2-21-probability", "mesh", "Deadlock probability in a mesh (as figure 2-21)", SHARE, |p| {
                p.deadlock_probability
            }),
            ("figure-2-21-cycles", "mesh", "Length of deadlocks' cycles in a mesh (as figure 2-21)", CYCLE, |p| {
                p.cycle_length_mean
            }),
            ("figure-2-22-blocking", "torus", "Blocking rate in a torus", SHARE, |p| p.blocking_rate),
            ("figure-2-22-probability", "torus", "Deadlock probability in a torus (as figure 2-22)", SHARE, |p| {
                p.deadlock_probability
            }),
            ("figure-2-22-cycles", "torus", "Length of deadlocks' cycles in a torus (as figure 2-22)", CYCLE, |p| {
                p.cycle_length_mean
            }),
        ];
        let about = "Blocking and deadlocks against the locality of the traffic, for several routings: the study of seed 002, section 2.7.";
        let mut sections = vec![Section::new("Study").in_summary().table(what)];
        for (topology, title) in [("mesh", "Mesh"), ("torus", "Torus")] {
            let plots = figures.iter().filter(|figure| figure.1 == topology);
            let plots = plots.map(|(name, _, title, y, of)| self.plot(name, topology, title, y.clone(), *of));
            sections.push(Section::new(title).in_summary().drawn(self.table(topology), plots));
        }
        sections.extend(self.wall.as_ref().map(|wall| wall.section(0, 0)));
        Document { title: "Blocking and deadlock by locality".into(), about: about.into(), sections }
    }

    /// Returns the routings of a topology, in the order of the points.
    fn routings(&self, topology: &str) -> Vec<&str> {
        let mut routings = Vec::new();
        for point in self.points.iter().filter(|point| point.topology == topology) {
            if !routings.contains(&point.routing.as_str()) {
                routings.push(&point.routing);
            }
        }
        routings
    }

    fn plot(&self, name: &str, topology: &str, title: &str, y: Axis, of: Value64) -> Plot {
        let line = |routing: &str| {
            let points = self.points.iter().filter(|point| (&*point.topology, &*point.routing) == (topology, routing));
            Line { name: routing.to_owned(), points: points.map(|point| (point.locality, of(point))).collect() }
        };
        Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("locality: share of the messages that go to a neighbour", words::percent),
            y,
            shape: Shape::Lines(self.routings(topology).into_iter().map(line).collect()),
        }
    }

    fn table(&self, topology: &str) -> Table {
        let heads = [
            "routing",
            ">locality",
            ">blocked",
            ">blocked for",
            ">in deadlocks",
            ">deadlocks",
            ">cycle",
            ">latency",
            ">accepted",
        ];
        let mut table = Table::with_heads(&heads);
        for point in self.points.iter().filter(|point| point.topology == topology) {
            table.row([
                point.routing.clone(),
                words::percent(point.locality),
                words::percent(point.blocking_rate),
                words::time_ns(point.blocking_time_mean_ns),
                words::percent(point.deadlock_probability),
                words::count(point.deadlocks),
                words::plain(point.cycle_length_mean),
                words::time_ns(point.latency_mean_ns),
                words::percent(point.accepted),
            ]);
        }
        table
    }

    pub fn json(&self) -> Value {
        let config = &self.config;
        let mut all = json!({
            "schema": SCHEMA,
            "size": config.size,
            "load": config.load,
            "message_bytes": config.message_bytes,
            "runs": config.runs,
            "warm_up_ps": config.warm_up.0,
            "measured_ps": config.measured.0,
            "seed": config.seed,
            "missing_points": self.missing,
            "points": self.points,
        });
        if let Some(wall) = &self.wall {
            all["wall"] = json!({ "seconds": wall.seconds, "memory_peak_bytes": wall.memory_peak_bytes });
        }
        all
    }
}

const SHARE: Axis = Axis::linear("share of the heads, or of the packets", words::percent);
const CYCLE: Axis = Axis::linear("virtual channels", words::plain);
